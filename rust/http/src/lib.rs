//! HTTP/1.1, framings of bodies, and JSON, as bytes.
//!
//! For whatever speaks HTTP or reads a body: heads, chunks and fields of either side ([`wire`]), which fields a relay passes
//! on ([`relay`]), how a body is cut into frames or events ([`framing`]), and where the members of a JSON text lie
//! ([`json`]). It has no socket, no clock and no store, and never waits.
//!
//! It guarantees that how the bytes were split into reads changes neither a result nor an error; that what two parsers could
//! understand differently is refused; and that payload is not copied, but for a frame that lay across two slabs.

pub mod framing;
pub mod json;
pub mod relay;
pub mod wire;
