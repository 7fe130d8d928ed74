//! HTTP/2 (RFC 9113) over a connection: each stream is a [`super::Channel`], which is read and written as a connection of
//! HTTP/1.1 would be.
//!
//! Framing, header compression, windows and the states of streams are the `h2` crate's. What is here stands around it: frames of
//! one turn leave in one write ([`carrier`]), what a client may make us do without asking for anything is bounded ([`meter`]),
//! and the stream that the client needs most goes first ([`gate`]).

mod asked;
mod calls;
mod carrier;
mod client;
mod gate;
mod message;
mod meter;
mod portion;
mod priority;
mod received;
mod request;
mod sending;
mod server;
mod stream;

pub use client::SessionLimits;
pub(crate) use client::{Client, Driver};
pub use meter::{Excess, excess_of};
pub use request::text as request_text;
pub use server::Http2Limits;
pub(crate) use server::{Event, Server};
