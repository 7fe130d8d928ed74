//! The message that a stream brings, as it would come over HTTP/1.1: what reads that reads this, with the same limits and refusals.

use std::io;
use std::task::{Poll, Waker};

use bytes::BytesMut;
use penstock_http2::{ErrorCode, Item, Reset};

use super::carrier::Shared;

/// Reads what a stream brings.
#[derive(Debug)]
pub(super) struct Received {
    stream: u32,
    /// The head, or the framing around `data`, of which `at` bytes are read.
    text: Vec<u8>,
    at: usize,
    /// Bytes of the body that are here.
    data: BytesMut,
    /// Nothing follows them.
    is_whole: bool,
    is_chunked: bool,
    /// The line end after a chunk is still to come.
    ends_chunk: bool,
}

impl Received {
    /// What begins with the head `text`, whose body follows in chunks if it `is_chunked`, else as it is.
    pub(super) fn new(stream: u32, text: Vec<u8>, is_whole: bool, is_chunked: bool) -> Self {
        Self { stream, text, at: 0, data: BytesMut::new(), is_whole, is_chunked, ends_chunk: false }
    }

    /// Whether all of it has been read.
    pub(super) fn has_ended(&self) -> bool {
        self.at == self.text.len() && self.data.is_empty() && self.is_whole
    }

    /// Ready when there is something to read. Not after the end.
    pub(super) fn poll_readable(&mut self, shared: &mut Shared, waker: &Waker) -> Poll<io::Result<()>> {
        while self.at == self.text.len() && self.data.is_empty() {
            if std::mem::take(&mut self.ends_chunk) {
                self.say(b"\r\n");
                break;
            }
            if self.is_whole {
                break;
            }
            match shared.session.read(self.stream) {
                Some(Item::Data(data)) => {
                    if self.is_chunked {
                        self.ends_chunk = true;
                        self.say(format!("{:x}\r\n", data.len()).as_bytes());
                    }
                    self.data = data;
                }
                Some(Item::Trailers(fields)) => self.end(&fields),
                // A second final head is refused before it comes here.
                Some(Item::Head(_)) => {}
                None if shared.session.has_received_all(self.stream) => self.end(b""),
                None if cfg!(all(test, planted_bug = "reset-of-stream-taken-for-end"))
                    && shared.session.reset_of(self.stream).is_some() =>
                {
                    self.end(b"");
                }
                None => {
                    if let Some(reset) = shared.session.reset_of(self.stream) {
                        return Poll::Ready(Err(broken(reset)));
                    }
                    shared.session.watch(self.stream, waker);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn end(&mut self, fields: &[u8]) {
        self.is_whole = true;
        if self.is_chunked {
            self.say(&[b"0\r\n", fields, b"\r\n"].concat());
        }
    }

    fn say(&mut self, text: &[u8]) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.at = 0;
    }

    /// Reads what is there and fits; 0 only if nothing does. The other side may send as much again.
    pub(super) fn poll_read(
        &mut self,
        shared: &mut Shared,
        waker: &Waker,
        memory: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut count = 0;
        while count < memory.len() && !self.has_ended() {
            match self.poll_readable(shared, waker) {
                Poll::Ready(Ok(())) => {}
                Poll::Pending if count == 0 => return Poll::Pending,
                // It is met again.
                Poll::Ready(Err(_)) | Poll::Pending if count > 0 => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
            let text = &self.text[self.at..];
            let rest = &mut memory[count..];
            if text.is_empty() {
                let taken = self.data.split_to(rest.len().min(self.data.len()));
                rest[..taken.len()].copy_from_slice(&taken);
                count += taken.len();
                if !taken.is_empty() && !cfg!(all(test, planted_bug = "window-of-upload-stays-shut")) {
                    shared.session.release(self.stream, taken.len());
                    shared.kick_if_due();
                }
            } else {
                let taken = rest.len().min(text.len());
                rest[..taken].copy_from_slice(&text[..taken]);
                self.at += taken;
                count += taken;
            }
        }
        if self.has_ended() {
            // The stream may go on for hours.
            self.text = Vec::new();
            self.at = 0;
        }
        Poll::Ready(Ok(count))
    }
}

/// A stream has ended before its time.
pub(super) fn broken(reset: Reset) -> io::Error {
    let (who, code) = match reset {
        Reset::Received(code) => ("the other side has reset the stream", code),
        Reset::Sent(code) => {
            ("the other side has broken the rules of HTTP/2, and the stream was reset", code)
        }
        Reset::Refused => ("the other side has refused the stream", ErrorCode::REFUSED_STREAM),
        Reset::Lost => return io::Error::new(io::ErrorKind::ConnectionReset, "the connection has ended"),
    };
    io::Error::new(io::ErrorKind::ConnectionReset, format!("{who} ({code})"))
}
