//! What a shared cache may do with a message: RFC 9111 as functions of heads, a policy, and the time.
//!
//! For what keeps responses: it asks [`decide()`] what a request gets and, when the origin has answered, [`answered()`]
//! what becomes of that. Nothing here has a socket, a store or a clock.
//!
//! It guarantees that where the origin's words leave room for two readings, the one that keeps a response for less time is
//! taken; a response is never made to look fresher, more complete or more alike than it is.

mod answer;
mod answered;
mod control;
mod cut;
mod decide;
mod freshness;
mod invalidate;
mod key;
mod policy;
mod record;
mod request;
mod status;
mod storable;
mod stored;
mod targeted;
mod time;
mod validate;
mod variants;
mod vary;

pub use answer::{
    Answer, Fill, Gap, Slicing, answer, as_asked, fill, is_of_unknown_length, refill, too_large, unsliced,
};
pub use answered::{Asked, Held, Outcome, Reply, answered, stands_in};
pub use control::{MaxStale, RequestControl, ResponseControl, Scope};
pub use cut::Cut;
pub use decide::{Candidate, Candidates, Decision, Why, decide, select};
pub use freshness::{Basis, Freshness, State, Timing, allows_heuristic};
pub use invalidate::{invalidated, resolve};
pub use key::{Key, Names, Query, Target};
pub use policy::{Cookies, Languages, Policy, RangeFill};
pub use record::{Reading, Writing};
pub use request::{READ, Request, is_read};
pub use status::CacheStatus;
pub use storable::Refusal;
pub use stored::{Content, Stored};
pub use targeted::{parse_targeted, response_control};
pub use time::{LONGEST, Time};
pub use validate::{Conditions, IfRange, Validators, confirmed, freshened, is_in_not_modified};
pub use variants::Variants;
#[cfg(any(test, feature = "testing"))]
pub use vary::comparisons;
pub use vary::{SOCKET, Selection, Vary, tells_url};

#[cfg(test)]
mod tests;
