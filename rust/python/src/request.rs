//! The parts of a request that Python makes once and uses again.

use std::path::PathBuf;
use std::sync::Arc;

use penstock_engine::Code;
use penstock_engine::origin::{self, Scheme};
use penstock_engine::wire;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

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
