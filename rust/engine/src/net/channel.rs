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

    /// What the other side has not taken of this.
    fn untaken(&self) -> Option<Untaken>;

    /// The socket of the connection that carries it.
    fn with_socket(&self, work: &mut dyn FnMut(&Socket));
}

/// What the other side has not taken of what is sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Untaken {
    /// Bytes that wait until there is a window for them.
    pub(super) unframed: usize,
    /// A number that falls when something of the rest is taken; `None` where only a window is waited for.
    pub(super) written: Option<usize>,
}

impl Untaken {
    /// Of a socket, where so many bytes wait.
    pub(super) fn of_socket(bytes: usize) -> Self {
        Self { unframed: 0, written: Some(bytes) }
    }

    /// Whether something was taken since it was as `before`, if nothing was added meanwhile. A window that was open between two
    /// looks, and is shut at each, has let something pass.
    pub(super) fn has_fallen_since(self, before: Self) -> bool {
        let has_passed = match (before.written, self.written) {
            (Some(before), Some(now)) => now < before,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        has_passed || self.unframed < before.unframed
    }
}

/// Its name alone: decision 063.
impl fmt::Debug for dyn Channel + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn untaken(unframed: usize, written: Option<usize>) -> Untaken {
        Untaken { unframed, written }
    }

    #[test]
    fn what_passes_a_window_is_taken_though_the_window_is_shut_whenever_it_is_looked_at() {
        let before = untaken(9, None);
        assert!(untaken(8, None).has_fallen_since(before));
        assert!(!before.has_fallen_since(before));
        // The window has just been opened.
        assert!(untaken(9, Some(5)).has_fallen_since(before));
        // It was open, and what it let pass has shut it.
        assert!(untaken(8, None).has_fallen_since(untaken(9, Some(5))));
        assert!(!untaken(9, None).has_fallen_since(untaken(9, Some(5))));
    }

    #[test]
    fn a_socket_has_taken_what_does_not_wait_any_more() {
        let before = Untaken::of_socket(5);
        assert!(Untaken::of_socket(4).has_fallen_since(before));
        assert!(!before.has_fallen_since(before));
    }
}
