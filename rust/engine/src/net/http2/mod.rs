//! HTTP/2 (RFC 9113) over a connection: each stream is a [`super::Channel`], which is read and written as a connection of
//! HTTP/1.1 would be.
//!
//! Frames, header compression, windows and the states of streams are `penstock-http2`'s, which has no socket. What is here gives it
//! one ([`carrier`]): frames of one turn leave in one write, and what a client may make us do without asking for anything is
//! bounded ([`meter`]).

mod asked;
mod calls;
mod carrier;
mod client;
mod message;
mod meter;
mod received;
mod sending;
mod server;
mod stream;

pub use client::SessionLimits;
pub(crate) use client::{Client, Driver};
pub use meter::{Excess, excess_of};
pub use server::Http2Limits;
pub(crate) use server::{Event, Server};
