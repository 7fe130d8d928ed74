//! Writes courses of networks as traces: reads JSON of `[{"name", "chain", "seed", "index", "seconds"}]` from its input, and
//! writes JSON of `[{"name", "latency_ms", "steps": [[milliseconds, kbit/s]]}]`. `benchmarks/sabre.py` gives them to Sabre.

use std::error::Error;
use std::io::{stdin, stdout};

use penstock_load::network::{Chain, Trace};
use penstock_load::random::{Purpose, Random};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    chain: Chain,
    seed: u64,
    index: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct Made {
    name: String,
    latency_ms: u64,
    steps: Vec<(u64, u64)>,
}

/// A whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "milliseconds and kbit/s")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Steps of milliseconds and kbit/s, of which two in a row differ.
fn steps(trace: &Trace) -> Vec<(u64, u64)> {
    let mut made: Vec<(u64, u64)> = Vec::new();
    for step in trace.steps.iter() {
        // None is shorter than a millisecond.
        let (length, rate) = (whole(step.seconds * 1e3).max(1), whole(step.rate / 1e3));
        match made.last_mut() {
            Some(last) if last.1 == rate => last.0 += length,
            _ => made.push((length, rate)),
        }
    }
    made
}

fn main() -> Result<(), Box<dyn Error>> {
    let wanted: Vec<Wanted> = serde_json::from_reader(stdin())?;
    let made = wanted.into_iter().map(|each| {
        let trace = each.chain.trace(Random::new(each.seed, 0, Purpose::Network(each.index)), each.seconds);
        Made { name: each.name, latency_ms: whole(each.chain.round_trip * 1e3), steps: steps(&trace) }
    });
    serde_json::to_writer(stdout(), &made.collect::<Vec<_>>())?;
    Ok(())
}
