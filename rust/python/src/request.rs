//! The parts of a request that Python makes once and uses again.

use std::path::PathBuf;
use std::sync::Arc;

use penstock_engine::Code;
use penstock_engine::origin::{self, Scheme};
use penstock_engine::wire;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyMapping, PyString, PyTuple};

use crate::errors::{IntoPython, exception};
use crate::settings::Settings;

/// An origin: connections are pooled by it.
#[pyclass(frozen, module = "penstock._native")]
#[expect(clippy::struct_field_names, reason = "what it is called in the engine")]
pub(crate) struct Endpoint {
    pub(crate) endpoint: origin::Endpoint,
    /// The value of `Host`, unless the request has its own.
    pub(crate) authority: Arc<str>,
    /// The origins, one of which gets the request in its place.
    pub(crate) upstream: Option<Arc<origin::Upstream>>,
}

#[pymethods]
impl Endpoint {
    #[new]
    #[pyo3(signature = (scheme, host, port, unix))]
    fn new(py: Python<'_>, scheme: &str, host: &str, port: u16, unix: Option<PathBuf>) -> PyResult<Self> {
        let (scheme, default_port) = match scheme {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            other => {
                return Err(exception(
                    py,
                    &Code::BadRequest.error(format!("{other:?} is neither http nor https")),
                ));
            }
        };
        let endpoint = origin::Endpoint::new(scheme, host, port, unix).into_python(py)?;
        let bare = endpoint.host();
        let host = if bare.contains(':') { format!("[{bare}]") } else { bare.to_owned() };
        let authority = if port == default_port { host } else { format!("{host}:{port}") };
        Ok(Self { endpoint, authority: authority.into(), upstream: None })
    }

    #[getter]
    fn authority(&self) -> &str {
        &self.authority
    }
}

/// Header fields, ready for requests.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Fields(pub(crate) Arc<wire::Fields>);

#[pymethods]
impl Fields {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn new(pairs: Vec<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>) -> Self {
        Self(Arc::new(pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()))
    }
}

/// The fields of a mapping or of pairs, without Content-Length, and its value. `None`: something of them is not as usual,
/// and Python reads them itself, or says what is wrong.
#[pyfunction]
pub(crate) fn usual_fields(headers: &Bound<'_, PyAny>) -> PyResult<Option<(Fields, Option<u64>)>> {
    let Some(pairs) = pairs_of(headers)? else { return Ok(None) };
    let mut fields = wire::Fields::with_capacity(pairs.len()?, 0);
    let mut length = None;
    for pair in pairs.try_iter()? {
        let pair = pair?;
        let Some([name, value]) = parts_of(&pair) else { return Ok(None) };
        let (Some(name), Some(value)) = (usual_bytes(&name), usual_bytes(&value)) else { return Ok(None) };
        if !name.is_ascii() {
            return Ok(None);
        }
        if !name.eq_ignore_ascii_case(b"content-length") {
            fields.push(name, value);
            continue;
        }
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(value).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
        if number.is_none() {
            return Ok(None);
        }
        length = number;
    }
    Ok(Some((Fields(Arc::new(fields)), length)))
}

/// The pairs of a mapping, or pairs as they are.
pub(crate) fn pairs_of<'py>(headers: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if is_multidict(headers)? {
        // Before it is asked for a mapping: whether a class is registered as one is found in Python.
        headers.call_method0(intern!(headers.py(), "items")).map(Some)
    } else if let Ok(mapping) = headers.cast::<PyMapping>() {
        Ok(Some(mapping.items()?.into_any()))
    } else if headers.is_instance_of::<PyList>() || headers.is_instance_of::<PyTuple>() {
        Ok(Some(headers.clone()))
    } else {
        Ok(None)
    }
}

/// Both parts of a pair. `None`: it is not a tuple of two, as each that [`pairs_of`] gives should be.
pub(crate) fn parts_of<'py>(pair: &Bound<'py, PyAny>) -> Option<[Bound<'py, PyAny>; 2]> {
    let pair = pair.cast_exact::<PyTuple>().ok().filter(|pair| pair.len() == 2)?;
    Some([pair.get_item(0).ok()?, pair.get_item(1).ok()?])
}

/// Whether it is what aiohttp keeps fields in.
fn is_multidict(headers: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASSES: PyOnceLock<[Py<PyAny>; 2]> = PyOnceLock::new();
    let py = headers.py();
    let classes = CLASSES.get_or_try_init(py, || {
        let module = py.import("multidict")?;
        let class = |name| module.getattr(name).map(Bound::unbind);
        Ok::<_, PyErr>([class("CIMultiDict")?, class("CIMultiDictProxy")?])
    })?;
    let class = headers.get_type();
    Ok(classes.iter().any(|known| known.is(&class)))
}

/// The bytes of a text or of bytes. `None`: it is neither, or has lone surrogates.
fn usual_bytes<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a [u8]> {
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_str().ok().map(str::as_bytes);
    }
    value.cast::<PyBytes>().ok().map(PyBytesMethods::as_bytes)
}

/// Limits on time.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Timeouts(pub(crate) origin::Timeouts);

#[pymethods]
impl Timeouts {
    #[new]
    /// `lets_events_pause`: the consumer of the response limits the pauses of event streams itself.
    fn new(settings: Settings<origin::Timeouts>, lets_events_pause: bool) -> Self {
        Self(origin::Timeouts { lets_events_pause, ..settings.into() })
    }
}
