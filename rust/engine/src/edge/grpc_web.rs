//! gRPC-Web towards clients, gRPC towards the origin (grpc/grpc, `doc/PROTOCOL-WEB.md`): browsers can read no trailers.

use std::task::{Context, Poll, ready};

use super::head::write_to;
use super::progress::WebAnswer;
use crate::clock;
use crate::error::{Code, Result};
use crate::net::{Payload, Source, Supply};
use crate::relay::GrpcWeb;
use crate::wire::{
    GRPC, Incoming, WebText, encode_web_text, encode_web_trailers, grpc_kind, is_same_name, members,
    write_field,
};

const WEB: &[u8] = b"-web";
const TEXT: &[u8] = b"-text";

/// Bytes of a request that is sent as text, as it is decoded: the longest message that servers of gRPC take, unless they are told
/// otherwise. It lies outside the pool.
const MOST_TEXT: usize = (4 << 20) + 5;

/// What a page may read of a response besides its body: what an error of gRPC consists of.
const EXPOSED: [&str; 3] = ["grpc-status", "grpc-message", "grpc-status-details-bin"];

/// How a client of gRPC-Web sends and reads messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Web {
    /// The request is text.
    pub(super) sends_text: bool,
    /// The response is to be text.
    reads_text: bool,
}

fn stripped<'a>(rest: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = rest.split_at_checked(start.len())?;
    is_same_name(found, start).then_some(rest)
}

/// What follows `application/grpc-web` or `application/grpc-web-text`, and whether it is text.
fn web_kind(value: &[u8]) -> Option<(&[u8], bool)> {
    let rest = stripped(grpc_kind(value)?, WEB)?;
    let (rest, is_text) = stripped(rest, TEXT).map_or((rest, false), |rest| (rest, true));
    matches!(rest.first(), None | Some(b'+' | b';' | b' ')).then_some((rest, is_text))
}

impl Web {
    /// How a request is one of gRPC-Web, if it is one. What it accepts says whether the response is text, and how it sends
    /// itself if it says nothing.
    pub(super) fn of(incoming: &Incoming) -> Option<Self> {
        if incoming.method() != "POST" {
            return None;
        }
        let (_, sends_text) = web_kind(incoming.get_all("content-type").next()?)?;
        let mut accepted = incoming.get_all("accept").flat_map(members).filter_map(web_kind);
        let reads_text = accepted.next().map_or(sends_text, |(_, is_text)| is_text);
        Some(Self { sends_text, reads_text })
    }

    /// The media type that the origin is told.
    pub(super) fn content_type(incoming: &Incoming) -> Option<Vec<u8>> {
        let (rest, _) = web_kind(incoming.get_all("content-type").next()?)?;
        Some([GRPC, rest].concat())
    }

    /// The media type that the client is told of a response whose own is `value`; `None` if that is not one of gRPC.
    pub(super) fn answered(self, value: &[u8]) -> Option<Vec<u8>> {
        let rest = grpc_kind(value)?;
        Some([GRPC, WEB, if self.reads_text { TEXT } else { b"" }, rest].concat())
    }

    /// How the call that `incoming` is has to be answered, whatever with.
    pub(super) fn answer(self, incoming: &Incoming, web: &GrpcWeb) -> WebAnswer {
        let told = Self::content_type(incoming);
        let kind = told.and_then(|kind| self.answered(&kind)).unwrap_or_default();
        WebAnswer { kind, fields: cors(web, incoming) }
    }

    /// The body of a response, with the fields after it as its last message.
    pub(super) fn supply(self, supply: Supply) -> Supply {
        Supply::Source(Box::new(WebBody { supply, is_text: self.reads_text, has_ended: false }))
    }
}

/// Reads the body of a request that is text.
#[derive(Debug, Default)]
pub(super) struct TextBody {
    text: WebText,
    bytes: Vec<u8>,
}

impl TextBody {
    /// # Errors
    /// `BAD_REQUEST_BODY`: it is not base64. `REQUEST_TOO_LARGE`.
    pub(super) fn push(&mut self, text: &[u8]) -> Result<()> {
        self.text.decode(text, &mut self.bytes).map_err(|_| no_text())?;
        if self.bytes.len() > MOST_TEXT {
            return Err(Code::RequestTooLarge.error("a request of gRPC-Web in text has at most 4 MiB"));
        }
        Ok(())
    }

    /// # Errors
    /// `BAD_REQUEST_BODY`: it is not base64.
    pub(super) fn end(self) -> Result<Vec<u8>> {
        self.text.end().map_err(|_| no_text())?;
        Ok(self.bytes)
    }
}

fn no_text() -> crate::error::Error {
    Code::BadRequestBody.error("the request of gRPC-Web is not base64")
}

/// A body whose trailers are its last message.
#[derive(Debug)]
struct WebBody {
    supply: Supply,
    is_text: bool,
    has_ended: bool,
}

impl Source for WebBody {
    fn poll_next(&mut self, context: &mut Context<'_>, held: usize) -> Poll<Option<Result<Payload>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let payload = match ready!(self.supply.poll_next(context, held)) {
            Some(Ok(payload)) => payload,
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => {
                self.has_ended = true;
                let trailers = self.supply.trailers();
                let fields = trailers.iter().map(|(name, value)| (&**name, &**value));
                Payload::Text(encode_web_trailers(fields))
            }
        };
        Poll::Ready(Some(Ok(if self.is_text { Payload::Text(encode_web_text(&payload)) } else { payload })))
    }

    fn attend(&mut self, context: &mut Context<'_>) {
        self.supply.attend(context);
    }

    fn client_left(&mut self) {
        self.supply.client_left();
    }
}

/// The fields by which a page of another origin may read the response to a request (Fetch, "CORS protocol"); nothing if it may
/// not, or the request is not a page's.
pub(super) fn cors(web: &GrpcWeb, incoming: &Incoming) -> Vec<(&'static [u8], Vec<u8>)> {
    let Some(origin) = incoming.get_all("origin").next().filter(|origin| web.lets_in(origin)) else {
        return Vec::new();
    };
    let exposed: Vec<&str> = EXPOSED.into_iter().chain(web.expose.iter().map(String::as_str)).collect();
    vec![
        (b"Access-Control-Allow-Origin", origin.to_vec()),
        (b"Access-Control-Expose-Headers", exposed.join(", ").into_bytes()),
        (b"Vary", b"Origin".to_vec()),
    ]
}

/// The answer to a page that asks whether it may call, if the request is that: what it may send is what it asks for.
pub(super) fn preflight(web: &GrpcWeb, incoming: &Incoming) -> Option<Vec<u8>> {
    if incoming.method() != "OPTIONS" || incoming.get_all("access-control-request-method").next().is_none() {
        return None;
    }
    let mut answer = b"HTTP/1.1 204 No Content\r\n".to_vec();
    write_to(&mut answer, format_args!("Date: {}\r\n", clock::date()));
    let fields = cors(web, incoming);
    if !fields.is_empty() {
        write_field(&mut answer, b"Access-Control-Allow-Methods", b"POST");
        if let Some(asked) = incoming.get_all("access-control-request-headers").next() {
            write_field(&mut answer, b"Access-Control-Allow-Headers", asked);
        }
        write_to(&mut answer, format_args!("Access-Control-Max-Age: {}\r\n", web.max_age));
    }
    for (name, value) in fields {
        write_field(&mut answer, name, &value);
    }
    answer.extend_from_slice(b"\r\n");
    Some(answer)
}
