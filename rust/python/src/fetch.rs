//! Requests to origins, and bodies that are read or seen without a client: functions, because an [`Engine`] knows neither
//! caches, nor inspection, nor the transports of clients.

use std::sync::Arc;

use penstock_engine::Code;
use penstock_engine::app::Order;
use penstock_engine::events;
use penstock_engine::framing::Framing as Cut;
use penstock_engine::origin::{self, Request, RequestBody};
use penstock_engine::pool::CopyReason;
use penstock_engine::store::{self, Overrides};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cache::{Caching, OverrideSettings};
use crate::engine::Engine;
use crate::events::{Drain, EventPolicy, leave, policy as policy_of};
use crate::framing::Framing;
use crate::inspect::{Expected, Inspector, Watched};
use crate::request::{Endpoint, Fields, Timeouts};
use crate::stream::{FrameStream, Source};
use crate::transport::Transport;
use crate::upload::Upload;

/// The cache that is used, and what was decided about the request.
type Cached<'py> = (Bound<'py, Caching>, Option<OverrideSettings>);

/// In a worker process: the description of the relay, what was decided about the request, and what the parent reports.
type Planned<'py> = (Vec<u8>, Option<OverrideSettings>, Option<Bound<'py, Expected>>);

#[expect(clippy::too_many_arguments, reason = "the parts of a request, each once")]
fn start(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &Endpoint,
    method: &str,
    target: &str,
    headers: &Fields,
    body: RequestBody,
    timeouts: &Timeouts,
    framing: Option<&Bound<'_, Framing>>,
    caching: Option<Cached<'_>>,
    near: Option<&Bound<'_, Transport>>,
    plan: Option<Planned<'_>>,
    is_clients: bool,
) -> PyResult<Source> {
    let cut = framing.map_or(Cut::Raw, |framing| framing.get().0.clone());
    engine.check(py)?;
    let port = engine.port(py)?;
    let (feed, stream) = engine.channel(py, &cut)?;
    engine.count_request();
    if let Some((plan, overrides, expected)) = plan {
        let order = Order {
            plan,
            method: method.to_owned(),
            target: target.to_owned(),
            fields: Arc::clone(&headers.0),
            body,
            timeouts: timeouts.0,
            overrides: overrides.map(Overrides::from),
            is_clients,
            inspection: expected.and_then(|expected| expected.get().begin()),
        };
        let edge = near.and_then(|transport| transport.get().edge());
        match edge {
            Some(edge) => edge.fetch(order, feed, &stream),
            None => feed.fail(Code::ClientGone.error("the client left before the request was sent on")),
        }
        return Ok(Source::new(stream, port));
    }
    let request = Box::new(Request {
        endpoint: endpoint.endpoint.clone(),
        upstream: endpoint.upstream.clone(),
        method: method.to_owned(),
        target: target.to_owned(),
        authority: endpoint.authority.clone(),
        headers: Arc::clone(&headers.0),
        body,
        timeouts: timeouts.0,
        // Without a client it is what the application asks for by itself.
        is_proven: near.is_none_or(|transport| transport.get().is_proven()),
        // Who asked is told.
        reports: false,
    });
    let threads = engine.threads();
    let thread =
        near.and_then(|transport| transport.get().thread(&threads)).unwrap_or_else(|| threads.pick());
    let origins = engine.origins(thread);
    match caching {
        None => threads.spawn(thread, || origin::fetch(origins, request, feed)),
        Some((caching, overrides)) => {
            let overrides = overrides.map_or_else(Overrides::default, Overrides::from);
            let access = caching.get().0.access(origins, overrides);
            threads.spawn(thread, || store::fetch(access, request, feed));
        }
    }
    Ok(Source::new(stream, port))
}

/// Sends a request, on the engine thread of the client of `near`, if that is given and one of `engine`'s.
///
/// With a `plan`, in a worker process, it is fetched where the client of `near` is, from what that describes.
#[pyfunction]
#[pyo3(signature = (engine, endpoint, method, target, headers, body, timeouts, framing, caching, near, plan=None))]
#[expect(clippy::too_many_arguments, reason = "the parts of a request, each once")]
pub(crate) fn fetch(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    endpoint: &Bound<'_, Endpoint>,
    method: &str,
    target: &str,
    headers: &Bound<'_, Fields>,
    body: Option<&Bound<'_, PyBytes>>,
    timeouts: &Bound<'_, Timeouts>,
    framing: Option<&Bound<'_, Framing>>,
    caching: Option<Cached<'_>>,
    near: Option<&Bound<'_, Transport>>,
    plan: Option<Planned<'_>>,
) -> PyResult<Source> {
    let body = match body {
        None => RequestBody::None,
        Some(bytes) => {
            engine.get().pool().count_copy(CopyReason::Upload, bytes.as_bytes().len());
            RequestBody::Bytes(bytes.as_bytes().to_vec())
        }
    };
    start(
        py,
        engine.get(),
        endpoint.get(),
        method,
        target,
        headers.get(),
        body,
        timeouts.get(),
        framing,
        caching,
        near,
        plan,
        false,
    )
}

/// As `fetch`, for a body that follows piece by piece. `length` is announced, and then enforced. `is_clients`, with a plan:
/// it is the body of the client's request, and what has not come here goes on without coming here. `is_tunnel`: there is no
/// body, but what the client of a WebSocket sends once the origin has switched to it.
#[pyfunction]
#[pyo3(signature = (engine, endpoint, method, target, headers, length, timeouts, framing, caching, near, plan=None, is_clients=false, is_tunnel=false))]
#[expect(clippy::too_many_arguments, reason = "the parts of a request, each once")]
pub(crate) fn fetch_upload(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    endpoint: &Bound<'_, Endpoint>,
    method: &str,
    target: &str,
    headers: &Bound<'_, Fields>,
    length: Option<u64>,
    timeouts: &Bound<'_, Timeouts>,
    framing: Option<&Bound<'_, Framing>>,
    caching: Option<Cached<'_>>,
    near: Option<&Bound<'_, Transport>>,
    plan: Option<Planned<'_>>,
    is_clients: bool,
    is_tunnel: bool,
) -> PyResult<(Source, Upload)> {
    let (feed, stream) = engine.get().channel(py, &Cut::Raw)?;
    let upload = Upload::new(feed, engine.get().pool().clone(), engine.get().port(py)?);
    let body = if is_tunnel { RequestBody::Tunnel(stream) } else { RequestBody::Stream { stream, length } };
    let source = start(
        py,
        engine.get(),
        endpoint.get(),
        method,
        target,
        headers.get(),
        body,
        timeouts.get(),
        framing,
        caching,
        near,
        plan,
        is_clients,
    )?;
    Ok((source, upload))
}

/// The body `stream` as `policy` has the events of one sent that is cut into them with every byte, seen by `inspector`. Who
/// takes it is the client; when that leaves, `drain` says what becomes of it.
#[pyfunction]
#[pyo3(signature = (engine, stream, policy, drain, inspector))]
pub(crate) fn relay_seen(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    stream: &Bound<'_, FrameStream>,
    policy: Option<&Bound<'_, EventPolicy>>,
    drain: Option<&Bound<'_, Drain>>,
    inspector: Option<&Bound<'_, Inspector>>,
) -> PyResult<Source> {
    let engine = engine.get();
    engine.check(py)?;
    let (port, stream) = (engine.port(py)?, stream.get().hand_over(py)?);
    let (feed, relayed) = engine.channel(py, &Cut::Raw)?;
    let (policy, inspector) =
        (policy_of(policy), inspector.map(|inspector| inspector.get().response.clone()));
    let leave = policy.as_ref().map_or_else(|| leave(drain), |policy| policy.leave.clone());
    let meter = engine.meter();
    let work = move || events::pipe(stream, policy, leave, inspector, meter, feed, None);
    let threads = engine.threads();
    threads.spawn(threads.pick(), work);
    Ok(Source::new(relayed, port))
}

/// As `relay_seen`, of a stream that is read to its end for no client; and how it ends.
#[pyfunction]
#[pyo3(signature = (engine, stream, inspector))]
pub(crate) fn watch(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    stream: &Bound<'_, FrameStream>,
    inspector: Option<&Bound<'_, Inspector>>,
) -> PyResult<(Source, Watched)> {
    let engine = engine.get();
    engine.check(py)?;
    let (port, stream) = (engine.port(py)?, stream.get().hand_over(py)?);
    let (feed, relayed) = engine.channel(py, &Cut::Raw)?;
    let inspector = inspector.map(|inspector| inspector.get().response.clone());
    let meter = engine.meter();
    let (watched, ended) = Watched::new(port.clone_ref(py));
    let work = move || events::pipe(stream, None, leave(None), inspector, meter, feed, Some(ended));
    let threads = engine.threads();
    threads.spawn(threads.pick(), work);
    Ok((Source::new(relayed, port), watched))
}

/// The client of `stream` has left: reads it on, by `drain`, or by `policy` if it is one of events. Neither: cancels it.
/// `inspected` is what sees it, and how events are cut for that.
#[pyfunction]
#[pyo3(signature = (engine, stream, drain, policy, inspected))]
pub(crate) fn read_on(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    stream: &Bound<'_, FrameStream>,
    drain: Option<&Bound<'_, Drain>>,
    policy: Option<&Bound<'_, EventPolicy>>,
    inspected: Option<(Bound<'_, Inspector>, Bound<'_, Framing>)>,
) -> PyResult<()> {
    let (engine, stream) = (engine.get(), stream.get().hand_over(py)?);
    let (leave, policy, meter) = (leave(drain), policy_of(policy), engine.meter());
    let inspection =
        inspected.map(|(inspector, framing)| (inspector.get().response.clone(), framing.get().0.clone()));
    let work = move || events::read_on(stream, leave, policy, inspection, meter);
    let threads = engine.threads();
    threads.spawn(threads.pick(), work);
    Ok(())
}
