//! A session that subscribes to events as a browser's `EventSource` does (HTML Living Standard, section 9.2), and checks that none
//! is missing.

use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use crate::client::{Ask, Client};
use crate::context::Context;
use crate::failure::Failure;
use crate::plan;
use crate::record::{Class, Timing};
use crate::sequence::{Sequence, number_of_id, number_of_key};
use crate::session::{Session, watched};
use crate::stream::{Block, Events};

/// A session that subscribes.
pub(crate) struct Subscribed<'a> {
    settings: &'a plan::Events,
    client: Client,
    session: &'a mut Session,
    sequence: Sequence,
    last_id: String,
    /// Before the next connection.
    delay: Duration,
}

impl<'a> Subscribed<'a> {
    pub(crate) fn new(context: &Rc<Context>, settings: &'a plan::Events, session: &'a mut Session) -> Self {
        let delay = Duration::from_secs_f64(settings.reconnect_delay);
        let link = session.link(context.plan.seed, &settings.networks);
        let client = Client::over(Rc::clone(context), link, session.due);
        Self { settings, client, session, sequence: Sequence::default(), last_id: String::new(), delay }
    }

    /// Reads events until the viewer leaves, the server says that there is no more (204), or something fails for good.
    pub(crate) async fn run(&mut self, context: &Context) {
        let leaves = self.session.leaves(self.settings.watch);
        let ended = watched(leaves, pin!(self.follow(context))).await;
        self.session.note_end(ended);
    }

    /// Takes what was found into the record.
    pub(crate) fn finish(self) {
        self.session.record.events = Some(self.sequence.found());
    }

    async fn follow(&mut self, context: &Context) -> Result<(), Failure> {
        let (mut due, mut failures) = (self.session.due, 0);
        loop {
            match self.connection(context, due).await {
                Ok(true) => return Ok(()),
                Ok(false) => failures = 0,
                Err(failure) if !failure.may_pass() => return Err(failure),
                Err(_) => failures += 1,
            }
            // Twice as long after each failure in a row, and up to a half more, so that not all come back at once.
            let longest = Duration::from_secs_f64(self.settings.max_reconnect_delay);
            let delay = self.delay.saturating_mul(1 << failures.min(16)).min(longest.max(self.delay));
            due = Instant::now() + delay.mul_f64(1.0 + self.session.random.uniform() / 2.0);
            tokio::time::sleep_until(due.into()).await;
            self.sequence.reconnected();
        }
    }

    /// One connection. Whether the server wants no other.
    async fn connection(&mut self, context: &Context, due: Instant) -> Result<bool, Failure> {
        let url = context.place(&self.settings.path, self.session.title)?;
        let mut fields =
            vec![("accept", "text/event-stream".to_owned()), ("cache-control", "no-cache".to_owned())];
        if !self.last_id.is_empty() {
            fields.push(("last-event-id", self.last_id.clone()));
        }
        let ask = Ask {
            url: &url,
            class: Class::Subscribe,
            due,
            range: None,
            fields: &fields,
            body: None,
            keep: false,
            wanted: None,
        };
        let Some(opened) = self.client.open(&ask).await? else { return Ok(true) };
        let mut events = Events::new(opened, Duration::from_secs_f64(self.settings.idle));
        loop {
            match events.next(context, &mut self.client).await {
                Ok(Some(block)) => self.block(context, &block),
                Ok(None) => return Ok(false),
                Err(failure) => {
                    self.client.failed(Class::Subscribe, &failure);
                    // It was connected: what follows is no failure in a row.
                    return if failure.may_pass() { Ok(false) } else { Err(failure) };
                }
            }
        }
    }

    fn block(&mut self, context: &Context, block: &Block<'_>) {
        let event = &block.event;
        if !event.finished {
            return;
        }
        if let Some(retry) = event.retry {
            self.delay = Duration::from_millis(retry);
        }
        if let Some(id) = &event.id {
            self.last_id.clear();
            self.last_id.push_str(&String::from_utf8_lossy(&block.bytes[id.clone()]));
        }
        if !event.dispatches() {
            return;
        }
        if event
            .name
            .as_ref()
            .is_some_and(|name| block.bytes[name.clone()] == *self.settings.gap_event.as_bytes())
        {
            self.sequence.announced();
            return;
        }
        let data = event.data.joined(block.bytes);
        let number = match &self.settings.counter {
            Some(key) => number_of_key(&data, key).and_then(|number| number.parse().ok()),
            None => event.id.as_ref().and_then(|id| number_of_id(&block.bytes[id.clone()])),
        };
        self.sequence.event(number);
        let clock = self.settings.clock.as_ref().and_then(|key| number_of_key(&data, key)?.parse().ok());
        if let Some(published) = clock.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            let done = Instant::now();
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            // A publisher whose clock is ahead has no delay.
            let due = done.checked_sub(now.saturating_sub(published)).unwrap_or(done);
            let timing = Timing { due, sent: due, first: done, done };
            context.recorder.borrow_mut().response(Class::Event, timing, block.bytes.len() as u64);
        }
    }
}
