//! Reads a response slice by slice: each is looked up, and fetched if it is missing, while the one before it is read. A
//! response in parts on disk is read so as well, whatever its parts are.
//!
//! All slices are of one state: the one whose head the client has been sent. A reader holds the slice that it reads and
//! the next, and no other. If the origin has another state by now, reading fails. Bytes that are damaged on disk, or do
//! not come in time, are fetched from the origin, also in the middle of a slice.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::access::Access;
use super::cache::{Cache, seconds};
use super::collapse::Wait;
use super::disk::{ReadFailure, StoredFile};
use super::entry::FillOutcome;
use super::fill::{Fetched, Filled};
use super::lookup::{FetchPlan, Lookup};
use super::object::{Object, Reader};
use crate::cache::Slicing;
use crate::error::{Code, Error, Result};
use crate::pool::Slice;
use crate::sync::Arc;
use crate::wire::{EntityTag, Span};

/// A response that is read slice by slice for one request.
#[derive(Debug)]
pub(super) struct Slices {
    access: Access,
    lookup: Arc<Lookup>,
    /// The state of all slices, without bytes: otherwise all parts at the time of the request would be held.
    state: Arc<Object>,
    /// `None` if it is in arbitrary parts.
    slicing: Option<Slicing>,
}

/// Stored or growing bytes.
struct SliceBytes {
    reader: Reader,
    /// Their end in the response.
    end: u64,
}

type Finding = Pin<Box<dyn Future<Output = Result<SliceBytes>> + Send>>;

/// The slice after the current one.
enum NextSlice {
    Wanted,
    Finding(Finding),
    Found(Result<SliceBytes>),
}

/// Reads a range, in order.
pub(super) struct SliceReader {
    slices: Arc<Slices>,
    place: u64,
    end: u64,
    /// The slice that is read.
    current: Option<SliceBytes>,
    next: NextSlice,
}

/// How to get the next bytes, decided under the lock of the entry.
enum SliceLookup {
    /// They can be read.
    There(SliceBytes),
    /// They are in this file, from this offset in it, up to this offset in the response.
    OnDisk(Arc<StoredFile>, u64, u64),
    Wait(Wait),
    /// The response has no such bytes.
    End,
}

impl SliceBytes {
    /// The bytes of `object` from `place` to `end` that can be read in one part.
    fn of(object: &Object, place: u64, end: u64) -> Option<Self> {
        if object.on_disk_at(place).is_some() {
            return None;
        }
        let reached = object.reaches_from(place)?;
        let is_over = cfg!(all(test, planted_bug = "range-over-slice-edge"));
        let end = if is_over { reached } else { reached.min(end) };
        Some(Self { reader: object.read(Some(Span::new(place, end)?)), end })
    }
}

impl Slices {
    pub(super) fn new(
        access: &Access,
        lookup: &Arc<Lookup>,
        object: &Object,
        slicing: Option<Slicing>,
    ) -> Arc<Self> {
        let state = Arc::new(object.without_parts());
        Arc::new(Self { access: access.clone(), lookup: Arc::clone(lookup), state, slicing })
    }

    /// Reads `span`, or all bytes. Bytes at its beginning that `object` has in memory are not looked up again.
    pub(super) fn read(self: &Arc<Self>, span: Option<Span>, object: &Object) -> SliceReader {
        let length = self.state.stored.length().unwrap_or_default();
        let (place, end) = span.map_or((0, length), |span| (span.start(), span.end()));
        let current = SliceBytes::of(object, place, self.end_of_slice(place, end));
        SliceReader { slices: Arc::clone(self), place, end, current, next: NextSlice::Wanted }
    }

    /// The end of the slice with the byte at `place`; `end` without slices.
    fn end_of_slice(&self, place: u64, end: u64) -> u64 {
        let slice = self.slicing.and_then(|slicing| slicing.at(place));
        slice.map_or(end, |slice| slice.end().min(end))
    }

    /// The span to fetch if the byte at `place` cannot be read: its slice; without slices the part on disk that has it,
    /// or the gap up to the next part.
    fn missing(&self, there: Option<&Object>, place: u64, end: u64) -> Option<Span> {
        if let Some(slicing) = self.slicing {
            return slicing.at(place);
        }
        let length = self.state.stored.length().unwrap_or(end);
        let part = there.and_then(|object| object.span_at(place));
        part.and_then(|part| Span::new(part.start(), part.end().min(length))).or_else(|| {
            let next = there.and_then(|object| object.next_from(place)).unwrap_or(end);
            Span::new(place, next.min(end).min(place.saturating_add(self.access.policy.max_object)))
        })
    }

    /// The bytes from `place` on, to the end of its slice at most. Bytes that the disk has and does not give back are
    /// fetched.
    ///
    /// # Cancellation
    /// The fetch goes on, or not, as the policy says.
    async fn find(self: Arc<Self>, place: u64, end: u64) -> Result<SliceBytes> {
        let end = self.end_of_slice(place, end);
        // A request that has waited for a fill holds it until it follows the body.
        let mut joined = None;
        let mut is_unreadable = false;
        loop {
            match self.look_up(place, end, is_unreadable) {
                SliceLookup::There(found) => return Ok(found),
                SliceLookup::OnDisk(stored_file, start, end) => {
                    match self.access.cache.open(&stored_file, start).await {
                        Ok(bytes) => {
                            let reader = Reader::of(&bytes, start..start + (end - place));
                            return Ok(SliceBytes { reader, end });
                        }
                        Err(ReadFailure::Failed) => is_unreadable = true,
                        // Treat as missing: the file is gone, or the disk is not asked again.
                        Err(ReadFailure::Damaged | ReadFailure::Late) => {}
                    }
                }
                // The client has a head already: interim responses are dropped.
                SliceLookup::Wait(Wait::Lead(lead)) => {
                    let Filled::Stored(Fetched { object, .. }) = lead.fetch(drop).await? else {
                        return Err(changed());
                    };
                    let found = SliceBytes::of(&object, place, end);
                    return found.filter(|_| object.is_same_state(&self.state)).ok_or_else(changed);
                }
                SliceLookup::Wait(Wait::Join(waiter)) => {
                    let waiter = joined.insert(waiter);
                    match poll_fn(|context| waiter.poll(context)).await {
                        Some(FillOutcome::Failed(error)) => return Err(error),
                        Some(FillOutcome::Replaced(old, _)) if old.is_same_state(&self.state) => {
                            return Err(changed());
                        }
                        _ => {}
                    }
                }
                SliceLookup::End => {
                    return Err(Code::Internal.error("a byte after the end of a response was to be read"));
                }
            }
        }
    }

    /// Looks up the bytes from `place` to `end`. `is_unreadable`: the disk has not given them back.
    fn look_up(&self, place: u64, end: u64, is_unreadable: bool) -> SliceLookup {
        let cache = &self.access.cache;
        let now = seconds(Cache::now());
        cache.index.with(&self.lookup.key, |entry| {
            let there = entry.same_state(&self.state);
            if let Some(object) = there {
                object.hit_part(place, now);
                if let Some(found) = SliceBytes::of(object, place, end) {
                    return SliceLookup::There(found);
                }
                match object.on_disk_at(place).zip(object.reaches_from(place)) {
                    Some(((stored_file, start), reached)) if !is_unreadable && cache.may_read() => {
                        return SliceLookup::OnDisk(Arc::clone(stored_file), start, reached.min(end));
                    }
                    // Treat as missing.
                    _ => {}
                }
            }
            let Some(missing) = self.missing(there.map(|object| &**object), place, end) else {
                return SliceLookup::End;
            };
            // The request is in the middle of this state and needs no validation, so that hit-for-miss does not apply.
            SliceLookup::Wait(self.access.ask(entry, &self.lookup, self.plan(missing), false))
        })
    }

    fn plan(&self, slice: Span) -> FetchPlan {
        let tag = self.state.stored.validators.strong().map(EntityTag::to_bytes).unwrap_or_default();
        FetchPlan { continues: true, ..FetchPlan::rest(Arc::clone(&self.state), slice, &tag) }
    }
}

/// The error of a reader in the middle of a response that the origin has replaced.
pub(super) fn changed() -> Error {
    Code::ObjectChanged.error("the origin has replaced the response that was being read slice by slice")
}

/// Whether this is an error of the disk, after which the origin is asked.
fn is_of_disk(error: &Error) -> bool {
    matches!(error.code(), Code::CacheDamaged | Code::CacheDiskTimeout)
}

impl SliceReader {
    /// The next bytes. `held`: bytes of earlier pieces that have not been sent. The next slice is not begun before all
    /// of the current one has been sent, whatever room there is for small pieces.
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        held: usize,
    ) -> Poll<Option<Result<Slice>>> {
        loop {
            if self.place >= self.end {
                return Poll::Ready(None);
            }
            if let Some(current) = &mut self.current {
                if self.place < current.end {
                    let next = current.reader.poll_next(context);
                    let behind = current.end;
                    match next {
                        Poll::Ready(Some(Ok(piece))) => {
                            self.place += piece.len() as u64;
                            // Now, and not with the last piece, so that the next slice comes while this one
                            // is read.
                            self.look_ahead(behind, context);
                            return Poll::Ready(Some(Ok(piece)));
                        }
                        Poll::Ready(None) => {
                            let ended = "a slice has ended before its end";
                            return Poll::Ready(Some(Err(Code::BadPart.error(ended))));
                        }
                        Poll::Ready(Some(Err(error))) if is_of_disk(&error) => {
                            // None of the remaining bytes has been sent: they are looked up again.
                            current.end = self.place;
                            self.next = NextSlice::Wanted;
                            continue;
                        }
                        Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                        Poll::Pending => {
                            self.look_ahead(behind, context);
                            return Poll::Pending;
                        }
                    }
                }
            }
            if self.current.is_some() && held > 0 {
                let detail = "what was read of the slice before has to be sent first";
                return Poll::Ready(Some(Err(Code::WindowHeld.error(detail))));
            }
            // The current slice is released before the next one is waited for.
            self.current = None;
            self.look_ahead(self.place, context);
            match std::mem::replace(&mut self.next, NextSlice::Wanted) {
                NextSlice::Found(Ok(found)) => self.current = Some(found),
                NextSlice::Found(Err(error)) => return Poll::Ready(Some(Err(error))),
                next => {
                    self.next = next;
                    return Poll::Pending;
                }
            }
        }
    }

    /// Looks up the slice that begins at `place`, or fetches it.
    fn look_ahead(&mut self, place: u64, context: &mut Context<'_>) {
        if place >= self.end {
            return;
        }
        if let NextSlice::Wanted = self.next {
            let is_needed = self.current.as_ref().is_none_or(|current| self.place >= current.end);
            if !is_needed && self.slices.access.origins.pressure().is_pressed() {
                return;
            }
            self.next = NextSlice::Finding(Box::pin(Arc::clone(&self.slices).find(place, self.end)));
        }
        if let NextSlice::Finding(finding) = &mut self.next {
            if let Poll::Ready(found) = finding.as_mut().poll(context) {
                self.next = NextSlice::Found(found);
            }
        }
    }
}

impl fmt::Debug for SliceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SliceReader")
            .field("place", &self.place)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
