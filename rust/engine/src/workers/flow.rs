//! Bodies between the two processes. Whoever receives one grants what its own reader has room for, so that a slow reader
//! in one process holds the source back that is in the other.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot};

use super::codec::malformed;
use super::message::{Message, PIECE};
use super::wire::Wire;
use crate::app::{Completion, Outcome};
use crate::error::{Code, Error};
use crate::inspect::Inspector;
use crate::pool::{CLASSES, CopyReason, Pool, Purpose, Slice};
use crate::stream::{Ending, Feed, ResponseHead, Stream};
use crate::sync::{Mutex, lock};
use crate::wire::{Fields, Head};

/// How far below what was granted a flow may be: the last piece is sent whole, and the last frame of one that is cut.
#[expect(clippy::cast_possible_wrap, reason = "a small number")]
const OVERDRAWN: i64 = -((CLASSES[CLASSES.len() - 1] + PIECE) as i64);

/// What a flow may still send.
#[derive(Debug)]
pub(super) struct Credit {
    left: Mutex<Option<i64>>,
    /// Whether somebody else goes on with the flow.
    is_cut: AtomicBool,
    changed: Notify,
}

impl Credit {
    /// Nothing has been granted.
    pub(super) fn none() -> Arc<Self> {
        let (left, is_cut) = (Mutex::new(Some(0)), AtomicBool::new(false));
        Arc::new(Self { left, is_cut, changed: Notify::new() })
    }

    /// The other side grants more.
    pub(super) fn grant(&self, bytes: u32) {
        if let Some(left) = &mut *lock(&self.left) {
            *left = left.saturating_add(i64::from(bytes));
        }
        self.changed.notify_one();
    }

    /// Somebody else goes on with the stream: what was taken of it is still sent, and then the flow's end.
    pub(super) fn cut(&self) {
        // Relaxed: by the thread that reads it.
        self.is_cut.store(true, Ordering::Relaxed);
        if let Some(left) = &mut *lock(&self.left) {
            *left = i64::MAX;
        }
        self.changed.notify_one();
    }

    /// Nobody takes the rest.
    pub(super) fn close(&self) {
        *lock(&self.left) = None;
        self.changed.notify_one();
    }

    /// Waits until something may be sent, a whole piece, and what is too much counts against the next grant; or until nobody
    /// takes it: then false.
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

    /// Waits until nobody takes it.
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

/// Sends `stream` as `flow`, as far as `credit` goes, seen by `inspector`. Ends without a word when somebody else becomes its
/// consumer, unless the flow was cut for that, or nobody takes it.
pub(super) async fn give_out(
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
                // What is small is sent with others: each message takes a slab where it arrives.
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
                // Relaxed: of `cut`.
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

/// What has come of a flow.
#[derive(Debug)]
pub(super) enum Arrival {
    Interim(Head),
    Head(Box<ResponseHead>),
    Data(Slice),
    End(Ending),
    Fail(Error),
    /// The other side has done with it what there was to do: how it ended, and who is told, behind what is remembered of it
    /// as long as the reader is there.
    Over(Outcome, Ending, Completion, Stream),
}

/// Where what comes of a flow is put.
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

/// Takes `flow` in for the reader of `feed`, and grants what that has room for. Ends with the flow, or when nothing more
/// can come. It does not keep the connection open.
pub(super) async fn take_in(
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
                    // What is wrong with the frames is told to the reader by the feed.
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
                // What is attached is never read here, and nothing of it may come.
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

/// Feeds `feed` with `front`, and with `rest` behind it. What nobody takes of `rest` is read and forgotten, so that the client
/// that sends it can go on. The drop of `_over` says that no more of it will come.
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

/// How far a part of a body has come.
enum Forwarded {
    Whole,
    Failed(Error),
    Unwanted,
}

/// Feeds `feed` with `stream` to its end, as long as it is taken.
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
