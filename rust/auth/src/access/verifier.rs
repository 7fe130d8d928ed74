//! Who decides about requests.

use std::borrow::Cow;
use std::fmt;

use super::asked::Asked;
use super::decision::{Decision, Grant};
use penstock_error::{Error, Result};
use penstock_memory::sync::Arc;

/// Who decides about requests.
#[derive(Debug, Clone)]
pub enum Decider {
    /// Whoever takes the questions.
    Ask,
    /// The engine, by what the request brings along.
    Verify(Arc<dyn Verifier>),
}

/// Decides by what a request brings along, such as a signature.
pub trait Verifier: fmt::Debug + Send + Sync {
    /// The bytes of the request that a grant is remembered by, the whole token, where to verify costs more than to remember. None:
    /// it is verified anew for each request. A refusal is not remembered.
    ///
    /// Whatever [`Verifier::verify`] looks at besides these bytes has to be said in the grant, which is compared each time.
    fn remembered_by<'a>(&self, asked: &Asked<'a>) -> Option<&'a [u8]>;

    /// What the request may at `now`, which is unix seconds.
    ///
    /// # Errors
    /// Why not. It is answered with the status of its code, unless [`Verifier::denial`] says how.
    fn verify(&self, asked: &Asked<'_>, now: u64) -> Result<Grant>;

    /// The target that the cache and the origin are to see, such as one without the token; none: as it is.
    fn stripped(&self, asked: &Asked<'_>) -> Option<String>;

    /// What the cache and the origin are to see of a field, such as cookies without the token; none: nothing. By default all.
    fn forwarded<'a>(&self, _name: &[u8], value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        Some(Cow::Borrowed(value))
    }

    /// How a request is answered that is refused with `error`; none: by its code. By default none.
    fn denial(&self, _error: &Error) -> Option<Arc<Decision>> {
        None
    }
}
