//! A socket below TLS that knows where in its records it has been read to.
//!
//! TLS keeps a part of a record to itself until the rest has come, and does not say so. An idle connection with such a part
//! in it is not quiet: the rest would be decrypted after the next request was sent, and be taken for its response.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::Socket;
use crate::work::{Work, doing};

/// The bytes before each record that are not part of it: its type, a version, and its length (RFC 8446, section 5.1).
const HEADER: u8 = 5;

/// What TLS reads from and writes to.
#[derive(Debug)]
pub(crate) struct Records {
    socket: Socket,
    place: RecordPlace,
}

/// Where in the records the next byte belongs.
#[derive(Debug, Default)]
pub(crate) struct RecordPlace {
    /// Bytes that have come of a header.
    header: u8,
    /// Bytes to come of the record whose header was whole, or the part of its length that has come.
    left: u16,
}

impl RecordPlace {
    fn advance(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.header == HEADER {
                let count = usize::from(self.left).min(bytes.len());
                bytes = &bytes[count..];
                self.left -= u16::try_from(count).unwrap_or(self.left);
            } else {
                if self.header >= HEADER - 2 {
                    self.left = (self.left << 8) | u16::from(*first);
                }
                self.header += 1;
                bytes = rest;
            }
            if self.header == HEADER && self.left == 0 {
                self.header = 0;
            }
        }
    }

    fn is_within(&self) -> bool {
        self.header > 0
    }
}

impl Records {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, place: RecordPlace::default() }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The same place in the records, for a socket that another thread is to read from.
    pub(crate) fn into_parts(self) -> (Socket, RecordPlace) {
        (self.socket, self.place)
    }

    pub(crate) fn from_parts(socket: Socket, place: RecordPlace) -> Self {
        Self { socket, place }
    }

    /// Whether a part of a record has been read, and not all of it.
    pub(crate) fn is_within(&self) -> bool {
        self.place.is_within()
    }
}

impl AsyncRead for Records {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let _doing = doing(Work::Sockets);
        let Self { socket, place } = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(socket).poll_read(context, buffer))?;
        place.advance(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Records {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let _doing = doing(Work::Sockets);
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let _doing = doing(Work::Sockets);
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(length: u16) -> Vec<u8> {
        let [high, low] = length.to_be_bytes();
        [&[23, 3, 3, high, low][..], &vec![23; length.into()]].concat()
    }

    #[test]
    fn a_part_of_a_record_is_told_from_a_whole_one_at_each_byte() {
        let records = [record(1), record(0), record(300), record(16_640), record(2)];
        let bytes = records.concat();
        let ends: Vec<_> = records
            .iter()
            .scan(0, |end, record| {
                *end += record.len();
                Some(*end)
            })
            .collect();
        let mut byte_by_byte = RecordPlace::default();
        for end in 0..=bytes.len() {
            let mut at_once = RecordPlace::default();
            at_once.advance(&bytes[..end]);
            let is_within = end > 0 && !ends.contains(&end);
            assert_eq!((at_once.is_within(), byte_by_byte.is_within()), (is_within, is_within), "{end}");
            byte_by_byte.advance(bytes.get(end..=end).unwrap_or_default());
        }
    }
}
