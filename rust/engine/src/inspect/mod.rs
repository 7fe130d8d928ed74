//! What is known of a response besides its bytes: how many events, how fast they came, and what they cost.
//!
//! An [`Inspector`] looks at one response on its way through, block by block, without changing it, and gives a
//! [`Report`] in the end; [`Counts`] are the sums of a route. [`Rules`] say what to look for, and what is added to the
//! JSON of a request before it is sent ([`Amendment`]). Whoever relays may call them; nothing here waits, reads or
//! writes. The invariant: an event that carries no usage is passed over by one search for a short text; what is parsed,
//! is parsed strictly and from its beginning, so that no text within a string can pass for a usage.

mod amend;
mod content;
mod counts;
mod inspector;
mod report;
mod rules;
mod usage;

#[cfg(all(test, not(loom)))]
mod tests;

pub use amend::Amendment;
pub use content::Content;
pub use counts::{Counts, Sums};
pub use inspector::Inspector;
pub use report::{Hidden, Report};
pub use rules::{Names, Rules};
pub use usage::{Path, Usage, Wanted};
