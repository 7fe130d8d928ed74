//! Simulations: plans of random steps against the engine's own code, on one thread and in simulated time, with a naive
//! model beside it.
//!
//! A seed makes a plan, and a plan makes a trace: the same in each process. After each step the invariants are
//! checked. A plan that violates one is made shorter while it still does, and the seed is told with the command that
//! replays it. What a plan is of, and its invariants, stand beside the code that is simulated.
//!
//! `SEED` runs one seed, `SEEDS` so many from 0 on. `TRACES` writes the hash of each trace to the standard output.

use std::cell::Cell;
use std::fmt::{Debug, Display};
use std::hash::Hasher;
use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::time::{Duration, Instant};

use penstock_memory::sys::testing::{now_is, real_time};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Seeds that are run unless others are asked for.
const SEEDS: u64 = 500;
/// Seeds that come to each thing that is wanted of them.
const REACHING: u64 = 200;
/// Shorter plans that are tried. Arbitrary: some seconds.
const MAX_SHORTER: usize = 2000;
/// Steps of a failed trace that are shown.
const SHOWN: usize = 200;
/// The time of day at which each simulation begins.
const BEGINNING: Duration = Duration::from_secs(1_800_000_000);

thread_local! {
    /// The time that simulations of this thread have passed.
    static SIMULATED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Whether all invariants hold, or which does not.
pub(crate) type Verdict = Result<(), String>;

/// Fails a simulation unless a condition holds.
macro_rules! hold {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(format!($($what)+));
        }
    };
}
pub(crate) use hold;

/// What has happened, step by step.
#[derive(Debug, Default)]
pub(crate) struct Trace(Vec<String>);

impl Trace {
    /// Adds a line.
    pub(crate) fn note(&mut self, line: impl Display) {
        self.0.push(line.to_string());
    }

    /// Whether some line has `text` in it.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        self.0.iter().any(|line| line.contains(text))
    }

    /// Whether it has this line.
    pub(crate) fn has(&self, line: &str) -> bool {
        self.0.iter().any(|other| other == line)
    }

    fn hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        for line in &self.0 {
            hash.write(line.as_bytes());
            hash.write(b"\n");
        }
        hash.finish()
    }
}

/// Runs the plans of all seeds that are asked for. `test` is the name of the calling test.
///
/// # Panics
/// A plan violates an invariant.
pub(crate) fn simulate<P: Clone + Debug>(
    test: &str,
    plans: &impl Strategy<Value = P>,
    run: impl Fn(&P, &mut Trace) -> Verdict,
) {
    let asked = number("SEEDS");
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..asked.unwrap_or(SEEDS),
    };
    let count = seeds.end - seeds.start;
    let begun = Instant::now();
    simulate_each(seeds, test, plans, run);
    if asked.is_some() {
        let (took, hours) = (begun.elapsed().as_secs_f64(), SIMULATED.take().as_secs_f64() / 3600.0);
        // Past the capture of the test's output.
        writeln!(std::io::stdout(), "{test}: {count} seeds, {hours:.2} simulated hours in {took:.0} s")
            .expect("a pipe");
    }
}

fn simulate_each<P: Clone + Debug>(
    seeds: Range<u64>,
    test: &str,
    plans: &impl Strategy<Value = P>,
    run: impl Fn(&P, &mut Trace) -> Verdict,
) {
    for seed in seeds {
        let mut tree = plans.new_tree(&mut runner(test, seed)).expect("the strategy filters nothing");
        let (trace, verdict) = traced(&tree.current(), &run);
        if std::env::var_os("TRACES").is_some() {
            // Past the capture of the test's output.
            writeln!(std::io::stdout(), "trace {seed} {:x} of {}", trace.hash(), trace.0.len())
                .expect("a pipe");
        }
        if let Err(violated) = verdict {
            let (plan, trace, violated) = shortest(&mut tree, &run, trace, violated);
            let last = &trace.0[trace.0.len().saturating_sub(SHOWN)..];
            panic!(
                "the last {} lines of the trace:\n{}\nplan: {plan:?}\n{test}, seed {seed}: {violated}\n\
                 replay: make simulate SEED={seed} TEST={test}",
                last.len(),
                last.join("\n"),
            );
        }
    }
}

/// Runs one plan; what has happened.
///
/// # Panics
/// The plan violates an invariant.
#[track_caller]
pub(crate) fn held<P>(plan: &P, run: impl Fn(&P, &mut Trace) -> Verdict) -> Trace {
    let mut trace = Trace::default();
    assert_eq!(run(plan, &mut trace), Ok(()), "{trace:#?}");
    trace
}

/// Runs the same seeds in two processes, and compares their traces.
///
/// # Panics
/// They differ.
pub(crate) fn compare_traces(test: &str) {
    let traces = || {
        let this = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(this);
        command.args([test, "--exact"]).env("TRACES", "1").env("SEEDS", "50").env_remove("SEED");
        let ran = command.output();
        let written = String::from_utf8(ran.expect("this program starts").stdout).expect("it writes text");
        written.lines().filter(|line| line.starts_with("trace ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (one, other) = (traces(), traces());
    assert_eq!(one.len(), 50);
    assert_eq!(one, other);
}

/// Runs the plans of the first seeds, and sees to it that each of the `wanted` texts is in some trace: an invariant says nothing of
/// what no plan comes to.
///
/// # Panics
/// One is in none.
pub(crate) fn assert_reached<P: Clone + Debug>(
    test: &str,
    plans: &impl Strategy<Value = P>,
    run: impl Fn(&P, &mut Trace) -> Verdict,
    wanted: &[impl AsRef<str>],
) {
    let mut missing: Vec<&str> = wanted.iter().map(AsRef::as_ref).collect();
    for seed in 0..REACHING {
        if missing.is_empty() {
            return;
        }
        let plan = plans.new_tree(&mut runner(test, seed)).expect("the strategy filters nothing").current();
        let (trace, _) = traced(&plan, &run);
        missing.retain(|text| !trace.mentions(text));
    }
    assert!(missing.is_empty(), "in {REACHING} seeds nothing comes to {missing:?}");
}

/// Runs `work` on a thread with simulated time, which passes only while all tasks wait.
pub(crate) fn in_simulated_time<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime without I/O");
    runtime.block_on(async {
        let begun = tokio::time::Instant::now();
        let result = work.await;
        SIMULATED.set(SIMULATED.get() + begun.elapsed());
        result
    })
}

/// Lets `time` pass, also of the time of day.
pub(crate) async fn pass(clock: &mut Clock, time: Duration) {
    tokio::time::sleep(time).await;
    clock.set(clock.0 + time);
}

/// Lets all tasks go on until they wait.
pub(crate) async fn settle() {
    // The timer is due when there is nothing else to do.
    tokio::time::sleep(Duration::from_nanos(1)).await;
}

/// The time of day in a simulation.
pub(crate) struct Clock(Duration);

impl Clock {
    pub(crate) fn new() -> Self {
        now_is(BEGINNING);
        Self(BEGINNING)
    }

    /// Since 1970.
    pub(crate) fn now(&self) -> Duration {
        self.0
    }

    /// An operator sets it, perhaps back.
    pub(crate) fn set(&mut self, now: Duration) {
        self.0 = now;
        now_is(now);
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        real_time();
    }
}

/// Whether a task that the simulation polls itself has been woken.
#[derive(Debug)]
pub(crate) struct Woken(AtomicBool);

impl Woken {
    /// One that is to be polled first.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    /// Whether it has been woken since the last call.
    pub(crate) fn take(&self) -> bool {
        // Relaxed, here and below: all is on one thread.
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")))
}

fn runner(test: &str, seed: u64) -> TestRunner {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&xxh3_64(test.as_bytes()).to_le_bytes());
    let config = Config { failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &key))
}

fn traced<P>(plan: &P, run: impl Fn(&P, &mut Trace) -> Verdict) -> (Trace, Verdict) {
    let mut trace = Trace::default();
    let verdict = catch_unwind(AssertUnwindSafe(|| run(plan, &mut trace))).unwrap_or_else(|panicked| {
        let text = panicked.downcast_ref::<String>().map(String::as_str);
        Err(format!("a panic: {}", text.or(panicked.downcast_ref().copied()).unwrap_or("without a text")))
    });
    (trace, verdict)
}

/// The shortest plan that still violates an invariant, as far as it is found.
fn shortest<P: Clone>(
    tree: &mut impl ValueTree<Value = P>,
    run: impl Fn(&P, &mut Trace) -> Verdict,
    trace: Trace,
    violated: String,
) -> (P, Trace, String) {
    let mut found = (tree.current(), trace, violated);
    let mut is_changed = tree.simplify();
    for _ in 0..MAX_SHORTER {
        if !is_changed {
            break;
        }
        let plan = tree.current();
        let (trace, verdict) = traced(&plan, &run);
        is_changed = match verdict {
            Ok(()) => tree.complicate(),
            Err(violated) => {
                found = (plan, trace, violated);
                tree.simplify()
            }
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;

    use super::*;

    #[test]
    fn a_plan_that_fails_is_made_shorter_and_told_with_its_seed() {
        let plans = vec(0..100_u8, 0..50);
        let failed = catch_unwind(|| {
            simulate_each(0..10, "seven", &plans, |plan: &Vec<u8>, trace| {
                for number in plan {
                    trace.note(number);
                }
                hold!(plan.iter().all(|number| *number < 70), "there is a number above 69");
                Ok(())
            });
        });
        let text = failed.expect_err("some plan has one").downcast::<String>().expect("with a text");
        assert!(text.contains("\n70\nplan: [70]\nseven, seed 0: there is a number above 69\n"), "{text}");
        assert!(text.ends_with("replay: make simulate SEED=0 TEST=seven"), "{text}");
    }

    #[test]
    fn a_seed_makes_the_same_plan_again_and_another_seed_another() {
        let plan = |seed| vec(0..100_u8, 20).new_tree(&mut runner("seven", seed)).expect("a plan").current();
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn time_passes_when_all_tasks_wait() {
        in_simulated_time(async {
            let mut clock = Clock::new();
            let (begun, real) = (tokio::time::Instant::now(), std::time::Instant::now());
            pass(&mut clock, Duration::from_secs(3600)).await;
            assert!(begun.elapsed() >= Duration::from_secs(3600));
            assert!(real.elapsed() < Duration::from_secs(60));
            assert_eq!(penstock_memory::sys::since_1970(), BEGINNING + Duration::from_secs(3600));
        });
        assert_ne!(penstock_memory::sys::since_1970(), BEGINNING + Duration::from_secs(3600));
    }
}
