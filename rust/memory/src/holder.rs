//! Who takes memory from the pool: a number that the caller sets for its thread, and that each slab keeps, so that an operator
//! can ask who holds the memory.

use std::cell::Cell;

/// Numbers of holders, 0 for memory that is taken in no holder's name. Holders above the last number share it.
pub const HOLDERS: usize = 1 << u8::BITS;

thread_local! {
    static HOLDER: Cell<u8> = const { Cell::new(0) };
}

/// The holder in whose name the calling thread takes memory.
pub fn current() -> u8 {
    HOLDER.get()
}

/// From now on the calling thread takes memory in the name of `holder`. Returns the holder before.
pub fn replace(holder: u8) -> u8 {
    HOLDER.replace(holder)
}

/// Does `work`, in which the calling thread takes memory in the name of `holder`.
pub fn within<T>(holder: u8, work: impl FnOnce() -> T) -> T {
    /// Also after a panic, because the thread goes on.
    struct Restored<'a>(&'a Cell<u8>, u8);
    impl Drop for Restored<'_> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    HOLDER.with(|current| {
        let _restored = Restored(current, current.replace(holder));
        work()
    })
}

/// The number of the holder at `place`, counted from 0.
pub fn number(place: usize) -> u8 {
    u8::try_from(place + 1).unwrap_or(u8::MAX)
}

/// What a holder has of the pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holding {
    /// Slabs and runs that are held now.
    pub slabs: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Slabs and runs that were taken so far.
    pub taken: u64,
    /// Their bytes.
    pub taken_bytes: u64,
}
