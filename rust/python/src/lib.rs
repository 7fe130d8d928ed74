//! `penstock._native`: what Python sees of the engine.
//!
//! Only this crate knows both sides. Engine threads never run its code: they wake a [`port::LoopPort`] through a
//! plain [`std::task::Waker`], and Python objects are made on the event loop's thread. All classes are frozen and
//! keep their state in locks and atomics, so nothing here relies on the GIL.

mod access;
mod admission;
mod asking;
mod asks;
mod awaitable;
mod buffer;
mod cache;
mod edge;
mod end_to_end;
mod ends;
mod engine;
mod errors;
mod events;
mod fetch;
mod frame;
mod framing;
mod hex;
mod hub;
mod inspect;
mod lane;
mod load;
mod notices;
mod port;
mod record;
mod relay;
mod relay_spec;
mod request;
mod settings;
mod stats;
mod status;
mod stream;
mod takeover;
mod tls;
mod tokens;
mod toml;
mod tracing;
mod transport;
mod upload;
mod upstream;
mod workers;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::{PyModule, PyModuleMethods, PyResult};
    use pyo3::Bound;

    #[pymodule_export]
    use super::access::{AskedRequest, Decisions, Gate, Permit, Question, Refused, Verifier, Waiting};
    #[pymodule_export]
    use super::admission::Admission;
    #[pymodule_export]
    use super::asking::{HubAnswer, TopicClaim};
    #[pymodule_export]
    use super::awaitable::{Awaitable, Done};
    #[pymodule_export]
    use super::cache::{Cache, Caching, MovingCache};
    #[pymodule_export]
    use super::edge::{AccessLog, Entered, HttpPages, Limiter, Route, Site, SiteCounts};
    #[pymodule_export]
    use super::end_to_end::end_to_end;
    #[pymodule_export]
    use super::ends::{OrphanEnd, Report, RequestEnd};
    #[pymodule_export]
    use super::engine::Engine;
    #[pymodule_export]
    use super::errors::error_table;
    #[pymodule_export]
    use super::events::{Drain, EventPolicy};
    #[pymodule_export]
    use super::fetch::{ask, fetch, fetch_upload, read_on, relay_seen, watch};
    #[pymodule_export]
    use super::frame::Frame;
    #[pymodule_export]
    use super::framing::Framing;
    #[pymodule_export]
    use super::hub::{Hub, Lease, Topics};
    #[pymodule_export]
    use super::inspect::{Counts, Expected, Inspection, Inspector, Watched};
    #[pymodule_export]
    use super::lane::Lane;
    #[pymodule_export]
    use super::load::{LoadOrigin, LoadRun};
    #[pymodule_export]
    use super::notices::OriginNotice;
    #[pymodule_export]
    use super::port::LoopPort;
    #[pymodule_export]
    use super::relay::{Forwarding, has_dot_segments, is_target, offers_websocket};
    #[pymodule_export]
    use super::relay_spec::Relay;
    #[pymodule_export]
    use super::request::{Endpoint, Fields, Timeouts, usual_fields};
    #[pymodule_export]
    use super::status::Status;
    #[pymodule_export]
    use super::stream::{FrameStream, Source};
    #[pymodule_export]
    use super::stream::{
        entry, entry_line, field_texts, is_done, next_batch, relay_head, response_fields, status_line,
        take_ready, timings_of,
    };
    #[pymodule_export]
    use super::takeover::{
        MovingStream, TicketSecret, adopt_client, begin_all_streams, begin_moving_streams, begin_streams,
        claim_listener, clients_given_away, close_given_listeners, decision_secret, end_moving_streams,
        follow_hub, give_clients_away, give_listeners, gives_clients_away, hand_over_hubs, hold_clients,
        hub_names, lead_hub, let_clients_in, listeners, streams_to_move, take_decision_secret,
        take_ticket_secrets, take_up_stream, take_up_subscriber, ticket_secrets,
    };
    #[pymodule_export]
    use super::tls::{TlsSession, self_signed};
    #[pymodule_export]
    use super::tokens::hide;
    #[pymodule_export]
    use super::tokens::shown;
    #[pymodule_export]
    use super::tokens::{Jwt, signed_url};
    #[pymodule_export]
    use super::toml::parse_toml;
    #[pymodule_export]
    use super::transport::Transport;
    #[pymodule_export]
    use super::upload::Upload;
    #[pymodule_export]
    use super::upstream::Upstream;
    #[pymodule_export]
    use super::workers::{Answer, FeedRequest, Lines, Plan, WorkerSite, Workers};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("BUILD_PROFILE", if cfg!(debug_assertions) { "debug" } else { "release" })
    }
}

/// Locks, and ignores poisoning: a panic becomes a Python exception, and no critical section here leaves its data
/// half changed.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
