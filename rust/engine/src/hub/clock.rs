//! The clock of the hubs.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;

/// The time on the clock of the hubs, which no one sets.
///
/// An event of another process can be older than this one: the clock stands at some years when the process begins.
pub(super) fn now() -> Duration {
    // A simulation has a clock of its own, which begins before or after this.
    static BEGAN: LazyLock<Instant> = LazyLock::new(|| std::time::Instant::now().into());
    const BEFORE: Duration = Duration::from_secs(100_000_000);
    (Instant::now() + BEFORE).saturating_duration_since(*BEGAN)
}
