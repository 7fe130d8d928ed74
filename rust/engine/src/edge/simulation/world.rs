//! What all origins share: the versions of each object, and what has been asked and answered.

use std::collections::{BTreeSet, VecDeque};

use super::http::Message;
use super::plan::{Answer, Fault, KEYS, body};
use crate::simulation::{Trace, Verdict};

/// What happens outside of the engine.
#[derive(Debug)]
pub(super) struct World {
    /// The number of the newest version of each object.
    pub(super) versions: [usize; KEYS],
    pub(super) answers: VecDeque<Answer>,
    /// What origins that speak HTTP/2 do besides, by requests.
    pub(super) faults: VecDeque<Option<Fault>>,
    pub(super) exchanges: Vec<Exchange>,
    /// Key, version and length of bodies that were said to be shorter or longer than they are.
    pub(super) said: BTreeSet<(usize, usize, usize)>,
    /// The request and the length of parts without a length that an origin has ended well too soon.
    pub(super) short_parts: BTreeSet<(usize, usize)>,
    /// Connections that origins have taken.
    pub(super) accepted: u64,
    /// Lines for the trace.
    lines: Vec<String>,
    violated: Option<String>,
    pub(super) hedges: bool,
    /// The numbers of requests of which clients have got the beginning of an answer.
    pub(super) begun: BTreeSet<usize>,
    /// The site has ended all that was under way.
    pub(super) is_closed: bool,
}

/// A request that an origin has got.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The number of the client's request, if its target says so.
    pub(super) number: Option<usize>,
    key: usize,
    pub(super) version: usize,
    /// Whether the connection had carried another one before.
    is_reused: bool,
    /// Bytes of the answer.
    pub(super) sent: usize,
    /// Something has come on the connection that belongs to no answer.
    pub(super) is_strayed: bool,
    /// All of a good answer is written, in time.
    pub(super) is_well: bool,
}

/// A request as an origin sees it.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) place: usize,
    pub(super) method: String,
    pub(super) route: String,
    pub(super) number: Option<usize>,
    pub(super) key: usize,
    pub(super) version: usize,
    pub(super) range: Option<String>,
    pub(super) if_range: Option<String>,
    pub(super) if_none_match: Option<String>,
    pub(super) length: usize,
}

/// How often one request may be asked of two origins: three times, and once more for each idle connection that was dead.
const MOST_TRIES: usize = 6;

impl World {
    pub(super) fn new(answers: &[Answer], hedges: bool) -> Self {
        Self {
            versions: [0; KEYS],
            answers: answers.iter().cloned().collect(),
            faults: VecDeque::new(),
            exchanges: Vec::new(),
            said: BTreeSet::new(),
            short_parts: BTreeSet::new(),
            accepted: 0,
            lines: Vec::new(),
            violated: None,
            hedges,
            begun: BTreeSet::new(),
            is_closed: false,
        }
    }

    /// Adds its lines to `trace`; the first thing that was wrong.
    pub(super) fn tell(&mut self, trace: &mut Trace) -> Verdict {
        self.lines.drain(..).for_each(|line| trace.note(line));
        self.violated.take().map_or(Ok(()), Err)
    }

    pub(super) fn note(&mut self, line: String) {
        self.lines.push(line);
    }

    /// What is wrong, unless something was before.
    pub(super) fn blame(&mut self, what: String) {
        self.violated.get_or_insert(what);
    }

    /// An origin has got a head; how it answers.
    pub(super) fn arrive(
        &mut self,
        name: &str,
        head: &Message,
        is_reused: bool,
        is_strayed: bool,
    ) -> (Asked, Answer) {
        let mut words = head.line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, number) = target.split_once("?n=").unwrap_or((target, ""));
        let number = number.parse().ok();
        let mut parts = path.split('/').skip(1);
        let route = parts.next().unwrap_or_default().to_owned();
        let key = parts.next().and_then(|key| key.parse().ok()).filter(|key| *key < KEYS);
        if key.is_none() {
            self.blame(format!("{name} was asked {:?}, which no client has asked", head.line));
        }
        let key = key.unwrap_or_default();
        let answer = self.answers.pop_front().unwrap_or_else(Answer::good);
        let value = |name| head.field(name).map(str::to_owned);
        let asked = Asked {
            place: self.exchanges.len(),
            method: method.to_owned(),
            route,
            number,
            key,
            version: self.versions[key].saturating_sub(usize::from(answer.is_behind)),
            range: value("range"),
            if_range: value("if-range"),
            if_none_match: value("if-none-match"),
            length: head.field("content-length").and_then(|length| length.parse().ok()).unwrap_or_default(),
        };
        let line =
            format!("{name} is asked {}: {} {:?} {:?}", asked.place, head.line, asked.range, asked.if_range);
        self.note(line);
        self.check(&asked, is_reused && is_strayed);
        let Asked { number, key, version, .. } = asked;
        self.exchanges.push(Exchange {
            number,
            key,
            version,
            is_reused,
            sent: 0,
            is_strayed,
            is_well: false,
        });
        (asked, answer)
    }

    /// No request is sent to an origin again that may have acted on it, or has begun to answer it.
    /// `is_late`: it comes on a connection that was given up for what had come on it, or was held up by that, perhaps after it
    /// was sent again.
    fn check(&mut self, asked: &Asked, is_late: bool) {
        let Some(number) = asked.number else { return };
        let before: Vec<_> = self.exchanges.iter().filter(|other| other.number == Some(number)).collect();
        let Some(last) = before.last() else { return };
        let is_resumed = asked.if_range.is_some() && asked.route == "two";
        let wrong = if asked.method == "POST" {
            Some("although it is not safe to repeat")
        } else if asked.route == "relay" && before.len() > 1 {
            Some("a third time")
        } else if is_late {
            None
        } else if asked.route == "relay" && !last.is_reused {
            Some("although its connection was new")
        } else if asked.route == "relay" && last.sent > 0 && !last.is_strayed {
            Some("although the origin had begun to answer")
        } else if before.len() >= MOST_TRIES && !is_resumed {
            Some("more often than origins may be tried")
        } else if asked.route == "two" && !is_resumed && !self.hedges && self.begun.contains(&number) {
            Some("although its client has the beginning of an answer")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            self.blame(format!("request {number} was sent again {wrong}"));
        }
    }

    /// Whether an origin was asked for this version, by the client's request of this `number` if there is one.
    pub(super) fn has_served(&self, number: Option<usize>, key: usize, version: usize) -> bool {
        let is_of = |exchange: &Exchange| number.is_none() || exchange.number == number;
        let all = self.exchanges.iter().filter(|exchange| is_of(exchange));
        all.into_iter().any(|exchange| (exchange.key, exchange.version) == (key, version))
    }

    /// Whether an origin was asked for the client's request of this `number`, if it is one that has its number in its target.
    pub(super) fn is_asked(&self, number: usize) -> bool {
        self.exchanges.iter().any(|exchange| exchange.number == Some(number))
    }

    /// Whether an origin has begun to answer the client's request of this `number`.
    pub(super) fn is_answered(&self, number: usize) -> bool {
        self.exchanges.iter().any(|exchange| exchange.number == Some(number) && exchange.sent > 0)
    }

    /// Whether all origins that were asked for the client's request of this `number` have answered well.
    pub(super) fn is_well(&self, number: usize) -> bool {
        let mut all = self.exchanges.iter().filter(|exchange| exchange.number == Some(number)).peekable();
        all.peek().is_some() && all.all(|exchange| exchange.is_well && !exchange.is_strayed)
    }

    /// Whether `length` bytes are what an origin has said there are.
    pub(super) fn is_whole(&self, key: usize, version: usize, length: usize) -> bool {
        length == body(key, version).len() || self.said.contains(&(key, version, length))
    }
}
