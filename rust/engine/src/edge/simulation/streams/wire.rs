//! Reads the frames of a connection in the plainest way (RFC 9113), and holds what the edge sends against the rules: windows, the
//! order of a stream's frames, and what GOAWAY has promised.

use std::collections::BTreeMap;

use crate::simulation::{Verdict, hold};

const HEAD: usize = 9;
const PREFACE: usize = 24;
/// Of a connection (section 6.9.2).
const WINDOW: i64 = 65_535;
const LONGEST: usize = 16_384;
const END_STREAM: u8 = 1;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// A connection, as its client sees it.
#[derive(Debug)]
pub(super) struct Wire {
    came: Vec<u8>,
    sent: Vec<u8>,
    has_preface: bool,
    /// Of a new stream.
    initial: i64,
    /// What the edge may send.
    window: i64,
    flows: BTreeMap<u32, Flow>,
    /// The last stream that the edge has said it takes.
    last: Option<u32>,
    /// Frames of bodies that have filled a window.
    pub(super) filled: usize,
}

/// What the edge sends on a stream.
#[derive(Debug)]
struct Flow {
    window: i64,
    /// All of the response has come.
    is_whole: bool,
    is_reset: bool,
}

struct Frame<'a> {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &'a [u8],
}

impl Frame<'_> {
    fn number(&self, at: usize) -> Result<u32, String> {
        let four = self.payload.get(at..at + 4).and_then(|four| <[u8; 4]>::try_from(four).ok());
        four.map(u32::from_be_bytes).ok_or_else(|| format!("a frame of kind {} is too short", self.kind))
    }
}

/// The first frame, if all of it is there, and its length.
fn frame(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    let head: [u8; HEAD] = bytes.get(..HEAD)?.try_into().ok()?;
    let [a, b, c, kind, flags, stream @ ..] = head;
    let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
    let payload = bytes.get(HEAD..HEAD + length)?;
    let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
    Some((Frame { kind, flags, stream, payload }, HEAD + length))
}

impl Wire {
    /// One whose client's settings say that a stream has a window of `initial` bytes.
    pub(super) fn new(initial: u32) -> Self {
        Self {
            came: Vec::new(),
            sent: Vec::new(),
            has_preface: false,
            initial: initial.into(),
            window: WINDOW,
            flows: BTreeMap::new(),
            last: None,
            filled: 0,
        }
    }

    /// The last stream that the edge takes, if it has said so.
    pub(super) fn last(&self) -> Option<u32> {
        self.last
    }

    /// The client sends `bytes`.
    pub(super) fn sends(&mut self, bytes: &[u8]) -> Verdict {
        self.sent.extend(bytes);
        if !self.has_preface {
            if self.sent.len() < PREFACE {
                return Ok(());
            }
            self.sent.drain(..PREFACE);
            self.has_preface = true;
        }
        let sent = std::mem::take(&mut self.sent);
        let mut rest = &sent[..];
        while let Some((frame, length)) = frame(rest) {
            match (frame.kind, frame.stream) {
                (HEADERS, stream) => {
                    let flow = Flow { window: self.initial, is_whole: false, is_reset: false };
                    self.flows.entry(stream).or_insert(flow);
                }
                (WINDOW_UPDATE, 0) => self.window += i64::from(frame.number(0)?),
                (WINDOW_UPDATE, stream) => {
                    let more = i64::from(frame.number(0)?);
                    self.flows.entry(stream).and_modify(|flow| flow.window += more);
                }
                _ => {}
            }
            rest = &rest[length..];
        }
        self.sent = rest.to_vec();
        Ok(())
    }

    /// The edge has sent `bytes`.
    pub(super) fn receives(&mut self, bytes: &[u8]) -> Verdict {
        self.came.extend(bytes);
        let came = std::mem::take(&mut self.came);
        let mut rest = &came[..];
        while let Some((frame, length)) = frame(rest) {
            self.judge(&frame)?;
            rest = &rest[length..];
        }
        self.came = rest.to_vec();
        Ok(())
    }

    /// Whether the connection may end now: not within a frame.
    pub(super) fn is_between_frames(&self) -> bool {
        self.came.is_empty()
    }

    fn judge(&mut self, frame: &Frame<'_>) -> Verdict {
        let (kind, stream, length) = (frame.kind, frame.stream, frame.payload.len());
        hold!(length <= LONGEST, "a frame has {length} bytes");
        match kind {
            SETTINGS | PING => hold!(stream == 0, "a frame of kind {kind} is of stream {stream}"),
            GOAWAY => return self.judge_goaway(frame),
            WINDOW_UPDATE => hold!(frame.number(0)? > 0, "a window grows by nothing"),
            DATA | HEADERS | RST_STREAM => return self.judge_flow(frame),
            _ => return Err(format!("a frame of kind {kind} came, which the edge does not send")),
        }
        Ok(())
    }

    fn judge_goaway(&mut self, frame: &Frame<'_>) -> Verdict {
        let (last, code) = (frame.number(0)?, frame.number(4)?);
        hold!(code == 0, "a client that keeps the rules is told the error {code}");
        hold!(self.last.is_none_or(|before| last <= before), "GOAWAY takes more than it did: {last}");
        self.last = Some(last);
        Ok(())
    }

    fn judge_flow(&mut self, frame: &Frame<'_>) -> Verdict {
        let Frame { kind, flags, stream, .. } = *frame;
        let flow = self.flows.get_mut(&stream);
        let flow =
            flow.ok_or_else(|| format!("a frame of kind {kind} is of stream {stream}, which never began"))?;
        if kind == RST_STREAM {
            let code = frame.number(0)?;
            hold!(!flow.is_reset, "stream {stream} is reset twice");
            hold!(!flow.is_whole || code == 0, "stream {stream} is whole, and then reset with {code}");
            flow.is_reset = true;
            return Ok(());
        }
        hold!(!flow.is_whole && !flow.is_reset, "stream {stream} goes on after its end: kind {kind}");
        if kind == DATA {
            let count = i64::try_from(frame.payload.len()).unwrap_or(i64::MAX);
            flow.window -= count;
            self.window -= count;
            hold!(flow.window >= 0, "stream {stream} is sent {} bytes above its window", -flow.window);
            hold!(self.window >= 0, "the connection is sent {} bytes above its window", -self.window);
            self.filled += usize::from(count > 0 && flow.window == 0);
        }
        flow.is_whole = flags & END_STREAM != 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).expect("short");
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    fn begun(window: u32) -> Wire {
        let mut wire = Wire::new(window);
        wire.sends(&[[0; PREFACE].to_vec(), bytes(HEADERS, 5, 1, b"")].concat()).expect("frames");
        wire
    }

    #[test]
    fn a_response_within_its_window_is_well_however_it_is_cut() {
        let mut wire = begun(3);
        let response = [bytes(HEADERS, 4, 1, b"h"), bytes(DATA, 0, 1, b"abc")].concat();
        for byte in response {
            assert_eq!(wire.receives(&[byte]), Ok(()));
        }
        wire.sends(&bytes(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])).expect("a frame");
        assert_eq!(wire.receives(&bytes(DATA, 1, 1, b"d")), Ok(()));
        assert_eq!((wire.filled, wire.is_between_frames()), (2, true));
    }

    #[test]
    fn what_breaks_a_rule_is_found() {
        let data = |flags, payload| bytes(DATA, flags, 1, payload);
        for wrong in [
            data(0, b"abcd"),
            bytes(DATA, 0, 3, b""),
            [data(1, b"a"), data(0, b"b")].concat(),
            [bytes(RST_STREAM, 0, 1, &[0; 4]), data(0, b"b")].concat(),
            [data(1, b"a"), bytes(RST_STREAM, 0, 1, &[0, 0, 0, 2])].concat(),
            bytes(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 1]),
            [bytes(GOAWAY, 0, 0, &[0; 8]), bytes(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])].concat(),
            bytes(5, 0, 1, b""),
        ] {
            assert!(begun(3).receives(&wrong).is_err(), "{wrong:?}");
        }
    }
}
