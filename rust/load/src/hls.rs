//! A session that plays HLS (RFC 8216): playlists and segments over sockets, below the player of virtual time.

use std::fmt::Write;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{Ask, Client, Reply, Wanted};
use crate::context::Context;
use crate::estimate::Download;
use crate::failure::Failure;
use crate::plan;
use crate::player::{Act, Player, Step};
use crate::playlist::{Media, Segment, Variant};
use crate::record::Class;
use crate::session::Session;
use crate::shared::Shared;
use crate::url::Url;

/// A media playlist, and when it was read.
struct Read {
    media: Rc<Media>,
    at: Instant,
}

/// A segment of a playlist.
struct Chosen {
    media: Rc<Media>,
    at: usize,
}

impl Chosen {
    fn segment(&self) -> &Segment {
        &self.media.segments[self.at]
    }
}

/// A rendition.
#[derive(Default)]
struct Rendition {
    read: Option<Read>,
    /// Its initialisation section has arrived.
    initialised: bool,
}

/// A session that plays.
pub(crate) struct Playing<'a> {
    settings: &'a plan::Hls,
    client: Client,
    session: &'a mut Session,
    samples: bool,
    player: Player,
    /// The first playlist.
    place: Url,
    /// What it says, unless it is a media playlist.
    variants: Option<Rc<[Variant]>>,
    /// Empty before the first playlist has been read.
    renditions: Vec<Rendition>,
    /// The next segment and its rendition, and when it is due.
    number: Option<u64>,
    level: usize,
    due: Instant,
}

impl<'a> Playing<'a> {
    pub(crate) fn new(context: &Rc<Context>, settings: &'a plan::Hls, session: &'a mut Session) -> Self {
        let samples = session.index < context.plan.samples;
        let link = session.link(context.plan.seed, &settings.networks);
        let viewer = session.viewer(context.plan.seed, &settings.habits);
        Self {
            settings,
            client: Client::over(Rc::clone(context), link, session.due),
            samples,
            player: Player::new(Arc::clone(&settings.player), viewer),
            place: context.target.clone(),
            variants: None,
            renditions: Vec::new(),
            number: None,
            level: 0,
            due: session.due,
            session,
        }
    }

    /// Plays until the end of the media, until the viewer leaves, or until something fails for good.
    pub(crate) async fn run(&mut self, context: &Context) {
        let leaves = self.session.leaves(self.settings.watch);
        let leaves = self.session.seconds(leaves);
        let ended = loop {
            let until = self.at(self.player.act(leaves).0);
            let turned = {
                let turn = pin!(self.turn(context));
                tokio::select! {
                    turned = turn => Some(turned),
                    () = tokio::time::sleep_until(until.into()) => None,
                }
            };
            match turned {
                Some(Ok(is_over)) if is_over => break ("completed", None),
                Some(Ok(_)) => {}
                Some(Err(failure)) => break ("failed", Some(failure.to_string())),
                None => {
                    if let Some(ended) = self.act(leaves) {
                        break (ended, None);
                    }
                }
            }
        };
        self.session.note_end(ended);
    }

    /// What the viewer does now. How the session ends, if it does.
    fn act(&mut self, leaves: f64) -> Option<&'static str> {
        let now = self.now();
        self.player.advance(now);
        match self.player.act(leaves) {
            (at, _) if at > now => None,
            (_, Act::Leave) => Some("left"),
            (_, Act::GiveUp) => Some("gave_up"),
            (_, Act::Seek) => {
                self.seek(now);
                None
            }
        }
    }

    /// Goes to another place of the media. What was under way has been dropped.
    fn seek(&mut self, now: f64) {
        let level = self.player.level().unwrap_or(self.level);
        let Some(Read { media, .. }) = &self.renditions[level].read else { return };
        let (number, buffer) = (self.number.unwrap_or(media.sequence), self.player.buffer());
        let before = media.length_before(number);
        let (past, ahead) = ((before - buffer).max(0.0), (media.length() - before + buffer).max(0.0));
        if let Some(by) = self.player.seek(now, past, ahead) {
            self.number = Some(media.number_at(past + by));
        }
        self.due = Instant::now();
        self.sample();
    }

    /// Takes the player's figures into the record, also of a session that was cut.
    pub(crate) fn finish(mut self) {
        let now = self.now();
        self.player.advance(now);
        self.session.record.qoe = Some(Box::new(self.player.qoe().clone()));
    }

    /// One step: the first playlist, a segment, or a wait. Whether all has been played.
    async fn turn(&mut self, context: &Context) -> Result<bool, Failure> {
        if self.renditions.is_empty() {
            let place = context.place(&self.settings.path, self.session.title)?;
            let read = self.playlist(context, &place, self.due).await?;
            self.place = place;
            self.begin(read);
            self.due = Instant::now();
            return Ok(false);
        }
        let now = self.now();
        if self.player.is_complete() {
            self.player.advance(now);
            if !self.player.is_over() {
                tokio::time::sleep_until(self.at(self.player.ends()).into()).await;
            }
            return Ok(self.player.is_over());
        }
        // The rendition is chosen before the segment is known: what the segment takes is the target duration.
        match self.player.next(now, self.target(self.level)) {
            Step::Wait(until) => {
                self.sample();
                self.due = self.at(until);
                tokio::time::sleep_until(self.due.into()).await;
            }
            Step::Fetch(level) => {
                self.level = level;
                if let Some(chosen) = self.segment(context).await? {
                    self.fetch(&chosen).await?;
                } else {
                    let now = self.now();
                    self.player.completed(now);
                }
            }
        }
        Ok(false)
    }

    /// Reads a playlist.
    async fn playlist(&mut self, context: &Context, place: &Url, due: Instant) -> Result<Shared, Failure> {
        let reply = self.get(place, Class::Playlist, due, None).await?;
        context.playlists.read(&reply.body).map_err(|what| self.no_playlist(what))
    }

    /// Tells the player of the first playlist.
    fn begin(&mut self, read: Shared) {
        let bitrates: Vec<f64> = match read {
            Shared::Multivariant(variants) => {
                self.renditions.resize_with(variants.len(), Rendition::default);
                let bitrates = variants.iter().map(|each| each.bandwidth).collect();
                self.variants = Some(variants);
                bitrates
            }
            Shared::Media(media) => {
                let read = Some(Read { media, at: Instant::now() });
                self.renditions.push(Rendition { read, initialised: false });
                vec![0.0]
            }
        };
        self.player.set_ladder(bitrates);
    }

    /// Where the media playlist of a rendition is.
    fn place(&self, level: usize) -> Result<Url, Failure> {
        let Some(variants) = &self.variants else { return Ok(self.place.clone()) };
        let uri = &variants[level].uri;
        self.place.join(uri).ok_or_else(|| Failure::Address(uri.clone()))
    }

    fn bandwidth(&self, level: usize) -> f64 {
        self.variants.as_ref().map_or(0.0, |variants| variants[level].bandwidth)
    }

    fn no_playlist(&self, what: &'static str) -> Failure {
        let failure = Failure::Playlist(what);
        self.client.failed(Class::Playlist, &failure);
        failure
    }

    /// Seconds of a segment of a rendition, as far as is known.
    fn target(&self, level: usize) -> f64 {
        self.renditions.get(level).and_then(|each| each.read.as_ref()).map_or(0.0, |read| read.media.target)
    }

    /// The segment that is next, or the first one. Waits for it in a live playlist; `None` at the end of the media. It becomes
    /// due when the playlist that has it arrived.
    async fn segment(&mut self, context: &Context) -> Result<Option<Chosen>, Failure> {
        loop {
            let mut reload = self.due;
            if let Some(Read { media, at: read }) = &self.renditions[self.level].read {
                // A window that has moved past takes the player with it.
                let wanted = self.number.unwrap_or_else(|| first(media)).max(media.sequence);
                self.number = Some(wanted);
                let at = usize::try_from(wanted - media.sequence).unwrap_or(usize::MAX);
                if at < media.segments.len() {
                    return Ok(Some(Chosen { media: Rc::clone(media), at }));
                }
                if media.ended {
                    return Ok(None);
                }
                // RFC 8216, section 6.3.4: half of the target duration after a playlist without news.
                reload = *read + Duration::from_secs_f64((media.target / 2.0).max(0.1));
            }
            tokio::time::sleep_until(reload.into()).await;
            let place = self.place(self.level)?;
            let Shared::Media(media) = self.playlist(context, &place, reload).await? else {
                return Err(self.no_playlist("a variant is a multivariant playlist"));
            };
            self.due = Instant::now();
            self.renditions[self.level].read = Some(Read { media, at: self.due });
        }
    }

    /// Fetches a segment, and its initialisation section before the first one of a rendition.
    async fn fetch(&mut self, chosen: &Chosen) -> Result<(), Failure> {
        let (level, segment) = (self.level, chosen.segment());
        let place = self.place(level)?;
        let within = |uri: &str| place.join(uri).ok_or_else(|| Failure::Address(uri.to_owned()));
        if !self.renditions[level].initialised {
            if let Some(uri) = &chosen.media.map {
                self.get(&within(uri)?, Class::Init, self.due, None).await?;
                self.due = Instant::now();
            }
            self.renditions[level].initialised = true;
        }
        let reply =
            self.get(&within(&segment.uri)?, Class::Segment, self.due, Some((level, segment))).await?;
        self.due = Instant::now();
        let now = self.session.seconds(reply.timing.done);
        if let Some(lower) = reply.lower {
            self.player.gave_up(now, lower);
            return Ok(());
        }
        let waited = (reply.timing.first - reply.timing.sent).as_secs_f64();
        let took = (reply.timing.done - reply.timing.first).as_secs_f64();
        let download = Download { seconds: segment.duration, bytes: reply.bytes, waited, took };
        self.player.arrived(now, level, &download);
        self.sample();
        self.note_live(level, chosen.at);
        self.number = self.number.map(|number| number + 1);
        Ok(())
    }

    /// How far the player is from the end of a live playlist, after the segment at this place of it. The end moves on by the
    /// time since the playlist was read.
    fn note_live(&mut self, level: usize, at: usize) {
        let Some(read) = self.renditions[level].read.as_ref().filter(|read| !read.media.ended) else {
            return;
        };
        let after: f64 = read.media.segments.iter().skip(at + 1).map(|segment| segment.duration).sum();
        let since = read.at.elapsed().as_secs_f64();
        self.player.live(after + since);
    }

    /// Makes a request, and makes it again after failures that may pass.
    async fn get(
        &mut self,
        url: &Url,
        class: Class,
        due: Instant,
        segment: Option<(usize, &Segment)>,
    ) -> Result<Reply, Failure> {
        let rules = &self.settings.player;
        let (mut due, mut delay) = (due, rules.retry_delay);
        let mut left = rules.retries;
        loop {
            let fields = self.fields(segment);
            let range = segment.and_then(|(_, segment)| segment.range);
            let wanted = segment.map(|(level, segment)| Wanted {
                player: &self.player,
                level,
                seconds: segment.duration,
            });
            let keep = class == Class::Playlist;
            let ask = Ask { url, class, due, range, fields: &fields, body: None, keep, wanted };
            match self.client.get(&ask).await {
                Err(failure) if left > 0 && failure.may_pass() => {
                    left -= 1;
                    due = Instant::now() + Duration::from_secs_f64(delay);
                    delay = (delay * 2.0).min(rules.max_retry_delay);
                    tokio::time::sleep_until(due.into()).await;
                }
                found => return found,
            }
        }
    }

    /// What a player tells of itself (CTA-5004, Common Media Client Data, as fields).
    fn fields(&mut self, segment: Option<(usize, &Segment)>) -> Vec<(&'static str, String)> {
        let sid = format!("sid=\"{}-{}\"", self.session.workload, self.session.index);
        let mut fields = vec![("cmcd-session", sid)];
        let now = self.now();
        let bandwidth = segment.map_or(0.0, |(level, _)| self.bandwidth(level));
        if let Some((_, segment)) = segment {
            let player = &mut self.player;
            player.advance(now);
            let kilobits = bandwidth / 1000.0;
            fields.push(("cmcd-object", format!("br={kilobits:.0},d={:.0},ot=v", segment.duration * 1000.0)));
            // Hundreds of milliseconds and of kbit/s, as the document has it.
            let hundreds = |value: f64| (value / 100.0).round() * 100.0;
            let mut told = format!("bl={}", hundreds(player.buffer() * 1000.0));
            if player.estimated() > 0.0 {
                // Writing to a text cannot fail.
                let _written = write!(told, ",mtp={}", hundreds(player.estimated() / 1000.0));
            }
            fields.push(("cmcd-request", told));
            if player.is_stalled() {
                fields.push(("cmcd-status", "bs".to_owned()));
            }
        }
        fields
    }

    fn now(&self) -> f64 {
        self.session.seconds(Instant::now())
    }

    /// So many seconds after the arrival.
    fn at(&self, seconds: f64) -> Instant {
        // Beyond a year nothing runs.
        self.session.due + Duration::from_secs_f64(seconds.clamp(0.0, 365.0 * 86400.0))
    }

    fn sample(&mut self) {
        if !self.samples {
            return;
        }
        let now = self.now();
        self.player.advance(now);
        let row = (now, self.player.buffer(), self.player.level().unwrap_or_default());
        self.session.record.ribbon.push(row);
    }
}

/// The first segment to play: three target durations before the end of a live playlist (RFC 8216, section 6.3.3).
fn first(media: &Media) -> u64 {
    if media.ended {
        return media.sequence;
    }
    let mut left = media.target * 3.0;
    let mut number = media.sequence + media.segments.len() as u64;
    for segment in media.segments.iter().rev() {
        if left <= 0.0 {
            break;
        }
        left -= segment.duration;
        number -= 1;
    }
    number
}
