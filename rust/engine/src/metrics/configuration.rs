//! The server's configuration: how reading it again went.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Exposition;

/// What is counted of it. All orderings are relaxed: these are figures, which order nothing.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    applied: AtomicU64,
    failed: AtomicU64,
    /// Whether the last one failed.
    is_bad: AtomicBool,
}

impl Reloads {
    pub(super) fn note(&self, is_applied: bool) {
        let count = if is_applied { &self.applied } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
        self.is_bad.store(!is_applied, Ordering::Relaxed);
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        let help = "Times that the configuration file was read again and its routes put in place, and times that something in \
            it was bad, so that the earlier ones stayed.";
        out.counter("penstock_configuration_reloads_total", help)
            .sample(&[("result", "applied")], self.applied.load(Ordering::Relaxed))
            .sample(&[("result", "failed")], self.failed.load(Ordering::Relaxed));
        let help =
            "Whether the configuration that is served is the one that was read last: 0 if that was bad.";
        out.gauge("penstock_configuration_current", help)
            .sample(&[], u64::from(!self.is_bad.load(Ordering::Relaxed)));
    }
}
