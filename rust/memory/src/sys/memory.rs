//! The memory of the pool, and which of its pages are held.
//!
//! The pool decides which pages become a slab: arithmetic, in safe code. This file checks it: a page that is held cannot
//! be claimed again, whatever the pool asks for. So a mistake in the pool's arithmetic cannot hand out a page twice, and
//! the safety of slabs depends on this file alone. The check is one bit for each page: two atomic operations in the life
//! of a slab of up to 256 KiB, beside the two locks that it takes anyway.

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::access::Access;
use super::mapping::{Mapping, PAGE};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// As many pages as a word of claims has bits. In bytes.
const BLOCK: usize = 64 * PAGE;

/// The counts of one slab. They are apart from the data, so that a count never touches a cold data page, and
/// padded to a cache line, so that two threads' slabs do not share one.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Header {
    pub(crate) handles: AtomicU32,
    /// The length of the slab that begins at this page, in bytes.
    length: AtomicUsize,
    /// In whose name the slab is held.
    holder: AtomicU8,
    pub(crate) access: Access,
}

impl Header {
    fn new() -> Self {
        Self {
            handles: AtomicU32::new(0),
            length: AtomicUsize::new(0),
            holder: AtomicU8::new(0),
            access: Access::new(),
        }
    }

    /// Bytes of the slab, while it is held.
    pub(crate) fn length(&self) -> usize {
        // Relaxed: written by the claim, before the first handle was made; the caller's handle is a
        // clone of it.
        self.length.load(Ordering::Relaxed)
    }
}

/// A mapping whose pages are claimed before they are read or written.
pub(crate) struct Memory {
    mapping: Mapping,
    /// One bit for each page, set while the page is held, in blocks.
    claimed: Box<[AtomicU64]>,
    /// One header for each page, in blocks. A slab uses the header of its first page.
    headers: Box<[OnceLock<Box<[Header]>>]>,
}

impl Memory {
    /// Reserves `length` bytes, rounded down to whole blocks of 256 KiB.
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        let blocks = length / BLOCK;
        Ok(Self {
            mapping: Mapping::new(blocks * BLOCK)?,
            claimed: (0..blocks).map(|_| AtomicU64::new(0)).collect(),
            headers: (0..blocks).map(|_| OnceLock::new()).collect(),
        })
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Makes the headers of the block at `offset`. A model calls it before it has threads, because loom does not
    /// see the `OnceLock` that orders the first use.
    #[cfg(loom)]
    pub(crate) fn prepare(&self, offset: usize) {
        self.header(offset);
    }

    fn header(&self, offset: usize) -> &Header {
        let make = || (0..BLOCK / PAGE).map(|_| Header::new()).collect();
        &self.headers[offset / BLOCK].get_or_init(make)[offset % BLOCK / PAGE]
    }

    /// In whose name the slab at `offset` is held, if it is.
    pub(crate) fn holder(&self, offset: usize) -> Option<u8> {
        let (block, bit) = (offset / BLOCK, 1 << (offset % BLOCK / PAGE));
        // Relaxed, both: a figure, which may be that of the slab before or after this one.
        let is_held = self.claimed[block].load(Ordering::Relaxed) & bit != 0;
        is_held.then(|| self.header(offset).holder.load(Ordering::Relaxed))
    }

    /// Claims `length` bytes from `offset` on for one handle, in the name of `holder`, and returns their header and the address of the
    /// first byte.
    ///
    /// # Panics
    /// If one of the pages is held, or the range is not made of whole pages of this memory.
    pub(crate) fn claim(&self, offset: usize, length: usize, holder: u8) -> (NonNull<Header>, NonNull<u8>) {
        let total = self.claimed.len() * BLOCK;
        assert!(offset % PAGE == 0 && length % PAGE == 0 && length > 0, "a slab is whole pages");
        assert!(offset < total && length <= total - offset, "a slab lies in the memory");
        for (block, bits) in blocks(offset, length) {
            // Acquire pairs with the Release of `release`: the last reads of these pages are over before they are written.
            let held = self.claimed[block].fetch_or(bits, Ordering::Acquire);
            assert!(held & bits == 0, "pages of the pool were handed out twice");
        }
        let header = self.header(offset);
        // Relaxed, all: a reader has a handle that is a clone of this one; `holder` reads a figure.
        header.handles.store(1, Ordering::Relaxed);
        header.length.store(length, Ordering::Relaxed);
        header.holder.store(holder, Ordering::Relaxed);
        // SAFETY: the offset was just checked to lie inside the mapping, which has `total` bytes.
        let start = unsafe { self.mapping.base().add(offset) };
        (NonNull::from(header), start)
    }

    /// Gives the pages of the block at `offset` back to the system, unless one of them is held. Whether it was given back.
    ///
    /// Nothing may be claimed there meanwhile: a claim would panic.
    pub(crate) fn discard(&self, offset: usize) -> bool {
        let claimed = &self.claimed[offset / BLOCK];
        // Acquire pairs with the Release of `release`, and the Release below with the Acquire of `claim`: nothing reads or
        // writes these pages before or after, because all of them are held by this call.
        if claimed.compare_exchange(0, u64::MAX, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        // SAFETY: every page of the block was free, and is claimed now: there is no slab in it.
        let result = unsafe { self.mapping.discard(offset / BLOCK * BLOCK, BLOCK) };
        claimed.store(0, Ordering::Release);
        result.is_ok()
    }

    /// Ends the claim on the slab at `offset`, and returns its length in bytes.
    ///
    /// # Safety
    /// The slab was claimed, and the caller drops the last handle to it: nothing reads or writes its bytes any more.
    pub(crate) unsafe fn release(&self, offset: usize) -> usize {
        let length = self.header(offset).length();
        for (block, bits) in blocks(offset, length) {
            // Release pairs with the Acquire of `claim`.
            self.claimed[block].fetch_and(!bits, Ordering::Release);
        }
        length
    }
}

/// The blocks that a range of pages lies in, each with the bits of its pages.
fn blocks(offset: usize, length: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = offset + length;
    (offset / BLOCK..end.div_ceil(BLOCK)).map(move |block| {
        let first = offset.max(block * BLOCK) % BLOCK / PAGE;
        let count = (end.min((block + 1) * BLOCK) - offset.max(block * BLOCK)) / PAGE;
        (block, (u64::MAX >> (64 - count)) << first)
    })
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("mapping", &self.mapping).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn claims(memory: &Memory, offset: usize, length: usize) -> bool {
        let claim = std::panic::AssertUnwindSafe(|| memory.claim(offset, length, 0));
        std::panic::catch_unwind(claim).is_ok()
    }

    #[test]
    fn a_page_that_is_held_cannot_be_claimed() {
        let memory = Memory::new(4 * BLOCK).unwrap();
        memory.claim(4 * PAGE, 4 * PAGE, 0);
        for (offset, length) in [(4, 4), (4, 1), (7, 1), (0, 5), (0, 64), (6, 58), (0, 256)] {
            assert!(!claims(&memory, offset * PAGE, length * PAGE), "{length} pages at {offset}");
        }
    }

    #[test]
    fn what_was_released_can_be_claimed_and_nothing_else() {
        let memory = Memory::new(4 * BLOCK).unwrap();
        let (header, start) = memory.claim(BLOCK, 2 * BLOCK, 5);
        assert_eq!(start.addr().get() - memory.mapping().base().addr().get(), BLOCK);
        memory.claim(0, PAGE, 0);
        assert_eq!([BLOCK, 0, PAGE].map(|offset| memory.holder(offset)), [Some(5), Some(0), None]);
        assert!(!claims(&memory, 2 * BLOCK, PAGE));
        // SAFETY: a header lives as long as the memory.
        assert_eq!(unsafe { header.as_ref() }.length(), 2 * BLOCK);
        // SAFETY: claimed above, and nothing has been read or written.
        assert_eq!(unsafe { memory.release(BLOCK) }, 2 * BLOCK);
        assert!(claims(&memory, 2 * BLOCK, BLOCK));
        assert!(!claims(&memory, 0, PAGE));
    }

    #[test]
    #[cfg(not(miri))]
    fn a_block_is_given_back_if_no_page_of_it_is_held() {
        let memory = Memory::new(3 * BLOCK).unwrap();
        let (_, start) = memory.claim(BLOCK, 2 * PAGE, 0);
        // SAFETY: the page was just claimed.
        unsafe { start.as_ptr().write(7) };
        assert!(memory.discard(0) && !memory.discard(BLOCK) && memory.discard(2 * BLOCK));
        // SAFETY: claimed above, and read here for the last time.
        assert_eq!(unsafe { start.as_ptr().read() }, 7);
        // SAFETY: nothing reads or writes it any more.
        unsafe { memory.release(BLOCK) };
        assert!(memory.discard(BLOCK));
        let (_, again) = memory.claim(BLOCK, 2 * PAGE, 0);
        // SAFETY: as above; a page of the mapping is zero until it is written.
        assert_eq!(unsafe { again.as_ptr().read() }, 0);
    }

    #[test]
    fn what_is_no_part_of_the_memory_cannot_be_claimed() {
        let memory = Memory::new(BLOCK).unwrap();
        for (offset, length) in [
            (BLOCK, PAGE),
            (0, BLOCK + PAGE),
            (BLOCK - PAGE, 2 * PAGE),
            (usize::MAX - PAGE + 1, PAGE),
            (PAGE, usize::MAX - PAGE + 1),
            (1, PAGE),
            (0, PAGE - 1),
            (0, 0),
        ] {
            assert!(!claims(&memory, offset, length), "{length} bytes at {offset}");
        }
    }
}
