//! Sums over objects that come and go. A sum does not decrease when an object is gone.

use std::ops::AddAssign;
use std::sync::Weak;

use crate::sync::Arc;

/// Objects of one kind. Counts of an object between its last reading and its end are missing in the
/// sums.
#[derive(Debug)]
pub(super) struct Kept<T, S> {
    /// Each with its counts at the last reading.
    there: Vec<(Weak<T>, S)>,
    /// The sums of the objects that are gone.
    gone: S,
}

impl<T, S: Default> Default for Kept<T, S> {
    fn default() -> Self {
        Self { there: Vec::new(), gone: S::default() }
    }
}

impl<T, S: Clone + Default + for<'a> AddAssign<&'a S>> Kept<T, S> {
    /// Adds `thing`, unless it is there.
    pub(super) fn add(&mut self, thing: &Arc<T>) {
        if !self.there.iter().any(|(known, _)| known.as_ptr() == Arc::as_ptr(thing)) {
            self.there.push((Arc::downgrade(thing), S::default()));
        }
    }

    /// The live objects.
    pub(super) fn there(&self) -> Vec<Arc<T>> {
        self.there.iter().filter_map(|(thing, _)| thing.upgrade()).collect()
    }

    /// The sums of all, after reading each with `read`.
    pub(super) fn sums(&mut self, read: impl Fn(&T) -> S) -> S {
        let gone = &mut self.gone;
        self.there.retain_mut(|(thing, last)| {
            let thing = thing.upgrade();
            match &thing {
                Some(thing) => *last = read(thing),
                None => *gone += last,
            }
            thing.is_some()
        });
        let mut sums = self.gone.clone();
        for (_, last) in &self.there {
            sums += last;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn read(count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }

    #[test]
    fn a_sum_does_not_go_back_when_something_is_gone() {
        let mut kept = Kept::<AtomicU64, u64>::default();
        let (one, other) = (Arc::new(AtomicU64::new(3)), Arc::new(AtomicU64::new(10)));
        kept.add(&one);
        kept.add(&other);
        kept.add(&one);
        assert_eq!(kept.sums(read), 13);
        one.store(4, Ordering::Relaxed);
        assert_eq!(kept.sums(read), 14);
        drop(one);
        assert_eq!(kept.sums(read), 14);
        assert_eq!(kept.sums(read), 14, "it is not added twice");
        assert_eq!(kept.there().len(), 1);
        other.store(11, Ordering::Relaxed);
        assert_eq!(kept.sums(read), 15);
    }
}
