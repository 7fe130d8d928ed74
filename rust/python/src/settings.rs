//! Reads the resolved settings off the dataclasses of `penstock.config`, field by field of the same name.

use std::time::Duration;

use penstock_engine::Result;
use penstock_engine::origin::{OriginLimits, Roots, Tls};
use penstock_engine::pool::PoolConfig;
use penstock_engine::stream::{FlowConfig, ReadSizes};
use penstock_engine::wire::{BodyLimits, HeadLimits};
use pyo3::FromPyObject;

#[derive(FromPyObject)]
pub(crate) struct PoolSettings {
    memory: usize,
    reserve: usize,
    pressed_percent: usize,
    full_percent: usize,
    hysteresis_percent: usize,
    prefault: usize,
    huge_pages: bool,
    lock: bool,
    caches: usize,
}

impl From<PoolSettings> for PoolConfig {
    fn from(settings: PoolSettings) -> Self {
        Self {
            budget: settings.memory,
            reserve: settings.reserve,
            pressed_percent: settings.pressed_percent,
            full_percent: settings.full_percent,
            hysteresis_percent: settings.hysteresis_percent,
            prefault: settings.prefault,
            huge_pages: settings.huge_pages,
            lock: settings.lock,
            caches: settings.caches,
        }
    }
}

#[derive(FromPyObject)]
pub(crate) struct FlowSettings {
    floor: usize,
    ceiling: usize,
}

impl From<FlowSettings> for FlowConfig {
    fn from(settings: FlowSettings) -> Self {
        Self { floor: settings.floor, ceiling: settings.ceiling }
    }
}

#[derive(FromPyObject)]
pub(crate) struct ReadSettings {
    least: usize,
    unknown: usize,
    known: usize,
    most: usize,
}

impl From<ReadSettings> for ReadSizes {
    fn from(settings: ReadSettings) -> Self {
        Self { least: settings.least, unknown: settings.unknown, known: settings.known, most: settings.most }
    }
}

#[derive(FromPyObject)]
pub(crate) struct LimitSettings {
    connections: usize,
    waiting: usize,
    idle_timeout: f64,
    requests_per_connection: u64,
    connection_age: f64,
    head_bytes: usize,
    head_fields: usize,
    interim_responses: usize,
    chunk_extension_bytes: usize,
    trailer_bytes: usize,
}

impl From<LimitSettings> for OriginLimits {
    fn from(settings: LimitSettings) -> Self {
        Self {
            connections: settings.connections,
            waiting: settings.waiting,
            idle_timeout: Duration::from_secs_f64(settings.idle_timeout),
            requests_per_connection: settings.requests_per_connection,
            connection_age: Duration::from_secs_f64(settings.connection_age),
            head: HeadLimits {
                bytes: settings.head_bytes,
                fields: settings.head_fields,
                interim: settings.interim_responses,
            },
            body: BodyLimits {
                chunk_extension_bytes: settings.chunk_extension_bytes,
                trailer_bytes: settings.trailer_bytes,
            },
        }
    }
}

#[derive(FromPyObject)]
pub(crate) struct TlsSettings {
    roots: String,
}

impl TlsSettings {
    /// Loads the roots.
    pub(crate) fn load(self) -> Result<Tls> {
        Tls::new(match self.roots.as_str() {
            "system" => Roots::System,
            "webpki" => Roots::WebPki,
            path => Roots::Pem(std::fs::read(path).map_err(|error| {
                penstock_engine::Code::BadConfiguration
                    .error(format!("cannot read the roots in {path}: {error}"))
            })?),
        })
    }
}
