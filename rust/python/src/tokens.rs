//! `Jwt` and `signed_url`: the engine's verifiers of tokens, and the keys that Python fetches for them.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use penstock_engine::access::unix_seconds;
use penstock_engine::tokens::{
    self, Algorithm, Claims, Key, Keys, PathRule, Pattern, Places, Secret, SignedUrl, read_key, read_set,
};
use penstock_engine::wire;
use penstock_engine::{Code, Error};
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

use crate::access::Verifier;
use crate::engine::Engine;
use crate::errors::{IntoPython, exception};
use crate::lock;
use crate::port::{Receive, Slot};

/// The places of tokens: their name; "path", "query", "bearer" and "cookie"; and whether the origin gets them.
type PlacesRow = (String, Vec<String>, bool);

fn places((name, places, forward): PlacesRow) -> Result<Places, Error> {
    let mut at = Places { path: false, query: false, bearer: false, cookie: false, name, forward };
    for place in places {
        match place.as_str() {
            "path" => at.path = true,
            "query" => at.query = true,
            "bearer" => at.bearer = true,
            "cookie" => at.cookie = true,
            _ => return Err(Code::BadConfiguration.error(format!("{place:?} is no place of a token"))),
        }
    }
    wire::hide(&at.name);
    Ok(at)
}

/// Hides the values of the parameter `name` in logs from now on.
#[pyfunction]
pub(crate) fn hide(name: &str) {
    wire::hide(name);
}

/// The target of a request for logs, without the values of tokens.
#[pyfunction]
pub(crate) fn shown(target: &str) -> Cow<'_, str> {
    wire::shown(target)
}

/// A verifier of signed URLs. Ids and secrets are validated in Python.
#[pyfunction]
pub(crate) fn signed_url(
    py: Python<'_>,
    secrets: Vec<(Option<String>, Vec<u8>)>,
    at: PlacesRow,
) -> PyResult<Verifier> {
    let secrets = secrets.into_iter().map(|(id, secret)| Secret::new(id, &secret)).collect();
    let at = places(at).into_python(py)?;
    Ok(Verifier { shared: Arc::new(SignedUrl::new(secrets, at)), keeper: None })
}

/// A key. `kind` is "secret", "pem" or "jwk".
#[derive(FromPyObject)]
struct KeySettings {
    kind: String,
    id: Option<String>,
    algorithm: String,
    key: Vec<u8>,
}

/// The required claims, validated in Python.
#[derive(FromPyObject)]
struct ClaimsSettings {
    issuers: Vec<String>,
    audiences: Vec<String>,
    r#type: Option<String>,
    leeway: f64,
    required: Vec<String>,
    tenant: Option<String>,
    paths: Option<String>,
}

impl TryFrom<ClaimsSettings> for Claims {
    type Error = Error;

    fn try_from(settings: ClaimsSettings) -> Result<Self, Error> {
        let paths = match settings.paths {
            None => PathRule::All,
            Some(template) if template.starts_with('/') => {
                let detail = "a template of paths has a brace without another, or nothing between two";
                let pattern =
                    Pattern::parse(&template).ok_or_else(|| Code::BadConfiguration.error(detail))?;
                PathRule::Template(pattern)
            }
            Some(claim) => PathRule::Claim(claim),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most a year, checked in Python"
        )]
        let leeway = settings.leeway.ceil() as u64;
        Ok(Self {
            issuers: settings.issuers,
            audiences: settings.audiences,
            kind: settings.r#type,
            leeway,
            required: settings.required,
            tenant: settings.tenant,
            paths,
        })
    }
}

fn algorithm(name: &str) -> Result<Algorithm, Error> {
    Algorithm::named(name)
        .ok_or_else(|| Code::BadConfiguration.error(format!("{name:?} is no algorithm of tokens")))
}

fn algorithms(names: &[String]) -> Result<Vec<Algorithm>, Error> {
    names.iter().map(|name| algorithm(name)).collect()
}

fn key(settings: &KeySettings) -> Result<Key, Error> {
    let KeySettings { kind, id, algorithm: name, key } = settings;
    let algorithm = algorithm(name)?;
    match kind.as_str() {
        "secret" => Key::secret(id.clone(), algorithm, key),
        "pem" => Key::pem(id.clone(), algorithm, &String::from_utf8_lossy(key)),
        "jwk" => read_key(key, &[algorithm]),
        _ => Err(Code::BadConfiguration.error(format!("{kind:?} is no kind of key: secret, pem or jwk"))),
    }
}

/// Verifies JSON Web Tokens.
#[pyclass(frozen, weakref, module = "penstock._native")]
pub(crate) struct Jwt {
    shared: Arc<tokens::Jwt>,
    fetching: Mutex<Option<Fetching>>,
}

/// The fetcher of keys, and the slot of its loop.
struct Fetching {
    _slot: Slot,
    fetcher: Arc<Fetcher>,
}

/// Called when keys are to be fetched.
struct Fetcher(Py<PyAny>);

impl Receive for Fetcher {
    fn receive(&self, py: Python<'_>) {
        if let Err(error) = self.0.bind(py).call0() {
            error.write_unraisable(py, Some(self.0.bind(py)));
        }
    }
}

/// Tenant, time of expiry, and paths.
type GrantRow = (Option<String>, Option<u64>, Vec<String>);

#[pymethods]
impl Jwt {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn new(
        py: Python<'_>,
        keys: Vec<KeySettings>,
        claims: ClaimsSettings,
        at: PlacesRow,
        longest: usize,
    ) -> PyResult<Self> {
        let keys = keys.iter().map(key).collect::<Result<_, _>>().into_python(py)?;
        let claims = claims.try_into().into_python(py)?;
        let at = places(at).into_python(py)?;
        let shared = Arc::new(tokens::Jwt::new(Keys::new(keys), claims, at, longest));
        Ok(Self { shared, fetching: Mutex::new(None) })
    }

    /// The verifier for a gate. It keeps this alive, and with it the fetcher.
    fn verifier(slf: &Bound<'_, Self>) -> Verifier {
        let shared: Arc<tokens::Jwt> = Arc::clone(&slf.get().shared);
        Verifier { shared, keeper: Some(slf.clone().into_any().unbind()) }
    }

    /// Calls `fetch` on the running loop when keys are to be fetched, at most once in `pause` seconds, in place of an
    /// earlier fetcher.
    fn fetched_by(
        &self,
        py: Python<'_>,
        engine: &Bound<'_, Engine>,
        fetch: Py<PyAny>,
        pause: u64,
    ) -> PyResult<()> {
        let fetcher = Arc::new(Fetcher(fetch));
        let slot = Slot::receiving(engine.get().port(py)?, Arc::clone(&fetcher) as Arc<dyn Receive>);
        self.shared.fetched_by(slot.waker().clone(), pause);
        let previous = lock(&self.fetching).replace(Fetching { _slot: slot, fetcher });
        drop(previous);
        Ok(())
    }

    /// Replaces the keys by a set, to be fetched again at `refresh`, which expires at `expires`. Returns how many of its
    /// keys can be used, and how many cannot. A set without a usable key is refused: it would lock out all clients.
    #[expect(clippy::needless_pass_by_value, reason = "an extracted argument")]
    fn set_keys(
        &self,
        py: Python<'_>,
        text: &[u8],
        names: Vec<String>,
        most: usize,
        refresh: u64,
        expires: u64,
    ) -> PyResult<(usize, usize)> {
        let set =
            algorithms(&names).and_then(|algorithms| read_set(text, &algorithms, most)).into_python(py)?;
        let counts = (set.keys.len(), set.skipped);
        if set.keys.is_empty() {
            let detail = "the set has no key that verifies with one of the algorithms";
            return Err(exception(py, &Code::BadConfiguration.error(detail)));
        }
        self.shared.set_keys(set.keys, refresh, expires);
        Ok(counts)
    }

    /// The grant of a token for a path, at a time in Unix seconds, or now.
    #[pyo3(signature = (token, path, now))]
    fn verify(&self, py: Python<'_>, token: &[u8], path: &str, now: Option<u64>) -> PyResult<GrantRow> {
        let grant =
            self.shared.verify_token(token, &[path], now.unwrap_or_else(unix_seconds)).into_python(py)?;
        let paths = grant.paths.iter().map(ToString::to_string).collect();
        Ok((grant.tenant.map(Into::into), grant.expires, paths))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Ok(fetching) = self.fetching.try_lock() {
            if let Some(fetching) = &*fetching {
                visit.call(&fetching.fetcher.0)?;
            }
        }
        Ok(())
    }
}
