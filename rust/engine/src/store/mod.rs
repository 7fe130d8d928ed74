//! The cache in operation: stored responses, lookups, in-flight fills whose bodies any number of clients read, and
//! eviction.

mod body;
mod eviction;
mod in_flight;

#[cfg(not(loom))]
mod access;
#[cfg(not(loom))]
mod cache;
#[cfg(not(loom))]
mod collapse;
#[cfg(not(loom))]
mod delivery;
#[cfg(not(loom))]
mod disk;
#[cfg(not(loom))]
mod entry;
#[cfg(not(loom))]
mod fetch;
#[cfg(not(loom))]
mod fill;
#[cfg(not(loom))]
mod hit;
#[cfg(not(loom))]
mod index;
#[cfg(not(loom))]
mod listing;
#[cfg(not(loom))]
mod lookup;
#[cfg(not(loom))]
mod moving;
#[cfg(not(loom))]
mod object;
#[cfg(not(loom))]
mod policy;
#[cfg(not(loom))]
mod post;
#[cfg(not(loom))]
mod purge;
#[cfg(not(loom))]
mod requests;
#[cfg(all(test, not(loom)))]
mod simulation;
#[cfg(not(loom))]
mod slices;

pub use body::{Body, CacheBudget, Filler, Follower};
pub use eviction::{Eviction, Item, Rules};
pub use in_flight::{InFlight, Leader, Waiter};

#[cfg(not(loom))]
pub use access::{Access, Caching};
#[cfg(not(loom))]
pub use cache::{Cache, CacheStats};
#[cfg(not(loom))]
pub(crate) use collapse::Joined;
#[cfg(not(loom))]
pub(crate) use delivery::Delivery;
#[cfg(not(loom))]
pub use disk::{DiskConfig, DiskStats, format};
#[cfg(not(loom))]
pub use fetch::fetch;
#[cfg(not(loom))]
pub(crate) use fetch::{Found, serve};
#[cfg(not(loom))]
pub(crate) use hit::HitRequest;
#[cfg(not(loom))]
pub use listing::Listed;
#[cfg(not(loom))]
pub use moving::Moving;
#[cfg(not(loom))]
pub use policy::{CachePolicy, Overrides, Unread};
#[cfg(not(loom))]
pub use purge::Purge;
#[cfg(not(loom))]
pub use requests::RequestStats;
