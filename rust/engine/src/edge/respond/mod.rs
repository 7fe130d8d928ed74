//! What answers requests: an origin or a cache, a hub, and the engine about itself.

mod amendment;
pub(super) mod pages;
pub(super) mod relay;
pub(super) mod topics;
