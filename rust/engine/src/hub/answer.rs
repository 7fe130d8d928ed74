//! What a publisher gets: the result, or a future of it where another process gives the events their order.

use std::fmt;
use std::pin::Pin;

use crate::error::Result;

/// The result of a call, which another process may have to give.
pub enum Answer<T> {
    /// It is there.
    Now(T),
    /// Another process gives it. Dropped, the call goes on.
    Later(Pin<Box<dyn Future<Output = Result<T>> + Send>>),
}

impl<T> Answer<T> {
    /// The result, if it is there.
    pub fn now(self) -> Option<T> {
        match self {
            Self::Now(result) => Some(result),
            Self::Later(_) => None,
        }
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// What the call failed with in the other process.
    pub async fn wait(self) -> Result<T> {
        match self {
            Self::Now(result) => Ok(result),
            Self::Later(result) => result.await,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(result) => f.debug_tuple("Now").field(result).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}
