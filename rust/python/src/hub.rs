//! `Hub` and `Topics`: how Python publishes, and how the engine serves subscribers.

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
use penstock_engine::work::{Work, worked};
use penstock_engine::{Code, Error};
use pyo3::PyTraverseError;
use pyo3::exceptions::PyTypeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::access::Gate;
use crate::admission::{Admission, Decision, Guest};
use crate::asking::{Asking, Given, HubAnswer, TopicClaim};
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
    /// Woken when there is a topic to load from the external log.
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

/// The UTF-8 of `str` or `bytes`.
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

/// `penstock.log.Entry`.
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

/// The number of events that a topic has refused, and the reason for the first.
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
    /// `external`: an external log keeps the events, which come from there by `load` and `take`. `name`: what it is called in
    /// upgrades, if it is a part of them.
    #[new]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        settings: Settings<HubConfig>,
        external: bool,
        name: Option<String>,
    ) -> PyResult<Self> {
        let (supplies, threads) = engine.get().lend(py)?;
        let shared = Arc::new(hub::Hub::new(supplies.pool, HubConfig { external, ..settings.into() }));
        engine.get().board().add_hub(&shared);
        let kept = Arc::downgrade(&shared);
        threads.spawn(0, move || worked(Work::Hub, hub::keep(kept)));
        if let Some(name) = name {
            hub::named::give_name(&shared, name, threads);
        }
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
    ) -> PyResult<Py<PyAny>> {
        let data = utf8(py, data)?;
        let event = Event { data: &data, name: event, id: named, key, retry, nameless: false };
        let answer = self.shared.publish(topic, &event).into_python(py)?;
        self.given(py, answer, Given::Id)
    }

    /// Opens a topic that waits to be loaded, with the entries of an external log after `floor`. Returns the refused ones;
    /// `None`: the topic does not wait.
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

    /// Appends the next entries of an external log. Returns how many were taken, why not more, and the refused ones of
    /// them; `None`: there is no such topic, or it waits to be loaded.
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

    /// Tells subscribers that events between their last one and `floor` may be missing. False: there is no
    /// such topic, or it waits to be loaded.
    fn interrupt(&self, py: Python<'_>, topic: &str, floor: &str) -> PyResult<bool> {
        self.shared.interrupt(topic, id(py, floor)?).into_python(py)
    }

    /// Sends an event that is not in the external log. False: there is no such topic.
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

    /// Raises as `publish`, and publishes nothing.
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

    /// The entries that the external log had when the topic was wanted again have been appended.
    fn checked(&self, py: Python<'_>, topic: &str) -> PyResult<()> {
        self.shared.checked(topic).into_python(py)
    }

    /// Topics to load from the external log, and a future that is done when there are more. A second one replaces the
    /// first.
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

    /// Finishes a topic. False: it is finished already.
    fn finish(&self, py: Python<'_>, topic: &str) -> PyResult<Py<PyAny>> {
        let answer = self.shared.finish(topic).into_python(py)?;
        self.given(py, answer, Given::IsNews)
    }

    /// The right to feed a topic.
    fn claim(&self, py: Python<'_>, topic: &str) -> PyResult<Py<PyAny>> {
        let answer = self.shared.begin_feed(topic).into_python(py)?;
        self.given(py, answer, Given::Claim)
    }

    /// `penstock.hub.HubStats`, without those of its log.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let HubStats { topics, subscribers, used, limit, counted } = self.shared.stats();
        let counts = hub_counts(py, counted)?;
        record!(py, "penstock.hub", HubStats { topics, subscribers, used, limit, counts })
    }

    /// Sets the statistics of its log.
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

    /// Subscribes. The source is like the response of an origin: a head, then events, cut by
    /// `framing`.
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

    /// Asks whether a client may subscribe. `guest`: its tenant and address. `lease`: how long it is served.
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

    /// As `admit`, in a worker process: asks the parent, over `lines` or for the request of `near`, whose client the parent
    /// then serves. `plan` describes hub and terms.
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

    /// As `subscribe`, in a worker process: asks the parent over `lines`. `plan` describes hub and terms.
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

    /// The plan by which worker processes subscribe to this hub.
    fn plan(&self, terms: Settings<Terms>) -> Plan {
        Plan::of_topics(Arc::clone(&self.shared), terms.into())
    }

    /// The events of an admitted subscriber, cut by `framing`. The engine thread of the client of `near` reads them, if
    /// that is given.
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

    /// Publishes the events of `stream`, which `framing` cuts, to the topic of `claim`, and finishes the topic when the
    /// stream ends.
    fn feed(
        &self,
        py: Python<'_>,
        claim: &Bound<'_, TopicClaim>,
        stream: &Bound<'_, FrameStream>,
        framing: &Bound<'_, Framing>,
        error_event: String,
    ) -> PyResult<()> {
        stream.get().set_framing(py, framing.get())?;
        let stream = stream.get().hand_over(py)?;
        let claim = claim.get().take(py)?;
        self.engine.get().feed_topic(claim, stream, error_event);
        Ok(())
    }

    /// As `feed`, in a worker process: the parent publishes `stream` to its hub `number`. A body that the parent itself
    /// fetches, for the request of `near`, does not pass here. The result has no bytes: it ends when the topic has this
    /// feed, or fails.
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

    /// The rest of `stream`, cut by `framing`, on the running loop. It takes the rest from the present owner.
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

    /// Ends all responses to subscribers after a whole event, and refuses further calls. Idempotent.
    fn close(&self) {
        self.shared.close();
        let loader = lock(&self.loader).take();
        drop(loader);
    }
}

impl Hub {
    /// What a call gives, or a `HubAnswer` that gives it where another process has to.
    fn given<T: Send + 'static>(
        &self,
        py: Python<'_>,
        answer: hub::Answer<T>,
        make: fn(T) -> Given,
    ) -> PyResult<Py<PyAny>> {
        match answer {
            hub::Answer::Now(given) => make(given).into_object(py).map(Bound::unbind),
            hub::Answer::Later(asking) => {
                let slot = Slot::new(self.engine.get().port(py)?);
                let asking = Asking::new(async move { asking.await.map(make) }, slot);
                Ok(Py::new(py, HubAnswer(asking))?.into_any())
            }
        }
    }
}

fn client_gone() -> Error {
    Code::ClientGone.error("the client left before its request was sent on")
}

/// `None`, no limit, for more seconds than a duration can have.
fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// The time limit of a subscription.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Lease(hub::Lease);

impl Lease {
    pub(crate) fn shared(&self) -> hub::Lease {
        self.0.clone()
    }
}

#[pymethods]
impl Lease {
    /// Expires `seconds` from now.
    #[new]
    fn new(seconds: f64) -> Self {
        Self(hub::Lease::new(duration(seconds)))
    }

    /// Expires `seconds` from now instead; `None`: never. 0 ends the subscription after a whole event.
    fn renew(&self, seconds: Option<f64>) {
        self.0.renew(seconds.and_then(duration));
    }
}

/// `penstock.web.topics.TopicsRoute`, without its hub and its prefix, which a sub-application makes longer.
#[derive(FromPyObject)]
struct TopicsRoute<'py> {
    name: String,
    host: Option<String>,
    subscriptions: Settings<Terms>,
    limits: Settings<RouteLimits>,
    response: HeaderEdits<'py>,
}

/// A native route to topics, and its gate.
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
    #[pyo3(signature = (hub, route, prefix, gate))]
    fn new(
        hub: &Bound<'_, Hub>,
        route: TopicsRoute<'_>,
        prefix: String,
        gate: Option<Py<Gate>>,
    ) -> PyResult<Self> {
        let TopicsRoute { name, host, subscriptions, limits, response } = route;
        let (hub, pattern) = (Arc::clone(&hub.get().shared), Pattern { host, prefix });
        let response = response.edits()?;
        let before = gate.as_ref().map(|gate| gate.get().shared());
        let topics =
            EdgeTopics::new(name, pattern, hub, subscriptions.into(), limits.into(), response, before);
        Ok(Self(Arc::new(topics), gate))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.1.as_ref().map_or(Ok(()), |gate| visit.call(gate))
    }
}
