//! HTTP/2 without a socket (RFC 9113): frames, header compression (RFC 7541), windows, the states of streams, and the order in
//! which the bodies of streams go (RFC 9218).
//!
//! A [`Session`] takes bytes that have come and gives frames that are to be sent. Bodies that are sent never pass through it: it
//! says which stream goes next, and with how many bytes. Heads come and go as those of HTTP/1.1.

mod frame;
mod hpack;
mod priority;
mod receive;
mod section;
mod send;
mod session;
mod stream;
mod window;

pub use frame::ErrorCode;
pub use priority::Priority;
pub use section::OF_CONNECTION;
pub use send::{First, Frame};
pub use session::{Failure, Limits, Session};
pub use stream::{Item, Reset};

#[cfg(test)]
mod tests;
