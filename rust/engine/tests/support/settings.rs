//! Settings that the tests of the engine share: limits that only a hang reaches, and small sizes.

use std::sync::Arc;
use std::time::Duration;

use penstock_engine::origin::{Http2Origins, Notices, OriginLimits, Origins, Roots, SessionLimits, Tls};
use penstock_engine::pool::{Pool, PoolConfig};
use penstock_engine::stream::ReadSizes;
use penstock_engine::wire::{BodyLimits, HeadLimits};

use penstock_memory::pool::testing::config;

/// Long enough that only a hang reaches it.
pub(crate) const AMPLE: Duration = Duration::from_secs(20);

pub(crate) const READS: ReadSizes =
    ReadSizes { least: 4 << 10, unknown: 16 << 10, known: 64 << 10, most: 256 << 10 };
pub(crate) const BODY: BodyLimits = BodyLimits { chunk_extension_bytes: 1024, trailer_bytes: 1024 };

/// A pool of 8 MiB.
pub(crate) fn pool() -> Pool {
    Pool::new(PoolConfig { reserve: 256 << 10, ..config(8 << 20) }).unwrap()
}

/// Limits of an origin that no test meets unless it sets them lower.
pub(crate) fn origin_limits() -> OriginLimits {
    OriginLimits {
        connections: 4,
        waiting: 8,
        upload_part: 0,
        upload_wait: None,
        upload_percent: 75,
        idle_timeout: AMPLE,
        requests_per_connection: 100,
        connection_age: AMPLE,
        name_lifetime: AMPLE,
        log_interval: AMPLE,
        head: HeadLimits { head_bytes: 16 << 10, head_fields: 32, interim_responses: 3 },
        body: BODY,
    }
}

/// The origins of one engine thread.
pub(crate) fn origins(pool: &Pool, limits: OriginLimits, roots: Roots) -> Arc<Origins> {
    let notices = Arc::new(Notices::new(AMPLE));
    let http2 =
        Http2Origins { endpoints: Vec::new(), limits: SessionLimits { streams: 100, window: 1 << 16 } };
    let tls = Tls::new(roots, Vec::new()).unwrap();
    Arc::new(Origins::new(pool, limits, READS, tls, notices, Arc::new(http2)))
}
