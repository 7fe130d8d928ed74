//! Handles to pool memory: a shared [`Slice`] of bytes that have been written, and the one [`Writer`] of the
//! others.
//!
//! ```text
//!   Pool ── region ── region ── region …          256 KiB each, one mapping
//!             │
//!             └─ slab  [ committed │ committed │ spare …… ]
//!                        ▲     ▲     ▲           ▲
//!                     Slice  Slice  Slice      Writer
//! ```
//!
//! The invariant that every SAFETY line below relies on: a slab's bytes below the writer's mark are never written again
//! while a handle to the slab lives, bytes above it are reachable through the one writer only, and a slab's pages stay
//! claimed ([`Memory`](crate::sys::memory::Memory)) until the last handle is gone, so that they belong to no other slab.
#![expect(unsafe_code, reason = "what is handed out is memory; each block names who guarantees it")]

use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::slice;

use super::Shared;
use crate::sync::{Arc, Ordering};
use crate::sys::memory::Header;

/// One counted reference to a live slab.
struct Handle {
    pool: NonNull<Shared>,
    header: NonNull<Header>,
    /// The slab's first byte.
    start: NonNull<u8>,
}

// SAFETY: a Handle is a counted reference; the counter is atomic and Shared is Sync. Bytes are read and written by
// the rules of Slice and Writer, which hold on any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    fn header(&self) -> &Header {
        // SAFETY: headers live in the pool's memory, which this handle's slab keeps alive (see `Writer::new`), and are
        // never moved.
        unsafe { self.header.as_ref() }
    }

    fn pool(&self) -> &Shared {
        // SAFETY: the slab owns one strong count of the pool from `Writer::new` until its last handle is dropped.
        unsafe { self.pool.as_ref() }
    }

    /// The offset of the slab's first byte in the memory.
    fn offset(&self) -> usize {
        self.start.addr().get() - self.pool().memory().mapping().base().addr().get()
    }

    /// The address of a byte of the slab.
    ///
    /// # Safety
    /// `position` is at most the length of the slab.
    unsafe fn address(&self, position: usize) -> NonNull<u8> {
        // SAFETY: the slab was claimed, so it lies in the mapping as a whole, and the caller stays within it.
        unsafe { self.start.add(position) }
    }

    fn sole(&self) -> bool {
        // Acquire pairs with the Release in `drop`: the reads of other handles happen before we write
        // again.
        self.header().handles.load(Ordering::Acquire) == 1
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        // Relaxed: the clone is made from a live handle, so the count cannot reach zero meanwhile.
        let handles = self.header().handles.fetch_add(1, Ordering::Relaxed);
        assert!(handles < u32::MAX / 2, "more than two thousand million handles of one slab");
        Self { pool: self.pool, header: self.header, start: self.start }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Release pairs with the Acquire below and in `sole`: this handle's reads are over before the slab is reused.
        if self.header().handles.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // Acquire pairs with the Release of every other handle's drop. A load, not a fence, because thread
        // sanitizer does not understand fences.
        self.header().handles.load(Ordering::Acquire);
        let offset = self.offset();
        // SAFETY: claimed by `Writer::new`; this was the last handle, and those before it are done with the bytes.
        unsafe { self.pool().memory().release(offset) };
        // SAFETY: this was the slab's last handle, so the strong count that `Writer::new` took is ours to give back.
        let pool = unsafe { Arc::from_raw(self.pool.as_ptr().cast_const()) };
        pool.recycle(offset);
    }
}

/// The exclusive right to write into a slab.
pub struct Writer {
    handle: Handle,
    filled: usize,
    capacity: usize,
}

impl Writer {
    /// Takes a slab that the pool has just marked as held, in the name of `holder`. [`Shared::recycle`] takes it back.
    ///
    /// # Panics
    /// If a page of it is held already.
    pub(super) fn new(pool: &Arc<Shared>, offset: usize, capacity: usize, holder: u8) -> Self {
        let (header, start) = pool.memory().claim(offset, capacity, holder);
        let shared = NonNull::new(Arc::into_raw(Arc::clone(pool)).cast_mut()).expect("an Arc is never null");
        Self { handle: Handle { pool: shared, header, start }, filled: 0, capacity }
    }

    /// Bytes that can still be written.
    pub fn remaining(&self) -> usize {
        self.capacity - self.filled
    }

    /// Bytes committed so far.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// The size of the slab.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The memory that has not been committed. Its contents are unspecified: a recycled slab has old bytes.
    pub fn spare(&mut self) -> &mut [u8] {
        self.handle.header().access.write();
        // SAFETY: `filled` is at most the capacity, which was claimed.
        let start = unsafe { self.handle.address(self.filled) };
        // SAFETY: this is the one writer, `&mut self` makes this the one borrow of its spare part, and no Slice
        // reaches above `filled`. The memory was zeroed by the kernel, so it is initialised.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), self.capacity - self.filled) }
    }

    /// Turns the first `count` bytes of the spare part into a slice.
    ///
    /// # Panics
    /// If `count` exceeds [`Writer::remaining`].
    pub fn commit(&mut self, count: usize) -> Slice {
        assert!(count <= self.remaining(), "committed more than the slab holds");
        let start = self.filled;
        self.filled += count;
        Slice { handle: self.handle.clone(), start, length: count }
    }

    /// Starts again at the beginning of the slab if no slice of it is left.
    pub fn reclaim(&mut self) -> bool {
        let sole = self.handle.sole();
        if sole {
            self.filled = 0;
        }
        sole
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("filled", &self.filled)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// A counted, immutable range of a slab. Cloning adds one to a counter; splitting is arithmetic.
#[derive(Clone)]
pub struct Slice {
    handle: Handle,
    start: usize,
    length: usize,
}

impl Slice {
    /// A part of this slice.
    ///
    /// # Panics
    /// If the range does not lie inside the slice.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.length, "range outside the slice");
        Self { handle: self.handle.clone(), start: self.start + range.start, length: range.end - range.start }
    }

    /// Cuts the first `count` bytes off and returns them.
    ///
    /// # Panics
    /// If `count` exceeds the length.
    #[must_use]
    pub fn split_to(&mut self, count: usize) -> Self {
        let front = self.slice(0..count);
        self.start += count;
        self.length -= count;
        front
    }

    /// The slab of this slice, by its offset in the pool, and the length of the slab: the memory that this
    /// slice holds.
    pub fn slab(&self) -> (usize, usize) {
        (self.handle.offset(), self.handle.header().length())
    }

    /// Keeps the first `length` bytes; does nothing if there are fewer.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Grows by `next` if that follows in the same slab; returns it otherwise.
    pub fn join(&mut self, next: Self) -> Result<(), Self> {
        if self.handle.header == next.handle.header && self.start + self.length == next.start {
            self.length += next.length;
            return Ok(());
        }
        Err(next)
    }
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.handle.header().access.read();
        // SAFETY: `commit` made the range, within the capacity that was claimed.
        let start = unsafe { self.handle.address(self.start) };
        // SAFETY: the range was committed before this slice was made, committed bytes are never written again
        // while a handle lives, and this slice holds one.
        unsafe { slice::from_raw_parts(start.as_ptr(), self.length) }
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slice")
            .field("slab", &self.handle.offset())
            .field("start", &self.start)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
