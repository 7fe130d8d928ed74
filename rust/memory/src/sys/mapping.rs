//! The address range from which slabs are cut: one anonymous mapping, reserved as a whole and filled
//! lazily.
//!
//! It is anonymous, because most systems give transparent huge pages to such memory on request, and not to shared memory.
//! After a fork the child has a copy of its own. Reserving the whole budget as one range costs no memory (pages appear
//! when they are first touched) and makes a run of regions contiguous by construction. Under Miri and loom the same range
//! comes from the heap.

use std::io;
use std::ptr::NonNull;

/// The unit of claims: slabs begin and end at multiples of it. In bytes.
pub(crate) const PAGE: usize = 4096;

/// A range of zeroed memory. Only the slabs of the pool dereference it.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: a Mapping is an address range; the ownership of slabs decides which code may read or write which
// part.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method of Mapping reads or writes the range.
unsafe impl Sync for Mapping {}

#[cfg(not(any(miri, loom)))]
impl Mapping {
    /// Reserves `length` bytes.
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, length })
    }

    /// Asks for transparent huge pages.
    pub(crate) fn use_huge_pages(&self) -> io::Result<()> {
        self.advise(0, self.length, libc::MADV_HUGEPAGE)
    }

    /// Locks pages into memory as they are touched.
    pub(crate) fn lock(&self) -> io::Result<()> {
        // SAFETY: the range is our own live mapping; locking changes no byte of it.
        let result = unsafe { libc::mlock2(self.base.as_ptr().cast(), self.length, libc::MLOCK_ONFAULT) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Makes the pages of `offset..offset + length` present without changing a byte of them.
    pub(crate) fn populate(&self, offset: usize, length: usize) -> io::Result<()> {
        self.advise(offset, length, libc::MADV_POPULATE_WRITE)
    }

    /// Gives the pages of `offset..offset + length` back to the system. They are zero when they are next read.
    ///
    /// # Safety
    /// Nothing reads or writes them meanwhile, and nothing relies on what they hold.
    pub(crate) unsafe fn discard(&self, offset: usize, length: usize) -> io::Result<()> {
        self.advise(offset, length, libc::MADV_DONTNEED)
    }

    fn advise(&self, offset: usize, length: usize, advice: libc::c_int) -> io::Result<()> {
        assert!(offset <= self.length && length <= self.length - offset, "advice outside the mapping");
        // SAFETY: the offset was just checked to lie inside our live mapping.
        let start = unsafe { self.base.add(offset) };
        // SAFETY: the whole range was checked too. Of the advices used here only that of `discard` changes what the memory
        // holds, whose caller says that nothing relies on it.
        let result = unsafe { libc::madvise(start.as_ptr().cast(), length, advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(not(any(miri, loom)))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are the values that mmap returned; the last slab is gone, because each holds the
        // pool.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(any(miri, loom))]
impl Mapping {
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        let layout = std::alloc::Layout::from_size_align(length, PAGE).map_err(io::Error::other)?;
        // SAFETY: the pool never asks for zero bytes (its budget is at least one region).
        let base =
            NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, length })
    }

    pub(crate) fn use_huge_pages(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn lock(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Safety
    /// As the other one.
    pub(crate) unsafe fn discard(&self, _: usize, _: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(any(miri, loom))]
impl Drop for Mapping {
    fn drop(&mut self) {
        let layout = std::alloc::Layout::from_size_align(self.length, PAGE).expect("checked in new");
        // SAFETY: allocated in `new` with the same layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
    }
}

impl Mapping {
    /// The first address of the range.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
}
