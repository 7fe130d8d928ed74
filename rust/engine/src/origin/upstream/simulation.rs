//! Plans of requests, failures, retries and changes of origins, beside counts that are kept by hand.
//!
//! The invariants, after each step: retries, hedges and resumptions of a window are within the budget; an origin's
//! requests under way are the turns that have not ended; a request never goes to one origin twice; an ejected origin
//! gets no request while another has room; ejections last as long as the policy says.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::time::Instant;

use super::*;
use crate::origin::Scheme;
use crate::simulation::{Clock, Trace, Verdict, compare_traces, hold, in_simulated_time, pass, simulate};

const TEST: &str = "origin::upstream::simulation::requests_of_any_order_keep_to_the_budget_and_the_ejections";
const WINDOW: u64 = 10;
const FAILURES: u32 = 3;
const EJECT: Duration = Duration::from_secs(2);
const MAX_EJECT: Duration = Duration::from_secs(8);
/// Of each origin.
const MAX_REQUESTS: usize = 4;

#[derive(Debug, Clone)]
struct Plan {
    percent: u32,
    per_second: u32,
    steps: Vec<Step>,
}

/// A number stands for one of the requests under way, or of the sets of origins.
#[derive(Debug, Clone)]
enum Step {
    Ask,
    Again(usize, Way),
    Succeed(usize),
    Fail(usize),
    Leave(usize),
    Wait(u64),
    Declare(u8),
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Retry,
    Hedge,
    Resume,
}

fn plans() -> impl Strategy<Value = Plan> {
    let way = prop_oneof![Just(Way::Retry), Just(Way::Hedge), Just(Way::Resume)];
    let step = prop_oneof![
        4 => Just(Step::Ask),
        4 => (any::<usize>(), way).prop_map(|(request, way)| Step::Again(request, way)),
        2 => any::<usize>().prop_map(Step::Succeed),
        3 => any::<usize>().prop_map(Step::Fail),
        1 => any::<usize>().prop_map(Step::Leave),
        2 => (1..3000_u64).prop_map(Step::Wait),
        1 => (1..8_u8).prop_map(Step::Declare),
    ];
    (0..40_u32, 0..2_u32, vec(step, 1..200)).prop_map(|(percent, per_second, steps)| Plan {
        percent,
        per_second,
        steps,
    })
}

/// What is known of an origin by hand.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    in_a_row: u32,
    /// Until when, and for how long.
    ejected: Option<(Instant, Duration)>,
}

impl Known {
    fn is_ejected(&self) -> bool {
        self.ejected.is_some_and(|(until, _)| until > Instant::now())
    }

    fn fail(&mut self) {
        self.in_a_row += 1;
        let now = Instant::now();
        if self.is_ejected() || self.in_a_row < FAILURES {
            return;
        }
        let length = match self.ejected {
            Some((until, length)) if now < until + length => (length * 2).min(MAX_EJECT),
            _ => EJECT,
        };
        self.ejected = Some((now + length, length));
    }
}

/// One request: the origins that it was sent to, and where it is under way.
struct Asked {
    tried: Vec<u64>,
    turns: Vec<Turn>,
}

struct Simulated {
    upstream: Arc<Upstream>,
    plan: Plan,
    begun: Instant,
    asked: Vec<Asked>,
    /// By seat; origins that have gone are forgotten.
    known: Vec<(u64, Known)>,
    /// The second of each request, and of each retry.
    requests: Vec<u64>,
    again: Vec<u64>,
}

fn members(set: u8) -> Vec<Member> {
    let chosen = (0..3).filter(|place| set & (1 << place) != 0);
    let member = |place: u16| Member {
        authority: format!("127.0.0.1:{}", place + 1).into(),
        endpoint: Endpoint::new(Scheme::Http, "127.0.0.1", place + 1, None).expect("an address"),
        weight: 1,
        backup: false,
        max_requests: Some(MAX_REQUESTS),
    };
    chosen.map(member).collect()
}

impl Simulated {
    fn new(plan: &Plan) -> Self {
        let usual = tests::policy(Balance::RoundRobin);
        let policy = UpstreamPolicy {
            health: HealthPolicy {
                failures: Some(FAILURES),
                eject: EJECT,
                max_eject: MAX_EJECT,
                ..usual.health
            },
            retries: RetryPolicy {
                budget_percent: plan.percent,
                budget_per_second: plan.per_second,
                ..usual.retries
            },
            ..usual
        };
        let upstream = Arc::new(Upstream::new("http://upstream".into(), policy, members(7)));
        let mut simulated = Self {
            upstream,
            plan: plan.clone(),
            begun: Instant::now(),
            asked: Vec::new(),
            known: Vec::new(),
            requests: Vec::new(),
            again: Vec::new(),
        };
        simulated.learn();
        simulated
    }

    /// Origins that have come are known from now on, and origins that have gone are not.
    fn learn(&mut self) {
        let ids: Vec<_> = self.upstream.state().seats.iter().map(|seat| seat.id).collect();
        let known = |id: u64| {
            self.known.iter().find(|(other, _)| *other == id).map_or_else(Known::default, |(_, known)| *known)
        };
        self.known = ids.into_iter().map(|id| (id, known(id))).collect();
    }

    fn second(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }

    /// What the budget has left, by hand.
    fn left(&self) -> u64 {
        let second = self.second();
        let counted = |all: &[u64]| all.iter().filter(|then| **then + WINDOW > second).count() as u64;
        let allowed = counted(&self.requests) * u64::from(self.plan.percent) / 100;
        (allowed + u64::from(self.plan.per_second) * WINDOW).saturating_sub(counted(&self.again))
    }

    fn active(&self, seat: u64) -> usize {
        self.asked.iter().flat_map(|asked| &asked.turns).filter(|turn| turn.seat == seat).count()
    }

    /// Origins that may have a request that was sent to those `tried`, and of them the ones that are well.
    fn open(&self, tried: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let is_open = |(id, _): &&(u64, Known)| !tried.contains(id) && self.active(*id) < MAX_REQUESTS;
        let open: Vec<_> = self.known.iter().filter(is_open).copied().collect();
        let well = open.iter().filter(|(_, known)| !known.is_ejected());
        (open.iter().map(|(id, _)| *id).collect(), well.map(|(id, _)| *id).collect())
    }

    fn send(&mut self, tried: &[u64], reason: Reason) -> Result<Option<Turn>, String> {
        let (open, well) = self.open(tried);
        let is_again = reason != Reason::First;
        let may = !open.is_empty() && (!is_again || self.left() > 0);
        let turn = self.upstream.choose(0, tried, reason);
        if let Some(turn) = &turn {
            hold!(
                may,
                "{reason:?} was sent with {} left in the budget and {} open origins",
                self.left(),
                open.len()
            );
            hold!(open.contains(&turn.seat), "{reason:?} went to origin {}, of {open:?}", turn.seat);
            hold!(
                well.is_empty() || well.contains(&turn.seat),
                "{reason:?} went to the ejected origin {}",
                turn.seat
            );
            let second = self.second();
            if is_again { self.again.push(second) } else { self.requests.push(second) }
        } else {
            hold!(!may, "{reason:?} was not sent, with {open:?} open and {} left", self.left());
        }
        Ok(turn)
    }

    /// The one of the turns under way that `number` stands for.
    fn place(&self, number: usize) -> Option<(usize, usize)> {
        let turns = |(place, asked): (usize, &Asked)| (0..asked.turns.len()).map(move |turn| (place, turn));
        let all: Vec<_> = self.asked.iter().enumerate().flat_map(turns).collect();
        (!all.is_empty()).then(|| all[number % all.len()])
    }

    fn known(&mut self, seat: u64) -> Option<&mut Known> {
        self.known.iter_mut().find(|(id, _)| *id == seat).map(|(_, known)| known)
    }

    async fn step(&mut self, step: &Step, clock: &mut Clock, trace: &mut Trace) -> Verdict {
        match *step {
            Step::Ask => {
                if let Some(turn) = self.send(&[], Reason::First)? {
                    trace.note(format_args!("asked origin {}", turn.seat));
                    self.asked.push(Asked { tried: vec![turn.seat], turns: vec![turn] });
                }
            }
            Step::Again(number, way) => {
                let Some((place, _)) = self.place(number) else { return Ok(()) };
                let tried = self.asked[place].tried.clone();
                let reason = match way {
                    Way::Retry => Reason::Retry,
                    Way::Hedge => Reason::Hedge,
                    Way::Resume => Reason::Resume,
                };
                let turn = self.send(&tried, reason)?;
                trace.note(format_args!("{way:?} of {place}: {:?}", turn.as_ref().map(|turn| turn.seat)));
                if let Some(turn) = turn {
                    self.asked[place].tried.push(turn.seat);
                    self.asked[place].turns.push(turn);
                }
            }
            Step::Succeed(number) | Step::Fail(number) | Step::Leave(number) => {
                let Some((place, turn)) = self.place(number) else { return Ok(()) };
                let mut turn = self.asked[place].turns.swap_remove(turn);
                trace.note(format_args!("{step:?} at origin {}", turn.seat));
                match (step, self.known(turn.seat)) {
                    (Step::Succeed(_), known) => {
                        turn.succeed();
                        if let Some(known) = known {
                            known.in_a_row = 0;
                        }
                    }
                    (Step::Fail(_), known) => {
                        turn.fail();
                        if let Some(known) = known {
                            known.fail();
                        }
                    }
                    _ => {}
                }
                drop(turn);
                self.asked.retain(|asked| !asked.turns.is_empty());
            }
            Step::Wait(milliseconds) => pass(clock, Duration::from_millis(milliseconds)).await,
            Step::Declare(set) => {
                self.upstream.set(members(set));
                self.learn();
                trace.note(format_args!(
                    "declared {:?}",
                    self.known.iter().map(|(id, _)| *id).collect::<Vec<_>>()
                ));
            }
        }
        self.check(trace)
    }

    fn check(&self, trace: &mut Trace) -> Verdict {
        let stats = self.upstream.stats();
        for ((id, known), seat) in self.known.iter().zip(&stats.members) {
            let active = self.active(*id);
            hold!(
                seat.active == active,
                "origin {id} counts {} requests under way, of {active}",
                seat.active
            );
            let ejected = known.ejected.map(|(until, _)| until.saturating_duration_since(Instant::now()));
            let ejected = ejected.filter(|left| !left.is_zero());
            hold!(seat.ejected == ejected, "origin {id} is ejected for {:?}, not {ejected:?}", seat.ejected);
        }
        let counts = stats.counts;
        let again = counts.retries + counts.hedges + counts.resumed;
        hold!(counts.requests == self.requests.len() as u64, "{} requests are counted", counts.requests);
        hold!(again == self.again.len() as u64, "{again} retries are counted, of {}", self.again.len());
        hold!(
            stats.budget_left == self.left(),
            "{} retries are left, not {}",
            stats.budget_left,
            self.left()
        );
        trace.note(format_args!("{} requests, {again} again, {} left", counts.requests, stats.budget_left));
        Ok(())
    }
}

fn run(plan: &Plan, trace: &mut Trace) -> Verdict {
    in_simulated_time(async {
        let (mut clock, mut simulated) = (Clock::new(), Simulated::new(plan));
        for step in &plan.steps {
            simulated.step(step, &mut clock, trace).await?;
        }
        simulated.asked.clear();
        simulated.check(trace)
    })
}

#[test]
fn requests_of_any_order_keep_to_the_budget_and_the_ejections() {
    simulate(TEST, &plans(), run);
}

#[test]
fn a_seed_makes_one_trace_in_each_process() {
    compare_traces(TEST);
}
