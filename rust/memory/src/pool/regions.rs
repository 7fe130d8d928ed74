//! Which parts of the mapping are free, and into which class each region is cut.
//!
//! Plain data under the pool's one slow lock. A region is free, cut into slabs of one class, or part of a run. As
//! soon as its last slab comes back it is free and can be cut for any class, so that one budget serves a crowd of
//! small events now and of large segments a minute later. Slabs are taken from the lowest region that has one, and
//! runs from the highest, so that the two meet in the middle.

use std::collections::BTreeSet;

/// The unit of cutting: the largest slab, and the step of a run. In bytes.
pub const REGION: usize = 256 * 1024;

/// Slab sizes in bytes, ascending.
pub const CLASSES: [usize; 4] = [4 * 1024, 16 * 1024, 64 * 1024, REGION];

/// The class for an object of `size` bytes, or `None` if it needs a run.
pub(super) fn class_of(size: usize) -> Option<usize> {
    CLASSES.iter().position(|&class| size <= class)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Free,
    /// A bit is set for each slab that is free.
    Slabs {
        class: usize,
        free: u64,
    },
    RunStart {
        regions: usize,
    },
    RunPart,
}

#[derive(Debug)]
pub(super) struct Regions {
    cuts: Vec<Cut>,
    free: BTreeSet<usize>,
    /// Cut regions that still have a free slab, by class.
    partial: [BTreeSet<usize>; CLASSES.len()],
    /// One past the highest region that slabs were ever cut from.
    reach: usize,
}

fn all_free(class: usize) -> u64 {
    u64::MAX >> (64 - REGION / CLASSES[class])
}

impl Regions {
    pub(super) fn new(count: usize) -> Self {
        Self {
            cuts: vec![Cut::Free; count],
            free: (0..count).collect(),
            partial: Default::default(),
            reach: 0,
        }
    }

    /// Appends the offsets of up to `count` free slabs of `class`; calls `cut` for each region cut to get them.
    pub(super) fn take(&mut self, class: usize, count: usize, into: &mut Vec<usize>, cut: impl Fn(usize)) {
        while into.len() < count {
            let region = match self.partial[class].first() {
                Some(&region) => region,
                // A second region is not cut only to fill a cache.
                None if !into.is_empty() => return,
                None => {
                    let Some(region) = self.free.pop_first() else { return };
                    self.cuts[region] = Cut::Slabs { class, free: all_free(class) };
                    self.partial[class].insert(region);
                    self.reach = self.reach.max(region + 1);
                    cut(region);
                    region
                }
            };
            self.take_from(region, class, count, into);
        }
    }

    /// The offset of a free slab of `class`, if a region that is cut already has one.
    pub(super) fn take_cut(&mut self, class: usize) -> Option<usize> {
        let region = *self.partial[class].first()?;
        let mut slab = Vec::new();
        self.take_from(region, class, 1, &mut slab);
        slab.pop()
    }

    fn take_from(&mut self, region: usize, class: usize, count: usize, into: &mut Vec<usize>) {
        let Cut::Slabs { free, .. } = &mut self.cuts[region] else { unreachable!("partial regions are cut") };
        while *free != 0 && into.len() < count {
            let slab = free.trailing_zeros() as usize;
            *free &= *free - 1;
            into.push(region * REGION + slab * CLASSES[class]);
        }
        if *free == 0 {
            self.partial[class].remove(&region);
        }
    }

    /// Takes back slabs of `class`.
    pub(super) fn give(&mut self, class: usize, offsets: impl Iterator<Item = usize>) {
        for offset in offsets {
            let region = offset / REGION;
            let Cut::Slabs { class: cut, free } = &mut self.cuts[region] else {
                unreachable!("a slab's region is cut")
            };
            debug_assert_eq!(*cut, class, "a slab came back under another class");
            let bit = 1 << (offset % REGION / CLASSES[class]);
            debug_assert_eq!(*free & bit, 0, "a slab came back twice");
            if *free == 0 {
                self.partial[class].insert(region);
            }
            *free |= bit;
            if *free == all_free(class) {
                self.partial[class].remove(&region);
                self.cuts[region] = Cut::Free;
                self.free.insert(region);
            }
        }
    }

    /// Makes a run of `count` adjacent free regions; returns the first.
    pub(super) fn take_run(&mut self, count: usize) -> Option<usize> {
        let mut length = 0;
        let mut above = usize::MAX;
        let first = self.free.iter().rev().copied().find(|&region| {
            length = if region + 1 == above { length + 1 } else { 1 };
            above = region;
            length == count
        })?;
        for region in first..first + count {
            self.free.remove(&region);
            self.cuts[region] = Cut::RunPart;
        }
        self.cuts[first] = Cut::RunStart { regions: count };
        Some(first)
    }

    /// How many regions the run that starts at `first` has.
    pub(super) fn run_length(&self, first: usize) -> usize {
        let Cut::RunStart { regions } = self.cuts[first] else { unreachable!("a run has a start") };
        regions
    }

    /// Frees the run that starts at `first`.
    pub(super) fn give_run(&mut self, first: usize) {
        for region in first..first + self.run_length(first) {
            self.cuts[region] = Cut::Free;
            self.free.insert(region);
        }
    }

    /// The free regions from `first` on.
    pub(super) fn free_from(&self, first: usize) -> impl Iterator<Item = usize> {
        self.free.range(first..).copied()
    }

    /// One past the highest region that slabs were ever cut from.
    pub(super) fn reach(&self) -> usize {
        self.reach
    }

    /// All slabs and runs, held or free, each with its offset and its bytes.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (usize, usize)> {
        self.cuts.iter().enumerate().flat_map(|(region, cut)| {
            let (count, bytes) = match *cut {
                Cut::Slabs { class, .. } => (REGION / CLASSES[class], CLASSES[class]),
                Cut::RunStart { regions } => (1, regions * REGION),
                Cut::Free | Cut::RunPart => (0, 0),
            };
            (0..count).map(move |piece| (region * REGION + piece * bytes, bytes))
        })
    }

    /// How many slabs of each class the cut regions hold.
    pub(super) fn slabs_by_class(&self) -> [usize; CLASSES.len()] {
        let mut slabs = [0; CLASSES.len()];
        for cut in &self.cuts {
            if let Cut::Slabs { class, .. } = cut {
                slabs[*class] += REGION / CLASSES[*class];
            }
        }
        slabs
    }
}
