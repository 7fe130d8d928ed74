//! The cutter: makes contiguous frames of slices as they were read.
//!
//! The cutter keeps the bytes of the frame that the framer has not ended yet. It is pull based: [`Cutter::next`]
//! does the work, and a refusal by the pool changes nothing, so that a caller that can wait calls it again. A frame
//! inside one slab costs no copy; a frame that lies across slabs or HTTP chunks is joined, once.

use std::collections::VecDeque;

use super::{Cut, Framer, Framing};
use penstock_error::{Error, Result};
use penstock_memory::pool::{CopyReason, Pool, Purpose, Slice, Writer};

/// Pending slices beyond this many are merged. A peer that sends a large frame in chunks of one byte would
/// otherwise make this process keep a 40-byte handle, outside the pool's budget, for every byte of it.
const PARTS: usize = 1024;

/// Slices are merged only if they are this small on average: to merge larger ones would not save enough for a
/// copy.
const SMALL: usize = 256;

/// Cuts one stream.
#[derive(Debug)]
pub struct Cutter {
    /// `None`: every slice is a frame.
    framer: Option<Box<dyn Framer>>,
    /// Slices that were pushed and not yet cut off. No part is empty.
    parts: VecDeque<Slice>,
    /// Bytes in `parts`.
    pending: usize,
    /// Bytes at the front of `parts` that the framer has looked at.
    scanned: usize,
    /// The same position: the number of whole parts,
    part: usize,
    /// and the number of bytes of the part after them.
    offset: usize,
    /// Parts at the front that need no merging.
    merged: usize,
    /// A frame whose end is known and that is still in `parts`.
    frame: Option<Found>,
    finished: bool,
    failed: Option<Error>,
}

#[derive(Debug, Clone, Copy)]
struct Found {
    length: usize,
    trimmed: usize,
    delivered: bool,
}

impl Cutter {
    /// A cutter at the start of a stream. If the framing has wrong settings (see [`Framing::framer`]), the
    /// cutter gives that error in place of a frame.
    pub fn new(framing: &Framing) -> Self {
        match framing.framer() {
            Ok(framer) => Self::with(framer),
            Err(error) => Self { failed: Some(error), ..Self::with(None) },
        }
    }

    /// A cutter for a format that the caller implements.
    pub fn with(framer: Option<Box<dyn Framer>>) -> Self {
        Self {
            framer,
            parts: VecDeque::new(),
            pending: 0,
            scanned: 0,
            part: 0,
            offset: 0,
            merged: 0,
            frame: None,
            finished: false,
            failed: None,
        }
    }

    /// Adds the slice that was read next. The cost is one handle, or nothing if the slice continues the one
    /// before.
    ///
    /// # Panics
    /// After [`Cutter::finish`].
    pub fn push(&mut self, slice: Slice) {
        assert!(!self.finished, "bytes after the end of the stream");
        if slice.is_empty() || self.failed.is_some() {
            return;
        }
        self.pending += slice.len();
        let slice = match (&self.framer, self.parts.back_mut()) {
            (Some(_), Some(last)) => match last.join(slice) {
                Ok(()) => return,
                Err(slice) => slice,
            },
            _ => slice,
        };
        if self.parts.capacity() == 0 {
            // Streams with frames are quiet for hours and have nearly always one part; of a body there are two where one read
            // brought its head too. Not four, as `push` would reserve.
            self.parts.reserve_exact(if self.framer.is_some() { 1 } else { 2 });
        }
        self.parts.push_back(slice);
    }

    /// The next frame, or `None` if another push is needed.
    ///
    /// # Errors
    /// `POOL_FULL` if a frame has to be joined and there is no room: nothing has changed, call again when there is.
    /// `FRAME_TOO_LARGE` and `BAD_CONFIGURATION` end the stream; every further call gives the same error.
    /// `OBJECT_TOO_LARGE` if the frame is larger than the pool.
    pub fn next(&mut self, pool: &Pool) -> Result<Option<Slice>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.framer.is_none() {
            let slice = self.parts.pop_front();
            self.pending -= slice.as_ref().map_or(0, |slice| slice.len());
            return Ok(slice);
        }
        loop {
            let frame = match self.frame {
                Some(frame) => frame,
                None => match self.find()? {
                    Some(frame) => frame,
                    None => return self.merge(pool).map(|()| None),
                },
            };
            self.frame = Some(frame);
            let slice = self.take(frame, pool)?;
            self.frame = None;
            self.pending -= frame.length;
            self.seek(self.scanned - frame.length);
            if frame.delivered {
                return Ok(Some(slice));
            }
        }
    }

    /// Like [`Cutter::next`], after the last push of a stream that ended cleanly. `None`: there is no further frame.
    ///
    /// # Errors
    /// Those of [`Cutter::next`], and `FRAME_TRUNCATED` if the stream ended within a frame.
    pub fn finish(&mut self, pool: &Pool) -> Result<Option<Slice>> {
        let slice = self.next(pool)?;
        if slice.is_some() || self.finished {
            return Ok(slice);
        }
        self.finished = true;
        let Some(framer) = &mut self.framer else { return Ok(None) };
        match framer.finish(self.pending) {
            Ok(None) => Ok(None),
            Ok(Some(cut)) => {
                self.frame = Some(self.found(cut));
                self.next(pool)
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// How many bytes beyond the pending ones end the current frame, if that is known. Valid after
    /// [`Cutter::next`] has given `None`; `None` while it has work left.
    ///
    /// A reader whose slab has as much room left reads on into it. A reader that takes a new slab for a large
    /// frame takes [`Cutter::pending`] bytes more, calls [`Cutter::carry`], and reads no further than the end of
    /// the frame: then the frame is never joined.
    pub fn wants(&self) -> Option<usize> {
        let idle =
            self.frame.is_none() && self.scanned == self.pending && !self.finished && self.failed.is_none();
        self.framer.as_ref().filter(|_| idle)?.wants()
    }

    /// Whether all frames have the size of the current one.
    pub fn repeats(&self) -> bool {
        self.framer.as_ref().is_some_and(|framer| framer.repeats())
    }

    /// Moves the pending bytes to the front of `writer`, so that the next read continues them. This copies the
    /// pending bytes; a later join would copy the whole frame, into a second slab.
    ///
    /// # Panics
    /// If `writer` has no room for the pending bytes.
    pub fn carry(&mut self, pool: &Pool, writer: &mut Writer) {
        if self.pending == 0 || self.framer.is_none() {
            return;
        }
        let spare = writer.spare();
        let mut at = 0;
        for part in &self.parts {
            spare[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        pool.count_copy(CopyReason::FrameJoin, at);
        self.parts.clear();
        self.parts.push_back(writer.commit(at));
        self.merged = 0;
        self.seek(self.scanned);
    }

    /// The size in bytes of the allocation that [`Cutter::next`] could not make when it gave
    /// `POOL_FULL`.
    pub fn lacks(&self) -> usize {
        self.frame.map_or_else(|| self.unmerged(), |frame| frame.length - frame.trimmed)
    }

    /// Whether every slice is a frame.
    pub fn is_raw(&self) -> bool {
        self.framer.is_none() && self.failed.is_none()
    }

    /// Bytes pushed that no frame has taken.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// The pending bytes as slices, for a reader that no longer needs frames. The prefix of a length-prefixed frame
    /// is no longer pending once it has been read.
    pub fn into_pending(self) -> Vec<Slice> {
        self.parts.into()
    }

    /// Gives the framer the bytes that it has not seen, up to the end of a frame.
    fn find(&mut self) -> Result<Option<Found>> {
        let Some(framer) = &mut self.framer else { return Ok(None) };
        while let Some(part) = self.parts.get(self.part) {
            let bytes = &part[self.offset..];
            if !bytes.is_empty() {
                match framer.scan(bytes) {
                    Ok(Some(cut)) => return Ok(Some(self.found(cut))),
                    Ok(None) => {
                        self.scanned += bytes.len();
                        self.offset += bytes.len();
                    }
                    Err(error) => return Err(self.fail(error)),
                }
            }
            if self.part + 1 == self.parts.len() {
                // Stay at the end of the last part: the next push may lengthen it.
                break;
            }
            self.part += 1;
            self.offset = 0;
        }
        Ok(None)
    }

    fn found(&mut self, cut: Cut) -> Found {
        self.scanned += cut.end;
        let length = self.scanned.checked_sub(cut.held).filter(|&length| length > 0 && length >= cut.trimmed);
        let length = length.expect("a framer cuts at least one byte, of those it has looked at");
        Found { length, trimmed: cut.trimmed, delivered: cut.delivered }
    }

    /// Takes the frame off the front of `parts`. Returns the delivered part of it, in one slice.
    fn take(&mut self, frame: Found, pool: &Pool) -> Result<Slice> {
        let length = frame.length - frame.trimmed;
        if frame.length <= self.parts[0].len() {
            let mut slice = self.split(frame.length);
            slice.truncate(length);
            return Ok(slice);
        }
        let slice = if !frame.delivered || length <= self.parts[0].len() {
            self.parts[0].slice(0..length.min(self.parts[0].len()))
        } else {
            let mut left = length;
            let parts = self.parts.iter().map_while(|part| {
                let taken = left.min(part.len());
                left -= taken;
                (taken > 0).then(|| &part[..taken])
            });
            pool.gather(parts, length, Purpose::Control, CopyReason::FrameJoin)?
        };
        let mut left = frame.length;
        while left > 0 {
            left -= self.split(left.min(self.parts[0].len())).len();
        }
        Ok(slice)
    }

    /// Takes up to `length` bytes off the first part.
    fn split(&mut self, length: usize) -> Slice {
        let first = &mut self.parts[0];
        if length < first.len() {
            return first.split_to(length);
        }
        self.merged = self.merged.saturating_sub(1);
        self.parts.pop_front().expect("just looked at")
    }

    /// Notes that the framer has seen `scanned` bytes from the front.
    fn seek(&mut self, scanned: usize) {
        self.scanned = scanned;
        self.part = 0;
        self.offset = scanned;
        while self.part + 1 < self.parts.len() && self.offset >= self.parts[self.part].len() {
            self.offset -= self.parts[self.part].len();
            self.part += 1;
        }
    }

    /// Keeps the number of pending parts far below that of the pending bytes.
    fn merge(&mut self, pool: &Pool) -> Result<()> {
        if self.parts.len() - self.merged < PARTS {
            return Ok(());
        }
        let length = self.unmerged();
        if length <= PARTS * SMALL {
            let parts = self.parts.range(self.merged..).map(|part| &part[..]);
            let whole = pool.gather(parts, length, Purpose::Control, CopyReason::FrameJoin)?;
            self.parts.truncate(self.merged);
            self.parts.push_back(whole);
            self.seek(self.scanned);
        }
        self.merged = self.parts.len();
        Ok(())
    }

    fn unmerged(&self) -> usize {
        self.parts.range(self.merged..).map(|part| part.len()).sum()
    }

    /// The stream cannot be cut any further: drops its slices and keeps the error.
    fn fail(&mut self, error: Error) -> Error {
        self.parts.clear();
        self.pending = 0;
        self.frame = None;
        self.failed = Some(error.clone());
        error
    }
}
