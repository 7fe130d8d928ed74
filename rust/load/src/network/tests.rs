use super::*;
use crate::random::Purpose;

fn random(index: u64) -> Random {
    Random::new(7, 0, Purpose::Network(index))
}

fn trace(steps: &[(f64, f64)]) -> Network {
    let step = |&(seconds, rate): &(f64, f64)| Step { seconds, rate, round_trip: 0.05 };
    Network::Trace(Trace { steps: steps.iter().map(step).collect() })
}

const CHAIN: Chain =
    Chain { median: 4e6, sigma: 0.6, changes: 0.5, outages: 0.01, outage: 2.0, round_trip: 0.1 };

/// Bytes in pieces, one after the other: when the last has come.
fn last(link: &mut Link, pieces: &[f64]) -> f64 {
    pieces.iter().fold(0.0, |now, piece| link.carry(now, *piece))
}

#[test]
fn a_fixed_rate_carries_its_bytes_in_their_time_whatever_the_pieces_are() {
    for pieces in [&[1_000_000.0][..], &[10_000.0; 100], &[1.0, 999_999.0], &[0.0, 400_000.0, 600_000.0]] {
        let mut link = Link::new(&trace(&[(0.3, 8e6)]), random(1));
        let took = last(&mut link, pieces);
        assert!((took - 1.0).abs() < 1e-6, "1 MB at 8 Mbit/s takes a second, and took {took}");
    }
}

#[test]
fn a_timer_that_is_late_takes_nothing_from_the_rate_and_a_pause_does() {
    let mut link = Link::new(&trace(&[(1.0, 8e6)]), random(1));
    let mut now = 0.0;
    for _ in 0..100 {
        now = link.carry(now, 10_000.0) + 0.004;
    }
    assert!((now - 1.004).abs() < 1e-6, "{now}");
    let after = link.carry(now + 5.0, 1_000_000.0) - (now + 5.0);
    assert!((after - (1.0 - SLACK)).abs() < 1e-6, "what was not used in 5 s is gone: {after}");
}

#[test]
fn nothing_comes_in_an_outage_and_a_trace_begins_again() {
    let network = trace(&[(1.0, 8e6), (2.0, 0.0)]);
    let mut link = Link::new(&network, random(3));
    // Six whole turns of a trace that carries a megabyte in each, wherever it begins.
    let took = last(&mut link, &[100_000.0; 60]);
    assert!((15.0..=18.0).contains(&took), "{took}");
    let mut other = Link::new(&network, random(4));
    assert!(
        (last(&mut other, &[100_000.0; 60]) - took).abs() > 1e-6,
        "sessions begin at places of their own"
    );
}

#[test]
fn the_same_seed_is_the_same_course_and_each_session_has_its_own() {
    let took = |index| last(&mut Link::new(&Network::Chain(CHAIN), random(index)), &[50_000.0; 1000]);
    assert!((took(1) - took(1)).abs() < f64::EPSILON);
    assert!((took(1) - took(2)).abs() > 1e-3);
}

#[test]
fn the_rates_of_a_chain_have_its_median_its_deviation_and_its_outages() {
    let Link { mut course, .. } = Link::new(&Network::Chain(CHAIN), random(5));
    let steps: Vec<Step> = (0..200_000).map(|_| course.next()).collect();
    let mut rates: Vec<f64> =
        steps.iter().filter(|step| step.rate > 0.0).map(|step| step.rate.ln()).collect();
    rates.sort_by(f64::total_cmp);
    let count = f64::from(u32::try_from(rates.len()).unwrap());
    let mean = rates.iter().sum::<f64>() / count;
    let deviation = (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count).sqrt();
    assert!((rates[rates.len() / 2] - 4e6f64.ln()).abs() < 1e-6, "the level in the middle is the median");
    assert!((deviation - 0.6).abs() < 0.02, "{deviation}");
    let out: f64 = steps.iter().filter(|step| step.rate == 0.0).map(|step| step.seconds).sum();
    let expected = count * 0.01 * 2.0;
    assert!((out / expected - 1.0).abs() < 0.1, "{out} s of outages, and {expected} expected");
}
