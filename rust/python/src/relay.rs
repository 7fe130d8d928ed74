//! The fields that a gateway passes on, for Python: without a Python object for each.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use penstock_engine::app::Ends;
use penstock_engine::cache::READ;
use penstock_engine::origin::own;
use penstock_engine::relay::{self, Client, FillFields, Redirects};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::errors::IntoPython;
use crate::request::{Endpoint, Fields};

/// Which fields each side gets of the other's, and which are added.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Forwarding {
    pub(crate) policy: relay::Forwarding,
    /// If the response may be stored for other clients: the fields of a client's request that are
    /// sent.
    fill: Option<FillFields>,
    /// Replaces URLs of the origin in its responses.
    pub(crate) redirects: Option<Redirects>,
}

/// `keep_fields` and `drop_fields` of `penstock.config.Caching`.
#[derive(FromPyObject)]
struct FillSettings {
    keep_fields: Option<Vec<String>>,
    drop_fields: Vec<String>,
}

impl From<FillSettings> for FillFields {
    fn from(settings: FillSettings) -> Self {
        Self::new(settings.keep_fields, settings.drop_fields, &READ)
    }
}

/// `penstock.config.Forwarding`, validated there.
#[derive(FromPyObject)]
#[expect(clippy::struct_excessive_bools, reason = "as in the configuration")]
pub(crate) struct Policy {
    x_forwarded: bool,
    forwarded: bool,
    via: Option<String>,
    trust_incoming: bool,
    preserve_host: bool,
    map_location: bool,
    trailers: bool,
    grpc_web: Option<WebPolicy>,
}

/// `penstock.config.GrpcWeb`.
#[derive(FromPyObject)]
struct WebPolicy {
    origins: Vec<String>,
    expose: Vec<String>,
    max_age: f64,
}

impl From<Policy> for relay::Forwarding {
    fn from(policy: Policy) -> Self {
        let Policy { x_forwarded, forwarded, trust_incoming, preserve_host, map_location, trailers, .. } =
            policy;
        let via = policy.via.map(Into::into);
        let grpc_web = policy.grpc_web.map(|WebPolicy { origins, expose, max_age }| relay::GrpcWeb {
            origins,
            expose,
            max_age: Duration::try_from_secs_f64(max_age).unwrap_or_default().as_secs(),
        });
        Self { x_forwarded, forwarded, via, trust_incoming, preserve_host, map_location, trailers, grpc_web }
    }
}

/// Whether a target is valid in origin-form.
#[pyfunction]
pub(crate) fn is_target(target: &str) -> bool {
    penstock_engine::wire::is_target(target)
}

/// Whether a request with these `fields` is a valid WebSocket handshake.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "extracted arguments")]
pub(crate) fn offers_websocket(method: &str, version: (u8, u8), fields: Received<'_>) -> bool {
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    version.0 == 1 && penstock_engine::wire::offers_websocket(method, version.1, &fields)
}

/// Whether an origin could resolve the path of a target to another one.
#[pyfunction]
pub(crate) fn has_dot_segments(target: &str) -> bool {
    penstock_engine::wire::has_dot_segments(target)
}

/// Names and values, in the form of aiohttp's parser.
pub(crate) type Received<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>;

/// A name, and the value in place of those of the fields of that name; `None` removes them.
pub(crate) type Replaced<'py> = (Bound<'py, PyString>, Option<Bound<'py, PyString>>);

/// A field after the others of its name.
pub(crate) type Added<'py> = (Bound<'py, PyString>, Bound<'py, PyString>);

/// How the fields that an origin gets differ from those of the request.
pub(crate) struct Changes<'py> {
    /// In place of all fields of the request.
    pub(crate) received: Option<Received<'py>>,
    pub(crate) replaced: Option<Vec<Replaced<'py>>>,
    pub(crate) added: Option<Vec<Added<'py>>>,
}

#[pymethods]
impl Forwarding {
    /// `fill`: a `penstock.config.Caching`, if the response may be stored. `redirects`: the origin, the prefix of its
    /// paths, and the prefix for clients; without it, URLs of the origin are not mapped.
    #[new]
    #[pyo3(signature = (policy, fill=None, redirects=None))]
    fn new(
        policy: Policy,
        fill: Option<FillSettings>,
        redirects: Option<(Bound<'_, Endpoint>, String, String)>,
    ) -> Self {
        let redirects = redirects.filter(|_| policy.map_location).map(|(origin, from, to)| {
            let Endpoint { endpoint, upstream, .. } = origin.get();
            Redirects::new(own(endpoint, upstream.clone()), from, to)
        });
        Self { policy: policy.into(), fill: fill.map(Into::into), redirects }
    }

    /// The fields that go to the origin, of an aiohttp request on a transport that is not the engine's; see [`Changes`].
    #[pyo3(signature = (request, received, replaced, added))]
    fn request_fields<'py>(
        &self,
        request: &Bound<'py, PyAny>,
        received: Option<Received<'py>>,
        replaced: Option<Vec<Replaced<'py>>>,
        added: Option<Vec<Added<'py>>>,
    ) -> PyResult<Fields> {
        self.fields(request, None, Changes { received, replaced, added })
    }
}

impl Forwarding {
    /// The fields of an aiohttp request that go to the origin. `ends`: its client is the engine's. Then a property is read
    /// only if the application has set it, or there is no other source: three of them cost as much as all that is done here.
    pub(crate) fn fields<'py>(
        &self,
        request: &Bound<'py, PyAny>,
        ends: Option<&Ends>,
        changes: Changes<'py>,
    ) -> PyResult<Fields> {
        let py = request.py();
        let received = match changes.received {
            Some(received) => received,
            None => request.getattr(intern!(py, "raw_headers"))?.extract()?,
        };
        let cached =
            ends.map(|_| request.getattr(intern!(py, "_cache"))?.cast_into::<PyDict>().map_err(PyErr::from));
        let cached = cached.transpose()?;
        let property = |name: &Bound<'py, PyString>| match &cached {
            Some(cached) => cached.get_item(name),
            None => request.getattr(name).map(Some),
        };
        let scheme = property(intern!(py, "scheme"))?.map(|scheme| scheme.extract::<String>()).transpose()?;
        let address = match property(intern!(py, "remote"))?.filter(|address| !address.is_none()) {
            Some(address) => Some(address.extract::<String>()?),
            None => ends.and_then(|ends| ends.remote).map(|remote| remote.ip().to_string()),
        };
        let is_secure = ends.is_some_and(|ends| ends.tls.is_some());
        let sent = received.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(b"host"));
        let host = match (property(intern!(py, "host"))?, sent) {
            (None, Some((_, host))) => Cow::Borrowed(host.as_bytes()),
            (Some(host), _) => Cow::Owned(wire_bytes(host.cast()?)?.into_owned()),
            (None, None) => {
                let host = request.getattr(intern!(py, "host"))?;
                Cow::Owned(wire_bytes(host.cast()?)?.into_owned())
            }
        };
        let client = Client {
            address: address.as_deref(),
            scheme: scheme.as_deref().unwrap_or(if is_secure { "https" } else { "http" }),
            host: host.as_ref(),
            version: request.getattr(intern!(py, "version"))?.extract()?,
        };
        let method = request.getattr(intern!(py, "method"))?.cast_into::<PyString>()?;
        let method = method.to_str()?;
        let replaced = changes
            .replaced
            .iter()
            .flatten()
            .map(|(name, value)| Ok((wire_bytes(name)?, value.as_ref().map(wire_bytes).transpose()?)))
            .collect::<PyResult<Vec<_>>>()?;
        let replaced: Vec<_> =
            replaced.iter().map(|(name, value)| (name.as_ref(), value.as_deref())).collect();
        let fill = self.fill.as_ref().and_then(|fill| fill.of_method(method));
        let received = received.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut fields = self.policy.request_fields(received, &client, &replaced, fill).into_python(py)?;
        for (name, value) in changes.added.iter().flatten() {
            fields.push(&wire_bytes(name)?, &wire_bytes(value)?);
        }
        Ok(Fields(Arc::new(fields)))
    }

    /// The fields that go to the client, as text for aiohttp.
    pub(crate) fn response_fields<'py>(
        &self,
        py: Python<'py>,
        head: &penstock_engine::wire::Head,
    ) -> PyResult<Bound<'py, PyList>> {
        let fields = PyList::empty(py);
        let via = self.policy.via((1, head.minor_version));
        // Ours is appended to those of other proxies, in one field.
        let mut vias = Vec::new();
        for (name, value) in relay::redirected(self.redirects.as_ref(), relay::response_fields(head)) {
            if via.is_some() && name.eq_ignore_ascii_case(b"via") {
                vias.push(text(&value).into_owned());
            } else {
                fields.append((text(name), text(&value)))?;
            }
        }
        if let Some(via) = via {
            vias.push(via.into_owned());
            fields.append(("Via", vias.join(", ")))?;
        }
        Ok(fields)
    }
}

/// Bytes that are not UTF-8 are read as ISO 8859-1 (RFC 9110, section 5.5): aiohttp writes UTF-8, and drops
/// surrogates.
pub(crate) fn text(value: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(value) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(2 * value.len());
    for chunk in value.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| char::from(*byte)));
    }
    Cow::Owned(text)
}

/// The bytes from the wire: aiohttp decodes bytes that are not UTF-8 as lone surrogates.
pub(crate) fn wire_bytes<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(text) = text.to_str() {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let py = text.py();
    let bytes = text.call_method1(intern!(py, "encode"), ("utf-8", "surrogateescape"))?;
    Ok(Cow::Owned(bytes.cast_into::<PyBytes>()?.as_bytes().to_vec()))
}
