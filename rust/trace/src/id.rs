//! The ids of traces and spans: random, and never all zero (W3C Trace Context, sections 3.2.2.3 and 3.2.2.4).

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// The id of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

thread_local! {
    /// The state of this thread's generator. Seeded by the keys of a hash map, which the operating system's generator makes.
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0u8));
}

/// The next number of this thread's generator, `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014). Ids need not be secret, only spread evenly.
fn random() -> u64 {
    STATE.with(|state| {
        let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(next);
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

impl TraceId {
    /// A new one, all of whose bits are random.
    pub fn random() -> Self {
        loop {
            let id = (u128::from(random()) << 64) | u128::from(random());
            if id != 0 {
                return Self(id.to_be_bytes());
            }
        }
    }

    /// The part that is random by the level 2 of the specification: 56 bits (section 3.2.2.3).
    pub(crate) fn randomness(self) -> u64 {
        self.0[9..].iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }
}

impl SpanId {
    /// A new one.
    pub fn random() -> Self {
        loop {
            let id = random();
            if id != 0 {
                return Self(id.to_be_bytes());
            }
        }
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The two digits of each byte.
const DIGITS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Writes `bytes` in lower-case digits, two for each, to the front of `out`. Their number is known to the compiler, which so writes
/// them without a loop: each request to an origin has 25.
#[inline]
pub(crate) fn write_hex<const BYTES: usize>(bytes: &[u8; BYTES], out: &mut [u8]) {
    for (pair, byte) in out[..2 * BYTES].chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&DIGITS[usize::from(*byte)]);
    }
}

fn hex<const BYTES: usize>(bytes: &[u8; BYTES]) -> String {
    let mut out = vec![0; 2 * BYTES];
    write_hex(bytes, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Reads as many lower-case digits as `out` has room for. Upper case is not allowed (section 3.2.2).
pub(crate) fn read_hex(text: &[u8], out: &mut [u8]) -> Option<()> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * out.len() {
        return None;
    }
    for (pair, byte) in text.chunks_exact(2).zip(out) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ_also_between_threads() {
        let make = || (0..1000).map(|_| TraceId::random()).collect::<Vec<_>>();
        let other = std::thread::spawn(make);
        let all: HashSet<_> = make().into_iter().chain(other.join().unwrap()).collect();
        assert_eq!(all.len(), 2000);
        let spans: HashSet<_> = (0..1000).map(|_| SpanId::random()).collect();
        assert_eq!(spans.len(), 1000);
    }

    #[test]
    fn digits_are_read_as_they_were_written() {
        let id = TraceId::random();
        let mut read = [0; 16];
        assert_eq!(read_hex(id.to_string().as_bytes(), &mut read), Some(()));
        assert_eq!(read, id.0);
        for wrong in ["0", "0G", "0A", "000", "é"] {
            assert_eq!(read_hex(wrong.as_bytes(), &mut [0; 1]), None, "{wrong}");
        }
    }
}
