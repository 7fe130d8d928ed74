//! The message that a stream brings, as it would come over HTTP/1.1: what reads that reads this, with the same limits and refusals.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use http::header::{COOKIE, HOST};

/// Reads what a stream brings.
#[derive(Debug)]
pub(super) struct Received {
    /// The head, or the framing around `data`, of which `at` bytes are read.
    text: Vec<u8>,
    at: usize,
    /// Bytes of the body that are here.
    data: Bytes,
    /// The rest of the body, if any.
    body: Option<RecvStream>,
    is_chunked: bool,
    /// The line end after a chunk is still to come.
    ends_chunk: bool,
}

impl Received {
    /// What begins with the head `text`, whose `body` follows in chunks if it `is_chunked`, else as it is.
    pub(super) fn new(text: Vec<u8>, body: Option<RecvStream>, is_chunked: bool) -> Self {
        Self { text, at: 0, data: Bytes::new(), body, is_chunked, ends_chunk: false }
    }

    /// Whether all of it has been read.
    pub(super) fn has_ended(&self) -> bool {
        self.at == self.text.len() && self.data.is_empty() && self.body.is_none()
    }

    /// Ready when there is something to read. Not after the end.
    pub(super) fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.at == self.text.len() && self.data.is_empty() {
            if std::mem::take(&mut self.ends_chunk) {
                self.say(b"\r\n");
                break;
            }
            let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
            match ready!(body.poll_data(context)) {
                Some(Ok(data)) if data.is_empty() => {}
                Some(Ok(data)) => {
                    if self.is_chunked {
                        self.ends_chunk = true;
                        self.say(format!("{:x}\r\n", data.len()).as_bytes());
                    }
                    self.data = data;
                }
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
                None => {
                    let trailers = ready!(body.poll_trailers(context)).map_err(broken)?;
                    self.body = None;
                    if self.is_chunked {
                        let mut end = b"0\r\n".to_vec();
                        write_fields(&mut end, &trailers.unwrap_or_default());
                        end.extend_from_slice(b"\r\n");
                        self.say(&end);
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn say(&mut self, text: &[u8]) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.at = 0;
    }

    /// Reads what is there and fits; 0 only if nothing does. The other side may send as much again.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        memory: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut count = 0;
        while count < memory.len() && !self.has_ended() {
            match self.poll_readable(context) {
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
                if let Some(body) = &mut self.body {
                    // An error means that the stream has ended.
                    let _ = body.flow_control().release_capacity(taken.len());
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

/// All fields but two, which the head of a request has in a form of their own.
pub(super) fn write_fields(text: &mut Vec<u8>, fields: &HeaderMap) {
    for (name, value) in fields {
        if name != HOST && name != COOKIE {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                text.extend_from_slice(part);
            }
        }
    }
}

/// The stream, or its connection, has ended.
pub(super) fn broken(error: h2::Error) -> io::Error {
    let kind = match error.reason() {
        Some(_) => io::ErrorKind::ConnectionReset,
        None => io::ErrorKind::BrokenPipe,
    };
    error.into_io().unwrap_or_else(|| kind.into())
}
