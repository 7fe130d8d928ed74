//! The body of a request, as the engine keeps it.

use std::future::poll_fn;
use std::sync::Arc;

use tokio::time::timeout;

use super::limits::OriginLimits;
use super::request::RequestBody;
use crate::error::{Code, Result};
use crate::stream::Stream;
use crate::wire::BodyFraming;

/// The body of a request. Some kinds can be sent a second time.
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
    pub(super) fn framing(&self) -> BodyFraming {
        match self {
            Self::None => BodyFraming::Empty,
            Self::Bytes(bytes) => BodyFraming::Length(bytes.len() as u64),
            Self::Stream { length, .. } => length.map_or(BodyFraming::Chunked, BodyFraming::Length),
            Self::Tunnel(_) => BodyFraming::Tunnel,
        }
    }

    /// Waits for as much of the body as is worth a connection. Returns whether more is still to come. So a client that
    /// sends slowly does not hold a connection.
    ///
    /// # Errors
    /// `UPLOAD_FAILED`: it has failed.
    pub(super) async fn gather(&self, limits: &OriginLimits) -> Result<bool> {
        let Self::Stream { stream, length } = self else { return Ok(false) };
        if limits.upload_part == 0 {
            return Ok(true);
        }
        let gather = poll_fn(|context| stream.poll_gathered(context, limits.upload_part));
        let gathered = match limits.upload_wait.filter(|_| length.is_none()) {
            // The sender may wait for the beginning of the response.
            Some(limit) => timeout(limit, gather).await.unwrap_or(Ok(false)),
            None => gather.await,
        };
        gathered.map(|is_whole| !is_whole).map_err(|error| {
            Code::UploadFailed.error(format!("the source of the request body failed: {error}"))
        })
    }

    /// A second body with the same bytes, if it is possible.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Self::None => Some(Self::None),
            Self::Bytes(bytes) => Some(Self::Bytes(Arc::clone(bytes))),
            Self::Stream { .. } | Self::Tunnel(_) => None,
        }
    }
}
