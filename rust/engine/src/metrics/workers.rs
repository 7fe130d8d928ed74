//! Worker processes: the live ones, the ends of others, and the ends of their requests. A process is not a label.

use super::{Board, Exposition};
use crate::sync::lock;
use crate::workers::WorkersStats;

impl Board {
    pub(super) fn write_workers(&self, out: &mut Exposition) {
        let (there, counted) = {
            let mut workers = lock(&self.workers);
            (workers.there(), workers.sums(|workers| workers.stats().counted))
        };
        let stats: Vec<WorkersStats> = there.iter().map(|workers| workers.stats()).collect();
        let sum = |count: fn(&WorkersStats) -> usize| stats.iter().map(count).sum::<usize>();
        let help = "Worker processes: serving, starting in a generation that does not serve yet, or finishing their \
            requests.";
        out.gauge("penstock_workers", help)
            .sample(&[("state", "current")], sum(|stats| stats.current))
            .sample(&[("state", "coming")], sum(|stats| stats.coming))
            .sample(&[("state", "retired")], sum(|stats| stats.retired));
        let help = "The number of the generation of workers that takes requests. It rises each time the code is \
            replaced, and is 0 without workers.";
        let generation = stats.iter().map(|stats| stats.generation).max().unwrap_or_default();
        out.gauge("penstock_worker_generation", help).sample(&[], u64::from(generation));
        out.gauge("penstock_worker_requests_active", "Requests that workers have.")
            .sample(&[], sum(|stats| stats.busy));
        let help =
            "For how long a worker's event loop has not answered its probe; the longest of all workers.";
        let silent = stats.iter().map(|stats| stats.silent).max().unwrap_or_default();
        out.gauge("penstock_worker_silent_seconds", help).sample(&[], silent);
        let help = "Workers started in the place of others: that had ended, whose event loop hung, or whose code was \
            replaced.";
        out.counter("penstock_worker_restarts_total", help)
            .sample(&[("reason", "ended")], counted.ended)
            .sample(&[("reason", "hung")], counted.hung)
            .sample(&[("reason", "reloaded")], counted.reloaded);
        let help = "Requests that were handed to a worker, once for each that was.";
        out.counter("penstock_worker_exchanges_total", help).sample(&[], counted.exchanges);
        let help = "Requests that were handed to a second worker, because the first had ended or was full.";
        out.counter("penstock_worker_repeats_total", help).sample(&[], counted.repeats);
        let help = "Requests that were lost with their worker: answered with 502 (WORKER_GONE), or cut off in a response that \
                    was begun.";
        out.counter("penstock_worker_losses_total", help)
            .sample(&[("outcome", "refused")], counted.refused)
            .sample(&[("outcome", "cut_off")], counted.cut_off);
    }
}
