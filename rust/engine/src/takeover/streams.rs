//! Streams of events that move from one process to the next between two events: frozen by the one before, taken up by the next
//! one, and then given away.
//!
//! The one before neither reads nor writes a frozen stream until it hears that the next one has not got it. The next one
//! begins to read and write when it is told to, or when the one before has died. So there are never two that write, and what
//! either has when the other dies goes on.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Condvar, LazyLock, PoisonError};
use std::task::Context;
use std::time::Duration;

use socket2::Socket;

use super::listener_of;
use crate::outcome::Outcome;
use crate::sync::{Arc, Mutex, lock};

/// What the next process has to know of a stream. The rest follows from its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamState {
    /// The head of the client's request, as it was sent.
    pub request: Vec<u8>,
    /// The head of the origin's response; empty for a subscriber of a hub.
    pub response: Vec<u8>,
    /// Bytes that the client was sent after the head of its response, with their framing.
    pub sent: u64,
    /// Bytes of the body among them.
    pub payload: u64,
    /// How long ago the request came.
    pub elapsed: Duration,
    /// How long after that the head of the response was sent.
    pub first_byte: Duration,
}

/// What a stream at rest goes on from.
#[derive(Debug)]
pub enum Resting {
    /// The connection of its origin.
    Origin(OwnedFd),
    /// Its place in the topic of a hub that the next process has as well.
    Place(Place),
}

/// A place in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The id of the event before it.
    pub id: String,
    /// Whether the subscriber was sent an event.
    pub has_had: bool,
}

/// A stream that this process neither reads nor writes. Dropped, it goes on here.
#[derive(Debug)]
pub struct FrozenStream {
    /// The connection of the client.
    pub client: OwnedFd,
    /// What it goes on from.
    pub resting: Resting,
    /// What else there is of it.
    pub state: StreamState,
    outcome: Arc<Outcome>,
}

impl FrozenStream {
    /// It is the next process's: this one forgets it.
    pub fn give(self) {
        self.outcome.decide(true);
    }
}

impl Drop for FrozenStream {
    fn drop(&mut self) {
        self.outcome.decide(false);
    }
}

/// Streams that are frozen and that nothing has asked for yet; `None` while streams do not move.
static FROZEN: Mutex<Option<VecDeque<FrozenStream>>> = Mutex::new(None);
static HAS_FROZEN: Condvar = Condvar::new();

/// What begins with the streams that were taken up, by their numbers.
static TAKEN_UP: LazyLock<Mutex<HashMap<u64, Begin>>> = LazyLock::new(Mutex::default);

/// Begins to read and write a stream that was taken up.
pub(crate) type Begin = Box<dyn FnOnce() + Send>;

/// Freezes a stream for the task of `context`. `None` if streams do not move: it goes on.
pub(crate) fn freeze(
    context: &Context<'_>,
    client: OwnedFd,
    resting: Resting,
    state: StreamState,
) -> Option<Arc<Outcome>> {
    let mut frozen = lock(&FROZEN);
    let frozen = frozen.as_mut()?;
    let outcome = Arc::new(Outcome::new(context.waker().clone()));
    frozen.push_back(FrozenStream { client, resting, state, outcome: Arc::clone(&outcome) });
    HAS_FROZEN.notify_one();
    Some(outcome)
}

/// Has streams move from now on.
pub fn begin_moving() {
    lock(&FROZEN).get_or_insert_default();
}

/// No more streams move. What is frozen and was not asked for goes on here.
pub fn end_moving() {
    let left = lock(&FROZEN).take();
    drop(left);
}

/// Up to `most` streams to give away: freezes so many, and waits `within` for one. `None` if all have moved that may.
pub fn frozen(most: usize, within: Duration) -> Option<Vec<FrozenStream>> {
    let is_empty = |frozen: &mut Option<VecDeque<_>>| frozen.as_ref().is_some_and(VecDeque::is_empty);
    let is_any_asked = !is_empty(&mut lock(&FROZEN)) || super::ask_to_move(most) > 0;
    let waited = HAS_FROZEN.wait_timeout_while(
        lock(&FROZEN),
        if is_any_asked { within } else { Duration::ZERO },
        is_empty,
    );
    let (mut frozen, _) = waited.unwrap_or_else(PoisonError::into_inner);
    let frozen = frozen.as_mut()?;
    let count = frozen.len().min(most);
    (count > 0 || is_any_asked).then(|| frozen.drain(..count).collect())
}

/// Takes up a stream of the process before, which is read and written from [`begin`] on.
///
/// # Errors
/// Why it cannot go on here.
pub fn take_up(number: u64, client: OwnedFd, resting: Resting, state: StreamState) -> Result<(), String> {
    let client = Socket::from(client);
    let listener = listener_of(&client).ok_or("nothing listens where its client has connected to")?;
    let begin = listener.server.take_up(client, resting, state)?;
    lock(&TAKEN_UP).insert(number, begin);
    Ok(())
}

/// The process before has given away the streams of these numbers.
pub fn begin(numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        let begin = lock(&TAKEN_UP).remove(&number);
        if let Some(begin) = begin {
            begin();
        }
    }
}

/// The process before has died, or ended: all that was taken up goes on here.
pub fn begin_all() {
    let all = std::mem::take(&mut *lock(&TAKEN_UP));
    for begin in all.into_values() {
        begin();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::task::{Poll, Waker};

    use super::*;

    fn state(sent: u64) -> StreamState {
        StreamState {
            request: Vec::new(),
            response: Vec::new(),
            sent,
            payload: 0,
            elapsed: Duration::ZERO,
            first_byte: Duration::ZERO,
        }
    }

    fn frozen_here(sent: u64) -> Option<Arc<Outcome>> {
        let (client, origin) = UnixStream::pair().unwrap();
        freeze(
            &Context::from_waker(Waker::noop()),
            client.into(),
            Resting::Origin(origin.into()),
            state(sent),
        )
    }

    /// One test: the streams of a process are one list.
    #[test]
    fn streams_freeze_while_they_move_and_go_on_unless_they_are_given() {
        let context = &Context::from_waker(Waker::noop());
        assert!(frozen_here(0).is_none(), "they do not move yet");
        assert!(frozen(1, Duration::ZERO).is_none());
        begin_moving();
        let outcomes: Vec<_> = (0..3).map(|sent| frozen_here(sent).unwrap()).collect();
        let mut given = frozen(2, Duration::ZERO).unwrap();
        assert_eq!(given.iter().map(|stream| stream.state.sent).collect::<Vec<_>>(), [0, 1]);
        assert!(outcomes.iter().all(|outcome| outcome.poll_given(context).is_pending()));
        given.pop().unwrap().give();
        drop(given);
        end_moving();
        let decided = outcomes.iter().map(|outcome| outcome.poll_given(context)).collect::<Vec<_>>();
        assert_eq!(decided, [Poll::Ready(false), Poll::Ready(true), Poll::Ready(false)]);
        assert!(frozen_here(0).is_none() && frozen(1, Duration::ZERO).is_none());
    }

    #[test]
    fn what_nothing_listens_for_is_refused() {
        let (client, origin) = UnixStream::pair().unwrap();
        let refusal = take_up(1, client.into(), Resting::Origin(origin.into()), state(0)).unwrap_err();
        assert!(refusal.contains("nothing listens"), "{refusal}");
        // A number that nothing is known of.
        begin([1, u64::MAX]);
    }
}
