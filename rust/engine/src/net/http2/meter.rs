//! What a client may make us do without asking for anything: frames that cost it nothing are counted, as they come and go.
//!
//! The session knows what each frame means, and bounds what it keeps for it. How many frames there may be in a second it does not
//! bound: rapid resets (CVE-2023-44487), resets that the client has us send (CVE-2025-8671), floods of PING and SETTINGS
//! (CVE-2019-9512, CVE-2019-9515), of empty frames (CVE-2019-9518) and tiny ones, and windows that are opened by one byte (CVE-2019-9511).

use tokio::time::Instant;

use crate::clock;

/// Bytes of the head of a frame (RFC 9113, section 4.1).
const HEAD: usize = 9;
/// Bytes that a client sends before its first frame (section 3.4).
const PREFACE: usize = 24;
/// The longest payload that is read: that of `RST_STREAM`.
const READ_BYTES: usize = 4;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// Codes of resets that tell of no offence (section 7): `NO_ERROR`, `INTERNAL_ERROR`, `REFUSED_STREAM`, `CANCEL`.
const RULES_KEPT: [u32; 4] = [0, 2, 7, 8];
const END_STREAM: u8 = 1;
const ACK: u8 = 1;

/// Frames that ask for nothing: 1,000 at once, as `HAProxy` and Envoy allow some thousands for the life of a connection, and 100
/// a second. A client that measures its round trip by PINGs sends a few a second.
const CONTROL: Rate = Rate { burst: 1000, each_second: 100 };
/// Frames of a body with next to nothing in them: each costs as much as a whole one. A message of gRPC has five bytes besides its
/// content, and several go in one frame where many are sent; a client that types sends some dozens a second.
const SMALL_BYTES: usize = 16;
const SMALL: Rate = Rate { burst: 10_000, each_second: 5_000 };
/// Streams that are reset, by either side: a browser cancels some dozens where its user leaves a page of images.
const RESETS: Rate = Rate { burst: 100, each_second: 33 };
/// Resets that one counts for which says that the client has broken the rules (`PROTOCOL_ERROR` and the like): what led to it may
/// have cost much. Fields that unpack to 16 MB take 1.5 ms of the thread.
const OFFENCE: u32 = 10;
/// Streams that an origin resets, or that its clients leave, it answers for to no one but itself; and its events may be small.
const UNLIMITED: Rate = Rate { burst: u32::MAX, each_second: u32::MAX };
/// CONTINUATION frames of one section of fields: with the first, 144 KiB, where a head has 32.
const CONTINUATIONS: u32 = 8;
/// Updates of windows that may come for a DATA frame: for its stream and for the connection, and, of a long one, for each so many
/// bytes of it. Go's client sends one of each for 4 KiB.
const UPDATES_EACH: usize = 2;
const UPDATED: usize = 1024;
/// Updates that may be saved up. Arbitrary.
const MOST_UPDATES: usize = 4096;

/// What a client did too often. The names are those of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Excess {
    /// Streams were reset.
    Resets,
    /// Frames came that ask for nothing.
    Control,
    /// Fields came in too many frames.
    Continuations,
    /// What came is not HTTP/2 as RFC 9113 has it.
    Malformed,
    /// A request came while as many as the connection may have were being answered.
    Streams,
}

impl Excess {
    /// All of them, in the order of their numbers, with their names.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Resets, "resets"),
        (Self::Control, "control_frames"),
        (Self::Continuations, "continuations"),
        (Self::Malformed, "malformed"),
        (Self::Streams, "streams"),
    ];
}

#[derive(Debug, Clone, Copy)]
struct Rate {
    burst: u32,
    each_second: u32,
}

/// What is left of a rate.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    room: u32,
    filled: Instant,
}

impl Bucket {
    fn new(rate: Rate) -> Self {
        Self { rate, room: rate.burst, filled: clock::now() }
    }

    /// Takes one; whether there was one.
    fn take(&mut self) -> bool {
        self.take_many(1)
    }

    fn take_many(&mut self, count: u32) -> bool {
        if self.room < count {
            let millis = u64::try_from(clock::since(self.filled).as_millis()).unwrap_or(u64::MAX);
            let more = millis.saturating_mul(self.rate.each_second.into()) / 1000;
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            if more > 0 {
                self.room = self.room.saturating_add(more).min(self.rate.burst);
                self.filled = clock::now();
            }
        }
        self.room = match self.room.checked_sub(count) {
            Some(room) => room,
            None => return false,
        };
        true
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy)]
struct Frame {
    length: usize,
    kind: u8,
    flags: u8,
}

/// Finds the heads of frames in bytes.
#[derive(Debug)]
struct Frames {
    /// Bytes to come before the next head.
    skipped: usize,
    head: [u8; HEAD],
    has: usize,
    /// The kind of frames whose payload is read, if any is.
    reads: Option<u8>,
    /// Such a payload, as far as it has come.
    kept: Option<Vec<u8>>,
}

impl Frames {
    fn after(preface: usize, reads: Option<u8>) -> Self {
        Self { skipped: preface, head: [0; HEAD], has: 0, reads, kept: None }
    }

    /// Goes on through `bytes`, and calls `each` with the frames whose head they end, and `read` with payloads that are read.
    fn advance(&mut self, mut bytes: &[u8], mut each: impl FnMut(Frame), mut read: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            if self.skipped > 0 {
                let count = self.skipped.min(bytes.len());
                if let Some(kept) = &mut self.kept {
                    kept.extend_from_slice(&bytes[..count]);
                }
                bytes = &bytes[count..];
                self.skipped -= count;
            } else {
                let count = (HEAD - self.has).min(bytes.len());
                self.head[self.has..self.has + count].copy_from_slice(&bytes[..count]);
                bytes = &bytes[count..];
                self.has += count;
                if self.has < HEAD {
                    return;
                }
                self.has = 0;
                let [high, middle, low, kind, flags, ..] = self.head;
                let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                each(Frame { length, kind, flags });
                self.skipped = length;
                self.kept = (Some(kind) == self.reads && length <= READ_BYTES).then(Vec::new);
            }
            if self.skipped == 0 {
                if let Some(kept) = self.kept.take() {
                    read(&kept);
                }
            }
        }
    }
}

/// Counts the frames of a connection.
#[derive(Debug)]
pub(super) struct Meter {
    received: Frames,
    sent: Frames,
    control: Bucket,
    small: Bucket,
    resets: Bucket,
    /// CONTINUATION frames since the last other one.
    continuations: u32,
    /// Updates of windows that may come for what was sent.
    updates: usize,
    excess: Option<Excess>,
    /// Bytes that were sent.
    written: u64,
}

impl Meter {
    /// For a connection on which the client's preface is still to come.
    pub(super) fn of_server() -> Self {
        Self::new(PREFACE, 0, RESETS, SMALL)
    }

    /// For a connection to an origin, on which nothing has been sent.
    pub(super) fn of_client() -> Self {
        Self::new(0, PREFACE, UNLIMITED, UNLIMITED)
    }

    fn new(received: usize, sent: usize, resets: Rate, small: Rate) -> Self {
        Self {
            received: Frames::after(received, None),
            sent: Frames::after(sent, Some(RST_STREAM)),
            control: Bucket::new(CONTROL),
            small: Bucket::new(small),
            resets: Bucket::new(resets),
            continuations: 0,
            updates: MOST_UPDATES,
            excess: None,
            written: 0,
        }
    }

    /// What the client did too often, if anything: its bytes are read no further.
    pub(super) fn excess(&self) -> Option<Excess> {
        self.excess
    }

    /// Bytes that were sent so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// `bytes` have come.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        let Self { received, control, small, resets, continuations, updates, excess, .. } = self;
        received.advance(
            bytes,
            |Frame { length, kind, flags }| {
                *continuations = if kind == CONTINUATION { *continuations + 1 } else { 0 };
                let (taken, why) = match kind {
                    RST_STREAM => (resets.take(), Excess::Resets),
                    CONTINUATION => (*continuations <= CONTINUATIONS, Excess::Continuations),
                    HEADERS => return,
                    DATA if length >= SMALL_BYTES || flags & END_STREAM != 0 => return,
                    DATA if length > 0 => (small.take(), Excess::Control),
                    SETTINGS | PING if flags & ACK != 0 => return,
                    WINDOW_UPDATE if *updates > 0 => {
                        *updates -= 1;
                        return;
                    }
                    _ => (control.take(), Excess::Control),
                };
                if !taken {
                    excess.get_or_insert(why);
                }
            },
            |_| {},
        );
    }

    /// A window was opened by so little that a frame has next to nothing of what waits.
    pub(super) fn starve(&mut self) {
        if !self.control.take() {
            self.excess.get_or_insert(Excess::Control);
        }
    }

    /// `bytes` are sent.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.written += bytes.len() as u64;
        let Self { sent, resets, updates, excess, .. } = self;
        sent.advance(
            bytes,
            |Frame { length, kind, .. }| {
                if kind == DATA {
                    *updates = (*updates + UPDATES_EACH + length / UPDATED).min(MOST_UPDATES);
                }
            },
            |code| {
                let is_offence = !RULES_KEPT.iter().any(|kept| code == kept.to_be_bytes());
                if !resets.take_many(if is_offence { OFFENCE } else { 1 }) {
                    excess.get_or_insert(Excess::Resets);
                }
            },
        );
    }
}

/// What a client did too often whose bytes come in these pieces, and the bytes of the answers to them go in `sent`.
pub fn excess_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, sent: &[u8]) -> Option<Excess> {
    let mut meter = Meter::of_server();
    meter.send(sent);
    pieces.into_iter().for_each(|piece| meter.receive(piece));
    meter.excess()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn begun() -> Meter {
        let mut meter = Meter::of_server();
        meter.receive(&[0; PREFACE]);
        meter
    }

    /// How many of `frame` may come.
    fn allowed(meter: &mut Meter, frame: &[u8]) -> usize {
        for count in 0.. {
            meter.receive(frame);
            if meter.excess().is_some() {
                return count;
            }
            if count > 100_000 {
                break;
            }
        }
        usize::MAX
    }

    #[tokio::test(start_paused = true)]
    async fn what_costs_a_client_nothing_has_a_limit() {
        for (kind, flags, payload, count, excess) in [
            (PING, 0, &[0; 8][..], 1000, Excess::Control),
            (SETTINGS, 0, &[], 1000, Excess::Control),
            (DATA, 0, &[], 1000, Excess::Control),
            (DATA, 0, &[0; SMALL_BYTES - 1], 10_000, Excess::Control),
            (2, 0, &[0; 5], 1000, Excess::Control),
            (16, 0, b"\0\0\0\x01u=1", 1000, Excess::Control),
            (99, 0, b"?", 1000, Excess::Control),
            (WINDOW_UPDATE, 0, &[0, 0, 0, 1], 1000 + MOST_UPDATES, Excess::Control),
            (RST_STREAM, 0, &[0; 4], 100, Excess::Resets),
            (CONTINUATION, 0, b"", 8, Excess::Continuations),
        ] {
            let mut meter = begun();
            assert_eq!(allowed(&mut meter, &frame(kind, flags, payload)), count, "{kind}");
            assert_eq!(meter.excess(), Some(excess), "{kind}");
        }
        for (kind, flags, payload) in [
            (HEADERS, 0, &b"?"[..]),
            (DATA, 0, &[0; SMALL_BYTES]),
            (DATA, END_STREAM, b""),
            (PING, ACK, &[0; 8]),
        ] {
            assert_eq!(allowed(&mut begun(), &frame(kind, flags, payload)), usize::MAX, "{kind}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_pauses_may_go_on_at_the_rate() {
        let mut meter = begun();
        let ping = frame(PING, 0, &[0; 8]);
        for _ in 0..1000 {
            meter.receive(&ping);
        }
        advance(Duration::from_secs(1)).await;
        for _ in 0..100 {
            meter.receive(&ping);
        }
        assert_eq!(meter.excess(), None);
        meter.receive(&ping);
        assert_eq!(meter.excess(), Some(Excess::Control));
    }

    #[tokio::test(start_paused = true)]
    async fn each_frame_that_was_sent_allows_updates_by_its_length() {
        let update = frame(WINDOW_UPDATE, 0, &[0, 0, 0, 1]);
        for (length, updates) in [(1, 2), (1023, 2), (4096, 6), (16 << 10, 18)] {
            let mut meter = begun();
            for _ in 0..10_000 {
                meter.send(&frame(DATA, 0, &vec![0; length]));
                meter.receive(&update.repeat(updates));
            }
            assert_eq!(meter.excess(), None, "{length}");
            for _ in 0..MOST_UPDATES + 1000 {
                meter.send(&frame(DATA, 0, &vec![0; length]));
                meter.receive(&update.repeat(updates + 1));
            }
            meter.receive(&update);
            assert_eq!(meter.excess(), Some(Excess::Control), "{length}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_may_starve_few_frames() {
        let mut meter = begun();
        for _ in 0..1000 {
            meter.starve();
        }
        assert_eq!(meter.excess(), None);
        meter.starve();
        assert_eq!(meter.excess(), Some(Excess::Control));
    }

    #[tokio::test(start_paused = true)]
    async fn resets_that_the_client_has_us_send_count_as_its_own() {
        let mut meter = begun();
        for _ in 0..50 {
            meter.receive(&frame(RST_STREAM, 0, &[0; 4]));
            meter.send(&frame(RST_STREAM, 0, &[0; 4]));
        }
        assert_eq!(meter.excess(), None);
        meter.send(&frame(RST_STREAM, 0, &[0; 4]));
        assert_eq!(meter.excess(), Some(Excess::Resets));
    }

    #[tokio::test(start_paused = true)]
    async fn resets_for_an_offence_count_for_more() {
        for (code, count) in [(0u32, 100), (2, 100), (7, 100), (8, 100), (1, 10), (3, 10), (5, 10)] {
            let mut meter = begun();
            for _ in 0..count {
                assert_eq!(meter.excess(), None);
                meter.send(&frame(RST_STREAM, 0, &code.to_be_bytes()));
            }
            assert_eq!(meter.excess(), None, "{code}");
            meter.send(&frame(RST_STREAM, 0, &code.to_be_bytes()));
            assert_eq!(meter.excess(), Some(Excess::Resets), "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frames_are_found_however_the_bytes_come() {
        let bytes = [
            vec![0; PREFACE],
            frame(HEADERS, 0, &[7; 300]),
            frame(PING, 0, &[0; 8]),
            frame(99, 0, &[b' '; 70]),
            frame(RST_STREAM, 0, &[0; 4]),
        ]
        .concat();
        for size in 1..bytes.len() {
            let mut meter = Meter::of_server();
            for piece in bytes.chunks(size) {
                meter.receive(piece);
            }
            assert_eq!((meter.resets.room, meter.control.room), (99, 998), "{size}");
        }
    }
}
