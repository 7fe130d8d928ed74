//! Traces of requests: spans that were kept, and spans that no collector has got.

use penstock_trace::Tracer;

use super::Exposition;

pub(super) fn write(tracer: &Tracer, out: &mut Exposition) {
    let counts = tracer.counts();
    out.counter("penstock_trace_spans_total", "Spans that were kept, to be sent to the collector.")
        .sample(&[], counts.kept);
    let help = "Spans that the collector did not get: the buffer was full, or the collector was away for too long or has \
        refused them.";
    out.counter("penstock_trace_spans_dropped_total", help).sample(&[], counts.dropped);
}
