use tokio::time::advance;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const HELD: usize = 64 << 10;

fn bytes(bytes: usize) -> Demand {
    Demand { bytes, ..Demand::default() }
}

fn wait(stall: &Stall, clock: &StallClock) -> bool {
    stall.wait(&Context::from_waker(Waker::noop()), clock, HELD)
}

#[tokio::test(start_paused = true)]
async fn those_that_have_waited_longest_are_cut_once_and_no_more_than_it_takes() {
    let clock = StallClock::new();
    let [idle, oldest, old, young] = [(); 4].map(|()| clock.enter(Instant::now()));
    for stall in [&oldest, &old, &young] {
        assert!(!wait(stall, &clock));
        advance(SECOND).await;
    }
    assert_eq!(clock.cut(16 * SECOND, bytes(1)), Cut::default(), "no client has waited for a part of that");
    assert_eq!(clock.cut(SECOND, bytes(HELD + 1)), Cut { for_memory: 2, ..Cut::default() });
    assert!(wait(&oldest, &clock) && wait(&old, &clock) && !wait(&young, &clock) && !wait(&idle, &clock));
    assert_eq!(
        clock.cut(SECOND, bytes(usize::MAX)),
        Cut { for_memory: 1, ..Cut::default() },
        "the last that waited"
    );
    assert!(wait(&young, &clock));
    assert_eq!(clock.cut(SECOND, bytes(usize::MAX)), Cut::default(), "the other has just begun to wait");
}

#[tokio::test(start_paused = true)]
async fn for_memory_the_one_goes_first_that_has_held_the_most_for_longest() {
    let clock = StallClock::new();
    let context = Context::from_waker(Waker::noop());
    let [slow, large, later] = [(); 3].map(|()| clock.enter(Instant::now()));
    slow.wait(&context, &clock, HELD / 16);
    advance(SECOND).await;
    for stall in [&large, &later] {
        stall.wait(&context, &clock, HELD);
        advance(SECOND / 4).await;
    }
    assert_eq!(clock.cut(SECOND, bytes(1)).for_memory, 1);
    assert!(large.is_cut(&context), "64 KiB for half a second");
    assert_eq!(clock.cut(SECOND, bytes(HELD + 1)).for_memory, 1, "and what is about to be free counts");
    assert!(later.is_cut(&context) && !slow.is_cut(&context), "4 KiB for a second and a half");
}

#[tokio::test(start_paused = true)]
async fn memory_is_taken_before_the_grace_is_over_and_a_connection_is_not() {
    let clock = StallClock::new();
    let stall = clock.enter(Instant::now());
    stall.feed_on(2);
    wait(&stall, &clock);
    advance(SECOND / 4).await;
    let demand = || Demand { bytes: 0, connections: HashMap::from([(2, 1)]) };
    assert_eq!(clock.cut(SECOND, demand()), Cut::default());
    assert_eq!(clock.cut(SECOND, Demand { bytes: 1, ..demand() }), Cut { for_memory: 1, ..Cut::default() });
}

#[tokio::test(start_paused = true)]
async fn a_body_that_waits_for_its_client_counts_from_when_something_was_held() {
    let clock = Arc::new(StallClock::new());
    let life = Life::new(&clock, Instant::now());
    let mut receipt = Receipt::new(&life);
    let context = Context::from_waker(Waker::noop());
    let is_cut = |receipt: &Receipt| receipt.poll_cut(&context).is_ready();
    receipt.wait(0);
    advance(SECOND).await;
    assert_eq!(clock.cut(SECOND, bytes(1)), Cut::default(), "nothing is held");
    for _ in 0..4 {
        receipt.rest();
        receipt.wait(HELD);
        advance(SECOND / 16).await;
        assert!(!is_cut(&receipt));
    }
    assert_eq!(clock.cut(SECOND, bytes(1)).for_memory, 1, "though a little has come now and then");
    receipt.rest();
    assert!(!is_cut(&receipt), "more has come meanwhile");
    receipt.wait(HELD);
    assert_eq!(clock.cut(SECOND, bytes(1)).for_memory, 1);
    assert!(is_cut(&receipt));
    assert_eq!(clock.cuts().for_memory, 1);
    drop(receipt);
    assert_eq!(clock.cut(SECOND, bytes(1)), Cut::default(), "it has come, or will not");
}

#[tokio::test(start_paused = true)]
async fn what_comes_of_a_request_does_not_hide_that_its_response_is_not_taken() {
    let clock = Arc::new(StallClock::new());
    let life = Life::new(&clock, Instant::now());
    let mut receipt = Receipt::new(&life);
    wait(&life.stall, &clock);
    for _ in 0..4 {
        advance(SECOND / 4).await;
        receipt.wait(HELD);
        receipt.rest();
    }
    assert_eq!(clock.cut(SECOND, bytes(1)).for_memory, 1);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_connection_is_given_those_of_its_own_line() {
    let clock = StallClock::new();
    let [none, other, first, second, third] = [(); 5].map(|()| clock.enter(Instant::now()));
    for (stall, line) in [(&none, 0), (&other, 1), (&first, 2), (&second, 2), (&third, 2)] {
        stall.feed_on(line);
        wait(stall, &clock);
        advance(SECOND).await;
    }
    let demand = || Demand { bytes: 0, connections: HashMap::from([(2, 2)]) };
    assert_eq!(clock.cut(SECOND, demand()), Cut { for_connections: 2, ..Cut::default() });
    assert!(wait(&first, &clock) && wait(&second, &clock));
    assert!(!wait(&third, &clock) && !wait(&other, &clock) && !wait(&none, &clock));
}

#[tokio::test(start_paused = true)]
async fn whoever_makes_progress_or_has_left_is_not_waiting() {
    let clock = StallClock::new();
    let [moving, gone] = [(); 2].map(|()| clock.enter(Instant::now()));
    for stall in [&moving, &gone] {
        wait(stall, &clock);
    }
    advance(SECOND).await;
    moving.rest();
    clock.leave(&gone);
    assert_eq!(clock.cut(SECOND, bytes(1)), Cut::default());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_all_before_it_is_cut_is_not_taken_for_one_that_will_be() {
    let clock = StallClock::new();
    let [moving, stalled] = [(); 2].map(|()| clock.enter(Instant::now()));
    for stall in [&moving, &stalled] {
        wait(stall, &clock);
        advance(SECOND).await;
    }
    assert_eq!(clock.cut(SECOND, bytes(1)).for_memory, 1, "the one that has waited for longest");
    moving.rest();
    assert_eq!(clock.cut(SECOND, bytes(1)).for_memory, 1, "the other");
    assert!(!wait(&moving, &clock) && wait(&stalled, &clock));
}

fn told(begun: Instant, status: Option<u16>) -> InFlight {
    InFlight { begun, status, ..InFlight::unknown() }
}

#[tokio::test(start_paused = true)]
async fn the_longest_are_asked_and_more_of_those_that_may_have_no_head() {
    let clock = Arc::new(StallClock::new());
    let mut lives = Vec::new();
    for _ in 0..HEADLESS + 3 {
        lives.push(Life::new(&clock, Instant::now()));
        advance(SECOND).await;
    }
    let ask = || {
        let (question, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let asked = clock.ask(2, &question);
        // What was asked answers in any order, and the first ten that came have begun.
        for (number, life) in lives.iter().enumerate().rev() {
            life.answer(|| told(life.stall.begun, (number < 10).then_some(200)));
            life.answer(|| panic!("it was answered"));
        }
        drop(question);
        let mut begun = Vec::new();
        while let Ok(told) = answers.try_recv() {
            let at = lives.iter().position(|life| life.stall.begun == told.begun);
            begun.push(at.unwrap());
        }
        begun.sort_unstable();
        (asked, begun)
    };
    let all = lives.len();
    assert_eq!(ask(), ((all, HEADLESS), (0..HEADLESS).collect()));
    let begun = (0..2).chain(10..all).collect::<Vec<_>>();
    assert_eq!(ask(), ((all, begun.len()), begun));
}

#[test]
fn what_ends_in_turn_ends_by_the_last_turn_and_what_does_not_stays() {
    let clock = StallClock::new();
    let stalls: Vec<_> = (0..200).map(|_| clock.enter(Instant::now())).collect();
    let stopped = || stalls.iter().filter(|stall| stall.wish.load(Ordering::Relaxed) == END).count();
    clock.stop_in_turn(1);
    assert_eq!(stopped(), 0, "none of them ends in turn");
    for stall in &stalls[1..] {
        stall.end_in_turn();
    }
    clock.stop_in_turn(2);
    let half = stopped();
    // Of 199 with a chance of a half: outside of this once in 10^9 times.
    assert!((56..144).contains(&half), "{half}");
    clock.stop_in_turn(1);
    assert_eq!(stopped(), 199);
    assert_eq!(stalls[0].wish.load(Ordering::Relaxed), GO_ON);
}

#[test]
fn whoever_leaves_is_forgotten_in_any_order() {
    let clock = StallClock::new();
    let mut all: Vec<_> = (0..5).map(|_| clock.enter(Instant::now())).collect();
    for at in [1, 3, 0, 1, 0] {
        let stall = all.remove(at);
        clock.leave(&stall);
        let known = lock(&clock.all);
        assert!(
            known.len() == all.len()
                && all.iter().all(|one| known.iter().any(|other| Arc::ptr_eq(one, other)))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_spared_begins_to_wait_anew() {
    let clock = StallClock::new();
    let slow = clock.enter(Instant::now());
    wait(&slow, &clock);
    advance(SECOND).await;
    assert_eq!(clock.cut(SECOND, bytes(1)).for_memory, 1);
    slow.spare(&clock);
    assert!(!wait(&slow, &clock));
    assert_eq!(clock.cut(SECOND, bytes(1)).for_memory, 0, "it waits since now");
    advance(SECOND).await;
    assert_eq!(clock.cut(SECOND, bytes(1)).for_memory, 1);
    assert!(wait(&slow, &clock));
}

#[test]
fn whoever_writes_is_told_of_the_cut_and_whoever_owns_of_the_end() {
    struct Count(AtomicU64);
    impl std::task::Wake for Count {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let clock = Arc::new(StallClock::new());
    let life = Life::new(&clock, Instant::now());
    let counts = [(); 2].map(|()| std::sync::Arc::new(Count(AtomicU64::new(0))));
    let [owner, writer] = counts.clone().map(Waker::from);
    assert_eq!(life.wish(&Context::from_waker(&owner)), Wish::GoOn);
    life.share().1.wait(&Context::from_waker(&writer), &clock, HELD);
    let woken = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));
    assert_eq!(clock.cut(Duration::ZERO, bytes(1)).for_memory, 1);
    assert_eq!(woken(), [0, 1]);
    clock.stop();
    assert_eq!(woken(), [1, 1]);
    assert_eq!(life.wish(&Context::from_waker(&owner)), Wish::End);
}
