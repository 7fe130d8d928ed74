//! The cutter and memory: copies, refusals, long frames, look-ahead.

use super::*;
use penstock_memory::pool::CopyReason;

fn copied(pool: &Pool) -> usize {
    pool.stats().bytes_copied[CopyReason::FrameJoin as usize]
}

fn drain(cutter: &mut Cutter, pool: &Pool) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| cutter.next(pool).unwrap()).map(|frame| frame.to_vec()).collect()
}

/// Takes memory until the pool is empty.
fn exhaust(pool: &Pool) -> Vec<Writer> {
    [REGION, 4096]
        .into_iter()
        .flat_map(|size| std::iter::from_fn(move || pool.writer(size, Purpose::Control).ok()))
        .collect()
}

/// Cuts lines while the pool has no room, when `refusals` says so, and again after it has room.
pub(super) fn cut_under_refusals(text: &[u8], pieces: &Pieces, refusals: &[bool]) -> Outcome {
    let pool = pool(4);
    let mut cutter = Cutter::new(&Framing::Lines { max_frame: 1000 });
    let mut slabs = Slabs::new(&pool);
    let (mut left, mut pieces, mut refusals) = (text, pieces.iter().cycle(), refusals.iter().cycle());
    let mut frames = Vec::new();
    loop {
        let (piece, rest) = left.split_at(left.len().min(pieces.next().unwrap().0));
        left = rest;
        cutter.push(slabs.fresh().slice(piece));
        loop {
            let held = if *refusals.next().unwrap() { exhaust(&pool) } else { vec![] };
            let pending = cutter.pending();
            let next = if left.is_empty() { cutter.finish(&pool) } else { cutter.next(&pool) };
            match next {
                Ok(Some(frame)) => frames.push(frame.to_vec()),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(error.code(), Code::PoolFull);
                    assert_eq!(cutter.pending(), pending, "a refusal changed what is pending");
                    drop(held);
                    let retried = if left.is_empty() { cutter.finish(&pool) } else { cutter.next(&pool) };
                    frames.push(retried.unwrap().expect("the frame that was refused").to_vec());
                }
            }
        }
        if left.is_empty() {
            return (frames, End::Clean);
        }
    }
}

#[test]
fn a_cutter_may_move_to_another_thread() {
    fn assert_send<T: Send>(_: &T) {}
    assert_send(&Cutter::new(&Framing::Fixed { size: 1 }));
}

#[test]
fn frames_inside_a_slab_are_not_copied() {
    let pool = pool(1);
    let mut cutter = Cutter::new(&Framing::Lines { max_frame: 100 });
    let mut slabs = Slabs::new(&pool);
    let mut found = Vec::new();
    for piece in [&b"one\ntw"[..], b"o\r", b"\nthr", b"ee", b"\n"] {
        cutter.push(slabs.slice(piece));
        found.extend(drain(&mut cutter, &pool));
    }
    assert_eq!(found, frames(&[b"one", b"two", b"three"]));
    assert_eq!(pool.stats().bytes_copied.iter().sum::<usize>(), 0);
}

#[test]
fn a_frame_over_several_slabs_is_joined_once() {
    let pool = pool(4);
    let mut cutter = Cutter::new(&Framing::Lines { max_frame: 100 });
    let mut slabs = Slabs::new(&pool);
    for piece in [&b"before\non"[..], b"e fra", b"me\r", b"\nafter\n"] {
        cutter.push(slabs.fresh().slice(piece));
    }
    assert_eq!(drain(&mut cutter, &pool), frames(&[b"before", b"one frame", b"after"]));
    assert_eq!(copied(&pool), "one frame".len());
}

#[test]
fn what_is_not_delivered_is_not_joined() {
    let pool = pool(4);
    for (framing, pieces, expected) in [
        (Framing::Lines { max_frame: 9 }, &[&b"line"[..], b"\r", b"\n"][..], &[&b"line"[..]][..]),
        (Framing::Lines { max_frame: 9 }, &[b"\r", b"\n"], &[b""]),
        (
            Framing::LengthPrefixed { width: 4, little_endian: false, max_frame: 9 },
            &[b"\0\0", b"\0\x02", b"ab"],
            &[b"ab"],
        ),
        (
            Framing::LengthPrefixed { width: 4, little_endian: false, max_frame: 9 },
            &[b"\0\0", b"\0", b"\0"],
            &[b""],
        ),
        (Framing::Events { max_frame: 90, blocks: false }, &[b":com", b"ment\n", b"\n"], &[]),
    ] {
        let mut cutter = Cutter::new(&framing);
        let mut slabs = Slabs::new(&pool);
        for piece in pieces {
            cutter.push(slabs.fresh().slice(piece));
        }
        assert_eq!(drain(&mut cutter, &pool), frames(expected));
        assert_eq!(cutter.pending(), 0);
    }
    assert_eq!(copied(&pool), 0);
    assert_eq!(pool.stats().live_bytes, 0);
}

/// Raw video, for a reader with one run for each frame.
#[test]
fn a_large_frame_read_into_one_run_is_not_copied() {
    const SIZE: usize = if cfg!(miri) { REGION + 1000 } else { 1920 * 1080 * 3 };
    // Miri takes a microsecond for every byte that is read.
    const LOOK: usize = if cfg!(miri) { 997 } else { 1 };
    let pool = pool(2 * SIZE.div_ceil(REGION));
    let mut cutter = Cutter::new(&Framing::Fixed { size: SIZE });
    for number in 0..3_u8 {
        let mut run = pool.writer(cutter.pending() + cutter.wants().unwrap(), Purpose::Bulk).unwrap();
        cutter.carry(&pool, &mut run);
        // Reads of a pipe's usual size.
        while let Some(wanted) = cutter.wants().filter(|&wanted| wanted > 0 && wanted <= SIZE - run.filled())
        {
            let count = wanted.min(65536);
            run.spare()[..count].fill(number);
            cutter.push(run.commit(count));
            let Some(frame) = cutter.next(&pool).unwrap() else { continue };
            assert_eq!(frame.len(), SIZE);
            assert!(frame.iter().step_by(LOOK).all(|&byte| byte == number));
            break;
        }
        assert_eq!(run.filled(), SIZE, "the frame ends where the reads end");
    }
    assert_eq!(cutter.pending(), 0);
    assert_eq!(pool.stats().bytes_copied.iter().sum::<usize>(), 0);
}

#[test]
fn the_beginning_of_a_large_frame_is_carried_over() {
    const SIZE: usize = REGION + 1000;
    let pool = pool(4);
    let framing = Framing::LengthPrefixed { width: 4, little_endian: false, max_frame: SIZE };
    let mut cutter = Cutter::new(&framing);
    let mut slabs = Slabs::new(&pool);
    // The tail of a response head's slab, in two HTTP chunks.
    cutter.push(slabs.slice(&u32::try_from(SIZE).unwrap().to_be_bytes()));
    cutter.push(slabs.slice(&[1; 100]));
    cutter.push(slabs.fresh().slice(&[2; 50]));
    assert!(cutter.next(&pool).unwrap().is_none());
    assert_eq!((cutter.pending(), cutter.wants()), (150, Some(SIZE - 150)));

    let mut run = pool.writer(SIZE, Purpose::Bulk).unwrap();
    cutter.carry(&pool, &mut run);
    assert_eq!(copied(&pool), 150);
    assert_eq!((cutter.pending(), cutter.wants()), (150, Some(SIZE - 150)));
    run.spare()[..SIZE - 150].fill(3);
    cutter.push(run.commit(SIZE - 150));
    let frame = cutter.next(&pool).unwrap().unwrap();
    assert_eq!(*frame, [&[1; 100][..], &[2; 50], &vec![3; SIZE - 150]].concat());
    assert_eq!(copied(&pool), 150, "the frame was not joined again");
    assert_eq!((cutter.pending(), cutter.wants()), (0, None));
}

#[test]
fn wants_has_no_answer_while_there_is_work() {
    let pool = pool(1);
    let mut cutter = Cutter::new(&Framing::Fixed { size: 10 });
    let mut slabs = Slabs::new(&pool);
    assert_eq!(cutter.wants(), Some(10));
    cutter.push(slabs.slice(b"1234567890123"));
    assert_eq!(cutter.wants(), None);
    assert!(cutter.next(&pool).unwrap().is_some());
    assert_eq!(cutter.wants(), None);
    assert!(cutter.next(&pool).unwrap().is_none());
    assert_eq!(cutter.wants(), Some(7));
    assert_eq!(Cutter::new(&Framing::Raw).wants(), None);
    assert_eq!(Cutter::new(&Framing::Lines { max_frame: 9 }).wants(), None);
}

#[test]
fn a_refused_join_succeeds_when_there_is_room() {
    let pool = pool(4);
    let mut cutter = Cutter::new(&Framing::Lines { max_frame: 100 });
    let mut slabs = Slabs::new(&pool);
    for piece in [&b"first\nsec"[..], b"ond\nthi", b"rd"] {
        cutter.push(slabs.fresh().slice(piece));
    }
    let held = exhaust(&pool);
    assert_eq!(&*cutter.next(&pool).unwrap().unwrap(), b"first", "a frame inside a slab needs no room");
    for _ in 0..3 {
        assert_eq!(cutter.next(&pool).unwrap_err().code(), Code::PoolFull);
        assert_eq!((cutter.pending(), cutter.wants()), ("second\nthird".len(), None));
    }
    assert_eq!(cutter.finish(&pool).unwrap_err().code(), Code::PoolFull);
    drop(held);
    assert_eq!(&*cutter.next(&pool).unwrap().unwrap(), b"second");

    let held = exhaust(&pool);
    for _ in 0..3 {
        assert_eq!(cutter.finish(&pool).unwrap_err().code(), Code::PoolFull);
    }
    drop(held);
    assert_eq!(&*cutter.finish(&pool).unwrap().unwrap(), b"third");
    assert!(cutter.finish(&pool).unwrap().is_none());
    assert_eq!(copied(&pool), "secondthird".len());
}

#[test]
fn a_frame_larger_than_the_pool_can_never_be_joined() {
    let pool = pool(1);
    let mut cutter = Cutter::new(&Framing::Fixed { size: 2 * REGION });
    let mut slabs = Slabs::new(&pool);
    let piece = slabs.slice(&vec![0; 65536]);
    for _ in 0..8 {
        cutter.push(piece.clone());
    }
    assert_eq!(cutter.next(&pool).unwrap_err().code(), Code::ObjectTooLarge);
}

#[test]
fn the_error_of_a_stream_stays_and_holds_no_memory() {
    let pool = pool(1);
    let mut cutter = Cutter::new(&Framing::Lines { max_frame: 3 });
    let mut slabs = Slabs::new(&pool);
    cutter.push(slabs.slice(b"abc\nabcd\nabc\n"));
    drop(slabs);
    assert_eq!(&*cutter.next(&pool).unwrap().unwrap(), b"abc");
    for _ in 0..2 {
        assert_eq!(cutter.next(&pool).unwrap_err().code(), Code::FrameTooLarge);
        assert_eq!(pool.stats().live_bytes, 0);
        cutter.push(Slabs::new(&pool).slice(b"more"));
    }
    assert_eq!(cutter.finish(&pool).unwrap_err().code(), Code::FrameTooLarge);
    assert!(cutter.into_pending().is_empty());
}

/// Pushes `text` in single bytes that are neighbours in the stream and not in the slab, like the payloads of
/// one-byte chunks.
fn push_scattered(cutter: &mut Cutter, pool: &Pool, text: &[u8]) {
    let mut writer = pool.writer(2 * text.len(), Purpose::Bulk).unwrap();
    for byte in text {
        writer.spare()[..2].copy_from_slice(&[*byte, b'|']);
        cutter.push(writer.commit(1));
        drop(writer.commit(1));
        assert!(cutter.next(pool).unwrap().is_none());
    }
}

#[test]
fn a_frame_in_a_great_many_pieces_is_not_a_great_many_handles() {
    const SIZE: usize = if cfg!(miri) { 1300 } else { 40_000 };
    let pool = pool(4);
    let text: Vec<u8> = (0..SIZE).map(|number| u8::try_from(number % 251).unwrap()).collect();
    let mut cutter = Cutter::new(&Framing::Fixed { size: SIZE + 1 });
    push_scattered(&mut cutter, &pool, &text);
    let merged = copied(&pool);
    assert!(merged <= SIZE, "each byte is merged at most once, not {merged} for {SIZE}");
    cutter.push(Slabs::new(&pool).slice(b"!"));
    assert_eq!(*cutter.next(&pool).unwrap().unwrap(), [&text[..], b"!"].concat());
    assert_eq!(copied(&pool), merged + SIZE + 1);

    let mut cutter = Cutter::new(&Framing::Fixed { size: 2 * SIZE });
    push_scattered(&mut cutter, &pool, &text);
    let mut run = pool.writer(2 * SIZE, Purpose::Bulk).unwrap();
    cutter.carry(&pool, &mut run);
    push_scattered(&mut cutter, &pool, &text[1..]);
    let handles = cutter.into_pending();
    assert!(handles.len() < 1100, "{} handles for {SIZE} bytes", handles.len());
    assert!(handles.iter().flat_map(|slice| slice.iter()).eq(text.iter().chain(&text[1..])));
}

#[test]
fn pending_bytes_can_be_taken_over() {
    let pool = pool(1);
    let mut cutter = Cutter::new(&Framing::Lines { max_frame: 9 });
    let mut slabs = Slabs::new(&pool);
    cutter.push(slabs.slice(b"one\ntwo\nth"));
    cutter.push(slabs.fresh().slice(b"ree"));
    assert_eq!(&*cutter.next(&pool).unwrap().unwrap(), b"one");
    let pending = cutter.into_pending();
    assert_eq!(pending.iter().map(|slice| &**slice).collect::<Vec<_>>(), [&b"two\nth"[..], b"ree"]);
}

/// A format whose frames begin with `M1`: like MPEG-TS cut at key frames, the end of one is seen in the header of
/// the next.
#[derive(Debug, Default)]
struct Marked {
    seen_m: bool,
    begun: bool,
}

impl Framer for Marked {
    fn scan(&mut self, bytes: &[u8]) -> Result<Option<Cut>> {
        for (at, &byte) in bytes.iter().enumerate() {
            let marker = self.seen_m && byte == b'1';
            self.seen_m = byte == b'M';
            if marker && std::mem::replace(&mut self.begun, true) {
                return Ok(Some(Cut::at(at + 1).holding(2)));
            }
        }
        Ok(None)
    }

    fn wants(&self) -> Option<usize> {
        None
    }

    fn finish(&mut self, pending: usize) -> Result<Option<Cut>> {
        Ok((pending > 0).then(|| Cut::at(0)))
    }
}

#[test]
fn a_frame_may_end_where_the_next_ones_header_began() {
    let pool = pool(4);
    for step in 1..12 {
        for fresh in [false, true] {
            let mut cutter = Cutter::with(Some(Box::new(Marked::default())));
            let mut slabs = Slabs::new(&pool);
            let mut found = Vec::new();
            for piece in b"M1aaMM1bM1M1MMM1c".chunks(step) {
                if fresh {
                    slabs.fresh();
                }
                cutter.push(slabs.slice(piece));
                found.extend(drain(&mut cutter, &pool));
            }
            while let Some(frame) = cutter.finish(&pool).unwrap() {
                found.push(frame.to_vec());
            }
            let expected: &[&[u8]] = &[b"M1aaM", b"M1b", b"M1", b"M1MM", b"M1c"];
            assert_eq!(found, frames(expected), "in pieces of {step}");
        }
    }
}
