//! One connection of HTTP/2, from its preface to its end: each stream is served as a connection of its own.
//!
//! It is served within the connection's task as far as it goes at once. Most hits go to their end so, and what several streams have to
//! send leaves in one write. A stream that waits for something else gets a task of its own.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, sleep_until};

use super::client::Client;
use super::connection::{self, close, closed};
use super::exchange::at_once;
use super::inbound::Inbound;
use super::site::Load;
use crate::drain::Phase;
use crate::net::http2::{Event, Excess, Http2Limits, Server};
use crate::net::{Called, Connection as Stream};
use crate::sync::{Arc, Mutex, lock};
use crate::sys::boxed;

/// How long a client that is cut off may go on sending: its bytes, unread, would turn the end into a reset, and the reason would
/// be lost. Arbitrary.
const LAST_WORD: Duration = Duration::from_millis(50);

/// Streams that are served may be more than are open: one that was reset takes a while to end.
const ENDING: usize = 2;

/// Bytes that the kernel may keep unsent (`TCP_NOTSENT_LOWAT`): two writes of TLS, so that it does not run dry meanwhile.
const BACKLOG: u32 = 128 << 10;

/// Far enough.
const NEVER: Duration = Duration::from_secs(365 * 86400);

/// The streams of a connection that are being served.
#[derive(Debug)]
struct Served {
    count: AtomicUsize,
    /// When the last one ended.
    quiet: Mutex<Instant>,
    /// The task of the connection, where that waits for their end.
    waiting: Mutex<Option<Waker>>,
}

/// One of them.
struct Serving(Arc<Served>);

impl Drop for Serving {
    fn drop(&mut self) {
        // Relaxed, here and below: the tasks of one thread alone use it.
        if self.0.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            *lock(&self.0.quiet) = Instant::now();
            let waiting = lock(&self.0.waiting).take();
            if let Some(waiting) = waiting {
                waiting.wake();
            }
        }
    }
}

/// What ends a wait for requests.
enum Step {
    End(Option<Excess>),
    /// Something else is due now.
    Changed,
    Drain,
    Overdue,
    Closed,
}

/// A stream that is served.
type Serve = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls a stream in the connection's task; whether nothing is left to be done for it. A panic ends the stream alone, as it does in
/// a task of its own: what the stream holds is dropped, which resets it.
fn goes_to_its_end(stream: &mut Serve, context: &mut Context<'_>) -> bool {
    let polled = catch_unwind(AssertUnwindSafe(|| stream.as_mut().poll(context)));
    polled.map_or(true, |polled| polled.is_ready())
}

struct Connection {
    load: Arc<Load>,
    client: Client,
    limits: Http2Limits,
    server: Server,
    served: Arc<Served>,
    requests: u64,
    begun: Instant,
    /// Since when no request is taken any more.
    drained: Option<Instant>,
    /// When it ends, whatever is unfinished.
    end: Option<Instant>,
}

/// Serves the streams of a connection. Ends when the connection has, and leaves streams to end by themselves.
pub(super) async fn serve(load: Arc<Load>, client: Client) {
    // Relaxed: a count.
    load.site.http2.fetch_add(1, Ordering::Relaxed);
    let config = &load.site.config;
    // Without limits no handshake settles on HTTP/2.
    let Some(limits) = config.http2 else { return };
    // What is in the socket, no response that is needed more can overtake.
    client.keep_backlog(Some(BACKLOG));
    let head_bytes = u32::try_from(config.head.head_bytes).unwrap_or(u32::MAX);
    let begun = Instant::now();
    let mut connection = Connection {
        server: Server::new(&client.connection, &limits, head_bytes),
        served: Arc::new(Served {
            count: AtomicUsize::new(0),
            quiet: Mutex::new(begun),
            waiting: Mutex::default(),
        }),
        load: Arc::clone(&load),
        client,
        limits,
        requests: 0,
        begun,
        drained: None,
        end: None,
    };
    let linger = connection.run().await;
    let Connection { client, server, .. } = connection;
    // What is left of its streams ends with it.
    drop(server);
    let mut inbound = Inbound::new(&client.connection, &load.site.supplies, config);
    close(&client, &mut inbound, linger).await;
}

impl Connection {
    /// Goes on to the end; how long the client may go on sending then.
    async fn run(&mut self) -> Duration {
        let mut phase = self.load.site.phase();
        let linger = self.load.site.config.linger;
        loop {
            match self.step(&mut phase).await {
                Step::End(None) => return linger,
                Step::End(Some(excess)) => {
                    self.count(excess);
                    at_once(|context| self.server.refuse(context)).await;
                    return LAST_WORD;
                }
                Step::Changed => {}
                Step::Drain => self.drain(),
                Step::Closed => {
                    self.end = Some(Instant::now() + linger);
                    self.drain();
                }
                Step::Overdue if self.deadline() > Instant::now() => {}
                Step::Overdue if self.server.is_open() && self.drained.is_none() => self.drain(),
                Step::Overdue => return LAST_WORD,
            }
        }
    }

    async fn step(&mut self, phase: &mut watch::Receiver<Phase>) -> Step {
        let deadline = self.deadline();
        let (is_drained, is_closing) = (self.drained.is_some(), self.end.is_some());
        let mut watched = phase.clone();
        let mut aside = pin!(async {
            tokio::select! {
                biased;
                () = closed(&mut watched), if !is_closing => Step::Closed,
                _ = phase.wait_for(|phase| *phase != Phase::Open), if !is_drained => Step::Drain,
                () = sleep_until(deadline) => Step::Overdue,
            }
        });
        let mut aside = Called::new(aside.as_mut());
        let before = self.stage();
        poll_fn(|context| match self.poll(context) {
            Poll::Ready(excess) => Poll::Ready(Step::End(excess)),
            Poll::Pending if self.stage() != before => Poll::Ready(Step::Changed),
            Poll::Pending => aside.poll(context),
        })
        .await
    }

    fn is_idle(&self) -> bool {
        self.served.count.load(Ordering::Relaxed) == 0
    }

    /// What it depends on when something is due: the client's preface, and after the last request the end of what is unfinished.
    fn stage(&self) -> (bool, bool) {
        (self.server.is_open(), self.drained.is_some() && self.is_idle())
    }

    /// When something is due if nothing happens.
    fn deadline(&self) -> Instant {
        let config = &self.load.site.config;
        let after = |from: Instant, limit: Option<Duration>| from + limit.unwrap_or(NEVER);
        if !self.server.is_open() {
            return after(self.begun, config.head_timeout);
        }
        let is_idle = self.is_idle();
        let quiet = if is_idle { *lock(&self.served.quiet) } else { Instant::now() };
        let due = match self.drained {
            // The client may never say that it knows.
            Some(drained) if is_idle => quiet.max(drained) + config.linger,
            Some(_) => quiet + NEVER,
            None => after(quiet, config.idle_timeout).min(self.begun + self.limits.age),
        };
        self.end.map_or(due, |end| end.min(due))
    }

    /// Takes no more requests: what is unfinished goes on to its end.
    fn drain(&mut self) {
        if self.drained.is_none() {
            self.drained = Some(Instant::now());
            if cfg!(all(test, planted_bug = "drain-cuts-streams")) {
                self.end = self.drained;
            }
            self.server.drain();
        }
    }

    /// Begins to serve the requests that come. Ready with the end, and with what was wrong.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Excess>> {
        if self.drained.is_some() {
            *lock(&self.served.waiting) = Some(context.waker().clone());
        }
        if let Poll::Ready(excess) = self.server.poll(context) {
            return Poll::Ready(excess);
        }
        let most = self.limits.streams as usize * ENDING;
        let mut begun = Vec::new();
        loop {
            let has_room = self.served.count.load(Ordering::Relaxed) < most;
            match self.server.next_request(has_room) {
                Some(Event::Request(stream)) => begun.extend(self.begin(context, stream)),
                Some(Event::Refused) => self.count(Excess::Streams),
                None => break,
            }
        }
        if self.server.settle(context) {
            begun.retain_mut(|stream| !has_budget_remaining() || !goes_to_its_end(stream, context));
        }
        for stream in begun {
            tokio::spawn(stream);
        }
        Poll::Pending
    }

    /// Serves a stream as far as it goes at once; what is left of it.
    fn begin(&mut self, context: &mut Context<'_>, stream: Arc<Stream>) -> Option<Serve> {
        self.requests += 1;
        self.served.count.fetch_add(1, Ordering::Relaxed);
        let (load, client) = (Arc::clone(&self.load), self.client.on_stream(stream));
        let serving = Serving(Arc::clone(&self.served));
        let mut stream: Serve = boxed(|| async move {
            let _serving = serving;
            connection::serve(load, client, None).await;
        });
        if self.requests >= self.limits.requests {
            self.drain();
        }
        // Without a budget it would take a free socket for one that is full.
        let is_served = has_budget_remaining() && goes_to_its_end(&mut stream, context);
        (!is_served).then_some(stream)
    }

    fn count(&self, excess: Excess) {
        self.load.site.excesses[excess as usize].fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls a stream once; whether it is over.
    fn polled(stream: impl Future<Output = ()> + Send + 'static) -> bool {
        let mut stream: Serve = Box::pin(stream);
        goes_to_its_end(&mut stream, &mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_panic_ends_the_stream_and_not_the_connection() {
        let held = Arc::new(());
        let holds = Arc::clone(&held);
        assert!(polled(async move { assert_eq!(Arc::strong_count(&holds), 0, "a stream of a test panics") }));
        assert_eq!(Arc::strong_count(&held), 1, "what it held is dropped");
        assert!(polled(std::future::ready(())));
        assert!(!polled(std::future::pending()));
    }
}
