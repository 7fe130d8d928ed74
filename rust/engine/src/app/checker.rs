//! What an application writes, checked against itself: where its response ends, and that it ends there.
//!
//! [`Checker`] sees every byte that the application writes, in order, and keeps none but those of heads. It neither
//! waits nor sends. The invariant: bytes that were let through, up to a complete response, are exactly one response
//! to the request, so that whatever follows on the connection is read as what it is (RFC 9112, section 11.1).

use crate::error::{Code, Error, Result};
use crate::wire::{
    BodyFraming, BodyLimits, Chunked, Head, HeadLimits, HeadScanner, body_of, is_one_of, keeps_alive, members,
};

/// What an application may write as one head. It is trusted; this keeps an endless head from filling the memory.
/// Arbitrary.
const HEAD: HeadLimits =
    HeadLimits { head_bytes: 256 * 1024, head_fields: 4096, interim_responses: usize::MAX };

/// An application's own chunk extensions and trailers pass as they are.
const BODY: BodyLimits = BodyLimits { chunk_extension_bytes: usize::MAX, trailer_bytes: HEAD.head_bytes };

/// How much of a head is taken over at a time where it comes in pieces, so that a body in the same piece is not copied.
const STEP: usize = 4096;

#[derive(Debug)]
enum State {
    /// Within a head, or before it.
    Head(Box<HeadScanner>),
    Length {
        remaining: u64,
    },
    Chunked(Box<Chunked>),
    UntilClose,
    /// Chunks that the engine makes.
    Framed,
    /// After 101: bytes of another protocol, both ways.
    Switched,
    Complete,
    /// Complete with its head, as that of a HEAD request or with status 204 or 304. A body that is written nevertheless,
    /// because the handler is the one of GET, is not sent.
    Bodiless,
}

/// What is known of the field Strict-Transport-Security.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hsts {
    Ignored,
    Sought,
    /// The final head lacks it.
    Missing,
}

/// Checks one response, with the interim ones before it.
#[derive(Debug)]
pub struct Checker {
    state: State,
    /// Of a head that has come in part.
    head: Vec<u8>,
    is_head_request: bool,
    may_switch: bool,
    /// The final status, and whether the connection may be used again after it.
    end: Option<(u16, bool)>,
    continued: bool,
    hsts: Hsts,
    /// Bytes of heads, also of interim responses.
    head_bytes: u64,
}

impl Checker {
    /// For the response to a request of that method; `may_switch` if it has asked for another protocol.
    pub fn new(method: &str, may_switch: bool) -> Self {
        Self {
            state: State::Head(Box::new(HeadScanner::new(&HEAD))),
            head: Vec::new(),
            is_head_request: method == "HEAD",
            may_switch,
            end: None,
            continued: false,
            hsts: Hsts::Ignored,
            head_bytes: 0,
        }
    }

    /// Looks for Strict-Transport-Security in the final head, if `looks`.
    #[must_use]
    pub fn looking_for_hsts(self, looks: bool) -> Self {
        Self { hsts: if looks { Hsts::Sought } else { Hsts::Ignored }, ..self }
    }

    /// Looks at bytes that the application has written, and returns how many of them are to be sent: all, unless they
    /// follow a head that has no body.
    ///
    /// # Errors
    /// `BAD_RESPONSE`: the head is malformed, there are more bytes than the framing has, or a 101 was not asked for.
    /// The response is lost then, and nothing more may be fed.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<usize> {
        let all = bytes.len();
        while !bytes.is_empty() {
            let used = match &mut self.state {
                State::Head(_) => {
                    let used = self.feed_head(bytes)?;
                    self.head_bytes += used as u64;
                    used
                }
                State::Length { remaining } => {
                    let used = usize::try_from(*remaining).map_or(bytes.len(), |most| most.min(bytes.len()));
                    *remaining -= used as u64;
                    if *remaining == 0 {
                        self.state = State::Complete;
                    }
                    used
                }
                State::Chunked(chunks) => {
                    let mut used = 0;
                    while chunks.next(bytes, &mut used).map_err(|error| bad(error.detail()))?.is_some() {}
                    if chunks.is_done() {
                        self.state = State::Complete;
                    }
                    used
                }
                State::UntilClose | State::Switched => bytes.len(),
                State::Bodiless => return Ok(all - bytes.len()),
                State::Complete | State::Framed => {
                    return Err(bad(format!("{} bytes after the end of the response", bytes.len())));
                }
            };
            bytes = &bytes[used..];
        }
        Ok(all)
    }

    /// Takes in bytes of a head; how many belong to it.
    fn feed_head(&mut self, bytes: &[u8]) -> Result<usize> {
        let State::Head(scanner) = &mut self.state else { return Ok(0) };
        if self.head.is_empty() {
            // Nearly always the whole head is here.
            if let Some(end) = scanner.scan(bytes).map_err(|error| refused(&error))? {
                let head = scanner.parse(&bytes[..end]).map_err(|error| refused(&error))?;
                self.begin(&head)?;
                return Ok(end);
            }
            self.head.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let before = self.head.len();
        let step = bytes.len().min(STEP);
        self.head.extend_from_slice(&bytes[..step]);
        match scanner.scan(&self.head).map_err(|error| refused(&error))? {
            None => Ok(step),
            Some(end) => {
                let head = scanner.parse(&self.head[..end]).map_err(|error| refused(&error))?;
                self.head = Vec::new();
                self.begin(&head)?;
                Ok(end - before)
            }
        }
    }

    /// Goes on behind `head`.
    fn begin(&mut self, head: &Head) -> Result<()> {
        if head.status == 101 {
            if !self.may_switch {
                return Err(bad("101 to a request that has not asked for another protocol"));
            }
            self.end = Some((101, false));
            self.state = State::Switched;
            return Ok(());
        }
        if head.status < 200 {
            self.continued |= head.status == 100;
            self.state = State::Head(Box::new(HeadScanner::new(&HEAD)));
            return Ok(());
        }
        if self.hsts == Hsts::Sought && head.get("strict-transport-security").is_none() {
            self.hsts = Hsts::Missing;
        }
        let method = if self.is_head_request { "HEAD" } else { "GET" };
        let body = body_of(head, method).map_err(|error| bad(error.detail()))?;
        self.end = Some((head.status, keeps_alive(head) && body != BodyFraming::UntilClose));
        self.state = match body {
            BodyFraming::Empty => State::Bodiless,
            BodyFraming::Length(0) => State::Complete,
            BodyFraming::Length(remaining) => State::Length { remaining },
            BodyFraming::Chunked => State::Chunked(Box::new(Chunked::of_response(BODY))),
            BodyFraming::UntilClose => State::UntilClose,
            BodyFraming::Tunnel => State::Switched,
        };
        Ok(())
    }

    /// The application says that its response has ended.
    ///
    /// # Errors
    /// `BAD_RESPONSE`: bytes are missing, and the client must not take what it has for the whole.
    pub fn finish(&mut self) -> Result<()> {
        let missing = match &self.state {
            State::Complete | State::Bodiless | State::Switched => return Ok(()),
            State::UntilClose => {
                self.state = State::Complete;
                return Ok(());
            }
            State::Head(_) if self.head.is_empty() => "there is no response".into(),
            State::Head(_) => "the end of the head is missing".into(),
            State::Length { remaining } => format!("{remaining} bytes of the body are missing").into(),
            State::Chunked(chunks) => chunks.missing(),
            State::Framed => "the last chunk is missing".into(),
        };
        Err(Code::BadResponse.error(missing))
    }

    /// Whether what was fed ends within a head: nothing of it may be sent, because it may turn out to be none.
    pub fn is_within_head(&self) -> bool {
        matches!(self.state, State::Head(_)) && !self.head.is_empty()
    }

    /// Whether the response is whole. One that ends with its connection is after [`Checker::finish`].
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete | State::Bodiless)
    }

    /// Whether a body may be written, and is not sent.
    pub fn drops_body(&self) -> bool {
        matches!(self.state, State::Bodiless)
    }

    /// Whether the connection belongs to another protocol now.
    pub fn has_switched(&self) -> bool {
        matches!(self.state, State::Switched)
    }

    /// The final status, or 101, once its head has been fed.
    pub fn status(&self) -> Option<u16> {
        self.end.map(|(status, _)| status)
    }

    /// Bytes of heads so far, also of interim responses.
    pub fn head_bytes(&self) -> u64 {
        self.head_bytes
    }

    /// Whether the final head has been fed, and lacks Strict-Transport-Security. False if it was not looked for.
    pub fn wants_hsts(&self) -> bool {
        self.hsts == Hsts::Missing
    }

    /// Whether the client was told to send its body.
    pub fn has_continued(&self) -> bool {
        self.continued
    }

    /// Whether the connection may carry another request once the response is complete.
    pub fn keeps_alive(&self) -> bool {
        self.end.is_some_and(|(_, reusable)| reusable) && self.is_complete()
    }

    /// How the rest of the body is delimited, for the engine to send it in place of the application; a length is what is still to
    /// come.
    ///
    /// # Errors
    /// `BAD_RESPONSE`: there is no head yet, a chunk has begun, or there is another protocol instead of a body.
    pub fn rest(&self) -> Result<BodyFraming> {
        match &self.state {
            State::Length { remaining } => Ok(BodyFraming::Length(*remaining)),
            State::Framed => Ok(BodyFraming::Chunked),
            State::Chunked(chunks) if chunks.is_between_chunks() => Ok(BodyFraming::Chunked),
            State::UntilClose => Ok(BodyFraming::UntilClose),
            State::Complete | State::Bodiless => Ok(BodyFraming::Empty),
            State::Chunked(_) => Err(bad("a body was attached within a chunk")),
            State::Head(_) => Err(bad("a body was attached before the head")),
            State::Switched => Err(bad("a body was attached behind 101")),
        }
    }

    /// The engine sends all that [`Checker::rest`] says is left, for hours perhaps: the state of the chunks is dropped.
    pub fn leave_rest(&mut self) {
        if matches!(self.state, State::Chunked(_)) {
            self.state = State::Framed;
        }
    }

    /// Counts payload that the engine sends in place of the application, without its framing.
    ///
    /// # Errors
    /// `BAD_RESPONSE`: it is more than the head has announced.
    pub fn pass(&mut self, count: u64) -> Result<()> {
        match &mut self.state {
            State::Length { remaining } => {
                let Some(rest) = remaining.checked_sub(count) else {
                    return Err(bad(format!("{} bytes more than Content-Length", count - *remaining)));
                };
                *remaining = rest;
                if rest == 0 {
                    self.state = State::Complete;
                }
                Ok(())
            }
            State::Chunked(_) | State::Framed | State::UntilClose => Ok(()),
            _ if count == 0 => Ok(()),
            _ => Err(bad(format!("{count} bytes after the end of the response"))),
        }
    }

    /// Ends what the engine has sent: with the last chunk, or by closing.
    ///
    /// # Errors
    /// As [`Checker::finish`].
    pub fn finish_rest(&mut self) -> Result<()> {
        if matches!(self.state, State::Chunked(_) | State::Framed) {
            self.state = State::Complete;
        }
        self.finish()
    }
}

/// Whether a request asks to switch protocols (RFC 9110, section 7.8).
pub fn asks_to_switch<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone) -> bool {
    let has_upgrade = fields.clone().any(|(name, _)| is_one_of(name, &["upgrade"]));
    has_upgrade
        && fields
            .filter(|(name, _)| is_one_of(name, &["connection"]))
            .flat_map(|(_, value)| members(value))
            .any(|option| is_one_of(option, &["upgrade"]))
}

fn refused(error: &Error) -> Error {
    bad(error.detail())
}

fn bad(what: impl Into<String>) -> Error {
    Code::BadResponse.error(what.into())
}
