//! What a gateway passes on, for Python: fields go from aiohttp's hands to the engine's without an object each.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use penstock_engine::cache::READ;
use penstock_engine::origin::own;
use penstock_engine::relay::{self, Client, FillFields, Redirects};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::errors::IntoPython;
use crate::request::{Endpoint, Fields};

/// What each side is told of the other.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Forwarding {
    pub(crate) policy: relay::Forwarding,
    /// Where the response may be stored for other clients: what of a client's request is sent.
    fill: Option<FillFields>,
    /// What stands for URLs of the origin in its responses.
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
}

impl From<Policy> for relay::Forwarding {
    fn from(policy: Policy) -> Self {
        let Policy { x_forwarded, forwarded, via, trust_incoming, preserve_host, map_location } = policy;
        Self { x_forwarded, forwarded, via, trust_incoming, preserve_host, map_location }
    }
}

/// Whether a target in origin-form has what a target may have, and nothing else.
#[pyfunction]
pub(crate) fn is_target(target: &str) -> bool {
    penstock_engine::wire::is_target(target)
}

/// Whether a request whose `fields` are these asks for WebSocket by all that this takes.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "extracted arguments")]
pub(crate) fn offers_websocket(method: &str, version: (u8, u8), fields: Received<'_>) -> bool {
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    version.0 == 1 && penstock_engine::wire::offers_websocket(method, version.1, &fields)
}

/// Whether an origin could take the path of a target for another one.
#[pyfunction]
pub(crate) fn has_dot_segments(target: &str) -> bool {
    penstock_engine::wire::has_dot_segments(target)
}

/// Names and values, as aiohttp's parser has them.
type Received<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>;

/// A name, and what stands in place of the fields of that name; `None`: nothing.
pub(crate) type Replaced<'py> = (Bound<'py, PyString>, Option<Bound<'py, PyString>>);

#[pymethods]
impl Forwarding {
    /// `fill` is a `penstock.config.Caching`, where what is answered may be stored. `redirects` is the origin, how its paths
    /// begin there, and how they do here; without it, what the origin says of itself is not mapped.
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

    /// The fields that go to the origin. `replaced` stand in place of others of their names; `None` sends none.
    /// `added` stand behind others of their names.
    #[pyo3(signature = (method, received, remote, scheme, host, version, replaced, added))]
    #[expect(clippy::too_many_arguments, reason = "what aiohttp knows of a request, each once")]
    #[expect(clippy::needless_pass_by_value, reason = "extracted arguments")]
    fn request_fields(
        &self,
        py: Python<'_>,
        method: &str,
        received: Received<'_>,
        remote: Option<&str>,
        scheme: &str,
        host: &Bound<'_, PyString>,
        version: (u8, u8),
        replaced: Option<Vec<Replaced<'_>>>,
        added: Option<Vec<(Bound<'_, PyString>, Bound<'_, PyString>)>>,
    ) -> PyResult<Fields> {
        let host = wire_bytes(host)?;
        let client = Client { address: remote, scheme, host: host.as_ref(), version };
        self.fields(py, method, &received, &client, replaced.as_deref(), added.as_deref())
    }
}

impl Forwarding {
    /// The fields of `request`, an aiohttp request of a client at `remote`, that go to the origin. What aiohttp works out
    /// and remembers of a request is asked for only where somebody has set it, or nothing else says it: three
    /// properties cost as much as all that is done here.
    pub(crate) fn fields_of(
        &self,
        request: &Bound<'_, PyAny>,
        remote: Option<SocketAddr>,
        replaced: Option<&[Replaced<'_>]>,
    ) -> PyResult<Fields> {
        let py = request.py();
        let received: Received<'_> = request.getattr(intern!(py, "raw_headers"))?.extract()?;
        let remembered = request.getattr(intern!(py, "_cache"))?.cast_into::<PyDict>()?;
        let (scheme, address) = (
            remembered.get_item(intern!(py, "scheme"))?,
            remembered.get_item(intern!(py, "remote"))?.filter(|address| !address.is_none()),
        );
        let address = match address {
            Some(address) => Some(Cow::Owned(address.extract::<String>()?)),
            None => remote.map(|remote| Cow::Owned(remote.ip().to_string())),
        };
        let host = match remembered.get_item(intern!(py, "host"))? {
            None => received
                .iter()
                .find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(b"host"))
                .map(|(_, value)| Cow::Borrowed(value.as_bytes())),
            Some(_) => None,
        };
        let host = if let Some(host) = host {
            host
        } else {
            let host = request.getattr(intern!(py, "host"))?.cast_into::<PyString>()?;
            Cow::Owned(wire_bytes(&host)?.into_owned())
        };
        let scheme = scheme.map(|scheme| scheme.extract::<String>()).transpose()?;
        let client = Client {
            address: address.as_deref(),
            scheme: scheme.as_deref().unwrap_or("http"),
            host: host.as_ref(),
            version: request.getattr(intern!(py, "version"))?.extract()?,
        };
        let method = request.getattr(intern!(py, "method"))?.cast_into::<PyString>()?;
        self.fields(py, method.to_str()?, &received, &client, replaced, None)
    }

    fn fields(
        &self,
        py: Python<'_>,
        method: &str,
        received: &Received<'_>,
        client: &Client<'_>,
        replaced: Option<&[Replaced<'_>]>,
        added: Option<&[(Bound<'_, PyString>, Bound<'_, PyString>)]>,
    ) -> PyResult<Fields> {
        let replaced = replaced
            .into_iter()
            .flatten()
            .map(|(name, value)| Ok((wire_bytes(name)?, value.as_ref().map(wire_bytes).transpose()?)))
            .collect::<PyResult<Vec<_>>>()?;
        let replaced: Vec<_> =
            replaced.iter().map(|(name, value)| (name.as_ref(), value.as_deref())).collect();
        let received = received.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let fill = self.fill.as_ref().and_then(|fill| fill.of_method(method));
        let fields = self.policy.request_fields(received, client, &replaced, fill);
        let mut fields = fields.into_python(py)?;
        for (name, value) in added.into_iter().flatten() {
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
        // Ours follows those of whom it has come through, in one field.
        let mut vias = Vec::new();
        for (name, value) in relay::redirected(self.redirects.as_ref(), relay::response_fields(head)) {
            if via.is_some() && name.eq_ignore_ascii_case(b"via") {
                vias.push(text(&value).into_owned());
            } else {
                fields.append((text(name), text(&value)))?;
            }
        }
        if let Some(via) = via {
            vias.push(via);
            fields.append(("Via", vias.join(", ")))?;
        }
        Ok(fields)
    }
}

/// What is not UTF-8 is read as ISO 8859-1 (RFC 9110, section 5.5): aiohttp writes UTF-8, and drops surrogates.
fn text(value: &[u8]) -> Cow<'_, str> {
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

/// The text as it stood on the wire: aiohttp decodes bytes that are not UTF-8 as lone surrogates.
pub(crate) fn wire_bytes<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(text) = text.to_str() {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let py = text.py();
    let bytes = text.call_method1(intern!(py, "encode"), ("utf-8", "surrogateescape"))?;
    Ok(Cow::Owned(bytes.cast_into::<PyBytes>()?.as_bytes().to_vec()))
}
