//! Unit tests, over files in a directory of their own and connections in memory.

mod certificate;
mod clients;
mod files;
mod served;
mod staple;
pub(crate) mod support;
mod tickets;
