use std::time::{Duration, Instant};

use super::super::queue::{DiskTask, Queue};
use super::*;

fn later() -> Instant {
    Instant::now() + Duration::from_secs(600)
}

#[test]
fn what_finds_no_room_is_refused_until_something_has_left() {
    let queue = Queue::new(Duration::MAX);
    assert!(queue.keep(leaving(60), 100));
    assert!(!queue.keep(leaving(60), 100));
    assert!(queue.keep(leaving(40), 100));
    queue.has_left(60);
    assert!(queue.keep(leaving(60), 100));
    assert_eq!(queue.leaving(), 100);
}

#[test]
fn removals_go_before_what_is_to_be_written() {
    let queue = Queue::new(Duration::MAX);
    assert!(queue.keep(leaving(1), 100));
    queue.remove(7);
    assert!(matches!(queue.next_task(), Some(DiskTask::Remove(7))));
    assert!(matches!(queue.next_task(), Some(DiskTask::Keep(_))));
}

#[test]
fn a_closed_queue_finishes_in_time_and_takes_removals_alone() {
    let queue = Queue::new(Duration::MAX);
    queue.remove(7);
    queue.finish_writes(vec![leaving(1)], later());
    queue.remove(8);
    assert!(!queue.keep(leaving(1), 100));
    let mut read = queue.ask(1, || 7);
    assert!(queue.read_next(), "what is there is read");
    assert_eq!(read.try_recv(), Ok(7));
    queue.end_reads();
    drop(queue.ask(1, || panic!("nothing is read any more")));
    assert!(!queue.read_next());
    for name in [7, 8] {
        assert!(matches!(queue.next_task(), Some(DiskTask::Remove(removed)) if removed == name));
    }
    assert!(matches!(queue.next_task(), Some(DiskTask::Keep(_))));
    assert!(queue.next_task().is_none());
    queue.remove(9);
    assert!(queue.next_task().is_none(), "the writing thread has ended");
}

#[test]
fn a_queue_whose_directory_was_never_locked_writes_nothing() {
    let queue = Queue::new(Duration::MAX);
    assert!(queue.keep(leaving(1), 100));
    queue.finish_writes(Vec::new(), later());
    queue.abandon_writes();
    queue.remove(7);
    assert!(queue.next_task().is_none());
}

#[test]
fn what_is_late_is_not_written() {
    let queue = Queue::new(Duration::MAX);
    assert!(queue.keep(leaving(1), 100));
    queue.finish_writes(Vec::new(), Instant::now());
    assert!(queue.next_task().is_none());
}

#[test]
fn changes_take_turns_with_what_is_to_be_written_and_each_file_has_one() {
    let queue = Queue::new(Duration::MAX);
    for names in [[3, 5], [3, 4]] {
        queue.change(names.map(|name| stored_file(name, 1)).iter());
    }
    for _ in 0..2 {
        assert!(queue.keep(leaving(1), 100));
    }
    let next = || match queue.next_task() {
        Some(DiskTask::Change(stored_file)) => stored_file.layout.name,
        Some(DiskTask::Keep(_)) => 0,
        other => panic!("{other:?}"),
    };
    assert_eq!([next(), next(), next(), next(), next()], [3, 0, 4, 0, 5]);
    queue.finish_writes(Vec::new(), Instant::now());
    assert!(queue.next_task().is_none(), "that was all");
}

/// Whether the disk hangs is decided when a read is late.
#[test]
fn a_file_that_hangs_keeps_half_of_the_threads_and_the_disk_hangs_only_when_all_are_kept() {
    let limit = Duration::from_millis(20);
    let queue = Arc::new(Queue::new(limit));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || while queue.read_next() {})
        })
        .collect();
    let (begun, begins) = std::sync::mpsc::channel();
    let mut held = Vec::new();
    let mut hang = |name: u64, times: usize| {
        for _ in 0..times {
            let (let_go, kept) = std::sync::mpsc::channel::<()>();
            let begun = begun.clone();
            let answer = queue.ask(name, move || {
                begun.send(()).expect("the test is there");
                kept.recv().expect_err("nothing is sent");
            });
            held.push((let_go, answer));
        }
    };
    hang(1, 10);
    for _ in 0..2 {
        begins.recv().expect("a thread begins it");
    }
    assert_eq!(queue.wait_for(2, || 7), Some(7), "others are read");
    std::thread::sleep(2 * limit);
    let (one, other) = (stored_file(1, 1), stored_file(3, 1));
    assert!(!queue.record_timeout(Some(&one)) && one.is_late() && !queue.deadline.is_hanging());
    hang(3, 2);
    for _ in 0..2 {
        begins.recv().expect("a thread begins it");
    }
    assert_eq!(queue.wait_for(2, || 7), None, "no thread is left");
    let _wanted = queue.ask(2, || 7);
    std::thread::sleep(2 * limit);
    assert!(queue.record_timeout(Some(&other)) && !other.is_late() && queue.deadline.is_hanging());
    drop(held);
    queue.end_reads();
    for thread in threads {
        thread.join().expect("it ends");
    }
}
