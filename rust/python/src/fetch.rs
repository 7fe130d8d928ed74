//! Requests to origins, and bodies that are read or inspected without a client. These are functions, because an
//! [`Engine`] knows neither caches, nor inspection, nor the transports of clients.

use std::sync::Arc;

use penstock_engine::Code;
use penstock_engine::app::Order;
use penstock_engine::events;
use penstock_engine::framing::Framing as Cut;
use penstock_engine::origin::{self, Request, RequestBody};
use penstock_engine::pool::CopyReason;
use penstock_engine::store::{self, Overrides};
use penstock_engine::stream::{Feed, Stream};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cache::{Caching, OverrideSettings};
use crate::engine::Engine;
use crate::events::{Drain, EventPolicy, leave, policy as policy_of};
use crate::framing::Framing;
use crate::inspect::{Expected, Inspector, Watched};
use crate::port::LoopPort;
use crate::request::{Endpoint, Fields, Timeouts};
use crate::stream::{FrameStream, Source};
use crate::transport::Transport;
use crate::upload::Upload;

/// `penstock.engine.OriginRequest`, without its body.
#[derive(FromPyObject)]
pub(crate) struct OriginRequest<'py> {
    endpoint: Bound<'py, Endpoint>,
    method: String,
    target: String,
    headers: Bound<'py, Fields>,
    timeouts: Bound<'py, Timeouts>,
    framing: Option<Bound<'py, Framing>>,
    caching: Option<Bound<'py, Caching>>,
    overrides: Option<OverrideSettings>,
    near: Option<Bound<'py, Transport>>,
    plan: Option<Vec<u8>>,
    expected: Option<Bound<'py, Expected>>,
    is_clients: bool,
    is_tunnel: bool,
}

/// In a worker process: has the parent fetch where the client is.
fn fetch_at_edge(near: Option<Bound<'_, Transport>>, order: Order, feed: Feed, stream: &Stream) {
    match near.and_then(|transport| transport.get().edge()) {
        Some(edge) => edge.fetch(order, feed, stream),
        None => feed.fail(Code::ClientGone.error("the client left before the request was sent on")),
    }
}

fn start(py: Python<'_>, engine: &Engine, request: OriginRequest<'_>, body: RequestBody) -> PyResult<Source> {
    let OriginRequest { method, target, near, caching, .. } = request;
    let (headers, timeouts) = (Arc::clone(&request.headers.get().0), request.timeouts.get().0);
    let overrides = request.overrides.map(Overrides::from);
    // Where the pool is full, it waits for memory with all requests to origins.
    engine.check_open(py)?;
    let port = engine.port(py)?;
    let cut = request.framing.map_or(Cut::Raw, |framing| framing.get().0.clone());
    let (feed, stream) = engine.channel(py, &cut)?;
    engine.count_request();
    if let Some(plan) = request.plan {
        let order = Order {
            plan,
            method,
            target,
            fields: headers,
            body,
            timeouts,
            overrides,
            is_clients: request.is_clients,
            inspection: request.expected.and_then(|expected| expected.get().begin()),
        };
        fetch_at_edge(near, order, feed, &stream);
        return Ok(Source::new(stream, port));
    }
    let trace = near.as_ref().and_then(|transport| transport.get().trace());
    let (headers, trace) = origin::traced(headers, trace);
    let Endpoint { endpoint, upstream, authority } = request.endpoint.get();
    let request = Box::new(Request {
        endpoint: endpoint.clone(),
        upstream: upstream.clone(),
        method: method.into(),
        target,
        authority: authority.clone(),
        headers,
        body,
        timeouts,
        // Without a client it is the application's own request.
        is_proven: near.as_ref().is_none_or(|transport| transport.get().is_proven()),
        // The caller gets the error.
        reports: false,
        passing: origin::Passing::Body,
        // What is fetched near a client is mostly left to the engine.
        in_frames: near.is_none(),
        trace,
    });
    let threads = engine.threads();
    let thread =
        near.and_then(|transport| transport.get().thread(&threads)).unwrap_or_else(|| threads.pick());
    let origins = engine.origins(thread);
    match caching {
        None => LoopPort::spawn(port.bind(py), &threads, thread, || origin::fetch(origins, request, feed)),
        Some(caching) => {
            let access = caching.get().0.access(origins, overrides.unwrap_or_default());
            LoopPort::spawn(port.bind(py), &threads, thread, || store::fetch(access, request, feed));
        }
    }
    Ok(Source::new(stream, port))
}

/// Sends a request with a body that is in memory, or none.
#[pyfunction]
#[pyo3(signature = (engine, request, body))]
pub(crate) fn fetch(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    request: OriginRequest<'_>,
    body: Option<&Bound<'_, PyBytes>>,
) -> PyResult<Source> {
    let engine = engine.get();
    let body = match body {
        None => RequestBody::None,
        Some(bytes) => {
            engine.pool().count_copy(CopyReason::Upload, bytes.as_bytes().len());
            RequestBody::Bytes(bytes.as_bytes().to_vec())
        }
    };
    start(py, engine, request, body)
}

/// Sends an application's own request, without a body and past the cache: without an [`OriginRequest`], whose fields would
/// each be looked up.
#[pyfunction]
#[pyo3(signature = (engine, endpoint, method, target, headers, timeouts, framing))]
pub(crate) fn ask<'py>(
    engine: &Bound<'py, Engine>,
    endpoint: Bound<'py, Endpoint>,
    method: String,
    target: String,
    headers: Bound<'py, Fields>,
    timeouts: Bound<'py, Timeouts>,
    framing: Option<Bound<'py, Framing>>,
) -> PyResult<Source> {
    let request = OriginRequest {
        endpoint,
        method,
        target,
        headers,
        timeouts,
        framing,
        caching: None,
        overrides: None,
        near: None,
        plan: None,
        expected: None,
        is_clients: false,
        is_tunnel: false,
    };
    start(engine.py(), engine.get(), request, RequestBody::None)
}

/// Sends a request whose body is written to the [`Upload`]; of `length` bytes, if that is known.
#[pyfunction]
#[pyo3(signature = (engine, request, length))]
pub(crate) fn fetch_upload(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    request: OriginRequest<'_>,
    length: Option<u64>,
) -> PyResult<(Source, Upload)> {
    let engine = engine.get();
    let (feed, stream) = engine.channel(py, &Cut::Raw)?;
    let upload = Upload::new(feed, engine.pool().clone(), engine.port(py)?);
    let body =
        if request.is_tunnel { RequestBody::Tunnel(stream) } else { RequestBody::Stream { stream, length } };
    Ok((start(py, engine, request, body)?, upload))
}

/// The body of `stream` as a client gets it: events by `policy`, seen by `inspector`. The consumer of the result counts as
/// the client; `drain` says what happens after it has closed the result.
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
    engine.check_open(py)?;
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

/// As `relay_seen`, for a stream that is read to its end without a client. Also returns its end.
#[pyfunction]
#[pyo3(signature = (engine, stream, inspector))]
pub(crate) fn watch(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    stream: &Bound<'_, FrameStream>,
    inspector: Option<&Bound<'_, Inspector>>,
) -> PyResult<(Source, Watched)> {
    let engine = engine.get();
    engine.check_open(py)?;
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

/// The client of `stream` has disconnected: reads it on by `drain`, or by `policy` if it is an event stream; with
/// neither, cancels it. `inspected`: what inspects it, and how events are cut for that.
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
