//! One exchange's share of a connection that carries several, such as a stream of HTTP/2.

use std::fmt;
use std::io;
use std::task::{Context, Poll};

use super::piece::Lease;
use super::socket::Socket;

/// What is read and written as a connection of HTTP/1.1 would be, and travels on another one. Polled by one task.
///
/// Memory that is to be sent is lent, not copied: the other connection sends it when its turn comes.
pub(crate) trait Channel: Send {
    /// Ready when [`Channel::poll_read`] has something.
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads into `memory`: 0 is the end. Pending once nothing more can come: that the other side has broken it off is an error.
    fn poll_read(&mut self, context: &mut Context<'_>, memory: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Ready when it takes one more lease.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends what is lent, after what was lent before. Only after [`Channel::poll_room`] was ready. Returns how many bytes of it are
    /// sent: the framing of HTTP/1.1 is not.
    ///
    /// # Errors
    /// The other side takes nothing more, or what was lent is not the response that was begun.
    fn lend(&mut self, context: &mut Context<'_>, lease: Lease) -> io::Result<usize>;

    /// Nothing more is lent for now: what was is sent, as far as it goes at once.
    fn flush(&mut self);

    /// Nothing more will be lent. Where that leaves a response unfinished, this is as [`Channel::reset`].
    fn end_writing(&mut self);

    /// Ends it so that what was sent cannot be taken for whole.
    fn reset(&mut self);

    /// Whether the other side has said that it has not looked at what was sent, so that it can be sent again.
    fn was_refused(&self) -> bool {
        false
    }

    /// Whether the other side has broken it off.
    fn has_hung_up(&mut self) -> bool;

    /// A number that falls when the other side takes something of this.
    fn untaken(&self) -> Option<usize>;

    /// The socket of the connection that carries it.
    fn with_socket(&self, work: &mut dyn FnMut(&Socket));
}

/// Its name alone: decision 063.
impl fmt::Debug for dyn Channel + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel")
    }
}
