//! Responses of HTTP/1.1 as a client reads them (RFC 9112): heads, and where bodies end. It knows no socket.
//!
//! Nothing is kept that has been read: a session holds no buffer while it waits.

use hyper::StatusCode;

use crate::failure::Failure;

/// Fields of a head at most.
const FIELDS: usize = 128;

/// The head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) body: Body,
    /// Whether another request may follow on the connection.
    pub(crate) stays_open: bool,
}

/// What is still to come of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked(Chunks),
    /// All until the connection ends.
    UntilClose,
}

/// Where in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// In the size of a chunk, and whether a digit has been read.
    Size(u64, bool),
    /// In the rest of the line of a size.
    SizeLine(u64),
    /// In a chunk.
    Data(u64),
    /// In the end of the line after a chunk.
    DataLine,
    /// In the lines after the last chunk, and whether the line has begun.
    Trailer(bool),
    /// After the end.
    Done,
}

/// Reads a head from the beginning of `bytes`: the head and its length, or `None` if it is not complete. Interim responses
/// (RFC 9110, section 15.2) are left out.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Failure> {
    let mut start = 0;
    loop {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let read = response.parse(&bytes[start..]).map_err(|error| Failure::NotHttp(error.to_string()))?;
        let httparse::Status::Complete(length) = read else { return Ok(None) };
        start += length;
        let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or_else(|| Failure::NotHttp("the status is no number".into()))?;
        if !status.is_informational() {
            return Ok(Some((made(status, &response)?, start)));
        }
    }
}

fn made(status: StatusCode, response: &httparse::Response<'_, '_>) -> Result<Head, Failure> {
    let values = |name: &'static str| {
        let fields = response.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        fields.flat_map(|field| field.value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
    };
    let says = |word: &str| values("connection").any(|value| value.eq_ignore_ascii_case(word.as_bytes()));
    let mut stays_open = if response.version == Some(0) { says("keep-alive") } else { !says("close") };
    let body = if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
        Body::Length(0)
    } else if let Some(coding) = values("transfer-encoding").next_back() {
        if coding.eq_ignore_ascii_case(b"chunked") {
            Body::Chunked(Chunks::Size(0, false))
        } else {
            Body::UntilClose
        }
    } else if let Some(length) = values("content-length").next() {
        if values("content-length").any(|other| other != length) {
            return Err(Failure::NotHttp("there are two lengths".into()));
        }
        let text =
            std::str::from_utf8(length).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let length = text.and_then(|text| text.parse().ok());
        Body::Length(length.ok_or_else(|| Failure::NotHttp("the length is no number".into()))?)
    } else {
        Body::UntilClose
    };
    stays_open &= body != Body::UntilClose;
    Ok(Head { status, body, stays_open })
}

fn too_much() -> Failure {
    Failure::NotHttp("more came than its length says".into())
}

impl Body {
    /// Whether nothing more is to come.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunks::Done))
    }

    /// Bytes that are all data of the body, and may be read without being looked at.
    pub(crate) fn plain(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::UntilClose => Some(u64::MAX),
            Self::Chunked(_) => None,
        }
    }

    /// So many bytes have been read without being looked at.
    pub(crate) fn skipped(&mut self, count: u64) -> Result<(), Failure> {
        if let Self::Length(left) = self {
            *left = left.checked_sub(count).ok_or_else(too_much)?;
        }
        Ok(())
    }

    /// Takes what was read, and gives the data in it to `take`.
    pub(crate) fn feed(&mut self, bytes: &[u8], take: &mut impl FnMut(&[u8])) -> Result<(), Failure> {
        match self {
            Self::Length(left) => {
                let data = usize::try_from(*left).map_or(bytes, |left| &bytes[..left.min(bytes.len())]);
                *left -= data.len() as u64;
                take(data);
                if data.len() < bytes.len() {
                    return Err(too_much());
                }
                Ok(())
            }
            Self::Chunked(chunks) => chunks.feed(bytes, take),
            Self::UntilClose => {
                take(bytes);
                Ok(())
            }
        }
    }

    /// How many bytes are to come, if that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        if let Self::Length(left) = self { Some(*left) } else { None }
    }

    /// The connection has ended: an error, unless that is the end of the body.
    pub(crate) fn ended(&self) -> Result<(), Failure> {
        if *self == Self::UntilClose || self.is_done() { Ok(()) } else { Err(Failure::CutOff) }
    }
}

impl Chunks {
    fn feed(&mut self, mut bytes: &[u8], take: &mut impl FnMut(&[u8])) -> Result<(), Failure> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let Self::Data(left) = self {
                let data = usize::try_from(*left).map_or(bytes, |left| &bytes[..left.min(bytes.len())]);
                take(data);
                bytes = &bytes[data.len()..];
                let left = *left - data.len() as u64;
                *self = if left == 0 { Self::DataLine } else { Self::Data(left) };
                continue;
            }
            *self = self.after(byte)?;
            bytes = rest;
        }
        Ok(())
    }

    /// The state after a byte that is no data.
    fn after(self, byte: u8) -> Result<Self, Failure> {
        let wrong = |what: &str| Err(Failure::NotHttp(format!("a chunk {what}")));
        Ok(match (self, byte) {
            (Self::Size(size, _), byte) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                match size.checked_mul(16) {
                    Some(size) => Self::Size(size | u64::from(digit), true),
                    None => return wrong("is too large"),
                }
            }
            (Self::Size(_, false), _) => return wrong("has no size"),
            (Self::Size(0, true) | Self::SizeLine(0) | Self::Trailer(true), b'\n') => Self::Trailer(false),
            (Self::Size(size, true) | Self::SizeLine(size), b'\n') => Self::Data(size),
            (Self::Size(size, true), b'\r' | b';' | b' ' | b'\t') | (Self::SizeLine(size), _) => {
                Self::SizeLine(size)
            }
            (Self::Size(_, true), _) => return wrong("has a size that is no number"),
            (Self::DataLine, b'\r') => Self::DataLine,
            (Self::DataLine, b'\n') => Self::Size(0, false),
            (Self::DataLine, _) => return wrong("is longer than its size"),
            (Self::Trailer(false), b'\n') => Self::Done,
            (Self::Trailer(begun), b'\r') => Self::Trailer(begun),
            (Self::Trailer(_), _) => Self::Trailer(true),
            (Self::Data(_) | Self::Done, _) => return wrong("comes after the last"),
        })
    }
}

#[cfg(test)]
mod tests;
