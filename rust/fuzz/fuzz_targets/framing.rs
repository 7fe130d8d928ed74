//! Any framing over any chunking gives the frames, and the end, that the reference gives for the whole text.
#![no_main]

#[path = "../../http/src/framing/tests/reference.rs"]
#[expect(dead_code, reason = "event_parse uses the rest")]
mod reference;
mod support;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use penstock_engine::framing::{Cutter, Framing};
use penstock_engine::pool::{Purpose, REGION, Writer};
use penstock_engine::{Code, Result};
use reference::{End, Outcome};
use support::pool;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    format: Format,
    /// Small, so that maxima are met.
    size: u8,
    pieces: Vec<Piece>,
    text: &'a [u8],
}

#[derive(Debug, Arbitrary)]
enum Format {
    Fixed,
    LengthPrefixed { width: Width, little_endian: bool },
    Lines,
    Events { blocks: bool },
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Width {
    One = 1,
    Two = 2,
    Four = 4,
    Eight = 8,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct Piece {
    length: u8,
    /// In a slab of its own, or on in the one before.
    fresh: bool,
    /// Frames are taken after it, or only after a later one.
    taken: bool,
    /// What is pending moves into the slab of the next piece.
    carried: bool,
    /// The pool is full when frames are taken, and has room when they are taken again.
    refused: bool,
}

const WHOLE: Piece = Piece { length: u8::MAX, fresh: true, taken: true, carried: false, refused: false };

/// Larger texts say nothing new, and fill the pool with one-byte slabs.
const LONGEST: usize = 1000;

/// Filling the pool takes longer than all else, and the first few times say what there is to say.
const REFUSALS: usize = 3;

fn exhaust() -> Vec<Writer> {
    let sizes = [REGION, 65536, 4096];
    sizes
        .into_iter()
        .flat_map(|size| std::iter::from_fn(move || pool().writer(size, Purpose::Control).ok()))
        .collect()
}

fn take(
    frames: &mut Vec<Vec<u8>>,
    refused: bool,
    mut next: impl FnMut() -> Result<Option<Vec<u8>>>,
) -> Result<()> {
    loop {
        let held = if refused { exhaust() } else { vec![] };
        match next() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return Ok(()),
            Err(error) if refused && error.code() == Code::PoolFull => {
                drop(held);
                frames.push(next()?.expect("the frame that was refused"));
            }
            Err(error) => return Err(error),
        }
    }
}

fn cut(frames: &mut Vec<Vec<u8>>, framing: &Framing, text: &[u8], pieces: &[Piece]) -> Result<()> {
    let mut cutter = Cutter::new(framing);
    let mut writer: Option<Writer> = None;
    let (mut left, mut pieces) = (text, pieces.iter().cycle());
    let (mut refused, mut refusals) = (false, REFUSALS);
    while !left.is_empty() {
        let piece = *pieces.next().expect("never empty");
        let (bytes, rest) = left.split_at(usize::from(piece.length).max(1).min(left.len()));
        left = rest;
        if piece.fresh
            || writer.as_ref().is_none_or(|writer| writer.remaining() < cutter.pending() + bytes.len())
        {
            writer = Some(pool().writer(cutter.pending() + bytes.len(), Purpose::Bulk)?);
        }
        let writer = writer.as_mut().expect("just made");
        if piece.carried {
            cutter.carry(pool(), writer);
        }
        writer.spare()[..bytes.len()].copy_from_slice(bytes);
        cutter.push(writer.commit(bytes.len()));
        refused = piece.refused && refusals > 0;
        refusals -= usize::from(refused);
        if piece.taken {
            take(frames, refused, || Ok(cutter.next(pool())?.map(|frame| frame.to_vec())))?;
            check_wants(&cutter, framing);
        }
    }
    take(frames, refused, || Ok(cutter.finish(pool())?.map(|frame| frame.to_vec())))?;
    assert_eq!(cutter.pending(), 0, "bytes are neither delivered nor refused");
    Ok(())
}

fn check_wants(cutter: &Cutter, framing: &Framing) {
    match framing {
        Framing::Fixed { size } => assert_eq!(cutter.wants(), Some(size - cutter.pending())),
        Framing::LengthPrefixed { .. } => assert!(cutter.wants().is_none_or(|wants| wants > 0)),
        _ => assert_eq!(cutter.wants(), None),
    }
}

fn outcome(framing: &Framing, text: &[u8], pieces: &[Piece]) -> Outcome {
    let mut frames = Vec::new();
    let end = match cut(&mut frames, framing, text, pieces).map_err(|error| error.code()) {
        Ok(()) => End::Clean,
        Err(Code::FrameTooLarge) => End::TooLarge,
        Err(Code::FrameTruncated) => End::Truncated,
        Err(other) => panic!("unexpected {}", other.name()),
    };
    assert_eq!(pool().stats().live_bytes, 0, "memory is still held");
    (frames, end)
}

fuzz_target!(|input: Input| {
    let text = &input.text[..input.text.len().min(LONGEST)];
    let max_frame = usize::from(input.size).max(1);
    let (framing, expected) = match input.format {
        Format::Fixed => (Framing::Fixed { size: max_frame }, reference::fixed(text, max_frame)),
        Format::LengthPrefixed { width, little_endian } => {
            let framing = Framing::LengthPrefixed { width: width as u8, little_endian, max_frame };
            (framing, reference::length_prefixed(text, width as usize, little_endian, max_frame))
        }
        Format::Lines => (Framing::Lines { max_frame }, reference::lines(text, max_frame)),
        Format::Events { blocks } => {
            (Framing::Events { max_frame, blocks }, reference::events(text, max_frame, blocks))
        }
    };
    let pieces = if input.pieces.is_empty() { &[WHOLE][..] } else { &input.pieces };
    assert_eq!(outcome(&framing, text, pieces), expected);
});
