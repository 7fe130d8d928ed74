//! What a cache keeps: bodies that one origin request fills and any number of clients read, while they come and after.

mod body;
mod budget;
mod fill;
mod seats;

pub use body::{Body, Filler, Follower};
pub use budget::Budget;
pub use fill::{Fill, Joiner, Leader, Outcome};
