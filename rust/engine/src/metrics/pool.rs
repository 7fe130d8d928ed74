//! The memory budget, and the streams that use it.

use super::Exposition;
use crate::pool::{CopyReason, Pool, PoolState};
use crate::stream::Meter;

pub(super) fn write(pool: &Pool, meter: &Meter, out: &mut Exposition) {
    let stats = pool.stats();
    out.gauge("penstock_pool_budget_bytes", "Bytes that the pool may hold.").sample(&[], stats.budget);
    out.gauge("penstock_pool_used_bytes", "Bytes of slabs and runs that are held.")
        .sample(&[], stats.live_bytes);
    out.gauge("penstock_pool_peak_bytes", "The highest number of bytes held so far.")
        .sample(&[], stats.peak_bytes);
    let help =
        "1 for the state that the pool is in: open, pressed (windows shrink) or full (new work is refused).";
    let mut one_of = out.gauge("penstock_pool_state", help);
    for one in [PoolState::Open, PoolState::Pressed, PoolState::Full] {
        one_of.sample(&[("state", one.name())], stats.state == one);
    }
    out.counter("penstock_pool_refusals_total", "Times that memory was asked for and there was none.")
        .sample(&[], stats.refusals);
    let mut slabs = out.gauge("penstock_pool_slabs", "Slabs by size in bytes, held or free.");
    for class in &stats.classes {
        let size = class.size.to_string();
        slabs.sample(&[("size", &size), ("state", "held")], class.live);
        slabs.sample(&[("size", &size), ("state", "free")], class.total.saturating_sub(class.live));
    }
    out.gauge("penstock_pool_runs", "Objects larger than the largest slab that are held.")
        .sample(&[], stats.live_runs);
    let help = "Payload moved by the CPU inside the process, by reason.";
    let mut copied = out.counter("penstock_copied_bytes_total", help);
    for (reason, bytes) in CopyReason::ALL.iter().zip(stats.bytes_copied) {
        copied.sample(&[("reason", reason.name())], bytes);
    }
    out.gauge("penstock_streams", "Streams whose consumer has neither seen the end nor left.")
        .sample(&[], meter.live());
    out.counter("penstock_streams_started_total", "Streams begun.").sample(&[], meter.started());
    let help = "Payload bytes read from origins, files and pipes, and of request bodies.";
    out.counter("penstock_payload_bytes_total", help).sample(&[], meter.bytes());
    let help = "Those of them that the kernel moved from the origin's socket to the client's, without a copy (splice).";
    out.counter("penstock_spliced_bytes_total", help).sample(&[], meter.spliced());
    let relays = meter.relays();
    out.counter("penstock_event_heartbeats_total", "Comments sent while an event stream was quiet.")
        .sample(&[], relays.heartbeats);
    let help = "Event streams cut because their origin sent no event within the limit.";
    out.counter("penstock_event_streams_idle_total", help).sample(&[], relays.idle);
    out.counter("penstock_event_failures_told_total", "Failures that were reported to a client by an event.")
        .sample(&[], relays.told);
    out.gauge("penstock_draining_responses", "Responses that are read on although their clients have left.")
        .sample(&[], relays.draining);
    out.counter(
        "penstock_drained_responses_total",
        "Responses that were read on although their clients had left.",
    )
    .sample(&[], relays.drained);
    let help = "Responses that should have been read on and were not, because of the limit on their number.";
    out.counter("penstock_undrained_responses_total", help).sample(&[], relays.undrained);
}
