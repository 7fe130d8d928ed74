//! Inspection of responses: the number of events, their times, and their usage.
//!
//! An [`Inspector`] reads one response on its way through, block by block, without changing it, and gives a [`Report`]
//! at the end; [`Counts`] are the sums of a route. [`Rules`] say where usages are, and what is added to the JSON of a
//! request before it is sent ([`Amendment`]). Nothing here waits, reads or writes. The invariant: an event without a
//! usage costs one search for a short text; an event that is parsed is parsed strictly and from its beginning, so that
//! no text within a string counts as a usage.

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
