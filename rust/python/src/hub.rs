//! `Hub` and `Topics`: how Python publishes, and how it has the engine serve who subscribes.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_engine::app::{self, Subscribing};
use penstock_engine::edge::{Pattern, Topics as EdgeTopics};
use penstock_engine::framing::Framing as Cut;
use penstock_engine::hub::{
    self, Counted, Event, HubConfig, HubStats, Id, LogStats, Published, Reading, Refused, Taken, Terms,
    TopicStats,
};
use penstock_engine::relay_spec::RouteLimits;
use penstock_engine::{Code, Error};
use pyo3::PyTraverseError;
use pyo3::exceptions::PyTypeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::access::Gate;
use crate::admission::{Admission, Decision, Guest};
use crate::engine::Engine;
use crate::errors::{IntoPython, exception};
use crate::framing::Framing;
use crate::lock;
use crate::port::Slot;
use crate::record::record;
use crate::relay_spec::HeaderEdits;
use crate::settings::Settings;
use crate::stream::{FrameStream, Source};
use crate::transport::Transport;
use crate::workers::{Lines, Plan};

/// Topics, their history and their subscribers. Any thread may use it.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Hub {
    shared: Arc<hub::Hub>,
    engine: Py<Engine>,
    /// Who loads topics is woken here when there is one to be loaded.
    loader: Mutex<Option<Slot>>,
}

/// `penstock.hub.HubCounts`.
fn hub_counts(py: Python<'_>, counted: Counted) -> PyResult<Bound<'_, PyAny>> {
    let Counted { events, bytes, delivered, subscribed, resumed, gaps, slow, dropped, conflated } = counted;
    record!(
        py,
        "penstock.hub",
        HubCounts { events, bytes, delivered, subscribed, resumed, gaps, slow, dropped, conflated }
    )
}

/// What `str` and `bytes` have as UTF-8.
fn utf8<'a>(py: Python<'_>, data: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(text) = data.cast::<PyString>() {
        return Ok(Cow::Borrowed(text.to_str()?.as_bytes()));
    }
    let bytes = match data.cast::<PyBytes>() {
        Ok(bytes) => Cow::Borrowed(bytes.as_bytes()),
        Err(_) => match data.extract::<Vec<u8>>() {
            Ok(bytes) => Cow::Owned(bytes),
            Err(_) => return Err(PyTypeError::new_err("the data of an event is str or bytes")),
        },
    };
    if std::str::from_utf8(&bytes).is_err() {
        return Err(exception(py, &Code::BadEvent.error("the data of an event is not UTF-8")));
    }
    Ok(bytes)
}

fn id(py: Python<'_>, text: &str) -> PyResult<Id> {
    text.parse().map_err(|_| {
        let detail = format!("{text:?} is no id of the form milliseconds-sequence or partition:offset");
        exception(py, &Code::BadEvent.error(detail))
    })
}

/// `penstock.log.Entry`: what an external log has.
#[derive(FromPyObject)]
struct LogEntry {
    position: String,
    /// None: the topic's end.
    event: Option<LogEvent>,
}

/// `penstock.log.Event`.
#[derive(FromPyObject)]
struct LogEvent {
    data: String,
    r#type: Option<String>,
    id: Option<String>,
    key: Option<String>,
    retry: Option<u64>,
}

/// Events that a topic has refused: how many, and why the first.
type RefusedRow = (usize, Option<String>);

fn refused_row(refused: Refused) -> RefusedRow {
    (refused.count, refused.error.map(|error| format!("{}: {error}", error.code().name())))
}

fn published<'a>(py: Python<'_>, entries: &'a [LogEntry]) -> PyResult<Vec<Published<'a>>> {
    let event = |event: &'a LogEvent| Event {
        data: event.data.as_bytes(),
        name: event.r#type.as_deref(),
        id: event.id.as_deref(),
        key: event.key.as_deref(),
        retry: event.retry,
        nameless: false,
    };
    let one = |entry: &'a LogEntry| {
        Ok(Published { id: id(py, &entry.position)?, event: entry.event.as_ref().map(event) })
    };
    entries.iter().map(one).collect()
}

#[pymethods]
impl Hub {
    /// `external`: what has been published is kept elsewhere, and comes from there by `load` and `take`.
    #[new]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        settings: Settings<HubConfig>,
        external: bool,
    ) -> PyResult<Self> {
        let (supplies, threads) = engine.get().lend(py)?;
        let shared = Arc::new(hub::Hub::new(supplies.pool, HubConfig { external, ..settings.into() }));
        engine.get().board().add_hub(&shared);
        let kept = Arc::downgrade(&shared);
        threads.spawn(0, move || hub::keep(kept));
        Ok(Self { shared, engine: engine.clone().unbind(), loader: Mutex::new(None) })
    }

    #[pyo3(signature = (topic, data, event, named, key, retry))]
    #[expect(clippy::too_many_arguments, reason = "the parts of an event, each once")]
    fn publish(
        &self,
        py: Python<'_>,
        topic: &str,
        data: &Bound<'_, PyAny>,
        event: Option<&str>,
        named: Option<&str>,
        key: Option<&str>,
        retry: Option<u64>,
    ) -> PyResult<String> {
        let data = utf8(py, data)?;
        let event = Event { data: &data, name: event, id: named, key, retry, nameless: false };
        self.shared.publish(topic, &event).map(|id| id.to_string()).into_python(py)
    }

    /// Opens a topic that is waiting for it with what an external log has after `floor`. Gives how many of that it refuses, and
    /// why the first; None: it is not waiting.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes it of the list")]
    fn load(
        &self,
        py: Python<'_>,
        topic: &str,
        floor: &str,
        entries: Vec<LogEntry>,
    ) -> PyResult<Option<RefusedRow>> {
        let entries = published(py, &entries)?;
        Ok(self.shared.load(topic, id(py, floor)?, &entries).into_python(py)?.map(refused_row))
    }

    /// Appends what an external log has next. How many were taken, why not more, and what was refused of them, as for `load`;
    /// None: the topic is not there, or waits.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes it of the list")]
    fn take(
        &self,
        py: Python<'_>,
        topic: &str,
        entries: Vec<LogEntry>,
    ) -> PyResult<Option<(usize, Option<String>, RefusedRow)>> {
        let entries = published(py, &entries)?;
        let taken = self.shared.take(topic, &entries).into_python(py)?;
        let row = |taken: Taken| {
            (taken.count, taken.full.map(|error| error.to_string()), refused_row(taken.refused))
        };
        Ok(taken.map(row))
    }

    /// Tells subscribers that events between what they have and `floor` may be missing. False as for `load`.
    fn interrupt(&self, py: Python<'_>, topic: &str, floor: &str) -> PyResult<bool> {
        self.shared.interrupt(topic, id(py, floor)?).into_python(py)
    }

    /// Sends an event that an external log does not have. False: there is no such topic.
    #[pyo3(signature = (topic, data, event, key, retry))]
    fn deliver(
        &self,
        py: Python<'_>,
        topic: &str,
        data: &Bound<'_, PyAny>,
        event: Option<&str>,
        key: Option<&str>,
        retry: Option<u64>,
    ) -> PyResult<bool> {
        let data = utf8(py, data)?;
        let event = Event { data: &data, name: event, key, retry, ..Event::default() };
        self.shared.deliver(topic, &event).into_python(py)
    }

    /// Whether an event could be published: as `publish`, but nothing is.
    #[pyo3(signature = (topic, data, event, named, key, retry))]
    #[expect(clippy::too_many_arguments, reason = "the parts of an event, each once")]
    fn check(
        &self,
        py: Python<'_>,
        topic: &str,
        data: &Bound<'_, PyAny>,
        event: Option<&str>,
        named: Option<&str>,
        key: Option<&str>,
        retry: Option<u64>,
    ) -> PyResult<()> {
        let data = utf8(py, data)?;
        let event = Event { data: &data, name: event, id: named, key, retry, nameless: false };
        self.shared.check(topic, &event).into_python(py)
    }

    /// What an external log had when the topic was wanted again has been appended.
    fn checked(&self, py: Python<'_>, topic: &str) -> PyResult<()> {
        self.shared.checked(topic).into_python(py)
    }

    /// Topics of which an external log is to be asked, and a future that is done when there are more. Only one may be waited for at a time.
    fn wanted<'py>(&self, py: Python<'py>) -> PyResult<(Vec<String>, Bound<'py, PyAny>)> {
        let slot = Slot::new(self.engine.get().port(py)?);
        let future = slot.park(py)?;
        let names = self.shared.wanted(slot.waker());
        if !names.is_empty() {
            slot.waker().wake_by_ref();
        }
        let previous = lock(&self.loader).replace(slot);
        drop(previous);
        Ok((names, future))
    }

    /// No more is to come. False: that had been said.
    fn finish(&self, py: Python<'_>, topic: &str) -> PyResult<bool> {
        self.shared.finish(topic).into_python(py)
    }

    /// `penstock.hub.HubStats`, without those of its log.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let HubStats { topics, subscribers, used, limit, counted } = self.shared.stats();
        let counts = hub_counts(py, counted)?;
        record!(py, "penstock.hub", HubStats { topics, subscribers, used, limit, counts })
    }

    /// Notes how it fares with its log.
    fn set_log(&self, stats: Settings<LogStats>) {
        self.shared.set_log(stats.into());
    }

    /// `penstock.hub.TopicStats`, if there is a topic of that name.
    fn topic_stats<'py>(&self, py: Python<'py>, topic: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(stats) = self.shared.topic_stats(topic) else { return Ok(None) };
        let TopicStats { subscribers, events, bytes, newest, floor, is_finished, counted, .. } = stats;
        record!(
            py,
            "penstock.hub",
            TopicStats {
                subscribers,
                events,
                bytes,
                newest: newest.to_string(),
                floor: floor.to_string(),
                finished: is_finished,
                counts: hub_counts(py, counted)?,
            }
        )
        .map(Some)
    }

    /// Subscribes as if an origin were asked: a head, then events, cut by `framing`.
    fn subscribe(
        &self,
        py: Python<'_>,
        topic: String,
        after: Option<String>,
        terms: Settings<Terms>,
        framing: &Bound<'_, Framing>,
    ) -> PyResult<Source> {
        let reading = Reading { topic, after, terms: terms.into(), tenant: None, address: None };
        let hub = Arc::clone(&self.shared);
        self.engine.get().feed_stream(py, framing.get(), None, |feed| hub::read(hub, reading, feed))
    }

    /// Asks whether a client may subscribe. `guest`: tenant and address. It is served until `lease` has run out if there is one.
    #[pyo3(signature = (topic, after, terms, guest, lease))]
    fn admit(
        &self,
        py: Python<'_>,
        topic: String,
        after: Option<String>,
        terms: Settings<Terms>,
        guest: (Option<String>, Option<String>),
        lease: Option<&Bound<'_, Lease>>,
    ) -> PyResult<Admission> {
        let engine = self.engine.get();
        engine.check(py)?;
        let (tenant, address) = guest;
        let reading = Reading { topic, after, terms: terms.into(), tenant, address };
        let asking = hub::admit(Arc::clone(&self.shared), reading);
        let asking = async move { asking.await.map(Decision::Here) };
        let lease = lease.map(|lease| lease.get().shared());
        Ok(Admission::new(asking, lease, Slot::new(engine.port(py)?)))
    }

    /// As `admit`, in a worker process: the parent is asked, over `lines` or for the request of `near`, and serves its client. `plan`
    /// describes hub and terms.
    #[pyo3(signature = (plan, topic, after, guest, lease, lines, near))]
    #[expect(clippy::too_many_arguments, reason = "as `admit`, and where")]
    fn admit_afar(
        &self,
        py: Python<'_>,
        plan: Vec<u8>,
        topic: String,
        after: Option<String>,
        guest: (Option<String>, Option<String>),
        lease: Option<&Bound<'_, Lease>>,
        lines: &Bound<'_, Lines>,
        near: Option<&Bound<'_, Transport>>,
    ) -> PyResult<Admission> {
        let engine = self.engine.get();
        let (tenant, address) = guest;
        let lease = lease.map(|lease| lease.get().shared());
        let subscribing = Subscribing { plan, topic, after, tenant, address, lease };
        let (feed, stream) = engine.channel(py, &Cut::Raw)?;
        match lines.get().edge(near) {
            Some(edge) => edge.subscribe(subscribing, feed, &stream),
            None => feed.fail(client_gone()),
        }
        let asking = async move {
            poll_fn(|context| stream.poll_head(context).map(|head| head.map(drop))).await?;
            Ok(Decision::Afar(stream))
        };
        Ok(Admission::new(asking, None, Slot::new(engine.port(py)?)))
    }

    /// As `subscribe`, in a worker process: the parent is asked over `lines`. `plan` describes hub and terms.
    fn subscribe_afar(
        &self,
        py: Python<'_>,
        plan: Vec<u8>,
        topic: String,
        after: Option<String>,
        framing: &Bound<'_, Framing>,
        lines: &Bound<'_, Lines>,
    ) -> PyResult<Source> {
        let engine = self.engine.get();
        let subscribing = Subscribing { plan, topic, after, tenant: None, address: None, lease: None };
        let (feed, stream) = engine.channel(py, &framing.get().0)?;
        lines.get().aside().subscribe(subscribing, feed, &stream);
        Ok(Source::new(stream, engine.port(py)?))
    }

    /// What worker processes subscribe by: this hub, and `terms`.
    fn plan(&self, terms: Settings<Terms>) -> Plan {
        Plan::of_topics(Arc::clone(&self.shared), terms.into())
    }

    /// The events of one who has been let in, cut by `framing`; read on the engine thread of the client of `near`, if that is given.
    #[pyo3(signature = (admission, framing, near))]
    fn read(
        &self,
        py: Python<'_>,
        admission: &Bound<'_, Admission>,
        framing: &Bound<'_, Framing>,
        near: Option<&Bound<'_, Transport>>,
    ) -> PyResult<Source> {
        let engine = self.engine.get();
        match admission.get().take(py)? {
            Guest::Here(admitted, lease) => {
                let hub = Arc::clone(&self.shared);
                let read = move |feed| hub::pass_on(hub, admitted, lease, feed);
                {
                    let thread = near.and_then(|near| near.get().thread(&engine.threads()));
                    engine.feed_stream(py, framing.get(), thread, read)
                }
            }
            Guest::Afar(stream) => {
                stream.set_framing(&framing.get().0).into_python(py)?;
                Ok(Source::new(stream, engine.port(py)?))
            }
        }
    }

    /// Publishes the events of `stream` to `topic`, and finishes it when that ends. `framing` is that of events.
    fn feed(
        &self,
        py: Python<'_>,
        topic: &str,
        stream: &Bound<'_, FrameStream>,
        framing: &Bound<'_, Framing>,
        error_event: String,
    ) -> PyResult<()> {
        stream.get().set_framing(py, framing.get())?;
        let claim = self.shared.begin_feed(topic).into_python(py)?;
        let stream = stream.get().hand_over(py)?;
        self.engine.get().feed_topic(claim, stream, error_event);
        Ok(())
    }

    /// As `feed`, in a worker process: the parent, which calls the hub `number`, publishes what `stream` brings. What it has fetched
    /// itself, for the request of `near`, does not come here. What is returned has no bytes: it ends when the topic is the
    /// stream's, or fails.
    #[pyo3(signature = (number, topic, stream, error_event, lines, near))]
    #[expect(clippy::too_many_arguments, reason = "as `feed`, and where")]
    fn feed_afar(
        &self,
        py: Python<'_>,
        number: u64,
        topic: String,
        stream: &Bound<'_, FrameStream>,
        error_event: String,
        lines: &Bound<'_, Lines>,
        near: Option<&Bound<'_, Transport>>,
    ) -> PyResult<Source> {
        let engine = self.engine.get();
        let stream = stream.get().hand_over(py)?;
        let near = near.filter(|_| stream.distant().is_some());
        let (feed, answer) = engine.channel(py, &Cut::Raw)?;
        match lines.get().edge(near) {
            Some(edge) => edge.feed(app::Source { stream, hub: number, topic, error_event }, feed),
            None => feed.fail(client_gone()),
        }
        Ok(Source::new(answer, engine.port(py)?))
    }

    /// What is left of `stream`, cut by `framing`, for whoever publishes it elsewhere, on the running loop. It is not its owner's
    /// any more.
    fn take_over(
        &self,
        py: Python<'_>,
        stream: &Bound<'_, FrameStream>,
        framing: &Bound<'_, Framing>,
    ) -> PyResult<Source> {
        stream.get().set_framing(py, framing.get())?;
        let port = self.engine.get().port(py)?;
        Ok(Source::new(stream.get().hand_over(py)?, port))
    }

    /// The names of all topics.
    fn topics(&self) -> Vec<String> {
        self.shared.names()
    }

    /// Ends all responses to subscribers behind a whole event, and takes nothing any more. Idempotent.
    fn close(&self) {
        self.shared.close();
        let loader = lock(&self.loader).take();
        drop(loader);
    }
}

fn client_gone() -> Error {
    Code::ClientGone.error("the client left before its request was sent on")
}

/// None, which is for ever, where there are more than can be counted.
fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// How long a subscription may go on.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Lease(hub::Lease);

impl Lease {
    pub(crate) fn shared(&self) -> hub::Lease {
        self.0.clone()
    }
}

#[pymethods]
impl Lease {
    /// For so many seconds from now on.
    #[new]
    fn new(seconds: f64) -> Self {
        Self(hub::Lease::new(duration(seconds)))
    }

    /// For so many seconds from now on, in place of what was said before. 0 ends it behind a whole event.
    fn renew(&self, seconds: Option<f64>) {
        self.0.renew(seconds.and_then(duration));
    }
}

/// Requests for topics that the engine answers alone.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Topics(Arc<EdgeTopics>, Option<Py<Gate>>);

impl Topics {
    pub(crate) fn shared(&self) -> Arc<EdgeTopics> {
        Arc::clone(&self.0)
    }

    pub(crate) fn gate(&self) -> Option<&Py<Gate>> {
        self.1.as_ref()
    }
}

#[pymethods]
impl Topics {
    #[new]
    #[pyo3(signature = (name, host, prefix, hub, terms, limits, response, gate))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a route, each once")]
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn new(
        name: String,
        host: Option<String>,
        prefix: String,
        hub: &Bound<'_, Hub>,
        terms: Settings<Terms>,
        limits: Settings<RouteLimits>,
        response: HeaderEdits<'_>,
        gate: Option<Py<Gate>>,
    ) -> PyResult<Self> {
        let (hub, pattern) = (Arc::clone(&hub.get().shared), Pattern { host, prefix });
        let response = response.edits()?;
        let before = gate.as_ref().map(|gate| gate.get().shared());
        let topics = EdgeTopics::new(name, pattern, hub, terms.into(), limits.into(), response, before);
        Ok(Self(Arc::new(topics), gate))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.1.as_ref().map_or(Ok(()), |gate| visit.call(gate))
    }
}
