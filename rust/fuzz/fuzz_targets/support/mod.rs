//! What the targets share: pieces of an input, and pool memory to put them in.
#![allow(dead_code, reason = "not every target needs everything")]

use std::sync::OnceLock;

use penstock_engine::pool::{Pool, PoolConfig, Purpose, REGION, Slice};

/// The bytes in pieces of 1 to 16, whose sizes follow from `seed`.
pub(crate) fn pieces(bytes: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
    let mut state = u32::from(seed);
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // The constants of Numerical Recipes; the high bits are the random ones.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (piece, tail) = rest.split_at(rest.len().min((state >> 28) as usize + 1));
        rest = tail;
        Some(piece)
    })
}

/// A pool for the whole run.
pub(crate) fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| {
        Pool::new(PoolConfig {
            memory: 64 * REGION,
            reserve: 0,
            heads: 0,
            pressed_percent: 80,
            full_percent: 90,
            hysteresis_percent: 5,
            prefault: 0,
            huge_pages: false,
            lock: false,
            caches: 1,
        })
        .expect("a pool of 16 MiB")
    })
}

/// A copy of the bytes in the pool.
pub(crate) fn slice(bytes: &[u8]) -> Slice {
    let mut writer = pool().writer(bytes.len(), Purpose::Bulk).expect("room for one input");
    writer.spare()[..bytes.len()].copy_from_slice(bytes);
    writer.commit(bytes.len())
}
