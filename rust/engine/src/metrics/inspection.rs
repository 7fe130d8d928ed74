//! Counts of inspected responses, by route.

use super::{Board, Exposition};
use crate::counters::Histogram;
use crate::edge::Site;
use crate::inspect::{Counts, Sums};
use crate::sync::{Arc, lock};

/// A counter, its help, and its value in the snapshot.
type Counter = (&'static str, &'static str, fn(&Sums) -> u64);

const COUNTERS: [Counter; 4] = [
    (
        "penstock_inspected_hidden_total",
        "Inspected responses in which a usage may have been and was not seen: coded, or too large.",
        |sums| sums.hidden,
    ),
    ("penstock_inspected_usages_total", "Inspected responses that had a usage.", |sums| sums.with_usage),
    ("penstock_inspected_events_total", "Events of inspected streams so far.", |sums| sums.events),
    ("penstock_inspected_bytes_total", "Bytes of inspected event streams so far.", |sums| sums.bytes),
];

/// The same for durations.
type Times = (&'static str, &'static str, fn(&Sums) -> &Histogram);

const TIMES: [Times; 3] = [
    ("penstock_first_token_seconds", "From when the origin was asked to the first token.", |sums| {
        &sums.first
    }),
    ("penstock_token_gap_seconds", "Between two tokens of a stream.", |sums| &sums.gaps),
    (
        "penstock_token_stream_seconds",
        "From when the origin was asked to the end of a stream of tokens.",
        |sums| &sums.totals,
    ),
];

impl Board {
    pub(super) fn write_inspected(&self, sites: &[Arc<Site>], out: &mut Exposition) {
        for (name, counts) in sites.iter().flat_map(|site| site.inspected()) {
            self.add_inspected(&name, &counts);
        }
        let routes: Vec<(Box<str>, Sums)> = lock(&self.inspected)
            .iter_mut()
            .map(|(name, kept)| (name.clone(), kept.sums(Counts::sums)))
            .collect();
        let help = "Inspected responses that are over: streams of events, or others.";
        let mut responses = out.counter("penstock_inspected_responses_total", help);
        for (route, sums) in &routes {
            responses.sample(&[("route", route), ("content", "events")], sums.streams);
            responses.sample(&[("route", route), ("content", "other")], sums.responses);
        }
        for (name, help, count) in COUNTERS {
            let mut counter = out.counter(name, help);
            for (route, sums) in &routes {
                counter.sample(&[("route", route)], count(sums));
            }
        }
        for (name, help, histogram) in TIMES {
            let mut times = out.histogram(name, help);
            for (route, sums) in &routes {
                times.sample(&[("route", route)], histogram(sums));
            }
        }
    }
}
