//! Players over links in virtual time.

use proptest::prelude::*;

use super::*;
use crate::abr::Rule;
use crate::estimate::Estimate;
use crate::plan::Abandon;
use crate::random::{Purpose, Random};
use crate::situation::Insufficient;
use crate::viewer::{Habits, Patience, Pauses, Seeks};

fn settings(rule: Rule) -> plan::Player {
    plan::Player {
        rule,
        buffer: 30.0,
        startup: 2.0,
        resume: 2.0,
        retries: 0,
        retry_delay: 1.0,
        max_retry_delay: 1.0,
        abandon: Some(Abandon { after: 0.5, times: 1.8 }),
    }
}

fn throughput() -> Rule {
    let estimate = Estimate { fast: 3.0, slow: 9.0, first: 500_000.0 };
    let insufficient = Insufficient { first: 0.9, falls: 0.9, least: 0.5 };
    Rule::Throughput { share: 0.9, insufficient, estimate }
}

fn player(rule: Rule, ladder: &[f64]) -> Player {
    let mut player = Player::new(settings(rule), None);
    player.set_ladder(ladder.to_vec());
    player
}

/// A segment of so many seconds that took as long as it says after its first byte.
fn download(seconds: f64, bytes: u64, took: f64) -> Download {
    Download { seconds, bytes, waited: 0.0, took }
}

/// Plays segments of 2 s over a link with these bits a second, one rate for each segment.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes of segments")]
fn play(mut player: Player, ladder: &[f64], rates: &[f64]) -> (Player, f64) {
    let mut now = 0.0;
    for rate in rates {
        let level = loop {
            match player.next(now, 2.0) {
                Step::Fetch(level) => break level,
                Step::Wait(until) => {
                    assert!(until > now);
                    now = until;
                }
            }
        };
        let bits = ladder[level] * 2.0;
        now += bits / rate;
        player.arrived(now, level, &download(2.0, (bits / 8.0) as u64, bits / rate));
    }
    player.completed(now);
    while !player.is_over() {
        now = player.ends();
        player.advance(now);
    }
    (player, now)
}

#[test]
fn a_fast_link_starts_after_the_first_segment_and_never_stalls() {
    let ladder = [1e6, 3e6];
    let (player, _) = play(player(Rule::Fixed { level: 1 }, &ladder), &ladder, &[12e6; 50]);
    let qoe = player.qoe();
    assert!((qoe.startup.unwrap() - 0.5).abs() < 1e-9);
    assert_eq!((qoe.stalls, qoe.up, qoe.down), (0, 0, 0));
    assert!((qoe.played - 100.0).abs() < 1e-6);
    assert!((qoe.bitrate() - 3e6).abs() < 1.0);
}

#[test]
fn a_link_of_half_the_bitrate_stalls_half_of_the_time() {
    let ladder = [3e6];
    let (player, _) = play(player(Rule::Fixed { level: 0 }, &ladder), &ladder, &[1.5e6; 50]);
    let qoe = player.qoe();
    // Each segment takes 4 s and plays for 2; the first is the startup.
    assert_eq!(qoe.stalls, 49);
    assert!((qoe.stalled - 98.0).abs() < 1e-6, "{}", qoe.stalled);
    assert!((qoe.startup.unwrap() - 4.0).abs() < 1e-9);
}

#[test]
fn the_throughput_rule_settles_below_the_link() {
    let ladder = [300_000.0, 1e6, 3e6, 6e6];
    let (player, _) = play(player(throughput(), &ladder), &ladder, &[5e6; 100]);
    assert_eq!(player.level(), Some(2));
    assert_eq!((player.qoe().up, player.qoe().down, player.qoe().stalls), (1, 0, 0));
}

#[test]
fn a_segment_longer_than_the_buffer_is_fetched_when_the_buffer_is_empty() {
    let mut player = player(Rule::Fixed { level: 0 }, &[1e6]);
    assert_eq!(player.next(0.0, 60.0), Step::Fetch(0));
    player.arrived(1.0, 0, &download(60.0, 1000, 1.0));
    assert_eq!(player.next(1.0, 60.0), Step::Wait(31.0 + 30.0));
    assert_eq!(player.next(61.0, 60.0), Step::Fetch(0));
}

#[test]
fn the_end_of_the_media_is_no_stall() {
    let mut player = player(Rule::Fixed { level: 0 }, &[1e6]);
    player.arrived(1.0, 0, &download(1.0, 1000, 1.0));
    assert_eq!(player.qoe().startup, None);
    player.completed(1.5);
    assert_eq!(player.qoe().startup, Some(1.5));
    player.advance(100.0);
    assert_eq!((player.qoe().stalls, player.qoe().played), (0, 1.0));
}

const HABITS: Habits =
    Habits { seek: None, pause: None, patience: Some(Patience { startup: 2.0, leaves: 0.5, stall: 5.0 }) };

fn watched(habits: &Habits, index: u64, rule: Rule, ladder: &[f64]) -> Player {
    let viewer = Viewer::new(habits, Random::new(7, 0, Purpose::Viewer(index)));
    let mut player = Player::new(settings(rule), viewer.map(Box::new));
    player.set_ladder(ladder.to_vec());
    player
}

#[test]
fn a_viewer_gives_up_only_before_the_first_frame() {
    let mut player = watched(&HABITS, 1, Rule::Fixed { level: 0 }, &[1e6]);
    let (at, act) = player.act(100.0);
    assert_eq!(act, Act::GiveUp);
    assert!((2.0..30.0).contains(&at), "{at}");
    assert_eq!(player.act(1.0), (1.0, Act::Leave));
    player.arrived(1.0, 0, &download(50.0, 1000, 1.0));
    assert_eq!(player.act(40.0), (40.0, Act::Leave));
}

#[test]
fn a_second_of_a_stall_takes_five_from_what_is_watched() {
    let mut player = watched(&HABITS, 1, Rule::Fixed { level: 0 }, &[1e6]);
    player.arrived(1.0, 0, &download(4.0, 1000, 1.0));
    // It is dry at 5: 60 s later it would be 65, and each second until then takes six.
    assert_eq!(player.act(65.0), (15.0, Act::Leave));
    player.arrived(7.0, 0, &download(100.0, 1000, 1.0));
    assert!((player.qoe().stalled - 2.0).abs() < 1e-9);
    assert_eq!(player.act(65.0), (55.0, Act::Leave));
}

#[test]
fn a_seek_within_the_buffer_is_no_wait_and_another_throws_it_away() {
    let seek = Some(Seeks { every: 10.0, distance: 20.0, back: 0.5 });
    let habits = Habits { seek, pause: None, patience: None };
    let (mut at_once, mut thrown, mut sought) = (0, 0, 0.0);
    for index in 0..200 {
        let mut player = watched(&habits, index, Rule::Fixed { level: 0 }, &[1e6]);
        player.arrived(1.0, 0, &download(30.0, 1000, 1.0));
        let (at, act) = player.act(1e6);
        if act != Act::Seek {
            // It comes after what is in the buffer.
            assert!(at > 31.0);
            continue;
        }
        player.advance(at);
        let buffer = player.buffer();
        match player.seek(at, player.qoe().played, 600.0) {
            None => {
                at_once += 1;
                assert!(player.buffer() <= buffer);
                player.advance(at + 0.1);
                assert!(player.qoe().seeking == 0.0);
            }
            Some(by) => {
                thrown += 1;
                assert!(by < 0.0 || by > buffer, "{by} with {buffer}");
                assert!(by >= -player.qoe().played - 1e-9);
                assert!(player.buffer() == 0.0 && !player.is_stalled());
                player.arrived(at + 3.0, 0, &download(4.0, 1000, 1.0));
                sought += player.qoe().seeking;
                assert_eq!((player.qoe().stalls, player.buffer()), (0, 4.0));
            }
        }
        assert_eq!(player.qoe().seeks, 1);
    }
    assert!(at_once > 20 && thrown > 20, "{at_once} {thrown}");
    assert!((sought - 3.0 * f64::from(thrown)).abs() < 1e-6, "{sought}");
}

#[test]
fn media_goes_on_coming_in_a_pause_and_none_is_played() {
    let pause = Some(Pauses { every: 5.0, median: 10.0, sigma: 0.0 });
    let habits = Habits { seek: None, pause, patience: None };
    let mut player = watched(&habits, 1, Rule::Fixed { level: 0 }, &[1e6]);
    player.arrived(0.0, 0, &download(20.0, 1000, 0.0));
    let paused = (0..2000).map(|tick| f64::from(tick) / 100.0).find(|now| {
        player.advance(*now);
        player.qoe().pauses > 0
    });
    let began = paused.expect("a pause within 20 s");
    let before = player.buffer();
    player.advance(began + 9.0);
    assert!((player.buffer() - before).abs() < 1e-9);
    player.arrived(began + 9.5, 0, &download(2.0, 1000, 0.0));
    assert!((player.buffer() - before - 2.0).abs() < 1e-9);
    // A player that is full waits for the end of the pause, and for room.
    let seconds = 12.0 + before.ceil();
    let Step::Wait(until) = player.next(began + 9.6, seconds) else { panic!("it is full") };
    assert!(until > began + 10.0 - 0.011, "{until}");
}

#[test]
fn a_segment_that_comes_too_slowly_is_given_up_for_one_that_is_smaller_than_what_is_left() {
    let mut player = player(throughput(), &[3e5, 1e6, 6e6]);
    player.arrived(1.0, 2, &download(4.0, 3_000_000, 1.0));
    // 3 MB at 1 Mbit/s would take 24 s of 7.2.
    let coming =
        |bytes: u64, took: f64| Coming { level: 2, seconds: 4.0, whole: 3_000_000, bytes, waited: 0.1, took };
    assert_eq!(player.gives_up(&coming(50_000, 0.3)), None, "it has just begun");
    assert_eq!(player.gives_up(&coming(125_000, 1.0)), Some(0));
    assert_eq!(player.gives_up(&coming(250_000, 1.0)), Some(1));
    assert_eq!(player.gives_up(&coming(500_000, 1.0)), None, "6 s");
    assert_eq!(player.gives_up(&coming(2_900_000, 20.0)), None, "100 kB are left, and the lowest has 150");
    player.gave_up(3.0, 0);
    assert_eq!(player.next(3.0, 4.0), Step::Fetch(0));
    assert_eq!(player.qoe().abandoned, 1);
}

proptest! {
    /// With seeks and pauses each second is of one kind.
    #[test]
    fn each_second_is_played_stalled_sought_or_paused(rates in proptest::collection::vec(2e5..2e7, 2..120), index in 0u64..1000) {
        let seek = Some(Seeks { every: 20.0, distance: 30.0, back: 0.4 });
        let pause = Some(Pauses { every: 15.0, median: 5.0, sigma: 1.0 });
        let ladder = [300_000.0, 1e6, 3e6, 6e6];
        let mut player = watched(&Habits { seek, pause, patience: None }, index, throughput(), &ladder);
        let mut now = 0.0;
        for rate in rates {
            let (at, act) = player.act(1e9);
            if act == Act::Seek && at < now + 2.0 {
                now = at.max(now);
                player.advance(now);
                player.seek(now, 1000.0, 1000.0);
            }
            if let Step::Fetch(level) = player.next(now, 2.0) {
                let took = ladder[level] * 2.0 / rate;
                now += took;
                player.arrived(now, level, &download(2.0, 75_000, took));
            } else {
                now += 0.5;
            }
            player.advance(now);
            let qoe = player.qoe();
            let counted = qoe.played + qoe.stalled + qoe.seeking + qoe.paused;
            prop_assert!((qoe.startup.unwrap_or(now) + counted - now).abs() < 1e-6);
            prop_assert!(player.buffer() >= 0.0);
        }
    }

    /// Time since the start is played or stalled, and nothing plays that did not arrive.
    #[test]
    fn times_add_up(rates in proptest::collection::vec(1e5..2e7, 2..80)) {
        let ladder = [300_000.0, 1e6, 3e6, 6e6];
        let (player, end) = play(player(throughput(), &ladder), &ladder, &rates);
        let qoe = player.qoe();
        let startup = qoe.startup.unwrap();
        prop_assert!((startup + qoe.played + qoe.stalled - end).abs() < 1e-6);
        prop_assert!((qoe.played - qoe.media).abs() < 1e-6);
        prop_assert!(qoe.bitrate() >= 3e5 - 1.0 && qoe.bitrate() <= 6e6 + 1.0);
    }

    #[test]
    fn the_buffer_never_exceeds_its_limit_by_more_than_the_startup(rates in proptest::collection::vec(1e6..9e7, 2..80)) {
        let ladder = [300_000.0, 1e6];
        let mut player = player(throughput(), &ladder);
        let mut now = 0.0;
        for rate in rates {
            while let Step::Wait(until) = player.next(now, 2.0) {
                now = until;
            }
            now += 6e5 / rate;
            player.arrived(now, 0, &download(2.0, 75_000, 6e5 / rate));
            prop_assert!(player.buffer() <= 30.0 + 1e-6);
        }
    }
}
