//! The rules of a shared cache: RFC 9111 as functions of heads, a policy, and the time.
//!
//! The store calls [`decide()`] for a request and, after the origin has answered, [`answered()`]. Nothing here has a
//! socket, a store or a clock.
//!
//! It guarantees two things. If a message of the origin can be read in two ways, the way counts that keeps the response
//! for less time. A response is never treated as fresher, more complete, or valid for more requests than it is.

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
