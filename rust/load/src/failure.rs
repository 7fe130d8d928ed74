//! Why a request failed.

use std::fmt;
use std::io;

use hyper::StatusCode;

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection could not be opened.
    Connect(io::Error),
    /// No TLS came about.
    Tls(String),
    /// The connection ended before anything of a response came.
    NoHead,
    /// The connection broke.
    Broken(io::Error),
    /// The connection ended in the middle of a response.
    CutOff,
    /// What came is not HTTP.
    NotHttp(String),
    /// It took too long.
    Timeout,
    /// The response has this status.
    Status(StatusCode),
    /// A range was asked for, and the whole was sent.
    NotPartial,
    /// The address cannot be asked.
    Address(String),
    /// Nothing came for too long.
    Idle,
    /// A stream of events is not what it should be.
    Events(&'static str),
    /// What came is no playlist.
    Playlist(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
                formatter.write_str("no_descriptor")
            }
            Self::Connect(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                formatter.write_str("no_port")
            }
            Self::Connect(error) => write!(formatter, "connect: {error}"),
            Self::Tls(what) => write!(formatter, "TLS: {what}"),
            Self::NoHead => formatter.write_str("cut off before the head"),
            Self::Broken(error) => write!(formatter, "broken off: {error}"),
            Self::CutOff => formatter.write_str("broken off: the connection ended"),
            Self::NotHttp(what) => write!(formatter, "not HTTP: {what}"),
            Self::Idle => formatter.write_str("idle"),
            Self::Events(what) => formatter.write_str(what),
            Self::Timeout => formatter.write_str("timeout"),
            Self::Status(status) => write!(formatter, "status {}", status.as_u16()),
            Self::NotPartial => formatter.write_str("status 200 to a range"),
            Self::Address(what) => write!(formatter, "address: {what}"),
            Self::Playlist(what) => write!(formatter, "no playlist: {what}"),
        }
    }
}

impl Failure {
    /// Whether the same request may do better later. A client error but 408 and 429 says that it will not.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Status(status) => {
                status.is_server_error()
                    || *status == StatusCode::TOO_MANY_REQUESTS
                    || *status == StatusCode::REQUEST_TIMEOUT
            }
            Self::NotPartial | Self::Address(_) | Self::Events(_) => false,
            _ => true,
        }
    }
}
