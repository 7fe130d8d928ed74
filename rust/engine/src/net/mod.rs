//! Connections, to origins and from clients: bytes between a socket and memory that the caller owns.
//!
//! Everything is polled on the engine thread that the socket is registered with. The invariants: nothing is read
//! before there is something to read and memory for it; nothing that waits to be written is copied; every wait for
//! the other side can have a limit.

mod called;
mod channel;
mod connection;
mod failure;
mod filing;
pub(crate) mod http2;
mod in_flight;
mod outgoing;
mod piece;
mod pipe;
mod reader;
mod records;
#[cfg(test)]
pub(crate) mod simulated;
mod socket;
mod stall;
mod tcp_info;
mod watch;
mod write_buffer;

pub(crate) use called::Called;
pub(crate) use channel::{Channel, Untaken};
pub(crate) use connection::{Connection, Transport, Unrest};
pub(crate) use failure::Peer;
pub(crate) use filing::Filing;
pub use in_flight::InFlight;
pub(crate) use outgoing::{Fault, Outgoing, Source, Supply};
pub(crate) use piece::{Lease, Payload, Piece};
pub(crate) use pipe::{Piped, Pipes};
pub(crate) use reader::{Read, Reader};
pub(crate) use records::{RecordPlace, Records};
pub(crate) use socket::{DetachedSocket, Socket};
pub(crate) use stall::{Demand, Life, Question, Receipt, Stall, StallClock, Wish};
pub(crate) use tcp_info::{TcpInfo, TcpTotals};
pub(crate) use watch::{Watch, chance, shortened};
pub(crate) use write_buffer::{Stop, WriteBuffer};
