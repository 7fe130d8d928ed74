//! `TlsSession`: what a handler sees of the TLS of its client.

use std::sync::Arc;

use penstock_engine::Code;
use penstock_engine::app::TlsSession as Session;
use penstock_engine::tls::{self, PeerCertificate, suite_name, version_name};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::errors::{IntoPython, exception};

/// A certificate for `names` that is signed by its own key, and the key, as PEM. It is valid for a week.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
pub(crate) fn self_signed(py: Python<'_>, names: Vec<String>) -> PyResult<(String, String)> {
    tls::self_signed(&names).into_python(py)
}

/// The TLS of a client's connection. It has the methods of `ssl.SSLObject` that tell about one, and stands where
/// asyncio's transports have such an object and its context.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct TlsSession(Arc<Session>);

impl TlsSession {
    pub(crate) fn of<'py>(py: Python<'py>, session: &Arc<Session>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Bound::new(py, Self(Arc::clone(session)))?.into_any())
    }

    /// What asyncio's transports have under `name`.
    pub(crate) fn extra<'py>(
        py: Python<'py>,
        session: &Arc<Session>,
        name: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = Self(Arc::clone(session));
        match name {
            "cipher" => own.cipher(py).map(Bound::into_any),
            "peercert" => own.getpeercert(py, false),
            _ => Ok(py.None().into_bound(py)),
        }
    }
}

#[pymethods]
impl TlsSession {
    /// The version, such as "TLSv1.3".
    fn version(&self) -> &'static str {
        version_name(self.0.version)
    }

    /// The name of the cipher suite, the version, and the bits of its key.
    fn cipher<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (name, bits) = suite_name(self.0.suite);
        (name, self.version(), bits).into_pyobject(py)
    }

    /// The protocol that was agreed on (ALPN).
    fn selected_alpn_protocol(&self) -> Option<String> {
        let protocol = &self.0.protocol;
        (!protocol.is_empty()).then(|| String::from_utf8_lossy(protocol).into_owned())
    }

    /// Always None: there is no compression (RFC 8446, section 4.1.2).
    #[staticmethod]
    fn compression() -> Option<&'static str> {
        None
    }

    /// The name that the client asked for (SNI).
    #[getter]
    fn server_hostname(&self) -> Option<&str> {
        self.0.server_name.as_deref()
    }

    /// Whether the handshake resumed an earlier session.
    #[getter]
    fn session_reused(&self) -> bool {
        self.0.is_resumed
    }

    /// The certificate of the client, which is verified: as `ssl.SSLSocket.getpeercert` gives it, or in DER; None if it
    /// sent none.
    #[pyo3(signature = (binary_form = false))]
    fn getpeercert<'py>(&self, py: Python<'py>, binary_form: bool) -> PyResult<Bound<'py, PyAny>> {
        let Some(der) = self.0.certificates.first() else { return Ok(py.None().into_bound(py)) };
        if binary_form {
            return Ok(PyBytes::new(py, der).into_any());
        }
        let Some(certificate) = PeerCertificate::read(der) else {
            let detail = "the certificate of the client cannot be read, although it was verified";
            return Err(exception(py, &Code::Internal.error(detail)));
        };
        let PeerCertificate { subject, issuer, version, serial, not_before, not_after, names } = certificate;
        let dictionary = PyDict::new(py);
        let names_of = |name: Vec<(String, String)>| {
            // Each attribute stands in a set of its own, as OpenSSL shows them.
            let sets: Vec<_> = name.into_iter().map(|attribute| (attribute,)).collect();
            PyTuple::new(py, sets)
        };
        dictionary.set_item("subject", names_of(subject)?)?;
        dictionary.set_item("issuer", names_of(issuer)?)?;
        dictionary.set_item("version", version)?;
        dictionary.set_item("serialNumber", serial)?;
        dictionary.set_item("notBefore", not_before)?;
        dictionary.set_item("notAfter", not_after)?;
        if !names.is_empty() {
            dictionary.set_item("subjectAltName", PyTuple::new(py, names)?)?;
        }
        Ok(dictionary.into_any())
    }

    fn __repr__(&self) -> String {
        format!("<penstock.TlsSession {}>", self.version())
    }
}
