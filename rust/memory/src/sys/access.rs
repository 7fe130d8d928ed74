//! Reports to loom of reads and writes of a slab's bytes, which loom cannot see by itself. They do nothing without
//! loom.
//!
//! A report is of a whole slab, so a model must not write into a slab while another thread reads another part
//! of it.

#[cfg(loom)]
use loom::cell::UnsafeCell;

/// Fails a model in which an access is not ordered after the one before it.
#[derive(Debug)]
pub(crate) struct Access(#[cfg(loom)] UnsafeCell<()>);

#[cfg(loom)]
// SAFETY: the cell holds no data; loom's own bookkeeping runs one thread at a time.
unsafe impl Sync for Access {}

#[cfg(loom)]
impl Access {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(()))
    }

    pub(crate) fn read(&self) {
        self.0.with(|_| ());
    }

    pub(crate) fn write(&self) {
        self.0.with_mut(|_| ());
    }
}

#[cfg(not(loom))]
impl Access {
    pub(crate) fn new() -> Self {
        Self()
    }

    #[inline]
    #[expect(clippy::unused_self, reason = "loom's twin has something to tell it")]
    pub(crate) fn read(&self) {}

    #[inline]
    #[expect(clippy::unused_self, reason = "loom's twin has something to tell it")]
    pub(crate) fn write(&self) {}
}
