//! The body of a request as the engine keeps it.

use std::sync::Arc;

use super::request::RequestBody;
use crate::stream::Stream;
use crate::wire::Upload;

/// The body of a request, so that it can be sent a second time where that is possible.
#[derive(Debug)]
pub(super) enum Payload {
    None,
    Bytes(Arc<Vec<u8>>),
    Stream { stream: Stream, length: Option<u64> },
    Tunnel(Stream),
}

impl From<RequestBody> for Payload {
    fn from(body: RequestBody) -> Self {
        match body {
            RequestBody::None => Self::None,
            RequestBody::Bytes(bytes) => Self::Bytes(Arc::new(bytes)),
            RequestBody::Stream { stream, length } => Self::Stream { stream, length },
            RequestBody::Tunnel(stream) => Self::Tunnel(stream),
        }
    }
}

impl Payload {
    /// How the body is delimited.
    pub(super) fn framing(&self) -> Upload {
        match self {
            Self::None => Upload::None,
            Self::Bytes(bytes) => Upload::Length(bytes.len() as u64),
            Self::Stream { length, .. } => length.map_or(Upload::Chunked, Upload::Length),
            Self::Tunnel(_) => Upload::Tunnel,
        }
    }

    /// A second body of the same bytes, if there can be one.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Self::None => Some(Self::None),
            Self::Bytes(bytes) => Some(Self::Bytes(Arc::clone(bytes))),
            Self::Stream { .. } | Self::Tunnel(_) => None,
        }
    }
}
