//! The memory for the next read of a body.

use std::task::{Context, Poll, ready};

use super::{Feed, Wanted};
use crate::error::Result;
use crate::pool::{CLASSES, Pool, Purpose, REGION, Writer};

/// Bounds of the reads of one body, in bytes. They decide which slabs are taken.
#[derive(Debug, Clone, Copy)]
pub struct ReadSizes {
    /// Never less.
    pub least: usize,
    /// At the start of a body of unknown length, such as an event stream.
    pub unknown: usize,
    /// At the start of a body of known length, unless it is shorter.
    pub known: usize,
    /// Never more, except for a frame that needs it in one piece.
    pub most: usize,
}

/// A frame of at least this many bytes gets memory of its own, read to its exact end: a copy of less costs about
/// what the additional system call does.
const OWN_MEMORY: usize = 16 * 1024;

/// Makes `writer` memory in which the frame that `feed` waits for lies in one piece, if it is worth that, and returns
/// how many bytes to read into it; at most `remaining`, which are left of the body. Zero: the frame is like any other.
/// A frame may exceed its stream's credit, several at once may not.
///
/// Only the received beginning of the frame is moved. Frames of one size are never moved again, because each begins
/// at the start of its slab.
pub(crate) fn poll_reserve(
    context: &mut Context<'_>,
    pool: &Pool,
    feed: &Feed,
    writer: &mut Option<Writer>,
    remaining: usize,
) -> Poll<Result<usize>> {
    let Some(Wanted { begun, missing, repeats }) = feed.wants() else { return Poll::Ready(Ok(0)) };
    let frame = begun + missing;
    // After its beginning has come, a frame counts only with its rest, unless frames of its size
    // follow at once.
    if (if repeats { frame } else { missing }) < OWN_MEMORY {
        return Poll::Ready(Ok(0));
    }
    // A frame that has begun is in the slab of the last read.
    if begun > 0 && writer.as_ref().is_some_and(|writer| writer.remaining() >= missing) {
        return Poll::Ready(Ok(missing.min(remaining)));
    }
    let frames = if repeats { (REGION.min(feed.credit()) / frame).max(1) } else { 1 };
    let reserved = (frame * frames - begun).min(remaining);
    *writer = None;
    let mut fresh = ready!(pool.poll_room(context, begun + reserved, Purpose::Bulk))?;
    feed.carry(&mut fresh);
    // Less only if another framing has more bytes pending.
    let reserved = reserved.min(fresh.remaining());
    *writer = Some(fresh);
    Poll::Ready(Ok(reserved))
}

/// Doubles after a read that filled what was offered, halves after two in a row that would have fitted into half:
/// one small read is the end of a burst, two are a slow stream.
#[derive(Debug)]
pub(crate) struct ReadSize {
    bounds: ReadSizes,
    size: usize,
    small_before: bool,
}

impl ReadSize {
    pub(crate) fn new(bounds: ReadSizes, length: Option<u64>) -> Self {
        let size = if length.is_some() { bounds.known } else { bounds.unknown };
        Self { bounds, size: size.clamp(bounds.least, bounds.most), small_before: false }
    }

    /// The size to ask of the pool when this many bytes remain, if that is known.
    pub(crate) fn next(&self, remaining: Option<u64>) -> usize {
        let remaining = remaining.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        self.size.min(remaining.max(self.bounds.least))
    }

    /// A read of `offered` bytes brought `count`.
    pub(crate) fn record(&mut self, offered: usize, count: usize) {
        if count == offered {
            // A read that filled the rest of a slab does not show that it would fill a whole one.
            if offered >= self.size {
                self.size = (self.size * 2).min(self.bounds.most);
            }
            self.small_before = false;
        } else if count > self.size / 2 {
            self.small_before = false;
        } else if std::mem::replace(&mut self.small_before, true) {
            self.size = (self.size / 2).max(self.bounds.least);
            self.small_before = false;
        }
    }
}

/// Whether a slab with `spare` of `capacity` bytes left is worth another read. Less would cost a system call for
/// little; more would pin a slab for every small event.
pub(crate) fn worth_filling(spare: usize, capacity: usize) -> bool {
    spare >= (capacity / 8).max(CLASSES[0] / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;
    const BOUNDS: ReadSizes =
        ReadSizes { least: 4 * KIB, unknown: 16 * KIB, known: 64 * KIB, most: 256 * KIB };

    fn after(length: Option<u64>, reads: &[(usize, usize)]) -> usize {
        let mut size = ReadSize::new(BOUNDS, length);
        for (offered, count) in reads {
            size.record(*offered, *count);
        }
        size.next(None)
    }

    #[test]
    fn the_start_depends_on_whether_the_length_is_known() {
        assert_eq!(after(None, &[]), 16 * KIB);
        assert_eq!(after(Some(1 << 30), &[]), 64 * KIB);
    }

    #[test]
    fn full_reads_double_up_to_the_most() {
        let full = |size: usize| (size * KIB, size * KIB);
        assert_eq!(after(None, &[full(16)]), 32 * KIB);
        assert_eq!(after(None, &[full(16), full(32), full(64), full(128), full(256)]), 256 * KIB);
    }

    #[test]
    fn filling_the_rest_of_a_slab_changes_nothing() {
        assert_eq!(after(None, &[(KIB, KIB); 5]), 16 * KIB);
    }

    #[test]
    fn it_takes_two_small_reads_in_a_row_to_halve() {
        let (small, fair) = ((16 * KIB, 100), (16 * KIB, 12 * KIB));
        assert_eq!(after(None, &[small]), 16 * KIB);
        assert_eq!(after(None, &[small, small]), 8 * KIB);
        assert_eq!(after(None, &[small, fair, small]), 16 * KIB, "a fair read shows that the size is needed");
        assert_eq!(after(None, &[small; 20]), BOUNDS.least);
    }

    #[test]
    fn what_remains_caps_the_request_but_not_below_the_least() {
        let size = ReadSize::new(BOUNDS, Some(1 << 20));
        assert_eq!(size.next(Some(10_000)), 10_000);
        assert_eq!(size.next(Some(1)), BOUNDS.least);
        assert_eq!(size.next(Some(u64::MAX)), 64 * KIB);
    }

    #[test]
    fn a_slab_is_left_when_little_of_it_is_left() {
        assert!(worth_filling(512, 4 * KIB));
        assert!(!worth_filling(511, 4 * KIB));
        assert!(worth_filling(8 * KIB, 64 * KIB));
        assert!(!worth_filling(8 * KIB - 1, 64 * KIB));
    }
}
