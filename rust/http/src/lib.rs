//! HTTP/1.1, framings of bodies, and JSON, as bytes.
//!
//! The engine uses it for both sides: heads, chunks and fields ([`wire`]), the fields that a relay passes on ([`relay`]),
//! how a body is cut into frames or events ([`framing`]), and the positions of the members of a JSON text ([`json`]). It
//! has no socket, no clock and no store, and never waits.
//!
//! It guarantees three things. The way in which bytes were split into reads changes neither a result nor an error. A
//! message that two parsers could understand differently is refused. Payload is not copied, except a frame that lay across
//! two slabs.

pub mod framing;
pub mod json;
pub mod relay;
pub mod wire;
