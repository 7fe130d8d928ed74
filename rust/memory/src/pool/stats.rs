//! The counts of the pool, and the three states that follow from them.

use super::PoolConfig;
use super::regions::CLASSES;
use crate::sync::{AtomicU8, AtomicUsize, Ordering};

/// Why the CPU copied payload inside this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyReason {
    /// A frame lay across two slabs or two HTTP chunks and was made contiguous.
    FrameJoin,
    /// A request body came out of a Python object.
    Upload,
    /// TLS decryption wrote plaintext into a slab.
    Tls,
    /// The consumer asked for `bytes`.
    PythonBytes,
    /// The `data` of an event with several data lines was joined.
    EventData,
    /// A request was read as a whole to be amended, or JSON that is not a stream was kept to its end to be
    /// inspected.
    Inspection,
    /// A body went from the parent process to a worker process, or back.
    Worker,
}

impl CopyReason {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::FrameJoin,
        Self::Upload,
        Self::Tls,
        Self::PythonBytes,
        Self::EventData,
        Self::Inspection,
        Self::Worker,
    ];

    /// The label of the counter.
    pub fn name(self) -> &'static str {
        match self {
            Self::FrameJoin => "frame_join",
            Self::Upload => "upload",
            Self::Tls => "tls",
            Self::PythonBytes => "python_bytes",
            Self::EventData => "event_data",
            Self::Inspection => "inspection",
            Self::Worker => "worker",
        }
    }
}

/// Whether the pool takes new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolState {
    /// Everything is admitted.
    Open,
    /// Windows shrink.
    Pressed,
    /// New work is refused; established streams go on.
    Full,
}

impl PoolState {
    /// The word used in stats and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Pressed => "pressed",
            Self::Full => "full",
        }
    }
}

/// Counts of one slab class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassStats {
    /// Bytes of one slab.
    pub size: usize,
    /// Slabs into which regions are cut now, free or held.
    pub total: usize,
    /// Slabs that are held.
    pub live: usize,
    /// The highest `live` so far.
    pub peak: usize,
}

/// A snapshot. Fields are read one after another, so under load they may be a few operations apart.
#[derive(Debug, Clone)]
pub struct PoolStats {
    /// Bytes of data the pool may hold.
    pub budget: usize,
    /// Whether it takes new work.
    pub state: PoolState,
    /// By slab class, ascending.
    pub classes: [ClassStats; CLASSES.len()],
    /// Objects above the largest class that are held.
    pub live_runs: usize,
    /// Bytes of slabs and runs that are held.
    pub live_bytes: usize,
    /// The highest `live_bytes` so far.
    pub peak_bytes: usize,
    /// Requests for memory that were refused.
    pub refusals: usize,
    /// Bytes moved by the CPU, by reason, in the order of [`CopyReason::ALL`].
    pub bytes_copied: [usize; CopyReason::ALL.len()],
}

#[derive(Debug, Default)]
struct Count {
    live: AtomicUsize,
    peak: AtomicUsize,
}

/// Relaxed, but for the one pair of [`Counters::returned`]: the memory they describe is ordered by the pool's locks.
#[derive(Debug, Default)]
pub(super) struct Counters {
    classes: [Count; CLASSES.len()],
    runs: AtomicUsize,
    bytes: Count,
    refusals: AtomicUsize,
    copied: [AtomicUsize; CopyReason::ALL.len()],
    state: AtomicU8,
}

impl Counters {
    /// Whether `bytes` more would be within `limit` now.
    pub(super) fn fits(&self, bytes: usize, limit: usize) -> bool {
        self.live_bytes() + bytes <= limit
    }

    /// Adds `bytes` to the count, unless it would exceed `limit`.
    pub(super) fn take(&self, class: Option<usize>, bytes: usize, limit: usize) -> bool {
        let more = |live: usize| (live + bytes <= limit).then_some(live + bytes);
        let Ok(before) = self.bytes.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) else {
            return false;
        };
        self.bytes.peak.fetch_max(before + bytes, Ordering::Relaxed);
        match class {
            Some(class) => {
                let live = self.classes[class].live.fetch_add(1, Ordering::Relaxed) + 1;
                self.classes[class].peak.fetch_max(live, Ordering::Relaxed);
            }
            None => {
                self.runs.fetch_add(1, Ordering::Relaxed);
            }
        }
        true
    }

    pub(super) fn returned(&self, class: Option<usize>, bytes: usize) {
        let count = class.map_or(&self.runs, |class| &self.classes[class].live);
        count.fetch_sub(1, Ordering::Relaxed);
        // Acquire pairs with the Release in `expect_return`.
        self.bytes.live.fetch_sub(bytes, Ordering::Acquire);
    }

    /// Orders what the caller has stored before each return of memory that the caller, from now on, still finds
    /// counted.
    pub(super) fn expect_return(&self) {
        // Release pairs with the Acquire in `returned`. A write of no change, because only a write can be acquired.
        self.bytes.live.fetch_add(0, Ordering::Release);
    }

    pub(super) fn refused(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn copied(&self, reason: CopyReason, bytes: usize) {
        self.copied[reason as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn live_bytes(&self) -> usize {
        self.bytes.live.load(Ordering::Relaxed)
    }

    pub(super) fn state(&self, budget: usize, config: &PoolConfig) -> PoolState {
        let used = self.live_bytes().saturating_mul(100) / budget;
        let was = self.state.load(Ordering::Relaxed);
        let holds = |state: u8, threshold: usize| {
            used >= if was >= state { threshold.saturating_sub(config.hysteresis_percent) } else { threshold }
        };
        let state = if holds(2, config.full_percent) {
            PoolState::Full
        } else if holds(1, config.pressed_percent) {
            PoolState::Pressed
        } else {
            PoolState::Open
        };
        // Stored only if it changes: all threads read it for each read of a socket.
        if state as u8 != was {
            self.state.store(state as u8, Ordering::Relaxed);
        }
        state
    }

    pub(super) fn snapshot(
        &self,
        budget: usize,
        state: PoolState,
        cut: &[usize; CLASSES.len()],
    ) -> PoolStats {
        PoolStats {
            budget,
            state,
            classes: std::array::from_fn(|class| ClassStats {
                size: CLASSES[class],
                total: cut[class],
                live: self.classes[class].live.load(Ordering::Relaxed),
                peak: self.classes[class].peak.load(Ordering::Relaxed),
            }),
            live_runs: self.runs.load(Ordering::Relaxed),
            live_bytes: self.live_bytes(),
            peak_bytes: self.bytes.peak.load(Ordering::Relaxed),
            refusals: self.refusals.load(Ordering::Relaxed),
            bytes_copied: std::array::from_fn(|reason| self.copied[reason].load(Ordering::Relaxed)),
        }
    }
}
