//! Subscribers of one topic, and its publisher: `subscribers HOST:PORT SUBSCRIBERS RATE`.
//!
//! Subscribes with GET /events/topic and prints {"phase": "connected"} when every answer's head has come. Each line
//! "publish N" on its standard input then has it POST N events to /publish, RATE a second, and print a report once every
//! subscriber has had each of them, once, in order and unaltered. Latency runs from the clock just before the POST is
//! written to when the kernel had the event for the subscriber's socket (SO_TIMESTAMPNS): how soon this program
//! reads it, on a core that it shares with nothing of the hub's, makes no difference.

mod chunks;
mod publisher;
mod subscriber;

use std::env;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use publisher::Publisher;
use subscriber::Subscriber;

/// For heads, and for what is still missing when all has been published.
const PATIENCE: Duration = Duration::from_secs(20);
/// Connections that wait to be accepted at once: fewer than any backlog.
const CONNECTING: usize = 64;
const PUBLISHER: u64 = u64::MAX;

/// What is known of each event that was published; its place is its number.
pub struct Published {
    pub data: Vec<u8>,
    pub sent: u64,
}

struct Load {
    epoll: Epoll,
    subscribers: Vec<Option<Subscriber>>,
    publisher: Publisher,
    published: Vec<Published>,
    latencies: Vec<u64>,
    failures: usize,
    first_error: String,
}

impl Load {
    fn connect(address: &str, count: usize) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::empty())?;
        let publisher = Publisher::connect(address)?;
        epoll.add(
            publisher.socket(),
            EpollEvent::new(EpollFlags::EPOLLIN, PUBLISHER),
        )?;
        let mut load = Self {
            epoll,
            subscribers: Vec::with_capacity(count),
            publisher,
            published: Vec::new(),
            latencies: Vec::new(),
            failures: 0,
            first_error: String::new(),
        };
        while load.subscribers.len() < count {
            for number in load.subscribers.len()..count.min(load.subscribers.len() + CONNECTING) {
                let subscriber = Subscriber::connect(address)?;
                load.epoll.add(
                    subscriber.socket(),
                    EpollEvent::new(EpollFlags::EPOLLIN, number as u64),
                )?;
                load.subscribers.push(Some(subscriber));
            }
            let deadline = Instant::now() + PATIENCE;
            while !load
                .subscribers
                .iter()
                .flatten()
                .all(Subscriber::is_subscribed)
            {
                if Instant::now() > deadline {
                    return Err(io::Error::other(format!("no answer within {PATIENCE:?}")));
                }
                load.turn(Duration::from_millis(100))?;
                if load.failures > 0 {
                    return Err(io::Error::other(load.first_error));
                }
            }
        }
        Ok(load)
    }

    /// Takes what has come, after `wait` at most; returns how many events that were.
    fn turn(&mut self, wait: Duration) -> io::Result<usize> {
        let mut ready = [EpollEvent::empty(); 256];
        // Rounded up: a timeout of no milliseconds would make the loop busy.
        let wait = u16::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        let count = self.epoll.wait(&mut ready, EpollTimeout::from(wait))?;
        let mut events = 0;
        for event in &ready[..count] {
            if event.data() == PUBLISHER {
                self.publisher.receive()?;
                continue;
            }
            let number = usize::try_from(event.data()).expect("a place in a Vec");
            let Some(subscriber) = &mut self.subscribers[number] else {
                continue;
            };
            match subscriber.receive(&self.published, &mut self.latencies) {
                Ok(count) => events += count,
                Err(error) => {
                    self.failures += 1;
                    if self.first_error.is_empty() {
                        self.first_error = format!("subscriber {number}: {error}");
                    }
                    self.subscribers[number] = None;
                }
            }
        }
        Ok(events)
    }

    fn publish(&mut self, count: usize, interval: Duration) -> io::Result<String> {
        self.latencies.clear();
        let began = Instant::now();
        let goal = self.published.len() + count;
        let mut due = began;
        let mut missing = count * self.subscribers.iter().flatten().count();
        let mut deadline = None;
        // The answer to the last publish may come after the event.
        while (missing > 0 || !self.publisher.is_idle()) && self.failures == 0 {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now > deadline) {
                break;
            }
            // One at a time: a publisher that has not been answered waits, and the rate is then missed.
            if self.published.len() < goal && now >= due && self.publisher.is_idle() {
                let number = self.published.len();
                self.published.push(self.publisher.publish(number)?);
                due += interval;
                if self.published.len() == goal {
                    deadline = Some(now + PATIENCE);
                }
            }
            let wait = if self.published.len() < goal && self.publisher.is_idle() {
                due.saturating_duration_since(now)
            } else {
                Duration::from_millis(100)
            };
            missing = missing.saturating_sub(self.turn(wait)?);
        }
        if missing > 0 && self.first_error.is_empty() {
            self.first_error = format!("{missing} deliveries are missing");
        }
        Ok(self.report(began.elapsed(), missing))
    }

    fn report(&mut self, elapsed: Duration, missing: usize) -> String {
        self.latencies.sort_unstable();
        let percentile = |share: f64| {
            let last = self.latencies.len().saturating_sub(1);
            self.latencies
                .get((share * last as f64) as usize)
                .map_or(0.0, |nanoseconds| *nanoseconds as f64 / 1000.0)
        };
        format!(
            "{{\"events\": {}, \"missing\": {missing}, \"seconds\": {}, \"p50_us\": {}, \"p99_us\": {}, \
             \"max_us\": {}, \"failures\": {}, \"first_error\": {:?}}}",
            self.latencies.len(),
            elapsed.as_secs_f64(),
            percentile(0.5),
            percentile(0.99),
            percentile(1.0),
            self.failures,
            self.first_error,
        )
    }
}

fn run(address: &str, count: usize, interval: Duration) -> io::Result<()> {
    let mut load = Load::connect(address, count)?;
    println!("{{\"phase\": \"connected\"}}");
    for line in io::stdin().lines() {
        let line = line?;
        let count = line
            .strip_prefix("publish ")
            .and_then(|count| count.parse().ok())
            .ok_or_else(|| io::Error::other(format!("publish N is understood, {line:?} is not")))?;
        println!("{}", load.publish(count, interval)?);
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [address, count, rate] = arguments.as_slice() else {
        eprintln!("usage: subscribers HOST:PORT SUBSCRIBERS RATE");
        return ExitCode::from(2);
    };
    let (Ok(count), Ok(rate)) = (count.parse(), rate.parse::<f64>()) else {
        eprintln!("subscribers: SUBSCRIBERS and RATE are numbers");
        return ExitCode::from(2);
    };
    match run(address, count, Duration::from_secs_f64(1.0 / rate)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("subscribers: {error}");
            ExitCode::FAILURE
        }
    }
}
