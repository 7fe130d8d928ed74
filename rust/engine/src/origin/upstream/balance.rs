//! Chooses one of the origins that may get a request.
//!
//! Pure functions of their parameters.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// A candidate.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    /// Its weight now.
    pub(super) weight: f64,
    /// Requests under way.
    pub(super) load: usize,
    /// Its hash.
    pub(super) hash: u64,
    /// Its credit towards its turn.
    pub(super) credit: &'a mut f64,
}

/// The hash of a text.
pub(super) fn hash(text: &[u8]) -> u64 {
    xxh3_64(text)
}

/// Smooth round robin, as in nginx: a weight of 5 beside two of 1 does not give five requests in a row. Returns the
/// index of the candidate.
pub(super) fn in_turn<'a>(candidates: impl Iterator<Item = Candidate<'a>>) -> Option<usize> {
    let mut total = 0.0;
    let mut best: Option<(usize, &mut f64)> = None;
    for (place, candidate) in candidates.enumerate() {
        total += candidate.weight;
        *candidate.credit += candidate.weight;
        if best.as_ref().is_none_or(|(_, credit)| *candidate.credit > **credit) {
            best = Some((place, candidate.credit));
        }
    }
    let (place, credit) = best?;
    *credit -= total;
    Some(place)
}

/// The candidate with the fewest requests for its weight, with the new request. Of equal candidates, the one that was
/// chosen longest ago: its credit is the number of its last choice.
pub(super) fn least_loaded<'a>(candidates: impl Iterator<Item = Candidate<'a>>) -> Option<usize> {
    let mut latest = 0.0_f64;
    let mut best: Option<(f64, usize, &mut f64)> = None;
    for (place, candidate) in candidates.enumerate() {
        latest = latest.max(*candidate.credit);
        #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^52 requests under way")]
        let load = (candidate.load as f64 + 1.0) / candidate.weight;
        let is_better = best.as_ref().is_none_or(|(least, _, credit)| {
            load.total_cmp(least).then(candidate.credit.total_cmp(credit)).is_lt()
        });
        if is_better {
            best = Some((load, place, candidate.credit));
        }
    }
    let (_, place, credit) = best?;
    *credit = latest + 1.0;
    Some(place)
}

/// The same candidate for the same key, while it is there: rendezvous hashing by weight (Thaler and Ravishankar; weighted
/// after Schindelhauer and Schomaker). When an origin leaves, only its keys move, to the others by their weights. It
/// needs no table, and the candidate that comes second gets a key when the first fails.
pub(super) fn by_key<'a>(key: u64, candidates: impl Iterator<Item = Candidate<'a>>) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    for (place, candidate) in candidates.enumerate() {
        let score = score(key, candidate.hash, candidate.weight);
        if best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, place));
        }
    }
    best.map(|(_, place)| place)
}

fn score(key: u64, origin: u64, weight: f64) -> f64 {
    let mixed = xxh3_64_with_seed(&key.to_le_bytes(), origin);
    // 52 bits and a half lie strictly between 0 and 1, so that the logarithm is finite and below 0.
    #[expect(clippy::cast_precision_loss, reason = "52 bits fit")]
    let uniform = ((mixed >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
    -weight / uniform.ln()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pick(key: u64, origins: &[(u64, f64)]) -> u64 {
        let mut credit = vec![0.0; origins.len()];
        let candidates = origins.iter().zip(&mut credit).map(|((hash, weight), credit)| Candidate {
            weight: *weight,
            load: 0,
            hash: *hash,
            credit,
        });
        origins[by_key(key, candidates).unwrap()].0
    }

    fn key(number: u64) -> u64 {
        hash(&number.to_le_bytes())
    }

    #[test]
    fn turns_are_by_weight_and_smooth() {
        let mut credit = [0.0; 3];
        let mut order = Vec::new();
        for _ in 0..14 {
            let candidates = [5.0, 1.0, 1.0].into_iter().zip(&mut credit).map(|(weight, credit)| Candidate {
                weight,
                load: 0,
                hash: 0,
                credit,
            });
            order.push(in_turn(candidates).unwrap());
        }
        assert_eq!(order[..7], [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(order[..7], order[7..]);
    }

    #[test]
    fn the_least_loaded_is_so_by_weight_and_equals_take_turns() {
        let choose = |loads: [usize; 3], credit: &mut [f64; 3]| {
            let candidates = loads.into_iter().zip([2.0, 1.0, 1.0]).zip(credit);
            least_loaded(candidates.map(|((load, weight), credit)| Candidate {
                weight,
                load,
                hash: 0,
                credit,
            }))
        };
        let mut credit = [0.0; 3];
        assert_eq!(choose([2, 1, 0], &mut credit), Some(2));
        assert_eq!(choose([2, 1, 1], &mut credit), Some(0));
        let mut credit = [0.0; 3];
        let tied: Vec<_> = (0..4).map(|_| choose([9, 1, 1], &mut credit).unwrap()).collect();
        assert_eq!(tied.iter().filter(|place| **place == 1).count(), 2, "{tied:?}");
    }

    #[test]
    fn weights_are_kept() {
        let origins = [(hash(b"a"), 1.0), (hash(b"b"), 2.0), (hash(b"c"), 5.0)];
        let keys = 40_000;
        for (origin, weight) in origins {
            let got = (0..keys).filter(|number| pick(key(*number), &origins) == origin).count();
            #[expect(clippy::cast_precision_loss, reason = "a count of 40000")]
            let share = got as f64 / keys as f64;
            // Four standard deviations of the widest are 0.01.
            assert!((share - weight / 8.0).abs() < 0.012, "{share} of the keys for weight {weight} of 8");
        }
    }

    proptest! {
        #[test]
        fn keys_move_only_from_the_origin_that_leaves(
            names in prop::collection::hash_set("[a-z]{1,8}", 2..8),
            weights in prop::collection::vec(1..10_u32, 8),
            leaving in any::<prop::sample::Index>(),
        ) {
            let origins: Vec<_> = names
                .iter()
                .zip(weights)
                .map(|(name, weight)| (hash(name.as_bytes()), f64::from(weight)))
                .collect();
            let gone = origins[leaving.index(origins.len())].0;
            let rest: Vec<_> = origins.iter().copied().filter(|(origin, _)| *origin != gone).collect();
            for number in 0..200 {
                let before = pick(key(number), &origins);
                if before != gone {
                    prop_assert_eq!(pick(key(number), &rest), before);
                }
            }
        }

        #[test]
        fn more_weight_takes_keys_from_others_and_moves_none_between_them(
            names in prop::collection::hash_set("[a-z]{1,8}", 2..8),
            heavier in any::<prop::sample::Index>(),
        ) {
            let origins: Vec<_> = names.iter().map(|name| (hash(name.as_bytes()), 1.0)).collect();
            let mut changed = origins.clone();
            let heavier = heavier.index(origins.len());
            changed[heavier].1 = 3.0;
            for number in 0..200 {
                let (before, after) = (pick(key(number), &origins), pick(key(number), &changed));
                prop_assert!(after == before || after == origins[heavier].0);
            }
        }
    }
}
