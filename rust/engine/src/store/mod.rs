//! What a cache keeps: bodies that one origin request fills and any number of clients read, while they come and after,
//! and which of them leave when room is needed.

mod body;
mod eviction;
mod fill;
mod seats;

pub use body::{Body, Filler, Follower};
pub use eviction::{Eviction, Item, Rules};
pub use fill::{Fill, Joiner, Leader, Outcome};
