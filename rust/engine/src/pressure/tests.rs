use proptest::prelude::*;

use super::machine::{ALL_WORK, Machine, Reading};
use super::*;

const PAUSE: Duration = Duration::from_millis(50);
const LIMIT: Duration = Duration::from_millis(100);
const RANKED: [Rank; RANKS] = [Rank::Fill, Rank::ProvenFill, Rank::Request, Rank::ProvenRequest];

/// A machine in time of its own.
struct Scene {
    machine: Machine,
    now: Duration,
    patience: u32,
}

impl Scene {
    fn new() -> Self {
        Self { machine: Machine::new(true), now: Duration::ZERO, patience: 3 }
    }

    fn read(&mut self, load: f64) -> (Level, u32) {
        self.now += PAUSE;
        self.machine.read(Reading { at: self.now, load, patience: self.patience });
        (self.machine.level(), self.machine.share())
    }

    /// Readings of `load` until the machine is at `level`; how many.
    fn until(&mut self, level: Level, load: f64) -> u32 {
        for count in 1..10_000 {
            if self.read(load).0 == level {
                return count;
            }
        }
        panic!("a load of {load} does not lead to {level:?}: {:?}", self.machine);
    }
}

#[test]
fn three_readings_in_a_row_are_pressure_and_more_are_overload() {
    let mut scene = Scene::new();
    assert_eq!([scene.read(2.0), scene.read(2.0)], [(Level::Ok, ALL_WORK); 2]);
    scene.read(0.9);
    assert_eq!([scene.read(2.0), scene.read(2.0)], [(Level::Ok, ALL_WORK); 2], "not in a row");
    assert_eq!(scene.read(1.0), (Level::Pressed, ALL_WORK));
    assert_eq!(scene.until(Level::Shedding, 1.0), 3);
    assert_eq!(scene.machine.share(), 750);
}

#[test]
fn a_load_that_needs_patience_sheds_later() {
    let mut scene = Scene { patience: 40, ..Scene::new() };
    assert_eq!(scene.until(Level::Pressed, 1.5), 3);
    assert_eq!(scene.until(Level::Shedding, 1.5), 40);
}

#[test]
fn the_share_falls_while_there_is_too_much_and_returns_step_by_step() {
    let mut scene = Scene::new();
    scene.until(Level::Shedding, 3.0);
    let mut shares = Vec::new();
    for _ in 0..60 {
        shares.push(scene.read(3.0).1);
    }
    assert!(shares.is_sorted_by(|before, after| before >= after), "{shares:?}");
    assert_eq!(shares.last(), Some(&(ALL_WORK / 20)), "not less");
    let begun = scene.now;
    let mut before = scene.machine.share();
    while scene.machine.share() < ALL_WORK {
        let (level, share) = scene.read(0.0);
        assert_eq!(level, Level::Shedding);
        assert!(share == before || share == (before + 100).min(ALL_WORK), "{before} -> {share}");
        before = share;
    }
    let back = scene.now.saturating_sub(begun);
    assert!(back <= Duration::from_millis(2200), "{back:?}");
    assert_eq!(scene.until(Level::Pressed, 0.0), 20, "a second of calm");
    assert_eq!(scene.until(Level::Ok, 0.0), 20);
}

#[test]
fn between_half_of_the_limit_and_the_limit_the_return_takes_longer() {
    let mut scene = Scene::new();
    scene.until(Level::Shedding, 3.0);
    scene.read(0.9);
    let share = scene.machine.share();
    for _ in 0..19 {
        assert_eq!(scene.read(0.9).1, share);
    }
    assert_eq!(scene.read(0.9).1, share + 100);
    scene.until(Level::Ok, 0.9);
}

#[test]
fn a_load_that_comes_back_at_once_finds_the_share_as_it_was() {
    let mut scene = Scene::new();
    scene.until(Level::Shedding, 3.0);
    for _ in 0..3 {
        scene.read(3.0);
    }
    let share = scene.machine.share();
    scene.read(0.0);
    assert_eq!(scene.read(0.0).1, share, "not yet");
    scene.read(3.0);
    assert!(scene.machine.share() < share);
}

fn loads() -> impl Strategy<Value = Vec<f64>> {
    let one = prop_oneof![0.0..0.5, 0.5..1.0, 1.0..10.0];
    // In runs, as loads come.
    prop::collection::vec((one, 1..80_usize), 1..40)
        .prop_map(|runs| runs.into_iter().flat_map(|(load, count)| vec![load; count]).collect())
}

proptest! {
    #[test]
    fn nothing_is_refused_before_the_last_level_nor_ever_all(loads in loads(), patience in 0..50_u32) {
        let mut scene = Scene { patience, ..Scene::new() };
        for load in loads {
            let (level, share) = scene.read(load);
            prop_assert!(share == ALL_WORK || level == Level::Shedding);
            prop_assert!(share >= ALL_WORK / 20);
        }
    }

    #[test]
    fn no_level_changes_twice_within_a_hundred_readings_unless_the_load_does(loads in loads()) {
        // From one level to a lower one there is a second of calm, and to a higher one three readings over the limit.
        let mut scene = Scene::new();
        let (mut before, mut since_down, mut over) = (Level::Ok, 0, 0);
        for load in loads {
            let level = scene.read(load).0;
            over = if load >= 1.0 { over + 1 } else { 0 };
            if level > before {
                prop_assert!(over >= 3);
            } else if level < before {
                prop_assert_eq!(over, 0);
                prop_assert!(since_down >= 20, "{} readings", since_down);
            }
            since_down = if load < 1.0 { since_down + 1 } else { 0 };
            before = level;
        }
    }

    #[test]
    fn whatever_was_a_load_below_its_limit_leads_back(loads in loads(), patience in 0..50_u32, rest in 0.0..0.999) {
        let mut scene = Scene { patience, ..Scene::new() };
        for load in loads {
            scene.read(load);
        }
        let begun = scene.now;
        scene.until(Level::Ok, rest);
        prop_assert_eq!(scene.machine.share(), ALL_WORK);
        // Ten rises and two levels, and five times that near the limit.
        let most = Duration::from_millis(if rest < 0.5 { 4300 } else { 5 * 4300 });
        let back = scene.now.saturating_sub(begun);
        prop_assert!(back <= most, "{:?}", back);
        // And stays there.
        prop_assert_eq!(scene.read(rest), (Level::Ok, ALL_WORK));
    }

    #[test]
    fn what_gives_way_earlier_is_never_admitted_more(share in 0..=ALL_WORK) {
        let admitted = RANKED.map(|rank| rank.of(share));
        prop_assert!(admitted.is_sorted(), "{:?}", admitted);
        prop_assert_eq!(admitted[RANKS - 1], share);
        if share == ALL_WORK {
            prop_assert_eq!(admitted, [ALL_WORK; RANKS]);
        }
    }

    #[test]
    fn exactly_the_share_is_admitted(loads in loads()) {
        let mut scene = Scene::new();
        let pressure = Pressure::default();
        for load in loads {
            scene.read(load);
        }
        pressure.follow(Part::Engine, &scene.machine, Some(Cause::Pool));
        for rank in RANKED {
            let admitted = (0..ALL_WORK).filter(|_| pressure.admit(rank).is_ok()).count();
            prop_assert_eq!(u32::try_from(admitted).unwrap(), rank.of(scene.machine.share()));
        }
    }
}

/// Under which `part` sheds work.
fn shedding(part: Part) -> Pressure {
    let (mut scene, pressure) = (Scene::new(), Pressure::default());
    scene.until(Level::Shedding, 2.0);
    pressure.follow(part, &scene.machine, Some(Cause::Application(Duration::from_millis(250))));
    pressure
}

/// Of a hundred requests to the engine, and of as many to an application whose first request has waited for so long.
fn refused(pressure: &Pressure, waited: Duration) -> [usize; 2] {
    let count = |is_refused: &dyn Fn() -> bool| (0..100).filter(|_| is_refused()).count();
    let rank = Rank::ProvenRequest;
    let engine = count(&|| pressure.admit(rank).is_err());
    [engine, count(&|| pressure.admit_to_application(rank, || waited).is_err())]
}

#[test]
fn an_application_that_is_late_takes_nothing_from_what_the_engine_answers_alone() {
    let pressure = shedding(Part::Application);
    assert!(pressure.begin(LIMIT));
    assert_eq!(refused(&pressure, LIMIT / 4), [0, 100]);
    assert_eq!(refused(&pressure, LIMIT / 5), [0, 0], "the queue is short");
    let is_admitted = |rank| pressure.admit_to_application(rank, || LIMIT / 5).is_ok();
    assert_eq!([Rank::Request, Rank::ProvenRequest].map(is_admitted), [false, true]);
    assert!(!pressure.is_pressed());
}

#[test]
fn an_application_that_is_not_late_takes_all() {
    let pressure = Pressure::default();
    assert!(pressure.begin(LIMIT));
    assert_eq!(refused(&pressure, LIMIT * 100), [0, 0]);
    assert!(!pressure.begin(LIMIT), "a second site needs no second sampler");
}

#[test]
fn an_application_that_was_overloaded_lately_is_not_asked_for_more_than_it_takes() {
    let pressure = Pressure::default();
    assert!(pressure.begin(LIMIT));
    pressure.be_wary(true);
    for rank in [Rank::Request, Rank::ProvenRequest] {
        assert!(pressure.admit_to_application(rank, || LIMIT / 3).is_ok());
        let refusal = pressure.admit_to_application(rank, || LIMIT / 5 * 2).unwrap_err().to_string();
        let told = "the application is ok, and was overloaded lately; requests that would wait for 0.040 s are refused";
        assert!(refusal.ends_with(told), "{refusal}");
    }
    assert_eq!([pressure.take_refused(), pressure.take_refused()], [2, 0]);
    pressure.be_wary(false);
    assert_eq!(refused(&pressure, LIMIT * 100), [0, 0]);
}

#[test]
fn the_application_needs_the_engine() {
    let pressure = shedding(Part::Engine);
    assert_eq!(refused(&pressure, Duration::ZERO), [25, 25]);
    assert!(pressure.is_pressed());
}

#[test]
fn a_change_is_told_once_with_its_cause() {
    let pressure = shedding(Part::Application);
    pressure.begin(LIMIT);
    let changes = pressure.take_changes();
    assert_eq!(changes.len(), 1);
    assert_eq!(
        changes[0].to_string(),
        "the application is shedding because a request waits for the application for 0.250 s: a part of the new requests is \
         refused"
    );
    assert!(pressure.take_changes().is_empty());
    let why = pressure.why(Part::Application);
    assert!(why.ends_with("0.250 s; requests that would wait for 0.025 s are refused"), "{why}");
    assert_eq!(pressure.why(Part::Engine), "the engine is ok; 100 % of new requests are admitted");
}

#[test]
fn the_latest_application_counts_while_it_is_there() {
    let pressure = Pressure::default();
    let gone = std::sync::Arc::new(AtomicBool::new(false));
    let [first, second] = [(3, false), (7, true)].map(|(wait, have_grown)| Waits {
        longest: Duration::from_millis(wait),
        taken: wait,
        have_grown,
    });
    pressure.watch(move |_| Some(first));
    let seen = std::sync::Arc::clone(&gone);
    pressure.watch(move |_| (!seen.load(Ordering::Relaxed)).then_some(second));
    assert_eq!(pressure.application(), Waits { taken: 10, ..second });
    gone.store(true, Ordering::Relaxed);
    assert_eq!(pressure.application(), first);
}

#[test]
fn an_application_hears_from_which_wait_on_it_refuses_only_while_work_is_shed() {
    for (pressure, told) in [(Pressure::default(), None), (shedding(Part::Application), Some(LIMIT))] {
        pressure.begin(LIMIT);
        let heard = std::sync::Arc::new(Mutex::new(Vec::new()));
        let kept = std::sync::Arc::clone(&heard);
        pressure.watch(move |refused| {
            lock(&kept).push(refused);
            Some(Waits::default())
        });
        pressure.application();
        assert_eq!(*lock(&heard), [told]);
    }
}
