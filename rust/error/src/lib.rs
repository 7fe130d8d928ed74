//! The one table of all errors, and the error type that carries a row of it.
//!
//! Every crate of penstock uses it. It guarantees that a code never changes its meaning and that a number is never reused.
//!
//! Codes are stable: operators match on them in logs and users in `except` clauses. The first hex digit gives
//! the place of the failure: 1 the way to an origin, 2 the origin's answer, 3 frames, 4 the pool, 5 this
//! process, 6 the client. Python's exception classes are built from [`Code::all`], so a new row needs no
//! second list.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The party whose behaviour the error describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The server from which bytes are fetched.
    Origin,
    /// The client that sent the request.
    Client,
    /// The memory budget.
    Pool,
    /// This process: its configuration, its files, its children.
    Local,
}

impl Source {
    /// The word in logs and in Python's attribute `source`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Origin => "origin",
            Self::Client => "client",
            Self::Pool => "pool",
            Self::Local => "local",
        }
    }
}

/// The family of an error. It decides from which builtin its Python class also derives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A time limit was exceeded (`TimeoutError`).
    Timeout,
    /// A connection could not be made or broke (`ConnectionError`).
    Connection,
    /// A peer broke the rules of HTTP (`ValueError`).
    Protocol,
    /// Bytes do not form the requested frames (`ValueError`).
    Frame,
    /// The origin's answer has a status of 400 or above (no builtin).
    Status,
    /// No memory within the budget (`MemoryError`).
    Memory,
    /// The call does not fit the state of the object (`RuntimeError`).
    State,
    /// An argument is wrong (`ValueError`).
    Value,
    /// A file, a pipe or a child process failed (`OSError`).
    System,
}

impl Kind {
    /// The word by which Python finds the class.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Protocol => "protocol",
            Self::Frame => "frame",
            Self::Status => "status",
            Self::Memory => "memory",
            Self::State => "state",
            Self::Value => "value",
            Self::System => "system",
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The code of the row.
    pub code: Code,
    /// Its stable name in upper case.
    pub name: &'static str,
    /// Its family.
    pub kind: Kind,
    /// The party whose behaviour it describes.
    pub source: Source,
    /// Whether the same request may succeed when it is sent again unchanged.
    pub retryable: bool,
    /// One sentence for the reference.
    pub meaning: &'static str,
}

macro_rules! table {
    ($($number:literal $variant:ident $name:literal $kind:ident $source:ident $retryable:literal $meaning:literal;)*) => {
        /// A stable numeric error code. See the table for the meaning of each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Code {
            $(#[doc = $meaning] $variant = $number,)*
        }

        const TABLE: &[Entry] = &[
            $(Entry {
                code: Code::$variant,
                name: $name,
                kind: Kind::$kind,
                source: Source::$source,
                retryable: $retryable,
                meaning: $meaning,
            },)*
        ];

        impl Code {
            fn row(self) -> &'static Entry {
                &TABLE[self.position()]
            }

            /// The index of the row, in the order of the numbers.
            pub fn position(self) -> usize {
                match self { $(Self::$variant => Row::$variant as usize,)* }
            }
        }

        /// Positions in `TABLE`, which has the same order.
        enum Row { $($variant,)* }
    };
}

table! {
    0x101 ResolveFailed "RESOLVE_FAILED" Connection Origin true "The origin's name has no address.";
    0x102 IoTimeout "IO_TIMEOUT" Timeout Origin true "The origin sent no byte within the limit between two reads.";
    0x103 ResolveTimeout "RESOLVE_TIMEOUT" Timeout Origin true "The origin's name was not resolved within its limit.";
    0x104 ConnectFailed "CONNECT_FAILED" Connection Origin true "No address of the origin accepted a connection.";
    0x105 ConnectTimeout "CONNECT_TIMEOUT" Timeout Origin true "No address of the origin accepted a connection within the limit.";
    0x106 TlsFailed "TLS_FAILED" Connection Origin false "The TLS handshake failed, or the certificate is not trusted.";
    0x107 TlsTimeout "TLS_TIMEOUT" Timeout Origin true "The TLS handshake did not finish within its limit.";
    0x108 FirstByteTimeout "FIRST_BYTE_TIMEOUT" Timeout Origin true "The origin did not begin its response within the limit.";
    0x109 TotalTimeout "TOTAL_TIMEOUT" Timeout Origin true "The whole exchange took longer than its limit.";
    0x10A QueueTimeout "QUEUE_TIMEOUT" Timeout Origin true "No connection to the origin became free within the limit.";
    0x10B OriginReset "ORIGIN_RESET" Connection Origin true "The origin reset the connection.";
    0x10C OriginClosed "ORIGIN_CLOSED" Connection Origin true "The origin closed the connection before a whole response head.";
    0x10D BodyTruncated "BODY_TRUNCATED" Connection Origin true "The origin closed the connection before the end of the body.";
    0x10E QueueFull "QUEUE_FULL" Connection Origin true "Too many requests wait for a connection to the origin.";
    0x10F EventTimeout "EVENT_TIMEOUT" Timeout Origin true "The origin sent no event of an event stream within the limit.";

    0x201 BadHead "BAD_HEAD" Protocol Origin false "The response head is not HTTP/1.x.";
    0x202 HeadTooLarge "HEAD_TOO_LARGE" Protocol Origin false "The response head exceeds its limit of bytes or fields.";
    0x203 BareLineFeed "BARE_LINE_FEED" Protocol Origin false "A line ends in LF or CR alone instead of CRLF.";
    0x204 FoldedHeader "FOLDED_HEADER" Protocol Origin false "A header is continued on the next line (obs-fold).";
    0x205 BadLength "BAD_LENGTH" Protocol Origin false "Content-Length is not a number.";
    0x206 ConflictingLength "CONFLICTING_LENGTH" Protocol Origin false "Content-Length is given more than once with different values.";
    0x207 LengthAndChunked "LENGTH_AND_CHUNKED" Protocol Origin false "Content-Length and Transfer-Encoding are both given.";
    0x208 BadTransferEncoding "BAD_TRANSFER_ENCODING" Protocol Origin false "Transfer-Encoding is something other than one final chunked.";
    0x209 BadChunk "BAD_CHUNK" Protocol Origin false "A chunk's size line or its end is malformed.";
    0x20A ChunkExtensionTooLarge "CHUNK_EXTENSION_TOO_LARGE" Protocol Origin false "Chunk extensions exceed their limit.";
    0x20B BadTrailer "BAD_TRAILER" Protocol Origin false "The trailer section is malformed or exceeds its limit.";
    0x20C ExcessBytes "EXCESS_BYTES" Protocol Origin false "Bytes follow the end of the response.";
    0x20D UnexpectedUpgrade "UNEXPECTED_UPGRADE" Protocol Origin false "The origin switched protocols without being asked.";
    0x20E TooManyInterim "TOO_MANY_INTERIM" Protocol Origin false "More interim (1xx) responses than the limit.";
    0x20F BadPart "BAD_PART" Protocol Origin false "A part of a response is not as long as its Content-Range says.";
    0x210 ObjectChanged "OBJECT_CHANGED" Protocol Origin true "The origin no longer has the version of which a client was being sent slice after slice.";
    0x220 BadStatus "BAD_STATUS" Status Origin false "The origin answered with a status of 400 or above, and `Response.raise_for_status` was called.";

    0x301 FrameTooLarge "FRAME_TOO_LARGE" Frame Origin false "A frame exceeds the maximum of its framing.";
    0x302 FrameTruncated "FRAME_TRUNCATED" Frame Origin false "The body ended within a frame.";
    0x303 AlreadyFramed "ALREADY_FRAMED" State Local false "The body is being cut by another framing, which cannot be undone.";
    0x304 BodyUndecodable "BODY_UNDECODABLE" Frame Origin false "The body is not the text or the JSON that it was read as.";

    0x401 PoolFull "POOL_FULL" Memory Pool true "The pool's budget has no room for new work.";
    0x402 WindowHeld "WINDOW_HELD" State Pool true "The consumer holds its whole window and awaits more; release frames first.";
    0x403 PoolDead "POOL_DEAD" State Pool false "The pool belongs to the parent of this forked process.";
    0x404 ObjectTooLarge "OBJECT_TOO_LARGE" Memory Pool false "The object is larger than the pool can ever hold in one piece.";
    0x405 MappingFailed "MAPPING_FAILED" System Local false "The operating system refused the pool's memory.";
    0x406 HeadsFull "HEADS_FULL" Memory Pool true "The request head was not complete, and other heads needed the memory that it held.";

    0x501 EngineClosed "ENGINE_CLOSED" State Local false "The engine has been closed.";
    0x502 Busy "BUSY" State Local false "Another task is already awaiting this stream.";
    0x503 BadRequest "BAD_REQUEST" Value Local false "The URL, method or headers cannot make a request.";
    0x504 StreamClosed "STREAM_CLOSED" State Local false "The stream has been closed by its consumer.";
    0x505 FileFailed "FILE_FAILED" System Local false "A file or pipe could not be read.";
    0x506 ProcessFailed "PROCESS_FAILED" System Local false "A child process could not be started, or ended with an error.";
    0x507 BadConfiguration "BAD_CONFIGURATION" Value Local false "A setting is out of range or contradicts another.";
    0x508 UploadFailed "UPLOAD_FAILED" State Local false "The source of the request body failed.";
    0x509 Internal "INTERNAL" State Local false "A bug in penstock.";
    0x50A ListenFailed "LISTEN_FAILED" System Local false "The operating system refused a socket to listen on.";
    0x50B BadResponse "BAD_RESPONSE" Value Local false "The application's response is not HTTP, or not as long as it says.";
    0x50C AppBusy "APP_BUSY" State Local true "The application did not take the request: too many wait, or it has waited for too long.";
    0x50D AcceptFailed "ACCEPT_FAILED" System Local true "The operating system refused to accept connections, such as for want of descriptors.";
    0x50E CacheDirectoryFailed "CACHE_DIRECTORY_FAILED" System Local false "The cache's directory cannot be made, read or written.";
    0x50F CacheDirectoryTaken "CACHE_DIRECTORY_TAKEN" System Local false "Another cache uses the directory.";
    0x510 CacheDamaged "CACHE_DAMAGED" System Local true "What the cache's disk gave back is not what was stored there.";
    0x511 CacheDiskTimeout "CACHE_DISK_TIMEOUT" Timeout Local true "The cache's disk gave nothing back within its limit.";
    0x512 Overloaded "OVERLOADED" State Local true "The engine or the application has more to do than it can, and takes a part of the new work.";
    0x520 BadEvent "BAD_EVENT" Value Local false "The event cannot be published: its type, id or key has a line end or is too long, or it is larger than its topic's history.";
    0x521 TopicFinished "TOPIC_FINISHED" State Local false "The topic has been finished; nothing can be published to it any more.";
    0x522 TooManyTopics "TOO_MANY_TOPICS" Memory Local true "The hub has as many topics as it may.";
    0x523 HubClosed "HUB_CLOSED" State Local false "The hub has been closed.";
    0x524 HubUnavailable "HUB_UNAVAILABLE" Connection Local true "What the hub's events are kept in cannot be reached, or has not confirmed the event.";
    0x525 FeederGone "FEEDER_GONE" State Local true "The process that fed the topic has gone, or has lost the right to, before its stream had ended.";
    0x530 AccessFailed "ACCESS_FAILED" State Local true "The hook that authorises requests has failed.";
    0x531 AccessTimeout "ACCESS_TIMEOUT" Timeout Local true "The hook that authorises requests has not answered within its limit.";
    0x532 AccessBusy "ACCESS_BUSY" State Local true "Too many requests wait to be authorised.";
    0x533 AccessUnavailable "ACCESS_UNAVAILABLE" State Local true "No authoriser is connected that could decide about the request.";
    0x534 TooManyTenants "TOO_MANY_TENANTS" Memory Local true "As many tenants are known as may be, and requests of all of them run or are remembered.";
    0x540 KeysUnavailable "KEYS_UNAVAILABLE" State Local true "The keys that tokens are verified with could not be fetched so far.";
    0x550 WorkerGone "WORKER_GONE" Connection Local true "The worker process that had the request has ended, or no worker process can be reached.";

    0x601 ClientGone "CLIENT_GONE" Connection Client false "The client closed its connection before the end of the response.";
    0x602 BadRequestHead "BAD_REQUEST_HEAD" Protocol Client false "The request head is not what HTTP/1.1 allows.";
    0x603 RequestHeadTooLarge "REQUEST_HEAD_TOO_LARGE" Protocol Client false "The request head exceeds its limit of bytes or fields.";
    0x604 TargetTooLong "TARGET_TOO_LONG" Protocol Client false "The request line exceeds its limit.";
    0x605 BadHost "BAD_HOST" Protocol Client false "The request names no host, several, or one that cannot be.";
    0x606 BadRequestFraming "BAD_REQUEST_FRAMING" Protocol Client false "The fields of the request do not say where its body ends, or say it twice.";
    0x607 UnsupportedCoding "UNSUPPORTED_CODING" Protocol Client false "The request's body has a transfer coding other than chunked.";
    0x608 UnsupportedVersion "UNSUPPORTED_VERSION" Protocol Client false "The request is in a version of HTTP other than 1.0 and 1.1.";
    0x609 UnsupportedMethod "UNSUPPORTED_METHOD" Protocol Client false "The method is not served here at all.";
    0x60A ExpectationFailed "EXPECTATION_FAILED" Protocol Client false "The request expects something other than 100-continue.";
    0x60B BadRequestBody "BAD_REQUEST_BODY" Protocol Client false "The chunks or trailers of the request's body are malformed or exceed their limits.";
    0x60C RequestTruncated "REQUEST_TRUNCATED" Connection Client false "The client closed its connection before the end of the request's body.";
    0x60D RequestTimeout "REQUEST_TIMEOUT" Timeout Client true "The client did not send its request within the limit.";
    0x60E WriteTimeout "WRITE_TIMEOUT" Timeout Client true "The client took no byte of the response within the limit.";
    0x60F RequestTooLarge "REQUEST_TOO_LARGE" Protocol Client false "The request's body exceeds its limit.";
    0x610 TooManyRequests "TOO_MANY_REQUESTS" Protocol Client true "The route has more requests than its limit, at once or by the second.";
    0x611 NoRoute "NO_ROUTE" Value Client false "No route matches the request, and there is no application.";
    0x612 Draining "DRAINING" State Local true "The server is being stopped, and takes no new request.";
    0x613 ClientStalled "CLIENT_STALLED" Connection Client true "The pool was full, and the client had taken nothing of its response for longest.";
    0x614 NotCached "NOT_CACHED" State Local false "The client wants only what is stored, and it is not (only-if-cached).";
    0x615 RequestTooSlow "REQUEST_TOO_SLOW" Timeout Client true "The client sent its request at less than the least rate.";
    0x616 AddressLimited "ADDRESS_LIMITED" Protocol Client true "The client's address has more connections or requests than its limit.";
    0x617 MisdirectedRequest "MISDIRECTED_REQUEST" Protocol Client false "The certificate of the connection does not name the host of the request.";
    0x618 PlainHttp "PLAIN_HTTP" Protocol Client false "The client sent plain HTTP to a port for TLS: the URL begins with https.";
    0x620 BadTopic "BAD_TOPIC" Value Client false "The name of a topic is empty, too long, not UTF-8, or has a control character.";
    0x621 UnknownTopic "UNKNOWN_TOPIC" Value Client false "There is no such topic.";
    0x630 AccessDenied "ACCESS_DENIED" Value Client false "The request is not authorised.";
    0x631 AccessRevoked "ACCESS_REVOKED" Connection Client false "The authorisation of a response was revoked, or was not renewed.";
    0x632 TenantLimited "TENANT_LIMITED" Protocol Client true "The tenant has more requests than its limit, at once or by the second.";
    0x633 TenantExhausted "TENANT_EXHAUSTED" Protocol Client false "The tenant has had as many bytes as it may.";
    0x640 TokenMissing "TOKEN_MISSING" Value Client false "The request has no token, and the route asks for one.";
    0x641 TokenMalformed "TOKEN_MALFORMED" Value Client false "The text is not a token: it is cut off, too long, or in another form than the required one.";
    0x642 TokenWrongAlgorithm "TOKEN_WRONG_ALGORITHM" Value Client false "The token is signed by another algorithm than its key is for, or by none.";
    0x643 TokenUnknownKey "TOKEN_UNKNOWN_KEY" Value Client true "The token names a key that is not known here, or not yet.";
    0x644 TokenWrongSignature "TOKEN_WRONG_SIGNATURE" Value Client false "The token's signature is not that of its key.";
    0x645 TokenExpired "TOKEN_EXPIRED" Value Client false "The token has expired.";
    0x646 TokenNotYetValid "TOKEN_NOT_YET_VALID" Value Client true "The token is not valid yet.";
    0x647 TokenWrongIssuer "TOKEN_WRONG_ISSUER" Value Client false "The token is of another issuer.";
    0x648 TokenWrongAudience "TOKEN_WRONG_AUDIENCE" Value Client false "The token is for another audience.";
    0x649 TokenClaimMissing "TOKEN_CLAIM_MISSING" Value Client false "The token is of another type, or lacks a claim that is asked for.";
    0x64A TokenWrongAddress "TOKEN_WRONG_ADDRESS" Value Client false "The token is for a client of another address.";
    0x64B TokenPathNotCovered "TOKEN_PATH_NOT_COVERED" Value Client false "The token is not for this path.";
}

impl Code {
    /// The number of rows.
    pub const COUNT: usize = TABLE.len();

    /// Every row, in the order of their numbers.
    pub fn all() -> &'static [Entry] {
        TABLE
    }

    /// The stable number.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The stable name, such as `IO_TIMEOUT`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The family.
    pub fn kind(self) -> Kind {
        self.row().kind
    }

    /// Whose behaviour it describes.
    pub fn source(self) -> Source {
        self.row().source
    }

    /// Whether the same request may succeed when it is sent again unchanged.
    pub fn retryable(self) -> bool {
        self.row().retryable
    }

    /// The sentence of the reference.
    pub fn meaning(self) -> &'static str {
        self.row().meaning
    }

    /// The HTTP status for a request that failed with it: 4xx for a fault of the client, 502 to 504 for the origin
    /// or a temporary condition, 500 otherwise.
    pub fn status(self) -> u16 {
        match self {
            Self::TokenMissing
            | Self::TokenMalformed
            | Self::TokenWrongAlgorithm
            | Self::TokenUnknownKey
            | Self::TokenWrongSignature
            | Self::TokenExpired
            | Self::TokenNotYetValid
            | Self::TokenWrongIssuer
            | Self::TokenWrongAudience
            | Self::TokenClaimMissing => 401,
            Self::AccessDenied
            | Self::AccessRevoked
            | Self::TenantExhausted
            | Self::TokenWrongAddress
            | Self::TokenPathNotCovered => 403,
            Self::NoRoute | Self::UnknownTopic => 404,
            Self::RequestTimeout | Self::RequestTooSlow => 408,
            Self::RequestTooLarge => 413,
            Self::TargetTooLong => 414,
            Self::ExpectationFailed => 417,
            Self::MisdirectedRequest => 421,
            Self::TooManyRequests | Self::TenantLimited | Self::AddressLimited => 429,
            Self::RequestHeadTooLarge => 431,
            Self::UnsupportedCoding | Self::UnsupportedMethod => 501,
            Self::UnsupportedVersion => 505,
            Self::BadRequest | Self::UploadFailed => 400,
            Self::QueueTimeout
            | Self::QueueFull
            | Self::PoolDead
            | Self::EngineClosed
            | Self::HubClosed
            | Self::HubUnavailable
            | Self::Draining
            | Self::AccessTimeout
            | Self::AccessBusy
            | Self::AccessUnavailable
            | Self::KeysUnavailable
            | Self::AppBusy
            | Self::Overloaded => 503,
            // RFC 9111, section 5.2.1.7.
            Self::NotCached => 504,
            // The origin's answer can never be held in one piece here, so a retry would not help.
            Self::ObjectTooLarge => 502,
            _ => match (self.source(), self.kind()) {
                (Source::Client, _) => 400,
                (_, Kind::Timeout) => 504,
                (_, Kind::Connection | Kind::Protocol | Kind::Frame | Kind::Status) => 502,
                (_, Kind::Memory) => 503,
                (_, Kind::State | Kind::Value | Kind::System) => 500,
            },
        }
    }

    /// An error of this code with a sentence about what happened.
    pub fn error(self, detail: impl Into<Cow<'static, str>>) -> Error {
        Error { code: self, detail: detail.into(), origin: None }
    }
}

/// What happened, and to which origin. It is cheap to clone, because several readers can get one
/// failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    code: Code,
    detail: Cow<'static, str>,
    origin: Option<Arc<str>>,
}

impl Error {
    /// The row of the table.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The sentence without its code and origin.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// `scheme://authority` of the origin concerned.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// The same error, naming the origin unless one is named already.
    #[must_use]
    pub fn at(mut self, origin: &Arc<str>) -> Self {
        self.origin.get_or_insert_with(|| Arc::clone(origin));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        if let Some(origin) = &self.origin {
            write!(f, " (origin {origin})")?;
        }
        Ok(())
    }
}

/// A result whose error carries a code of the table.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_ascending() {
        for pair in Code::all().windows(2) {
            assert!(pair[0].code.number() < pair[1].code.number(), "{} is out of order", pair[1].name);
            assert!(Code::all().iter().filter(|row| row.name == pair[0].name).count() == 1);
        }
    }

    #[test]
    fn every_code_finds_its_own_row() {
        for row in Code::all() {
            assert_eq!(row.code.name(), row.name);
            assert!(row.meaning.ends_with('.'), "{} has no sentence", row.name);
        }
    }

    #[test]
    fn io_timeout_is_0x102() {
        assert_eq!(Code::IoTimeout.number(), 0x102);
    }

    #[test]
    fn the_text_says_what_happened_and_to_whom() {
        let error = Code::IoTimeout.error("no byte for 5 s").at(&Arc::from("http://a:1"));
        assert_eq!(error.to_string(), "no byte for 5 s (origin http://a:1)");
    }
}
