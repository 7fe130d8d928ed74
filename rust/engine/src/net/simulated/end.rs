//! One end of a connection, with the face of a socket of tokio's.

use std::io::{self, IoSlice, IoSliceMut};
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::{within, within_any};

/// One end of a connection. Dropping it closes it, as close(2) does.
#[derive(Debug)]
pub(crate) struct End {
    pub(super) wire: usize,
    pub(super) side: usize,
}

impl End {
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        within(|fabric| fabric.send(self, &[IoSlice::new(bytes)]))
    }

    pub(crate) fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        within(|fabric| fabric.side(self).readable.poll(context).map(Ok))
    }

    pub(crate) fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        within(|fabric| fabric.side(self).writable.poll(context).map(Ok))
    }

    /// As tokio reads: while the runtime believes that there is something, and a read that leaves room in `buffer` shows that
    /// there is nothing left.
    pub(crate) fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        within(|fabric| {
            loop {
                std::task::ready!(fabric.side(self).readable.poll(context));
                match fabric.receive(self, buffer.initialize_unfilled()) {
                    Ok(count) => {
                        if count > 0 && count < buffer.remaining() {
                            fabric.side(self).readable.clear();
                        }
                        buffer.advance(count);
                        return Poll::Ready(Ok(()));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        fabric.side(self).readable.clear();
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        })
    }

    /// As a socket of the kernel's.
    pub(crate) fn receive_vectored(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        within(|fabric| {
            let room: usize = parts.iter().map(|part| part.len()).sum();
            let mut whole = vec![0; room];
            let received = fabric.receive(self, &mut whole);
            match &received {
                Ok(count) => {
                    let mut left = &whole[..*count];
                    for part in parts {
                        let (now, later) = left.split_at(part.len().min(left.len()));
                        part[..now.len()].copy_from_slice(now);
                        left = later;
                    }
                    if *count > 0 && *count < room {
                        fabric.side(self).readable.clear();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    fabric.side(self).readable.clear();
                }
                Err(_) => {}
            }
            received
        })
    }

    /// As [`End::poll_read`].
    pub(crate) fn poll_write(
        &self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = parts.iter().map(|part| part.len()).sum();
        within(|fabric| {
            loop {
                std::task::ready!(fabric.side(self).writable.poll(context));
                match fabric.send(self, parts) {
                    Ok(count) => {
                        if count > 0 && count < length {
                            fabric.side(self).writable.clear();
                        }
                        return Poll::Ready(Ok(count));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        fabric.side(self).writable.clear();
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        })
    }

    pub(crate) fn is_full(&self) -> bool {
        within(|fabric| {
            fabric.side(self).writable.clear();
            !fabric.is_writable(self.wire, self.side)
        })
    }

    pub(crate) fn end_writing(&self) {
        within_any(|fabric| fabric.end_writing(self.wire, self.side));
    }

    pub(crate) fn reset_on_close(&self) {
        within_any(|fabric| fabric.side(self).resets = true);
    }

    pub(crate) fn untaken(&self) -> usize {
        within(|fabric| fabric.side(self).untaken())
    }

    pub(crate) fn has_hung_up(&self) -> bool {
        within(|fabric| fabric.side(self).has_hung_up())
    }

    pub(crate) fn peek(&self) -> io::Result<usize> {
        within(|fabric| fabric.side(self).peek())
    }

    /// Reads what has come, whatever a runtime believes.
    pub(crate) fn receive(&self, memory: &mut [u8]) -> io::Result<usize> {
        within(|fabric| fabric.receive(self, memory))
    }

    /// Its connection, and its side of that.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.wire, self.side)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // The network may be gone, with the other end. So it may be in the two above, which are called where something ends.
        within_any(|fabric| fabric.close(self.wire, self.side));
    }
}
