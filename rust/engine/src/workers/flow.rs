//! Bodies between the two processes. The receiver grants credit for the room of its own reader, so that a slow reader in
//! one process slows the source in the other.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot};

use super::message::{Message, PIECE};
use super::wire::Wire;
use crate::app::{Completion, Outcome};
use crate::codec::malformed;
use crate::error::{Code, Error};
use crate::inspect::Inspector;
use crate::pool::{CLASSES, CopyReason, Pool, Purpose, Slice};
use crate::stream::{Ending, Feed, ResponseHead, Stream};
use crate::sync::{Mutex, lock};
use crate::wire::{Fields, Head};

/// The limit of an overdraft: the last piece is sent whole, and so is the last frame of a flow that is cut.
#[expect(clippy::cast_possible_wrap, reason = "a small number")]
const OVERDRAWN: i64 = -((CLASSES[CLASSES.len() - 1] + PIECE) as i64);

/// The credit of a flow: the bytes that it may still send.
#[derive(Debug)]
pub(super) struct Credit {
    left: Mutex<Option<i64>>,
    /// Whether another consumer goes on with the stream.
    is_cut: AtomicBool,
    changed: Notify,
}

impl Credit {
    /// No credit.
    pub(super) fn none() -> Arc<Self> {
        let (left, is_cut) = (Mutex::new(Some(0)), AtomicBool::new(false));
        Arc::new(Self { left, is_cut, changed: Notify::new() })
    }

    /// Adds credit that the other side has granted.
    pub(super) fn grant(&self, bytes: u32) {
        if let Some(left) = &mut *lock(&self.left) {
            *left = left.saturating_add(i64::from(bytes));
        }
        self.changed.notify_one();
    }

    /// Another consumer goes on with the stream: what was taken of it is still sent, and then the end of
    /// the flow.
    pub(super) fn cut(&self) {
        // Relaxed: by the thread that reads it.
        self.is_cut.store(true, Ordering::Relaxed);
        if let Some(left) = &mut *lock(&self.left) {
            *left = i64::MAX;
        }
        self.changed.notify_one();
    }

    /// The receiver does not want the rest.
    pub(super) fn close(&self) {
        *lock(&self.left) = None;
        self.changed.notify_one();
    }

    /// Waits until a piece may be sent; false if the receiver does not want the rest. A piece is sent whole: an overdraft
    /// counts against the next grant.
    pub(super) async fn some(&self) -> bool {
        loop {
            match *lock(&self.left) {
                None => return false,
                Some(left) if left > 0 => return true,
                Some(_) => {}
            }
            self.changed.notified().await;
        }
    }

    /// Waits until the receiver does not want the rest.
    async fn closed(&self) {
        while lock(&self.left).is_some() {
            self.changed.notified().await;
        }
    }

    fn spend(&self, bytes: usize) {
        if let Some(left) = &mut *lock(&self.left) {
            *left -= i64::try_from(bytes).unwrap_or(i64::MAX);
        }
    }
}

/// Sends `stream` as `flow`, as far as `credit` goes, inspected by `inspector`. Ends without a message if the receiver does
/// not want the rest, or if the stream gets another consumer and the flow was not cut for that.
pub(super) async fn send_flow(
    stream: Arc<Stream>,
    wire: Arc<Wire>,
    flow: u32,
    credit: Arc<Credit>,
    inspector: Option<Inspector>,
) {
    let note = |frame: &[u8]| {
        if let Some(inspector) = &inspector {
            inspector.note(frame, Instant::now());
        }
    };
    let mut gathered = Vec::new();
    while credit.some().await {
        let next = tokio::select! {
            biased;
            next = poll_fn(|context| stream.poll_next(context)) => next,
            () = credit.closed() => return,
        };
        match next {
            Some(Ok(delivery)) => {
                note(&delivery);
                // Small frames are sent together: each message takes a slab where it arrives.
                let mut ready = if delivery.len() < PIECE { stream.take_ready() } else { None };
                let bytes: &[u8] = if ready.is_none() {
                    &delivery
                } else {
                    gathered.clear();
                    gathered.extend_from_slice(&delivery);
                    while let Some(more) = ready {
                        note(&more);
                        gathered.extend_from_slice(&more);
                        ready = if gathered.len() < PIECE { stream.take_ready() } else { None };
                    }
                    &gathered
                };
                for piece in bytes.chunks(PIECE) {
                    if !credit.some().await {
                        return;
                    }
                    credit.spend(piece.len());
                    wire.send(&Message::Data(flow, piece));
                }
            }
            Some(Err(error)) if error.code() == Code::StreamClosed => {
                // Relaxed: as in `cut`.
                if credit.is_cut.load(Ordering::Relaxed) {
                    wire.send(&Message::End(flow, Duration::ZERO, Fields::default()));
                }
                return;
            }
            Some(Err(error)) => return wire.send(&Message::Fail(flow, error)),
            None => {
                let Ending { body, trailers } = stream.ending().unwrap_or_default();
                return wire.send(&Message::End(flow, body, trailers.into_iter().collect::<Fields>()));
            }
        }
    }
}

/// A part of a flow that has arrived.
#[derive(Debug)]
pub(super) enum Arrival {
    Interim(Head),
    Head(Box<ResponseHead>),
    Data(Slice),
    End(Ending),
    Fail(Error),
    /// The other side has sent the attached flow to its end: the outcome, the ending that the reader gets, and the
    /// completion that is told after it.
    Over(Outcome, Ending, Completion, Stream),
}

/// The sender of a flow's arrivals.
pub(super) type Arrivals = mpsc::UnboundedSender<Arrival>;

/// Copies `bytes` of a flow into the pool.
///
/// # Errors
/// `POOL_FULL`.
pub(super) fn arrived(pool: &Pool, bytes: &[u8]) -> crate::error::Result<Arrival> {
    let mut writer = pool.writer(bytes.len(), Purpose::Bulk)?;
    writer.spare()[..bytes.len()].copy_from_slice(bytes);
    pool.count_copy(CopyReason::Worker, bytes.len());
    Ok(Arrival::Data(writer.commit(bytes.len())))
}

/// Receives `flow` for the reader of `feed`, and grants credit for the room that it has. Ends with the flow, or with its
/// arrivals. It does not keep the connection open.
pub(super) async fn receive_flow(
    feed: Feed,
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
    wire: Weak<Wire>,
    flow: u32,
    begun: bool,
) {
    let say = |message: Message<'_>| {
        if let Some(wire) = wire.upgrade() {
            wire.send(&message);
        }
    };
    let mut granted = 0_i64;
    loop {
        tokio::select! {
            biased;
            arrival = arrivals.recv() => match arrival {
                Some(Arrival::Interim(head)) => feed.push_interim(head),
                Some(Arrival::Head(head)) => feed.set_head(*head),
                Some(Arrival::Data(slice)) => {
                    granted -= i64::try_from(slice.len()).unwrap_or(i64::MAX);
                    if granted < OVERDRAWN {
                        say(Message::Closed(flow));
                        return feed.fail(malformed());
                    }
                    // The feed tells the reader of errors of frames.
                    if feed.push(slice).await.is_err() {
                        return say(Message::Closed(flow));
                    }
                }
                Some(Arrival::End(ending)) => return feed.finish(ending),
                Some(Arrival::Fail(error)) => return feed.fail(error),
                Some(Arrival::Over(outcome, ending, completion, reader)) => {
                    match &outcome.failure {
                        None => feed.finish(ending),
                        Some(error) => feed.fail(error.clone()),
                    }
                    drop(reader);
                    return completion.tell(outcome);
                }
                None => return,
            },
            room = async {
                // An attached flow is never read here, and gets no credit.
                if !begun {
                    feed.wanted().await;
                }
                feed.room().await
            }, if granted <= 0 => {
                if room.is_err() {
                    return say(Message::Closed(flow));
                }
                let credit = u32::try_from(feed.credit()).unwrap_or(u32::MAX);
                granted += i64::from(credit);
                say(Message::Credit(flow, credit));
            }
            () = feed.closed(), if granted > 0 => return say(Message::Closed(flow)),
        }
    }
}

/// Feeds `feed` with `front` and then with `rest`. If the reader leaves, `rest` is read and dropped, so that its client can
/// go on. The drop of `_over` tells that `rest` has ended.
pub(super) async fn join(front: Stream, rest: Stream, feed: Feed, _over: oneshot::Sender<()>) {
    for part in [&front, &rest] {
        match forward(part, &feed).await {
            Forwarded::Whole => {}
            Forwarded::Failed(error) => return feed.fail(error),
            Forwarded::Unwanted => {
                drop(feed);
                front.close();
                while let Some(Ok(_)) = poll_fn(|context| rest.poll_next(context)).await {}
                return;
            }
        }
    }
    feed.finish(Ending::default());
}

/// The result of forwarding a part of a body.
enum Forwarded {
    Whole,
    Failed(Error),
    Unwanted,
}

/// Feeds `feed` with `stream` to its end, unless the reader leaves.
async fn forward(stream: &Stream, feed: &Feed) -> Forwarded {
    loop {
        if feed.room().await.is_err() {
            return Forwarded::Unwanted;
        }
        let next = tokio::select! {
            biased;
            next = poll_fn(|context| stream.poll_next(context)) => next,
            () = feed.closed() => return Forwarded::Unwanted,
        };
        match next {
            None => return Forwarded::Whole,
            Some(Err(error)) => return Forwarded::Failed(error),
            Some(Ok(delivery)) => {
                let slice = delivery.slice().clone();
                drop(delivery);
                if feed.push(slice).await.is_err() {
                    return Forwarded::Unwanted;
                }
            }
        }
    }
}
