//! Plans of clients, an origin that changes, and purges, beside a list of the versions of each object.
//!
//! The fetches, fills and followers are the engine's own; the simulation is the origin, and the clients. The
//! invariants, after each step: what a client gets is of one version, and ends well only if it is all of it; a client
//! that asks after a purge does not get what was there before, and no client gets what is no longer fresh; one fill of
//! a key is under way at a time; a client that reads has all that has come; the pool keeps to its budget. At rest no
//! memory, no task and no key is left.

mod plan;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc as Plain;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::disk::tests::policy;
use super::{Cache, CachePolicy, Caching, Overrides, Purge, Unread, fetch};
use crate::cache::{Names, Query, RangeFill};
use crate::error::Code;
use crate::framing::Framing;
use crate::origin::simulated::{Exchange, Origin};
use crate::origin::testing::origins;
use crate::origin::{Endpoint, Origins, Passing, Request, RequestBody, Scheme, Timeouts};
use crate::pool::testing::config;
use crate::pool::{Pool, Purpose, REGION};
use crate::relay::FillFields;
use crate::simulation::{
    Clock, Trace, Verdict, Woken, compare_traces, held, hold, in_simulated_time, pass, settle, simulate,
};
use crate::stream::{Ending, Feed, FlowConfig, Meter, ResponseHead, Stream, Timings, channel};
use crate::sync::Arc;
use crate::wire::{Fields, Head};
use plan::{CLIENTS, KEYS, Kind, Plan, Step, body, plans, span, value};

const TEST: &str = "store::simulation::clients_of_any_plan_get_whole_versions_that_are_fresh";
const MAX_AGE: Duration = Duration::from_secs(3);
const SLICE: u64 = 1024;
const FLOW: FlowConfig = FlowConfig { floor: 1 << 16, ceiling: 1 << 18 };

/// What the origin has been asked and has not answered to the end.
struct Asked {
    number: usize,
    feed: Feed,
    key: usize,
    /// The version at the time of the request.
    version: usize,
    range: Option<String>,
    conditions: Conditions,
    /// Purges of the key before the request.
    purges: usize,
    /// It need not have waited for others.
    is_apart: bool,
    at: Duration,
    has_head: bool,
    /// What the body has, and how much of it was sent.
    body: Vec<u8>,
    sent: usize,
}

#[derive(Default)]
struct Conditions {
    none_match: Option<String>,
    if_range: Option<String>,
}

struct Client {
    stream: Stream,
    woken: Plain<Woken>,
    key: usize,
    has_range: bool,
    reads: bool,
    asked_at: Duration,
    /// The version that the key had at its last purge before the client asked.
    least: usize,
    got: Vec<u8>,
}

/// What the key has been through.
#[derive(Default)]
struct Known {
    /// When each version came.
    versions: Vec<Duration>,
    least: usize,
    purges: usize,
    /// Until when requests need not wait for one another, as an answer has shown.
    apart_until: Duration,
}

struct Simulated {
    pool: Pool,
    meter: Plain<Meter>,
    origins: Plain<Origins>,
    origin: Origin,
    cache: Arc<Cache>,
    caching: Caching,
    in_slices: bool,
    keys: [Known; KEYS],
    asked: Vec<Asked>,
    clients: Vec<Option<Client>>,
    /// In this step the origin has confirmed a response of this key, which it had been asked about before so many
    /// purges: if the cache asks again, it is the same fill.
    confirmed: Option<(usize, usize)>,
    exchanges: usize,
    cuts: usize,
}

impl Simulated {
    fn new(plan: &Plan, clock: &Clock) -> Self {
        let pool = Pool::new(config(4 * REGION)).expect("a small mapping");
        let meter = Plain::<Meter>::default();
        let cache = Arc::new(Cache::new(pool.clone(), 2 * REGION, 8, FLOW, Plain::clone(&meter)));
        let mut rules = policy();
        rules.stale_if_error = Duration::ZERO;
        rules.range_fill = if plan.in_slices { RangeFill::Slices(SLICE) } else { RangeFill::Whole };
        let names = || Names::new(Vec::<String>::new());
        let policy = CachePolicy {
            rules,
            query: Query { keep_parameters: None, drop_parameters: names(), sort_parameters: false },
            fields: FillFields::new(None, Vec::new(), &[]),
            max_object: 1 << 20,
            apart: MAX_AGE,
            unread: plan.unread,
            tags: vec!["all".into()],
        };
        let caching = Caching::new(Arc::clone(&cache), policy, "simulated");
        Self {
            origins: Plain::new(origins(&pool, Duration::from_secs(3600))),
            pool,
            meter,
            origin: Origin::new(),
            cache,
            caching,
            in_slices: plan.in_slices,
            keys: std::array::from_fn(|_| Known { versions: vec![clock.now()], ..Known::default() }),
            asked: Vec::new(),
            clients: (0..CLIENTS).map(|_| None).collect(),
            confirmed: None,
            exchanges: 0,
            cuts: 0,
        }
    }

    fn ask(&mut self, number: usize, key: usize, range: Option<(u64, u64)>, now: Duration) {
        let mut headers = Fields::default();
        if let Some((first, length)) = range {
            headers.push(b"Range", format!("bytes={first}-{}", first + length - 1).as_bytes());
        }
        let request = Request {
            endpoint: Endpoint::new(Scheme::Http, "origin.test", 80, None).expect("a name"),
            upstream: None,
            method: "GET".into(),
            target: format!("/{key}"),
            authority: "origin.test".into(),
            headers: Plain::new(headers),
            body: RequestBody::None,
            timeouts: Timeouts::each(None),
            is_proven: true,
            reports: false,
            passing: Passing::Body,
            in_frames: false,
            trace: None,
        };
        let (feed, stream) = channel(&self.pool, FLOW, &Framing::Raw, &self.meter);
        let access = self.caching.access(Plain::clone(&self.origins), Overrides::default());
        tokio::spawn(fetch(access, Box::new(request), feed));
        let woken = Woken::new();
        let client = Client {
            stream,
            woken,
            key,
            has_range: range.is_some(),
            reads: true,
            asked_at: now,
            least: self.keys[key].least,
            got: Vec::new(),
        };
        self.clients[number] = Some(client);
    }

    /// What the cache has asked the origin for.
    fn arrive(&mut self, now: Duration, trace: &mut Trace) {
        for Exchange { request, feed } in self.origin.asked() {
            let key = usize::from(request.target != "/0");
            let range = value(&request.headers, "range").map(str::to_owned);
            let conditions = Conditions {
                none_match: value(&request.headers, "if-none-match").map(str::to_owned),
                if_range: value(&request.headers, "if-range").map(str::to_owned),
            };
            let (number, version) = (self.exchanges, self.keys[key].versions.len() - 1);
            self.exchanges += 1;
            trace.note(format_args!(
                "exchange {number}: {key} at version {version}, {range:?}, {:?} {:?}",
                conditions.none_match, conditions.if_range
            ));
            let is_apart = now < self.keys[key].apart_until;
            let confirmed = self.confirmed.filter(|(of, _)| *of == key).map(|(_, purges)| purges);
            let purges = confirmed.unwrap_or(self.keys[key].purges);
            self.asked.push(Asked {
                number,
                feed,
                key,
                version,
                range,
                conditions,
                purges,
                is_apart,
                at: now,
                has_head: false,
                body: Vec::new(),
                sent: 0,
            });
        }
    }

    /// The origin sends a head. Returns whether that is all.
    fn send_head(&mut self, place: usize, with_length: bool, now: Duration, trace: &mut Trace) -> bool {
        let asked = &mut self.asked[place];
        let tag = format!("\"{}\"", asked.version);
        let whole = body(asked.key, asked.version);
        let is_valid = asked.conditions.none_match.as_deref() == Some(&*tag);
        let may_be_part = asked.conditions.if_range.as_ref().is_none_or(|wanted| *wanted == tag);
        let part = asked.range.as_deref().filter(|_| may_be_part).and_then(|range| span(range, whole.len()));
        let mut fields = vec![("ETag", tag), ("Cache-Control", format!("max-age={}", MAX_AGE.as_secs()))];
        let status = match part {
            _ if is_valid => 304,
            Some((first, end)) => {
                fields.push(("Content-Range", format!("bytes {first}-{}/{}", end - 1, whole.len())));
                asked.body = whole[first..end].to_vec();
                206
            }
            None => {
                asked.body = whole;
                200
            }
        };
        if with_length && status != 304 {
            fields.push(("Content-Length", asked.body.len().to_string()));
        }
        trace.note(format_args!("exchange {}: {status} of {} bytes", asked.number, asked.body.len()));
        let head =
            Head::new(status, b"", fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        asked.feed.set_head(ResponseHead { head, timings: Timings::default(), reused: false });
        asked.has_head = true;
        if now.saturating_sub(asked.at) >= MAX_AGE {
            self.keys[asked.key].apart_until = now + MAX_AGE;
        }
        is_valid
    }

    fn send(&mut self, place: usize, length: usize) -> Verdict {
        let asked = &mut self.asked[place];
        let left = &asked.body[asked.sent..];
        let piece = &left[..length.min(left.len())];
        if piece.is_empty() {
            return Ok(());
        }
        let mut writer = self.pool.writer(piece.len(), Purpose::Bulk).map_err(|error| error.to_string())?;
        // As two reads into one slab.
        let (one, other) = piece.split_at(piece.len() / 2);
        for part in [one, other].into_iter().filter(|part| !part.is_empty()) {
            writer.spare()[..part.len()].copy_from_slice(part);
            // If it is not wanted any more, that is seen at the end of the step.
            if asked.feed.push_raw(writer.commit(part.len())).is_ok() {
                asked.sent += part.len();
            }
        }
        Ok(())
    }

    fn purge(&mut self, key: usize, kind: Kind, soft: bool) -> Verdict {
        let url = format!("http://origin.test/{key}");
        let purge = match kind {
            Kind::Url => Purge::Url(&url),
            Kind::Prefix => Purge::Prefix("http://origin.test/"),
            Kind::Tag => Purge::Tag("all"),
            Kind::All => Purge::All,
        };
        self.cache.purge(purge, soft).map_err(|error| error.to_string())?;
        for (other, known) in self.keys.iter_mut().enumerate() {
            if other == key || !matches!(kind, Kind::Url) {
                known.least = known.versions.len() - 1;
                known.purges += 1;
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        trace.note(format_args!("{step:?}"));
        let exchange = |number: usize| (!self.asked.is_empty()).then(|| number % self.asked.len());
        match *step {
            Step::Ask { client, key, range } => self.ask(client, key, range, clock.now()),
            Step::Read(client) | Step::Stall(client) => {
                if let Some(client) = &mut self.clients[client] {
                    client.reads = matches!(step, Step::Read(_));
                }
            }
            Step::Leave(client) => self.clients[client] = None,
            Step::Head { exchange: number, with_length } => {
                if let Some(place) = exchange(number).filter(|place| !self.asked[*place].has_head) {
                    if self.send_head(place, with_length, clock.now(), trace) {
                        let asked = self.asked.swap_remove(place);
                        self.confirmed = Some((asked.key, asked.purges));
                        asked.feed.finish(Ending::default());
                    }
                }
            }
            Step::Body { exchange: number, length } => {
                if let Some(place) = exchange(number).filter(|place| self.asked[*place].has_head) {
                    self.send(place, length)?;
                }
            }
            Step::End(number) => {
                if let Some(place) = exchange(number).filter(|place| self.asked[*place].has_head) {
                    self.send(place, usize::MAX)?;
                    self.asked.swap_remove(place).feed.finish(Ending::default());
                }
            }
            Step::Cut(number) => {
                if let Some(place) = exchange(number) {
                    let asked = self.asked.swap_remove(place);
                    let code = if asked.has_head { Code::BodyTruncated } else { Code::ConnectFailed };
                    asked.feed.fail(code.error("the origin is gone"));
                    self.cuts += 1;
                }
            }
            Step::Change(key) => self.keys[key].versions.push(clock.now()),
            Step::Purge { key, kind, soft } => self.purge(key, kind, soft)?,
            Step::Wait(milliseconds) => pass(clock, Duration::from_millis(milliseconds)).await,
        }
        self.go_on(clock.now(), trace).await?;
        self.confirmed = None;
        self.check(trace)
    }

    /// Tasks run, and clients read, until all wait.
    async fn go_on(&mut self, now: Duration, trace: &mut Trace) -> Verdict {
        loop {
            settle().await;
            self.arrive(now, trace);
            let mut has_read = false;
            for number in 0..CLIENTS {
                let Some(mut client) = self.clients[number].take() else { continue };
                if client.reads && client.woken.take() {
                    has_read = true;
                    if self.read(number, &mut client, trace)? {
                        continue;
                    }
                }
                self.clients[number] = Some(client);
            }
            if !has_read {
                return Ok(());
            }
        }
    }

    /// The client takes what there is. Returns whether that was all.
    fn read(&self, number: usize, client: &mut Client, trace: &mut Trace) -> Result<bool, String> {
        let waker = Waker::from(Plain::clone(&client.woken));
        let context = &mut Context::from_waker(&waker);
        let end = match client.stream.poll_head(context) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Err(error)) => Some(error),
            Poll::Ready(Ok(_)) => loop {
                match client.stream.poll_next(context) {
                    Poll::Pending => return Ok(false),
                    Poll::Ready(None) => break None,
                    Poll::Ready(Some(Ok(piece))) => client.got.extend_from_slice(piece.slice()),
                    Poll::Ready(Some(Err(error))) => break Some(error),
                }
            },
        };
        trace.note(format_args!(
            "{number} is over: {:?}, {} bytes, {:?}",
            client.stream.head().map(|head| head.head.status),
            client.got.len(),
            end.as_ref().map(crate::error::Error::code)
        ));
        if let Some(error) = &end {
            // A client in the middle of slices cannot go on with another version.
            let may_fail = self.cuts > 0 || error.code() == Code::ObjectChanged;
            hold!(may_fail, "{number} got an error, and the origin has none: {error}");
        }
        self.compare(number, client, end.is_none())?;
        Ok(true)
    }

    /// What the client has got is of one version that it may get.
    fn compare(&self, number: usize, client: &Client, is_whole: bool) -> Verdict {
        let Some(ResponseHead { head, .. }) = client.stream.head() else { return Ok(()) };
        let text = |name| head.get(name).and_then(|value| std::str::from_utf8(value).ok());
        if head.status == 416 {
            return Ok(());
        }
        let tag = text("etag").ok_or_else(|| format!("{number} got no entity tag"))?;
        let version: usize = tag.trim_matches('"').parse().map_err(|_| format!("{number} got {tag}"))?;
        let all = body(client.key, version);
        let wanted = match (head.status, text("content-range")) {
            (200, _) => &all[..],
            (206, Some(range)) => {
                let (range, _) =
                    range.strip_prefix("bytes ").and_then(|range| range.split_once('/')).ok_or("no range")?;
                let (first, end) = span(&format!("bytes={range}"), all.len()).ok_or("no such range")?;
                &all[first..end]
            }
            (status, _) => return Err(format!("{number} got {status}")),
        };
        hold!(wanted.starts_with(&client.got), "{number} got bytes that are not of version {version}");
        hold!(
            !is_whole || client.got == wanted,
            "{number} got {} of {} bytes, and a good end",
            client.got.len(),
            wanted.len()
        );
        hold!(
            version >= client.least,
            "{number} got version {version} after the purge at version {}",
            client.least
        );
        if let Some(replaced) = self.keys[client.key].versions.get(version + 1) {
            let is_fresh = *replaced + MAX_AGE >= client.asked_at;
            hold!(
                is_fresh,
                "{number} got version {version}, which was replaced {:?} before",
                client.asked_at.saturating_sub(*replaced)
            );
        }
        Ok(())
    }

    fn check(&mut self, trace: &mut Trace) -> Verdict {
        let mut gone = Vec::new();
        self.asked.retain(|asked| {
            let is_gone = pin!(asked.feed.closed()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
            gone.extend(is_gone.then_some(asked.number));
            !is_gone
        });
        if !gone.is_empty() {
            trace.note(format_args!("exchanges {gone:?} are not wanted any more"));
        }
        self.check_fills()?;
        for (number, client) in self.clients.iter().enumerate() {
            let Some(client) = client.as_ref().filter(|client| client.reads) else { continue };
            self.compare(number, client, false)?;
            let of_key: Vec<_> = self.asked.iter().filter(|asked| asked.key == client.key).collect();
            hold!(!of_key.is_empty(), "{number} waits, and the origin has nothing to send");
            // Of whole bodies: what has come of one version is with all of its readers.
            let is_alone = of_key.len() == 1 && of_key[0].has_head && of_key[0].range.is_none();
            if is_alone && !client.has_range && !self.in_slices {
                let sent = of_key[0].sent;
                hold!(
                    client.got.len() == sent,
                    "{number} reads and has {} of {sent} bytes",
                    client.got.len()
                );
            }
        }
        let (pool, stats) = (self.pool.stats(), self.cache.stats());
        hold!(
            pool.live_bytes <= self.pool.budget(),
            "{} bytes are in use, of {}",
            pool.live_bytes,
            self.pool.budget()
        );
        hold!(stats.used <= stats.limit, "the cache takes {} bytes, of {}", stats.used, stats.limit);
        trace.note(format_args!("{} bytes, {} keys, {} exchanges", stats.used, stats.keys, self.asked.len()));
        Ok(())
    }

    /// No two exchanges that others could wait for are for the same.
    fn check_fills(&self) -> Verdict {
        let mut fills = BTreeMap::new();
        for asked in self.asked.iter().filter(|asked| !asked.has_head && asked.range.is_none()) {
            let known = &self.keys[asked.key];
            // What was asked before a purge is not joined after it.
            if asked.is_apart || asked.purges < known.purges {
                continue;
            }
            if let Some(other) = fills.insert(asked.key, asked.number) {
                return Err(format!("exchanges {other} and {} are for the same", asked.number));
            }
        }
        Ok(())
    }

    /// All clients leave.
    async fn rest(mut self) -> Verdict {
        self.clients.iter_mut().for_each(|client| *client = None);
        settle().await;
        self.asked.clear();
        drop(self.origin.asked());
        settle().await;
        self.cache.purge(Purge::All, false).map_err(|error| error.to_string())?;
        settle().await;
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        hold!(tasks == 0, "{tasks} tasks are left at rest");
        let stats = self.cache.stats();
        hold!(
            (stats.keys, stats.objects, stats.used) == (0, 0, 0),
            "the cache has something at rest: {stats:?}"
        );
        hold!(self.meter.live() == 0, "{} streams are left at rest", self.meter.live());
        let live = self.pool.stats().live_bytes;
        hold!(live == 0, "{live} bytes of the pool are in use at rest");
        Ok(())
    }
}

fn run(plan: &Plan, trace: &mut Trace) -> Verdict {
    in_simulated_time(async {
        let mut clock = Clock::new();
        let mut simulated = Simulated::new(plan, &clock);
        for step in &plan.steps {
            simulated.step(step, &mut clock, trace).await?;
        }
        simulated.rest().await
    })
}

#[test]
fn clients_of_any_plan_get_whole_versions_that_are_fresh() {
    simulate(TEST, &plans(), run);
}

/// Each was found by a seed. A client leaves, or the origin breaks off, while a second client's request asks whether
/// the growing response is still valid: it is, but it has no body any more.
#[test]
fn a_response_that_broke_off_while_it_was_validated_is_fetched_again() {
    for (unread, ends) in [(Unread::End, Step::Leave(1)), (Unread::Finish, Step::Cut(0))] {
        let ask = |client| Step::Ask { client, key: 0, range: None };
        let head = Step::Head { exchange: 0, with_length: false };
        let steps =
            vec![ask(1), head.clone(), Step::Wait(3000), ask(2), ends, head.clone(), head, Step::End(0)];
        let plan = Plan { in_slices: false, unread, steps };
        let trace = held(&plan, run);
        assert!(trace.has("2 is over: Some(200), 1500 bytes, None"), "{trace:#?}");
    }
}

#[test]
fn a_seed_makes_one_trace_in_each_process() {
    compare_traces(TEST);
}
