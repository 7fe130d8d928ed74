//! Numbers by a seed.

/// `SplitMix64` (Steele, Lea, Flood): each seed is as good as another, and each number is one of the seed's.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to `most`.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % (most + 1)
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.up_to(count - 1) == 0
    }
}
