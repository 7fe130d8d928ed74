//! Reads all bytes that a client sends on one connection, as a server would: head, body, and the next head after
//! them. Tests and the fuzz target `request` include it; the including module imports the names that it takes from
//! `super`.

use super::*;

/// A request that has arrived completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) head: Incoming,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) expects_continue: bool,
}

impl Arrived {
    /// In the form of the reference.
    pub(crate) fn plain(&self) -> ParsedRequest {
        let head = &self.head;
        ParsedRequest {
            method: head.method().to_owned(),
            target: head.origin_form().into_owned(),
            authority: head.authority().to_owned(),
            minor_version: head.minor_version,
            fields: head.headers().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
            body: self.body.clone(),
            trailers: self.trailers.clone(),
            keeps_alive: head.keeps_alive(),
            expects_continue: self.expects_continue,
        }
    }
}

/// The end of a connection after its client has sent all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing, or an empty line; another request could come.
    Idle,
    /// A part of a head.
    Head,
    /// Bytes after the last request, which are not read.
    Closed,
    /// Bytes that are refused with the error of this name.
    Refused(&'static str),
}

impl Left {
    /// As the plain second reading has it.
    pub(crate) fn end(self) -> End {
        match self {
            Self::Idle | Self::Head => End::Open,
            Self::Closed => End::Done,
            Self::Refused(name) => End::Fault(name),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) head: IncomingLimits,
    pub(crate) body: BodyLimits,
}

impl Limits {
    /// In the form of the reference.
    pub(crate) fn maxima(self) -> Maxima {
        Maxima {
            line: self.head.line_bytes,
            head: self.head.head_bytes,
            fields: self.head.head_fields,
            extensions: self.body.chunk_extension_bytes,
            trailer: self.body.trailer_bytes,
        }
    }
}

/// The requests in `pieces`, and the end after them.
pub(crate) fn read<'a>(limits: Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Arrived>, Left) {
    let mut connection = Connection::new(limits);
    for piece in pieces {
        if let Err(error) = connection.feed(piece) {
            return (connection.arrived, Left::Refused(error.code().name()));
        }
    }
    let left = match &connection.state {
        State::Head { scanner, .. } if scanner.has_begun() => Left::Head,
        State::Head { .. } => Left::Idle,
        State::Closed => Left::Closed,
        State::Body { decoder, .. } => {
            Left::Refused(decoder.at_eof().expect_err("a body that is over").code().name())
        }
    };
    (connection.arrived, left)
}

struct Connection {
    limits: Limits,
    state: State,
    arrived: Vec<Arrived>,
}

enum State {
    Head { scanner: IncomingScanner, buffer: Vec<u8> },
    Body { head: Incoming, expects_continue: bool, decoder: Decoder, body: Vec<u8> },
    Closed,
}

impl Connection {
    fn new(limits: Limits) -> Self {
        Self { limits, state: Self::between(limits), arrived: Vec::new() }
    }

    fn between(limits: Limits) -> State {
        State::Head { scanner: IncomingScanner::new(&limits.head), buffer: Vec::new() }
    }

    fn feed(&mut self, piece: &[u8]) -> Result<()> {
        let mut rest = piece.to_vec();
        loop {
            match &mut self.state {
                State::Head { scanner, buffer } => {
                    buffer.append(&mut rest);
                    let Some(range) = scanner.scan(buffer)? else { return Ok(()) };
                    rest = buffer.split_off(range.end);
                    let head = parse_incoming(&buffer[range], &self.limits.head)?;
                    let decoder = Decoder::of_request(head.body()?, self.limits.body);
                    let expects_continue = head.expects_continue()?;
                    self.state = State::Body { head, expects_continue, decoder, body: Vec::new() };
                }
                State::Body { head, expects_continue, decoder, body } => {
                    if !rest.is_empty() {
                        let bytes = slice(&rest);
                        let behind = decoder.decode(bytes, &mut |part| body.extend_from_slice(&part))?;
                        rest = behind.map_or_else(Vec::new, |behind| behind.to_vec());
                    }
                    if !decoder.is_done() {
                        assert!(rest.is_empty(), "bytes after a body that goes on");
                        return Ok(());
                    }
                    let next = if head.keeps_alive() { Self::between(self.limits) } else { State::Closed };
                    self.arrived.push(Arrived {
                        head: head.clone(),
                        body: std::mem::take(body),
                        trailers: decoder.trailers().to_vec(),
                        expects_continue: *expects_continue,
                    });
                    self.state = next;
                }
                State::Closed => return Ok(()),
            }
        }
    }
}
