//! Exemplars: in each bucket of a histogram the last trace that fell into it (`OpenMetrics` 1.0, section "Exemplars"), so that a slow
//! bucket leads to a slow request.

use std::time::Duration;

use penstock_memory::sys::since_1970;
use penstock_trace::TraceId;

use crate::counters::BOUNDS;
use crate::sync::{Mutex, lock};

/// The last traces, one for each bucket of a histogram.
pub type Exemplars = [Option<Exemplar>; BOUNDS.len() + 1];

/// A trace that was kept, and its place in a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exemplar {
    /// The trace.
    pub trace: TraceId,
    /// What was counted.
    pub took: Duration,
    /// When, since 1970.
    pub at: Duration,
}

/// Those of one engine thread. The lock is taken for requests whose traces are kept, and to read.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Option<Box<Exemplars>>>);

impl Kept {
    /// A request of `trace` took so long.
    pub(super) fn put(&self, trace: TraceId, took: Duration) {
        let bucket = BOUNDS.partition_point(|bound| *bound < took);
        let exemplar = Exemplar { trace, took, at: since_1970() };
        lock(&self.0).get_or_insert_default()[bucket] = Some(exemplar);
    }

    /// Puts later ones in the place of `newest`.
    pub(super) fn add_to(&self, newest: &mut Exemplars) {
        let kept = lock(&self.0);
        let Some(kept) = kept.as_ref() else { return };
        for (newest, kept) in newest.iter_mut().zip(kept.iter()) {
            let is_later = |known: &Exemplar| kept.is_some_and(|kept| kept.at > known.at);
            if newest.as_ref().is_none_or(is_later) {
                *newest = *kept;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_its_last_trace() {
        let [one, other] = [Kept::default(), Kept::default()];
        let traces = [TraceId::random(), TraceId::random(), TraceId::random()];
        one.put(traces[0], Duration::from_micros(1500));
        one.put(traces[1], Duration::from_secs(600));
        other.put(traces[2], Duration::from_micros(1600));
        let mut newest = Exemplars::default();
        one.add_to(&mut newest);
        other.add_to(&mut newest);
        one.add_to(&mut newest);
        let found: Vec<_> = newest.iter().flatten().map(|exemplar| exemplar.trace).collect();
        assert_eq!(found, [traces[2], traces[1]]);
        assert_eq!(newest[1].map(|exemplar| exemplar.took), Some(Duration::from_micros(1600)));
    }
}
