//! The head that the application is given: what the engine has understood of the client's, written anew.
//!
//! One Host and one framing, in front of all other fields: the application's parser cannot find another end of the
//! request than the engine has found (RFC 9112, section 11.2).

use std::io::Write;

use crate::wire::{BodyFraming, Incoming, is_one_of, reads_as_one_of, write_field};

/// Fields that are written from what is known, and not copied; nor is what a reader may take for them, `Content_Length`.
const OURS: [&str; 3] = ["host", "content-length", "transfer-encoding"];

/// Serialises `head`, whose body is delimited as `framing` says. Everything that is not about framing is as the client wrote it:
/// the version, Connection, Upgrade and Expect are between the client and the application. What is `told` besides stands in the
/// place of the client's fields of these names.
pub(crate) fn serialise(head: &Incoming, framing: BodyFraming, told: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let size: usize = head.headers().map(|(name, value)| name.len() + value.len() + 4).sum();
    let mut bytes =
        Vec::with_capacity(head.method().len() + head.path().len() + head.authority().len() + size + 64);
    let mut put = |part: &[u8]| bytes.extend_from_slice(part);
    put(head.method().as_bytes());
    put(b" ");
    match head.path() {
        "" if head.method() == "OPTIONS" => put(b"*"),
        path if path.is_empty() || path.starts_with('?') => {
            put(b"/");
            put(path.as_bytes());
        }
        path => put(path.as_bytes()),
    }
    put(if head.minor_version == 0 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
    if !head.authority().is_empty() || head.minor_version == 1 {
        put(b"Host: ");
        put(head.authority().as_bytes());
        put(b"\r\n");
    }
    match framing {
        BodyFraming::Length(length) => {
            write!(bytes, "Content-Length: {length}\r\n").expect("a Vec takes all that is written");
        }
        BodyFraming::Chunked => put(b"Transfer-Encoding: chunked\r\n"),
        BodyFraming::Empty | BodyFraming::UntilClose | BodyFraming::Tunnel => {}
    }
    // Without the caller's parent what it says of its trace has no meaning.
    let is_told = |name: &[u8]| !told.is_empty() && is_one_of(name, &penstock_trace::FIELDS);
    for (name, value) in head.headers().filter(|(name, _)| !reads_as_one_of(name, &OURS)) {
        if !is_told(name) {
            write_field(&mut bytes, name, value);
        }
    }
    for (name, value) in told {
        write_field(&mut bytes, name.as_bytes(), value);
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}
