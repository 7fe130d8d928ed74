//! What no policy can be better than, whatever it knows of the future: PFOO-L (Berger, Beckmann, Harchol-Balter, 2018).
//!
//! To hit a request, its object must be kept since the one before: so many bytes for so long. The cheapest of these are
//! taken until they fill the budget on average over the trace. No cache can have more; most cannot have as much, since it
//! may be over the budget at times.

use crate::workloads::Trace;

/// The shares of requests and of bytes that are hit, at most, for each budget.
pub fn bounds(trace: &Trace, next: &[usize], budgets: &[u64]) -> Vec<(f64, f64)> {
    let mut kept: Vec<(u64, u64)> = Vec::new();
    for (place, (_, object)) in trace.requests.iter().enumerate() {
        if next[place] != usize::MAX {
            kept.push(((next[place] - place) as u64, trace.costs[*object as usize]));
        }
    }
    let asked: u64 = trace
        .requests
        .iter()
        .map(|(_, object)| trace.costs[*object as usize])
        .sum();
    let fill = |kept: &[(u64, u64)], budget: u64| {
        let mut left = u128::from(budget) * trace.requests.len() as u128;
        let (mut requests, mut bytes) = (0u64, 0u64);
        for (length, cost) in kept {
            let Some(rest) = left.checked_sub(u128::from(*length) * u128::from(*cost)) else {
                break;
            };
            left = rest;
            requests += 1;
            bytes += cost;
        }
        (
            requests as f64 / trace.requests.len() as f64,
            bytes as f64 / asked as f64,
        )
    };
    kept.sort_unstable_by_key(|(length, cost)| length * cost);
    let requests: Vec<f64> = budgets
        .iter()
        .map(|budget| fill(&kept, *budget).0)
        .collect();
    // A hit is worth its bytes: by worth, the cheapest is the shortest.
    kept.sort_unstable();
    let bytes = budgets.iter().map(|budget| fill(&kept, *budget).1);
    requests.into_iter().zip(bytes).collect()
}
