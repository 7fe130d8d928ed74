mod cutter;
mod events;
mod formats;
mod properties;
pub(crate) mod reference;

use super::*;
use penstock_memory::pool::testing::config;
use penstock_memory::pool::{Pool, Purpose, REGION, Slice, Writer};
use reference::{End, Outcome};

fn pool(regions: usize) -> Pool {
    Pool::new(config(regions * REGION)).unwrap()
}

thread_local! {
    /// One pool for all cases of a test, because a pool costs far more than most cases.
    static POOL: Pool = pool(32);
}

/// Writes like a reader: into one slab, or into a fresh one if a piece says so.
struct Slabs<'a> {
    pool: &'a Pool,
    writer: Option<Writer>,
}

impl<'a> Slabs<'a> {
    fn new(pool: &'a Pool) -> Self {
        Self { pool, writer: None }
    }

    fn fresh(&mut self) -> &mut Self {
        self.writer = None;
        self
    }

    fn slice(&mut self, bytes: &[u8]) -> Slice {
        let writer = match &mut self.writer {
            Some(writer) if writer.remaining() >= bytes.len() => writer,
            other => other.insert(self.pool.writer(bytes.len().max(1), Purpose::Bulk).unwrap()),
        };
        writer.spare()[..bytes.len()].copy_from_slice(bytes);
        writer.commit(bytes.len())
    }
}

/// How the wire splits a text: the length of each piece, and whether it comes in a fresh slab. Begins again at its
/// end.
type Pieces = [(usize, bool)];

const WHOLE: &Pieces = &[(usize::MAX, true)];
const BYTES: &Pieces = &[(1, false)];
const SLABS: &Pieces = &[(1, true)];

/// Cuts `text`, taking frames after each piece.
fn cut(framing: &Framing, text: &[u8], pieces: &Pieces) -> Outcome {
    POOL.with(|pool| {
        let mut frames = Vec::new();
        let end = match cut_into(&mut frames, pool, framing, text, pieces).map_err(|error| error.code()) {
            Ok(()) => End::Clean,
            Err(Code::FrameTooLarge) => End::TooLarge,
            Err(Code::FrameTruncated) => End::Truncated,
            Err(other) => panic!("unexpected {}", other.name()),
        };
        assert_eq!(pool.stats().live_bytes, 0, "memory is still held");
        (frames, end)
    })
}

fn cut_into(
    frames: &mut Vec<Vec<u8>>,
    pool: &Pool,
    framing: &Framing,
    text: &[u8],
    pieces: &Pieces,
) -> Result<()> {
    let mut cutter = Cutter::new(framing);
    let mut slabs = Slabs::new(pool);
    let (mut left, mut pieces) = (text, pieces.iter().cycle());
    while !left.is_empty() {
        let &(length, fresh) = pieces.next().unwrap();
        let (piece, rest) = left.split_at(length.min(left.len()));
        if fresh {
            slabs.fresh();
        }
        cutter.push(slabs.slice(piece));
        while let Some(frame) = cutter.next(pool)? {
            frames.push(frame.to_vec());
        }
        left = rest;
    }
    while let Some(frame) = cutter.finish(pool)? {
        frames.push(frame.to_vec());
    }
    assert_eq!(cutter.pending(), 0, "bytes are neither delivered nor refused");
    Ok(())
}

/// The frames of `text`, which are the same whole, byte by byte, and split at any one place.
fn cut_anyhow(framing: &Framing, text: &[u8]) -> Outcome {
    let whole = cut(framing, text, WHOLE);
    assert_eq!(cut(framing, text, BYTES), whole, "byte by byte in one slab: {:?}", text.escape_ascii());
    assert_eq!(cut(framing, text, SLABS), whole, "a slab for each byte: {:?}", text.escape_ascii());
    // Under Miri the two above are enough for long texts.
    for at in (1..text.len()).take(if cfg!(miri) { 3 } else { usize::MAX }) {
        for fresh in [false, true] {
            let split = cut(framing, text, &[(at, fresh), (text.len() - at, fresh)]);
            assert_eq!(split, whole, "split at {at}: {:?}", text.escape_ascii());
        }
    }
    whole
}

fn frames(texts: &[&[u8]]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.to_vec()).collect()
}
