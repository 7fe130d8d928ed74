//! Engine threads.

use super::Exposition;
use crate::runtime::Threads;

pub(super) fn write(threads: &Threads, out: &mut Exposition) {
    let activity = threads.activity();
    let numbers: Vec<String> = (0..activity.len()).map(|number| number.to_string()).collect();
    let each = || numbers.iter().map(String::as_str).zip(&activity);
    let mut busy = out
        .counter("penstock_engine_thread_busy_seconds_total", "Time that an engine thread has been at work.");
    for (number, activity) in each() {
        busy.sample(&[("thread", number)], activity.busy);
    }
    let help =
        "Time since an engine thread last said that it turns; it does so once a second unless it hangs.";
    let mut silent = out.gauge("penstock_engine_thread_silent_seconds", help);
    for (number, activity) in each() {
        silent.sample(&[("thread", number)], activity.silent);
    }
    let mut tasks =
        out.gauge("penstock_engine_tasks", "Tasks of an engine thread, such as connections and fetches.");
    for (number, activity) in each() {
        tasks.sample(&[("thread", number)], activity.tasks);
    }
}
