//! Sends the spans of requests to a collector (OTLP over HTTP: opentelemetry.io, "OTLP Specification 1", section "OTLP/HTTP").
//!
//! On a thread, in memory and over connections of its own: what a collector does costs no request anything. One batch is under way
//! at a time; while it waits for a collector that is away, spans gather in the tracer's buffer, and what does not fit there is
//! dropped and counted.

use std::future::poll_fn;
use std::sync::Arc as Plain;
use std::time::Duration;

use penstock_trace::{Batch, Resource, Tracer, rejected, request};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{Code, Result};
use crate::framing::Framing;
use crate::origin::{self, Endpoint, Origins, Passing, Request, RequestBody, Timeouts};
use crate::pool::Pool;
use crate::stream::{FlowConfig, Meter, channel};
use crate::sync::Arc;
use crate::wire::Fields;

/// The first wait after a batch that was not taken; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// And is no longer than this. Arbitrary.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Times that one batch is sent. With the waits between them that is a minute: a collector that is started anew is back by then.
const TRIES: u32 = 7;
/// Bytes of a collector's answer that are read.
const MOST_ANSWER: usize = 4096;

/// Where spans go. Declared and validated in Python; there are no defaults here.
#[derive(Debug)]
pub struct CollectorConfig {
    /// The collector.
    pub endpoint: Endpoint,
    /// Its name for the field `Host`.
    pub authority: Plain<str>,
    /// Path and query.
    pub target: String,
    /// Fields of each request, such as a token.
    pub headers: Vec<(String, String)>,
    /// What the spans are of.
    pub resource: Resource,
    /// The version of penstock.
    pub version: &'static str,
    /// How long spans wait to be sent together.
    pub every: Duration,
    /// How long the collector has to take a batch.
    pub timeout: Duration,
    /// How long the last spans have when the engine is closed.
    pub linger: Duration,
}

/// Sends what a tracer keeps.
#[derive(Debug)]
pub struct Collector {
    config: CollectorConfig,
    headers: Plain<Fields>,
    tracer: Plain<Tracer>,
    pool: Pool,
    flow: FlowConfig,
    closing: watch::Sender<bool>,
}

/// What has become of a batch.
enum Sent {
    Taken,
    /// It may be taken later.
    Later,
    /// It never will be.
    Refused,
}

impl Collector {
    /// One that sends what `tracer` keeps.
    pub fn new(config: CollectorConfig, tracer: Plain<Tracer>, pool: Pool, flow: FlowConfig) -> Self {
        let mut headers = Fields::with_capacity(config.headers.len() + 1, 256);
        headers.push(b"Content-Type", b"application/x-protobuf");
        for (name, value) in &config.headers {
            headers.push(name.as_bytes(), value.as_bytes());
        }
        let (closing, _) = watch::channel(false);
        Self { config, headers: Plain::new(headers), tracer, pool, flow, closing }
    }

    /// Has [`Collector::run`] send what there is and end.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Sends until it is closed, over connections of `origins`, which belong to the calling thread.
    pub async fn run(self: Plain<Self>, origins: Arc<Origins>) {
        let mut closing = self.closing.subscribe();
        loop {
            let is_closing = tokio::select! {
                _ = closing.wait_for(|closing| *closing) => true,
                () = sleep(self.config.every) => false,
            };
            let batch = self.tracer.take();
            if batch.count > 0 {
                self.deliver(&origins, &batch, &mut closing).await;
            }
            if is_closing || *closing.borrow() {
                return;
            }
        }
    }

    /// Sends one batch until it is taken or lost.
    async fn deliver(&self, origins: &Arc<Origins>, batch: &Batch, closing: &mut watch::Receiver<bool>) {
        let linger = self.config.linger;
        let body = request(&self.config.resource, self.config.version, &batch.spans);
        let (mut wait, mut deadline) = (FIRST_WAIT, None);
        for _ in 0..TRIES {
            let sending = self.send(origins, body.clone(), batch.count);
            let sent = tokio::select! {
                sent = sending => sent,
                () = over(closing, linger, &mut deadline) => Sent::Refused,
            };
            match sent {
                Sent::Taken => return,
                Sent::Refused => break,
                Sent::Later => {}
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = over(closing, linger, &mut deadline) => break,
            }
            wait = (2 * wait).min(LONGEST_WAIT);
        }
        self.tracer.lose(batch.count);
    }

    async fn send(&self, origins: &Arc<Origins>, body: Vec<u8>, count: u64) -> Sent {
        match self.ask(origins, body).await {
            // A part may have been refused (section "Partial Success").
            Ok((200..=299, answer)) => {
                self.tracer.lose(rejected(&answer).min(count));
                Sent::Taken
            }
            // Section "Retryable Response Codes".
            Ok((429 | 502..=504, _)) | Err(_) => Sent::Later,
            Ok(_) => Sent::Refused,
        }
    }

    /// Sends one request; the status of the answer, and the beginning of its body.
    async fn ask(&self, origins: &Arc<Origins>, body: Vec<u8>) -> Result<(u16, Vec<u8>)> {
        let asked = Box::new(Request {
            endpoint: self.config.endpoint.clone(),
            upstream: None,
            method: "POST".into(),
            target: self.config.target.clone(),
            authority: Plain::clone(&self.config.authority),
            headers: Plain::clone(&self.headers),
            body: RequestBody::Bytes(body),
            timeouts: Timeouts::each(Some(self.config.timeout)),
            is_proven: true,
            reports: true,
            passing: Passing::Body,
            in_frames: false,
            trace: None,
        });
        let (feed, stream) = channel(&self.pool, self.flow, &Framing::Raw, &Plain::new(Meter::default()));
        let fetch = origin::fetch(Plain::clone(origins), asked, feed);
        let read = async {
            let status = poll_fn(|context| stream.poll_head(context).map_ok(|head| head.head.status)).await?;
            let mut answer = Vec::new();
            while let Some(part) = poll_fn(|context| stream.poll_next(context)).await {
                answer.extend_from_slice(&part?);
                if answer.len() > MOST_ANSWER {
                    return Err(Code::HeadTooLarge.error("the collector's answer is too long"));
                }
            }
            Ok((status, answer))
        };
        let ((), answered) = tokio::join!(fetch, read);
        answered
    }
}

/// Ready when the time of a collector that is being closed is over.
async fn over(closing: &mut watch::Receiver<bool>, linger: Duration, deadline: &mut Option<Instant>) {
    let _ = closing.wait_for(|closing| *closing).await;
    let until = *deadline.get_or_insert_with(|| Instant::now() + linger);
    let _ = timeout_at(until, std::future::pending::<()>()).await;
}
