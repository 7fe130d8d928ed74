//! Traces without a socket: what is read of a request's trace and written to the next server (W3C Trace Context, level 2),
//! which requests are kept (sampling), and spans as OpenTelemetry's collectors take them (OTLP, protobuf).
//!
//! A request has a [`Trace`], made by a [`Tracer`] when the request comes. It collects what is known of each attempt at an
//! origin. At its end the tracer decides whether it is kept; only then is anything written, to a buffer of bounded size. What
//! sends the buffer to a collector lies elsewhere.

mod buffer;
mod context;
mod following;
mod id;
mod otlp;
mod sampling;
mod span;
mod trace;
mod tracer;

pub use buffer::Batch;
pub use context::{FIELDS, Parent, SpanContext, State};
pub use following::Following;
pub use id::{SpanId, TraceId};
pub use otlp::{Resource, rejected, request};
pub use sampling::Sampling;
pub use span::{Attribute, Value};
pub use trace::{Attempt, Attempted, Trace, host_and_port, known_method};
pub use tracer::{Answered, Counts, Kept, Tracer};
