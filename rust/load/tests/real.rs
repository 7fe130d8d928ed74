//! Players over real sockets do as players in virtual time.

use penstock_load::estimate::Download;
use penstock_load::network::{Link, Network};
use penstock_load::origin::{Origin, Settings};
use penstock_load::plan::{Plan, Sessions};
use penstock_load::player::{Player, Step};
use penstock_load::qoe::Qoe;
use penstock_load::random::{Purpose, Random};
use penstock_load::record::{Records, SessionRecord};
use penstock_load::run::Run;

const SEED: u64 = 7;
const SESSIONS: usize = 24;
const SEGMENTS: u64 = 16;
const LADDER: [u64; 4] = [100_000, 400_000, 1_000_000, 2_000_000];
/// Microseconds.
const LATEST: u64 = 50_000;
/// Bytes of the playlists that the origin makes of that: of the renditions, and of each.
const PLAYLISTS: (f64, f64) = (170.0, 460.0);

/// Sessions that arrive at once, each with a network of its own.
fn plan(target: &str) -> Plan {
    let times = vec!["0.0"; SESSIONS].join(", ");
    let text = format!(
        r#"{{"seed": {SEED}, "duration": 120.0, "target": "{target}", "roots": null, "threads": 1, "part": 0, "parts": 1,
            "max_sessions": 1000, "timeout": 60.0, "samples": 0, "workloads": [
              {{"name": "viewers", "arrivals": {{"curve": "trace", "times": [{times}]}}, "sessions":
                {{"kind": "hls", "path": "/vod/{{title}}/master.m3u8", "titles": 1, "alpha": 0.0,
                  "watch": {{"median": 100.0, "sigma": 0.0}},
                  "habits": {{"seek": null, "pause": null, "patience": null}},
                  "player": {{"buffer": 8.0, "startup": 1.0, "resume": 1.0, "retries": 0, "retry_delay": 1.0,
                    "max_retry_delay": 1.0, "abandon": null, "rule": {{"name": "throughput", "share": 0.9,
                      "insufficient": {{"first": 0.7, "falls": 1.0, "least": 0.7}},
                      "estimate": {{"fast": 3.0, "slow": 8.0, "first": 0.0}}}}}},
                  "networks": [{{"share": 1.0, "network": {{"kind": "chain", "median": 1e6, "sigma": 0.8, "changes": 0.8,
                    "outages": 0.02, "outage": 1.5, "round_trip": 0.1}}}}]}}}}]}}"#
    );
    Plan::from_json(&text).unwrap()
}

/// The same session without a socket.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes of a segment"
)]
fn in_virtual_time(plan: &Plan, index: u64) -> Qoe {
    let Sessions::Hls(settings) = &plan.workloads[0].sessions else { panic!("viewers") };
    let mut random = Random::new(SEED, 0, Purpose::Network(index));
    // The session has drawn which network it has.
    random.uniform();
    let network: &Network = &settings.networks[0].network;
    let mut link = Link::new(network, random);
    let mut player = Player::new(settings.player.clone(), None);
    player.set_ladder(LADDER.iter().map(|rate| *rate as f64).collect());
    // A new connection takes a round trip more.
    let trip = link.round_trip(0.0);
    let mut now = link.carry(2.0 * trip, PLAYLISTS.0);
    let mut known = [false; LADDER.len()];
    let mut level = 0;
    for _ in 0..SEGMENTS {
        level = loop {
            // What a segment takes is known with its playlist.
            let target = if known[level] { 1.0 } else { 0.0 };
            match player.next(now, target) {
                Step::Fetch(level) => break level,
                Step::Wait(until) => now = until,
            }
        };
        if !known[level] {
            known[level] = true;
            now += link.round_trip(now);
            now = link.carry(now, PLAYLISTS.1);
        }
        let waited = link.round_trip(now);
        let bytes = LADDER[level] as f64 / 8.0;
        let done = link.carry(now + waited, bytes);
        let took = done - now - waited;
        now = done;
        player.arrived(now, level, &Download { seconds: 1.0, bytes: bytes as u64, waited, took });
    }
    player.completed(now);
    player.advance(player.ends());
    player.qoe().clone()
}

/// The mean bitrate, and the share of the time in stalls.
fn whole<'a>(several: &(impl Iterator<Item = &'a Qoe> + Clone)) -> (f64, f64) {
    let sum = |figure: fn(&Qoe) -> f64| several.clone().map(figure).sum::<f64>();
    (sum(|qoe| qoe.bits) / sum(|qoe| qoe.media), sum(|qoe| qoe.stalled) / sum(|qoe| qoe.played + qoe.stalled))
}

/// By how many microseconds the timers were late, at the 99th percentile.
fn late(records: &Records) -> u64 {
    let total: u64 = records.lateness.iter().map(|(_, count)| count).sum();
    let mut seen = 0;
    let at = records.lateness.iter().find(|(_, count)| {
        seen += count;
        seen * 100 >= total * 99
    });
    at.map_or(0, |(value, _)| *value)
}

#[test]
fn real_players_are_as_far_as_virtual_ones() {
    let settings = Settings {
        bitrates: LADDER.to_vec(),
        segment: 1.0,
        segments: SEGMENTS,
        window: 3,
        events: 1.0,
        tokens: 0,
        token: 0.0,
    };
    let origin = Origin::start(settings).unwrap();
    let plan = plan(&format!("http://{}", origin.address()));
    let records = Run::start(plan.clone()).unwrap().join().unwrap();
    let sessions = &records[0].sessions;
    assert_eq!(sessions.iter().filter(|each| each.ended == "completed").count(), SESSIONS);
    let mut sessions: Vec<&SessionRecord> = sessions.iter().collect();
    sessions.sort_by_key(|each| each.index);
    let found: Vec<Qoe> = sessions.iter().filter_map(|each| each.qoe.as_deref().cloned()).collect();
    let expected: Vec<Qoe> = (0..SESSIONS as u64).map(|index| in_virtual_time(&plan, index)).collect();
    let (real, virtual_time) = (whole(&found.iter()), whole(&expected.iter()));
    let said = format!("{real:?} on sockets, {virtual_time:?} in virtual time");
    assert!(virtual_time.1 > 0.001, "some stall: {said}");
    // As the verdict of a run has it: a generator whose timers are late says nothing, and here more is allowed for.
    if late(&records[0]) > LATEST {
        return;
    }
    assert!((real.0 / virtual_time.0 - 1.0).abs() < 0.05, "{said}");
    assert!((real.1 - virtual_time.1).abs() < 0.005, "{said}");
}
