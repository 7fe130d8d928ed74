//! What a frame begins with (RFC 9113, section 4.1), and the numbers that frames have.

use std::fmt;

/// Bytes of the head of a frame.
pub(crate) const HEAD: usize = 9;
/// Bytes of the longest payload that is read, and that is sent without being told that more may be (section 4.2).
pub(crate) const LONGEST: usize = 16 << 10;
/// What a client sends before its first frame (section 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Kinds of frames (section 6; RFC 9218, section 7.1).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
    pub(crate) const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of frames.
pub(crate) mod flag {
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
    pub(crate) const PADDED: u8 = 8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// Why a stream or a connection ends (section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// It is as it should be.
    pub const NO_ERROR: Self = Self(0);
    /// The other side has broken the rules.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// This side has failed.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// More was sent than a window has.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// Something was sent on a stream that has ended.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame has a length that its kind does not have.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// Nothing was done for the stream: it may be sent again.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is not needed any more.
    pub const CANCEL: Self = Self(8);
    /// Compressed fields cannot be read.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The other side does too much of something.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
    /// The request is to be sent over HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(13);
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {}", self.0),
        }
    }
}

/// In the order of their numbers.
const NAMES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// 0: the connection as a whole.
    pub(crate) stream: u32,
}

impl FrameHead {
    pub(crate) fn read(bytes: &[u8; HEAD]) -> Self {
        let [high, middle, low, kind, flags, stream @ ..] = *bytes;
        Self {
            length: usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low),
            kind,
            flags,
            stream: number(stream),
        }
    }

    /// Its bytes. The payload has at most 16 MiB.
    pub(crate) fn bytes(self) -> [u8; HEAD] {
        let [low, middle, high, ..] = self.length.to_le_bytes();
        let [a, b, c, d] = self.stream.to_be_bytes();
        [high, middle, low, self.kind, self.flags, a, b, c, d]
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A number of 31 bits: the first bit says nothing.
pub(crate) fn number(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & (u32::MAX >> 1)
}

/// Appends a frame whose payload is `payload`.
pub(crate) fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&FrameHead { length: payload.len(), kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}
