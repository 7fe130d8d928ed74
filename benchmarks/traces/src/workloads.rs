//! The traces: who asks for what, and when. All are made by chance from a seed.

use crate::random::{Random, Zipf};

/// Bodies are held in slabs: what a segment costs is a multiple of this.
const SLAB: f64 = 65536.0;
const SEGMENT_SECONDS: f64 = 6.0;

pub struct Trace {
    pub name: &'static str,
    /// The second, and the object.
    pub requests: Vec<(u32, u32)>,
    /// What each object costs, in bytes.
    pub costs: Vec<u64>,
}

/// A trace that is being made.
#[derive(Default)]
struct Draft {
    requests: Vec<(f64, u32)>,
    costs: Vec<u64>,
}

impl Draft {
    fn object(&mut self, bytes: f64) -> u32 {
        self.costs.push(((bytes / SLAB).ceil() * SLAB) as u64);
        (self.costs.len() - 1) as u32
    }

    fn ask(&mut self, time: f64, object: u32) {
        self.requests.push((time, object));
    }

    fn finish(mut self, name: &'static str) -> Trace {
        self.requests
            .sort_by(|one, other| one.0.total_cmp(&other.0));
        let requests = self
            .requests
            .into_iter()
            .map(|(time, object)| (time as u32, object));
        Trace {
            name,
            requests: requests.collect(),
            costs: self.costs,
        }
    }
}

/// All of them, each made when it is its turn: a trace is some tens of megabytes.
pub const ALL: [fn() -> Trace; 8] = [
    || {
        made("vod-0.8", 1, |draft, random| {
            vod(draft, random, 0.8, 100.0, 20_000.0)
        })
    },
    || {
        made("vod-1.0", 2, |draft, random| {
            vod(draft, random, 1.0, 100.0, 20_000.0)
        })
    },
    || {
        made("vod-slow", 3, |draft, random| {
            vod(draft, random, 1.0, 10.0, 100_000.0)
        })
    },
    || {
        made("vod-scans", 4, |draft, random| {
            vod(draft, random, 1.0, 75.0, 20_000.0);
            scans(draft, random, 25.0, 20_000.0);
        })
    },
    || {
        made("sessions", 5, |draft, random| {
            sessions(draft, random, 600, 20_000.0)
        })
    },
    || made("live", 6, |draft, random| live(draft, random, 2000, 7200.0)),
    || {
        made("live-vod", 7, |draft, random| {
            live(draft, random, 1000, 7200.0);
            vod(draft, random, 1.0, 100.0, 7200.0);
        })
    },
    || {
        made("live-sessions", 8, |draft, random| {
            live(draft, random, 1000, 7200.0);
            sessions(draft, random, 600, 7200.0);
        })
    },
];

fn made(name: &'static str, seed: u64, make: impl Fn(&mut Draft, &mut Random)) -> Trace {
    let mut draft = Draft::default();
    make(&mut draft, &mut Random::new(seed));
    draft.finish(name)
}

/// Log-normal around 1 MiB, from 0.2 to 4 MiB.
fn segment_bytes(random: &mut Random) -> f64 {
    (random.normal() * 0.7).exp().clamp(0.2, 4.0) * 1048576.0
}

/// 100,000 segments, asked for independently of each other.
fn vod(draft: &mut Draft, random: &mut Random, alpha: f64, per_second: f64, seconds: f64) {
    let segments: Vec<u32> = (0..100_000)
        .map(|_| draft.object(segment_bytes(random)))
        .collect();
    let popularity = Zipf::new(segments.len(), alpha);
    let mut time = 0.0;
    while time < seconds {
        draft.ask(time, segments[popularity.draw(random)]);
        time += random.exponential(1.0 / per_second);
    }
}

/// A crawler that comes and takes 500 objects that no client asks for again, at ten times the rate that it has on average.
fn scans(draft: &mut Draft, random: &mut Random, per_second: f64, seconds: f64) {
    let mut start = 0.0;
    while start < seconds {
        for number in 0..500 {
            let object = draft.object(segment_bytes(random));
            draft.ask(start + f64::from(number) / per_second / 10.0, object);
        }
        start += random.exponential(500.0 / per_second);
    }
}

/// 1,000 titles of 100 segments, watched from the start, in order, at their pace. One in fifty viewers leaves at each
/// segment, and is followed by another.
fn sessions(draft: &mut Draft, random: &mut Random, viewers: usize, seconds: f64) {
    let titles: Vec<Vec<u32>> = (0..1000)
        .map(|_| {
            (0..100)
                .map(|_| draft.object(segment_bytes(random)))
                .collect()
        })
        .collect();
    let popularity = Zipf::new(titles.len(), 1.0);
    for _ in 0..viewers {
        let mut time = random.between(0.0, SEGMENT_SECONDS);
        while time < seconds {
            for segment in &titles[popularity.draw(random)] {
                draft.ask(time, *segment);
                time += SEGMENT_SECONDS;
                if time >= seconds || random.uniform() < 0.02 {
                    break;
                }
            }
        }
    }
}

/// 50 channels of three renditions, whose playlists have the last five segments. A viewer stays for 20 minutes on average,
/// 6 to 30 s behind, and is followed by another; one in thirty watches what was on up to an hour ago.
fn live(draft: &mut Draft, random: &mut Random, viewers: usize, seconds: f64) {
    let popularity = Zipf::new(50, 1.0);
    let count = (seconds / SEGMENT_SECONDS) as usize;
    let mut segments = Vec::new();
    for megabits in std::iter::repeat_n([1.0, 3.0, 6.0], 50).flatten() {
        let bytes = megabits * SEGMENT_SECONDS / 8.0 * 1e6;
        let mut size = || draft.object(bytes * random.between(0.8, 1.2));
        segments.push((0..count).map(|_| size()).collect::<Vec<_>>());
    }
    for _ in 0..viewers {
        let mut time = random.between(0.0, SEGMENT_SECONDS);
        while time < seconds {
            let rendition = popularity.draw(random) * 3 + (random.uniform() * 3.0) as usize;
            let shifted = random.uniform() < 1.0 / 30.0;
            let behind = if shifted {
                random.between(60.0, 3600.0)
            } else {
                random.between(6.0, 30.0)
            };
            let leaves = (time + random.exponential(1200.0)).min(seconds);
            while time < leaves {
                // What was on before the trace begins cannot be asked for.
                let place = (time - behind) / SEGMENT_SECONDS;
                if place >= 0.0 {
                    draft.ask(time, segments[rendition][place as usize]);
                }
                time += SEGMENT_SECONDS;
            }
        }
    }
}
