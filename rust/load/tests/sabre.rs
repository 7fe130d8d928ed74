//! The players' rules against Sabre, the simulator of the authors of BOLA (Spiteri, Sitaraman and Sparacio 2018): the same films
//! over the same networks, in virtual time.
//!
//! `sabre/ours.json` has what Sabre made of courses of the networks that `penstock load` has; `benchmarks/sabre.py` writes it, and
//! compares the traces that come with Sabre in the same way: `PENSTOCK_SABRE` is then the file.

#![expect(clippy::print_stdout, reason = "the figures of a comparison")]

use std::collections::BTreeMap;

use penstock_load::abr::Rule;
use penstock_load::estimate::Download;
use penstock_load::network::{Link, Step as Interval, Trace};
use penstock_load::plan;
use penstock_load::player::{Player, Step};
use serde::Deserialize;

/// Of the mean bitrate, and in points of the rebuffer ratio.
const BITRATE: f64 = 0.01;
const REBUFFER: f64 = 0.001;
/// The share of the runs that must be as close.
const MOST: f64 = 0.95;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    /// Seconds of media that are buffered at most.
    buffer: f64,
    movie: Movie,
    rules: BTreeMap<String, Rule>,
    networks: Vec<Course>,
    /// By rule: of each network the mean bitrate in kbit/s and the seconds of stalls.
    runs: BTreeMap<String, Vec<(f64, f64)>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Movie {
    /// Seconds of a segment.
    segment: f64,
    bitrates_kbps: Vec<f64>,
    /// Of each segment: bits of each rendition.
    sizes_bits: Vec<Vec<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Course {
    name: String,
    latency_ms: f64,
    /// Milliseconds and kbit/s.
    steps: Vec<(f64, f64)>,
}

impl Course {
    fn link(&self) -> Link {
        let step = |&(milliseconds, rate): &(f64, f64)| Interval {
            seconds: milliseconds / 1e3,
            rate: rate * 1e3,
            round_trip: self.latency_ms / 1e3,
        };
        Link::over(Trace { steps: self.steps.iter().map(step).collect() })
    }
}

fn player(rule: &Rule, fixture: &Fixture) -> Player {
    let settings = plan::Player {
        rule: rule.clone(),
        buffer: fixture.buffer,
        // Sabre shows each segment as soon as it has arrived.
        startup: 0.001,
        resume: 0.001,
        retries: 0,
        retry_delay: 1.0,
        max_retry_delay: 1.0,
        abandon: None,
    };
    let mut player = Player::new(settings, None);
    player.set_ladder(fixture.movie.bitrates_kbps.iter().map(|rate| rate * 1e3).collect());
    player
}

/// The mean bitrate in kbit/s, and the seconds of stalls.
#[expect(clippy::cast_precision_loss, reason = "bits of a segment")]
fn play(rule: &Rule, fixture: &Fixture, course: &Course) -> (f64, f64) {
    let (mut player, mut link, mut now) = (player(rule, fixture), course.link(), 0.0);
    let seconds = fixture.movie.segment;
    for sizes in &fixture.movie.sizes_bits {
        let level = loop {
            match player.next(now, seconds) {
                Step::Fetch(level) => break level,
                Step::Wait(until) => now = until,
            }
        };
        let waited = link.round_trip(now);
        let done = link.carry(now + waited, sizes[level] as f64 / 8.0);
        let took = done - now - waited;
        now = done;
        player.arrived(now, level, &Download { seconds, bytes: sizes[level] / 8, waited, took });
    }
    player.completed(now);
    player.advance(player.ends());
    assert!(player.is_over());
    (player.qoe().bitrate() / 1e3, player.qoe().stalled)
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn players_do_as_sabre_does() {
    let text = match std::env::var("PENSTOCK_SABRE") {
        Ok(path) => std::fs::read_to_string(path).unwrap(),
        Err(_) => include_str!("sabre/ours.json").to_owned(),
    };
    let fixture: Fixture = serde_json::from_str(&text).unwrap();
    let length = fixture.movie.segment * fixture.movie.sizes_bits.len() as f64;
    assert!(fixture.networks.len() >= 126 && fixture.runs.len() >= 3);
    for (name, expected) in &fixture.runs {
        let rule = &fixture.rules[name];
        assert_eq!(expected.len(), fixture.networks.len());
        let (mut close, mut equal) = (0, 0);
        for (course, (bitrate, stalled)) in fixture.networks.iter().zip(expected) {
            let found = play(rule, &fixture, course);
            let ratio = |stalled: f64| stalled / (length + stalled);
            let off = (found.0 / bitrate - 1.0).abs();
            let points = (ratio(found.1) - ratio(*stalled)).abs();
            close += usize::from(off <= BITRATE && points <= REBUFFER);
            equal += usize::from(off < 1e-4 && points < 1e-4);
            if off > BITRATE || points > REBUFFER {
                println!("{name} over {}: {found:?}, and Sabre ({bitrate}, {stalled})", course.name);
            }
        }
        let count = expected.len();
        println!("{name}: {close} of {count} are as close as they must be, {equal} are equal");
        assert!(close as f64 >= MOST * count as f64, "{name}: {close} of {count}");
    }
}
