//! The connection under HTTP/2, as the `h2` crate reads and writes it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::gate::Gate;
use super::meter::Meter;
use crate::net::Connection;
use crate::sync::{Mutex, lock};

/// A connection, and what its streams share.
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) connection: Arc<Connection>,
    pub(super) meter: Mutex<Meter>,
    pub(super) gate: Arc<Gate>,
}

impl Carrier {
    /// A number that falls when the other side takes something.
    pub(super) fn untaken(&self) -> Option<usize> {
        let written = usize::try_from(lock(&self.meter).written()).unwrap_or(usize::MAX);
        let taken = written.saturating_sub(self.connection.untaken()?);
        Some(usize::MAX - taken)
    }
}

/// Reads and writes a [`Carrier`]. It is flushed by the task of the connection, once a turn, and not after each frame as `h2`
/// asks for: the frames of a turn are one write.
#[derive(Debug)]
pub(super) struct Traffic(pub(super) Arc<Carrier>);

impl AsyncRead for Traffic {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Carrier { connection, meter, gate } = &*self.0;
        if lock(meter).excess().is_some() {
            // The task of the connection ends it.
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(connection.poll_read_buffer(context, buffer))?;
        let bytes = &buffer.filled()[before..];
        lock(meter).receive(bytes, |stream, priority| gate.update(stream, priority));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Traffic {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.0.connection.poll_gather(context, parts))?;
        let mut left = written;
        let mut meter = lock(&self.0.meter);
        for part in parts {
            let count = left.min(part.len());
            meter.send(&part[..count]);
            left -= count;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The task of the connection ends it.
        Poll::Ready(Ok(()))
    }
}
