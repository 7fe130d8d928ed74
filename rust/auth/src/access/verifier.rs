//! The two ways to decide about requests: a hook, or a verifier.

use std::borrow::Cow;
use std::fmt;

use super::asked::Asked;
use super::decision::{Decision, Grant};
use penstock_error::{Error, Result};
use penstock_memory::sync::Arc;

/// Who decides about requests.
#[derive(Debug, Clone)]
pub enum Decider {
    /// A hook, which takes the questions.
    Ask,
    /// The engine, by a token of the request.
    Verify(Arc<dyn Verifier>),
}

/// Decides by a token of the request, such as a signature.
pub trait Verifier: Send + Sync {
    /// The whole token, if to verify it costs more than to cache the grant by its bytes. `None`: it is verified for each
    /// request. A refusal is not cached.
    ///
    /// All else that [`Verifier::verify`] depends on must be in the grant, which is compared with each request.
    fn remembered_by<'a>(&self, asked: &Asked<'a>) -> Option<&'a [u8]>;

    /// The grant of the request at `now`, in Unix seconds.
    ///
    /// # Errors
    /// The reason for a refusal. Its code gives the status, unless [`Verifier::denial`] does.
    fn verify(&self, asked: &Asked<'_>, now: u64) -> Result<Grant>;

    /// The target for the cache and the origin, without the token; `None`: unchanged.
    fn stripped(&self, asked: &Asked<'_>) -> Option<String>;

    /// The value of a field for the cache and the origin, such as cookies without the token; `None` drops the field. The
    /// default changes nothing.
    fn forwarded<'a>(&self, _name: &[u8], value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        Some(Cow::Borrowed(value))
    }

    /// The answer to a request that is refused with `error`; `None`, the default: that of its code.
    fn denial(&self, _error: &Error) -> Option<Arc<Decision>> {
        None
    }
}

/// Its name alone: decision 063.
impl fmt::Debug for dyn Verifier + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}
