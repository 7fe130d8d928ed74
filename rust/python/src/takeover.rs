//! How a process takes over from another: see `penstock_engine::takeover`.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use penstock_engine::access;
use penstock_engine::hub::named;
use penstock_engine::takeover::streams::{self, FrozenStream, Place, Resting, StreamState};
use penstock_engine::tls::{self, GivenSecret};
use penstock_engine::{Code, duplicate, takeover};
use pyo3::prelude::*;

use crate::errors::{IntoPython, os_error};
use crate::hex;
use crate::lock;

/// From now on no listener of this process accepts.
#[pyfunction]
pub(crate) fn hold_clients() {
    takeover::hold_clients();
}

/// From now on the listeners of this process accept.
#[pyfunction]
pub(crate) fn let_clients_in() {
    takeover::let_clients_in();
}

/// Duplicates of the sockets that the engine listens to, in the order in which it began. They are the caller's.
#[pyfunction]
pub(crate) fn listeners() -> PyResult<Vec<i32>> {
    let found = takeover::listeners().map_err(os_error)?;
    Ok(found.into_iter().map(IntoRawFd::into_raw_fd).collect())
}

/// Has listeners be opened on duplicates of `descriptors` where these have their addresses.
#[pyfunction]
pub(crate) fn give_listeners(descriptors: Vec<i32>) -> PyResult<()> {
    let sockets: Result<Vec<_>, _> = descriptors.into_iter().map(duplicate).collect();
    takeover::give_listeners(sockets.map_err(os_error)?);
    Ok(())
}

/// Closes the sockets that were given and that nothing listens to.
#[pyfunction]
pub(crate) fn close_given_listeners() {
    takeover::close_given_listeners();
}

/// The socket that was given for a place, an address with its port or `unix:` and a path, if there is one. It is the caller's.
#[pyfunction]
pub(crate) fn claim_listener(place: &str) -> Option<i32> {
    takeover::claim_listener(place).map(OwnedFd::into_raw_fd)
}

/// From now on connections on which no request is under way are given away, instead of closed, when their site drains.
#[pyfunction]
pub(crate) fn give_clients_away() {
    takeover::give_away();
}

/// Whether connections are given away.
#[pyfunction]
pub(crate) fn gives_clients_away() -> bool {
    takeover::gives_away()
}

/// Up to `most` connections to give away, after at most `within` seconds. They are the caller's.
#[pyfunction]
pub(crate) fn clients_given_away(py: Python<'_>, most: usize, within: f64) -> Vec<i32> {
    let left = py.detach(|| takeover::left(most, Duration::from_secs_f64(within)));
    left.into_iter().map(IntoRawFd::into_raw_fd).collect()
}

/// Serves a duplicate of a connection that another process has accepted. False if nothing listens where it was made to.
#[pyfunction]
pub(crate) fn adopt_client(descriptor: i32) -> PyResult<bool> {
    Ok(takeover::adopt(duplicate(descriptor).map_err(os_error)?))
}

/// An event stream that this process neither reads nor writes. Unless it is given, it goes on here when this is dropped.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct MovingStream {
    stream: Mutex<Option<FrozenStream>>,
    state: StreamState,
    client: i32,
    origin: Option<i32>,
    place: Option<Place>,
}

#[pymethods]
impl MovingStream {
    /// The descriptor of the client's connection, which is this object's.
    #[getter]
    fn client(&self) -> i32 {
        self.client
    }

    /// The descriptor of the origin's connection, which is this object's; None for a subscriber of a hub.
    #[getter]
    fn origin(&self) -> Option<i32> {
        self.origin
    }

    /// The id of the event before the place of a subscriber, and whether it was sent an event; None for a relay.
    #[getter]
    fn place(&self) -> Option<(&str, bool)> {
        self.place.as_ref().map(|place| (place.id.as_str(), place.has_had))
    }

    /// The head of the request, with a character for each byte.
    #[getter]
    fn request(&self) -> String {
        text_of(&self.state.request)
    }

    /// The head of the origin's response, with a character for each byte.
    #[getter]
    fn response(&self) -> String {
        text_of(&self.state.response)
    }

    /// Bytes that the client was sent after the head of its response.
    #[getter]
    fn sent(&self) -> u64 {
        self.state.sent
    }

    /// Bytes of the body among them.
    #[getter]
    fn payload(&self) -> u64 {
        self.state.payload
    }

    /// Seconds since the request came.
    #[getter]
    fn elapsed(&self) -> f64 {
        self.state.elapsed.as_secs_f64()
    }

    /// Seconds from the request to the head of the response.
    #[getter]
    fn first_byte(&self) -> f64 {
        self.state.first_byte.as_secs_f64()
    }

    /// It is the next process's. The descriptors are closed.
    fn give(&self) {
        if let Some(stream) = self.taken() {
            stream.give();
        }
    }

    /// It goes on here. The descriptors are closed.
    fn keep(&self) {
        drop(self.taken());
    }
}

/// From now on event streams move when they are asked to.
#[pyfunction]
pub(crate) fn begin_moving_streams() {
    streams::begin_moving();
}

/// No more event streams move.
#[pyfunction]
pub(crate) fn end_moving_streams() {
    streams::end_moving();
}

/// Up to `most` streams to move, after at most `within` seconds; None if all have moved that may.
#[pyfunction]
pub(crate) fn streams_to_move(py: Python<'_>, most: usize, within: f64) -> Option<Vec<MovingStream>> {
    let frozen = py.detach(|| streams::frozen(most, Duration::from_secs_f64(within)))?;
    Some(frozen.into_iter().map(MovingStream::from).collect())
}

impl MovingStream {
    fn taken(&self) -> Option<FrozenStream> {
        lock(&self.stream).take()
    }
}

impl From<FrozenStream> for MovingStream {
    fn from(stream: FrozenStream) -> Self {
        let (origin, place) = match &stream.resting {
            Resting::Origin(origin) => (Some(origin.as_raw_fd()), None),
            Resting::Place(place) => (None, Some(place.clone())),
        };
        Self {
            state: stream.state.clone(),
            client: stream.client.as_raw_fd(),
            origin,
            place,
            stream: Mutex::new(Some(stream)),
        }
    }
}

/// A stream of another process, as it is described here.
#[derive(FromPyObject)]
pub(crate) struct MovedStream {
    number: u64,
    request: String,
    response: String,
    sent: u64,
    payload: u64,
    elapsed: f64,
    first_byte: f64,
}

/// Takes up an event stream of another process, with duplicates of the descriptors of its client and its origin. Why it cannot go
/// on here, if it cannot.
#[pyfunction]
pub(crate) fn take_up_stream(stream: MovedStream, client: i32, origin: i32) -> PyResult<Option<String>> {
    let origin = duplicate(origin).map_err(os_error)?;
    let response = stream.response.clone();
    take_up(&stream.client(), client, Resting::Origin(origin), &response)
}

/// A subscriber of another process, as it is described here.
#[derive(FromPyObject)]
pub(crate) struct MovedSubscriber {
    number: u64,
    request: String,
    after: String,
    has_had: bool,
    sent: u64,
    payload: u64,
    elapsed: f64,
    first_byte: f64,
}

/// Takes up a subscriber of another process, with a duplicate of the descriptor of its client. Why it cannot go on here, if it
/// cannot.
#[pyfunction]
pub(crate) fn take_up_subscriber(subscriber: MovedSubscriber, client: i32) -> PyResult<Option<String>> {
    let MovedSubscriber { number, request, after, has_had, sent, payload, elapsed, first_byte } = subscriber;
    let place = Place { id: after, has_had };
    let moved = MovedClient { number, request, sent, payload, elapsed, first_byte };
    take_up(&moved, client, Resting::Place(place), "")
}

/// What is said of every stream that moves.
struct MovedClient {
    number: u64,
    request: String,
    sent: u64,
    payload: u64,
    elapsed: f64,
    first_byte: f64,
}

impl MovedStream {
    fn client(self) -> MovedClient {
        let Self { number, request, sent, payload, elapsed, first_byte, .. } = self;
        MovedClient { number, request, sent, payload, elapsed, first_byte }
    }
}

fn take_up(moved: &MovedClient, client: i32, resting: Resting, response: &str) -> PyResult<Option<String>> {
    let client = duplicate(client).map_err(os_error)?;
    let state = || {
        Some(StreamState {
            request: bytes_of(&moved.request)?,
            response: bytes_of(response)?,
            sent: moved.sent,
            payload: moved.payload,
            elapsed: Duration::try_from_secs_f64(moved.elapsed).ok()?,
            first_byte: Duration::try_from_secs_f64(moved.first_byte).ok()?,
        })
    };
    let taken = match state() {
        Some(state) => streams::take_up(moved.number, client, resting, state),
        None => Err("it is not described as a stream".to_owned()),
    };
    Ok(taken.err())
}

/// The names of the hubs of this process; one of two hubs is there twice.
#[pyfunction]
pub(crate) fn hub_names() -> Vec<String> {
    named::names()
}

/// Has the process at the other end of a duplicate of the socket `descriptor` follow the hub `name`. False if there is no such
/// hub, or more than one.
#[pyfunction]
pub(crate) fn lead_hub(name: &str, descriptor: i32) -> PyResult<bool> {
    Ok(named::lead(name, duplicate(descriptor).map_err(os_error)?).is_ok())
}

/// Has the hub `name` follow the one of the process at the other end of a duplicate of the socket `descriptor`. Returns when it
/// has all of it, after `within` seconds at most; whether that process has such a hub.
#[pyfunction]
pub(crate) fn follow_hub(py: Python<'_>, name: &str, descriptor: i32, within: f64) -> PyResult<bool> {
    let socket = duplicate(descriptor).map_err(os_error)?;
    match py.detach(|| named::follow(name, socket, Duration::from_secs_f64(within))) {
        Ok(()) => Ok(true),
        Err(named::Unlinked::Late) => {
            let detail = format!("the hub {name:?} has not got all of its history within {within} s");
            Err(Code::ProcessFailed.error(detail)).into_python(py)
        }
        Err(_) => Ok(false),
    }
}

/// Has the next process give the events of hubs their order. Returns when it does, with the number of hubs.
#[pyfunction]
pub(crate) fn hand_over_hubs(py: Python<'_>, within: f64) -> PyResult<usize> {
    let given = py.detach(|| named::hand_over(Duration::from_secs_f64(within)));
    given
        .map_err(|why| Code::ProcessFailed.error(format!("its hubs do not take over: {why}")))
        .into_python(py)
}

/// Bytes as text with a character for each.
fn text_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// What [`text_of`] was made of.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|character| u8::try_from(character).ok()).collect()
}

/// A secret that keys of session tickets are derived from. Times are seconds since 1970.
#[pyclass(frozen, get_all, module = "penstock._native")]
pub(crate) struct TicketSecret {
    period: f64,
    /// In hexadecimal digits.
    secret: String,
    made: f64,
    until: f64,
}

/// A secret of another process, as it is described here.
#[derive(FromPyObject)]
pub(crate) struct GivenTicketSecret {
    period: f64,
    secret: String,
    made: f64,
    until: f64,
}

/// The random secrets of session tickets of this process.
#[pyfunction]
pub(crate) fn ticket_secrets() -> Vec<TicketSecret> {
    let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let secret = |given: GivenSecret| TicketSecret {
        period: given.period.as_secs_f64(),
        secret: hex::written(&given.bytes),
        made: since(given.made),
        until: since(given.until),
    };
    tls::own_secrets().into_iter().map(secret).collect()
}

/// Begins with the random secrets of another process. What cannot be a secret is dropped.
#[pyfunction]
pub(crate) fn take_ticket_secrets(secrets: Vec<GivenTicketSecret>) {
    let secret = |given: GivenTicketSecret| {
        let seconds = |value| Duration::try_from_secs_f64(value).ok();
        Some(GivenSecret {
            period: seconds(given.period)?,
            bytes: hex::read(&given.secret)?,
            made: UNIX_EPOCH.checked_add(seconds(given.made)?)?,
            until: UNIX_EPOCH.checked_add(seconds(given.until)?)?,
        })
    };
    tls::take_secrets(secrets.into_iter().filter_map(secret).collect());
}

/// The secret of this process that keys of decisions are made with, in hexadecimal digits.
#[pyfunction]
pub(crate) fn decision_secret(py: Python<'_>) -> PyResult<String> {
    Ok(hex::written(&access::own_secret().into_python(py)?))
}

/// Has keys of decisions be made with the secret of another process. False: it is no secret, or keys were made already.
#[pyfunction]
pub(crate) fn take_decision_secret(secret: &str) -> bool {
    let bytes = hex::read(secret).and_then(|bytes| bytes.try_into().ok());
    bytes.is_some_and(access::take_secret)
}

/// Begins with the streams of these numbers, which were taken up.
#[pyfunction]
pub(crate) fn begin_streams(numbers: Vec<u64>) {
    streams::begin(numbers);
}

/// Begins with all streams that were taken up.
#[pyfunction]
pub(crate) fn begin_all_streams() {
    streams::begin_all();
}
