//! What unit tests have that ask no origin over a socket.

use std::sync::Arc as Plain;
use std::time::Duration;

use super::{Http2Origins, Notices, OriginLimits, Origins, Roots, SessionLimits, Tls};
use crate::pool::Pool;
use crate::stream::ReadSizes;
use crate::wire::{BodyLimits, HeadLimits};

pub(crate) const READS: ReadSizes =
    ReadSizes { least: 4 << 10, unknown: 16 << 10, known: 64 << 10, most: 256 << 10 };

/// The origins of an engine thread. `time` is each of their time limits.
pub(crate) fn origins(pool: &Pool, time: Duration) -> Origins {
    origins_within(pool, limits(time), time)
}

/// The least that there can be. `time` is each of the time limits.
pub(crate) fn limits(time: Duration) -> OriginLimits {
    OriginLimits {
        connections: 1,
        waiting: 1,
        upload_part: 0,
        upload_wait: None,
        upload_percent: 75,
        idle_timeout: time,
        requests_per_connection: 1,
        connection_age: time,
        name_lifetime: time,
        log_interval: time,
        head: HeadLimits { head_bytes: 1 << 10, head_fields: 8, interim_responses: 0 },
        body: BodyLimits { chunk_extension_bytes: 64, trailer_bytes: 64 },
    }
}

/// The origins of an engine thread, by `limits`. `time` is between two log lines.
pub(crate) fn origins_within(pool: &Pool, limits: OriginLimits, time: Duration) -> Origins {
    let http2 = Http2Origins { endpoints: Vec::new(), limits: SessionLimits { streams: 1, window: 1 << 16 } };
    origins_speaking(pool, limits, time, http2)
}

/// As [`origins_within`], of which some speak HTTP/2.
pub(crate) fn origins_speaking(
    pool: &Pool,
    limits: OriginLimits,
    time: Duration,
    http2: Http2Origins,
) -> Origins {
    let tls = Tls::new(Roots::WebPki, Vec::new()).expect("roots that are built in");
    Origins::new(pool, limits, READS, tls, Plain::new(Notices::new(time)), Plain::new(http2))
}
