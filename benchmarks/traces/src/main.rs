//! Replays every trace against every policy at every budget, and prints a line of JSON for each: `benchmarks/eviction.py`
//! starts it. Nothing takes time in a replay: what was asked for once is there for the next request.

mod bound;
mod policies;
mod random;
mod workloads;

use penstock_engine::store::Rules;

use policies::{Order, Ordered, Own, Policy, next_uses};
use workloads::Trace;

const MIB: u64 = 1 << 20;
const BUDGETS: [u64; 3] = [512 * MIB, 2048 * MIB, 8192 * MIB];

/// The share of requests that were hit, and that of bytes.
fn replay(trace: &Trace, mut policy: impl Policy) -> (f64, f64) {
    let (mut hits, mut hit_bytes, mut bytes) = (0u64, 0u64, 0u64);
    for (place, (second, object)) in trace.requests.iter().enumerate() {
        let cost = trace.costs[*object as usize];
        bytes += cost;
        if policy.ask(place, *second, *object) {
            hits += 1;
            hit_bytes += cost;
        }
    }
    (
        hits as f64 / trace.requests.len() as f64,
        hit_bytes as f64 / bytes as f64,
    )
}

fn print(trace: &Trace, policy: &str, budget: u64, (requests, bytes): (f64, f64)) {
    let (workload, mib) = (trace.name, budget / MIB);
    println!(
        "{{\"workload\": \"{workload}\", \"policy\": \"{policy}\", \"budget_mib\": {mib}, \
         \"hit_ratio\": {requests:.4}, \"origin_bytes\": {:.4}}}",
        1.0 - bytes
    );
}

fn main() {
    let rules = [
        ("s3-fifo", Rules::PUBLISHED),
        ("penstock", Rules::CHOSEN),
        (
            "penstock, small queue fixed",
            Rules {
                small_percent: (10, 10),
                ..Rules::CHOSEN
            },
        ),
        (
            "penstock, idle not first",
            Rules {
                idle_first: false,
                ..Rules::CHOSEN
            },
        ),
    ];
    for make in workloads::ALL {
        let trace = make();
        let next = next_uses(&trace);
        let bounds = bound::bounds(&trace, &next, &BUDGETS);
        for (budget, bound) in BUDGETS.into_iter().zip(bounds) {
            let ordered = |order| replay(&trace, Ordered::new(&trace, budget, order));
            print(&trace, "fifo", budget, ordered(Order::Fifo));
            print(&trace, "lru", budget, ordered(Order::Lru));
            for (name, rules) in rules {
                print(
                    &trace,
                    name,
                    budget,
                    replay(&trace, Own::new(&trace, budget, rules)),
                );
            }
            print(&trace, "belady", budget, ordered(Order::Belady(&next)));
            print(&trace, "bound", budget, bound);
        }
    }
}
