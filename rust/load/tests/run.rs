//! Runs against the embedded origin.

use penstock_load::origin::{Origin, Settings};
use penstock_load::plan::Plan;
use penstock_load::run::Run;

fn plan(target: &str, workload: &str) -> Plan {
    let text = format!(
        r#"{{"seed": 7, "duration": 1.0, "target": "{target}", "roots": null, "threads": 2, "part": 0, "parts": 1, "max_sessions": 1000,
            "timeout": 5.0, "samples": 0, "workloads": [{workload}]}}"#
    );
    Plan::from_json(&text).unwrap()
}

fn origin() -> Origin {
    Origin::start(Settings {
        bitrates: vec![100_000, 400_000],
        segment: 0.1,
        segments: 3,
        window: 5,
        events: 50.0,
        tokens: 20,
        token: 0.005,
    })
    .unwrap()
}

#[test]
fn requests_of_an_open_loop_are_all_made() {
    let origin = origin();
    let workload = r#"{"name": "plain", "arrivals": {"curve": "steady", "rate": 200.0},
        "sessions": {"kind": "requests", "path": "/vod/{title}/master.m3u8", "titles": 5, "alpha": 1.0, "connections": 3, "range": null, "networks": []}}"#;
    let plan = plan(&format!("http://{}", origin.address()), workload);
    let records = Run::start(plan).unwrap().join().unwrap();
    let counts = records.iter().flat_map(|thread| &thread.classes).flat_map(|class| &class.due);
    let made: u64 = counts.map(|(_, count)| count).sum();
    assert!(made > 150, "{made}");
    assert!(records.iter().all(|thread| thread.errors.is_empty()));
}

#[test]
fn a_target_that_is_no_address_is_refused() {
    let workload = r#"{"name": "plain", "arrivals": {"curve": "steady", "rate": 1.0},
        "sessions": {"kind": "requests", "path": "/", "titles": 1, "alpha": 0.0, "connections": 1, "range": null, "networks": []}}"#;
    let failed = Run::start(plan("http://127.0.0.1:port", workload)).unwrap().join().unwrap_err();
    assert!(failed.contains("no port that is a number"), "{failed}");
}
