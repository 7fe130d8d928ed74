//! The handshake of WebSocket (RFC 6455, section 4): whether a request offers it, and whether a response accepts it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::fields::Fields;
use super::head::Head;
use super::text::{members, quoted, trim};
use penstock_error::{Code, Result};

/// The text that a server appends to the key of a client before it hashes both (RFC 6455, section
/// 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Bytes of a client's key, decoded.
const KEY: usize = 16;

/// Whether a request is a complete offer of WebSocket (RFC 6455, section 4.2.1): GET, HTTP/1.1, `Upgrade`, `Connection`,
/// one key of 16 bytes, and version 13. Incomplete offers, and offers of other protocols, are ignored, as RFC 9110,
/// section 7.8, allows.
pub fn offers_websocket<'a>(
    method: &str,
    minor_version: u8,
    fields: &(impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone),
) -> bool {
    let values = |name| values_of(fields.clone(), name);
    let has = |name, option: &[u8]| {
        values(name).flat_map(members).any(|member| member.eq_ignore_ascii_case(option))
    };
    method == "GET"
        && minor_version == 1
        && has("upgrade", b"websocket")
        && has("connection", b"upgrade")
        && only(values("sec-websocket-key")).is_some_and(|key| is_key(trim(key)))
        && only(values("sec-websocket-version")).is_some_and(|version| trim(version) == b"13")
}

fn values_of<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    name: &'static str,
) -> impl Iterator<Item = &'a [u8]> {
    fields.filter(move |(other, _)| other.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
}

fn is_key(key: &[u8]) -> bool {
    STANDARD.decode(key).is_ok_and(|key| key.len() == KEY)
}

/// The value, if there is exactly one.
fn only<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    values.next().filter(|_| values.next().is_none())
}

/// The fields that a response must have to accept an offer of WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    accept: String,
    /// Subprotocols, in the order of the client's preference.
    protocols: Vec<Vec<u8>>,
    /// Extensions without their parameters, which are negotiated.
    extensions: Vec<Vec<u8>>,
}

impl Handshake {
    /// The expected answer to the fields that are sent to an origin.
    ///
    /// # Errors
    /// `BAD_REQUEST`: the fields are not a complete offer.
    pub fn of(fields: &Fields) -> Result<Self> {
        let values = |name| values_of(fields.iter(), name);
        let Some(key) = only(values("sec-websocket-key")).map(trim).filter(|key| is_key(key)) else {
            return Err(
                Code::BadRequest.error("a WebSocket is asked for without one Sec-WebSocket-Key of 16 bytes")
            );
        };
        let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID].concat()));
        let names = |name| values(name).flat_map(members).map(name_of).filter(|name| !name.is_empty());
        Ok(Self {
            accept,
            protocols: names("sec-websocket-protocol").map(<[u8]>::to_vec).collect(),
            extensions: names("sec-websocket-extensions").map(<[u8]>::to_vec).collect(),
        })
    }

    /// Checks a 101 as a client does (RFC 6455, sections 4.1 and 4.2.2).
    ///
    /// # Errors
    /// `UNEXPECTED_UPGRADE`, naming the field that is wrong.
    pub fn check(&self, head: &Head) -> Result<()> {
        let wrong = |what: String| Err(Code::UnexpectedUpgrade.error(what));
        let upgrade = only(head.get_all("upgrade"));
        if !upgrade.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket")) {
            return wrong("the origin switched to another protocol than WebSocket".to_owned());
        }
        let mut options = head.get_all("connection").flat_map(members);
        if !options.any(|option| option.eq_ignore_ascii_case(b"upgrade")) {
            return wrong("the origin switched protocols without \"Connection: Upgrade\"".to_owned());
        }
        match only(head.get_all("sec-websocket-accept")) {
            Some(accept) if accept == self.accept.as_bytes() => {}
            Some(accept) => {
                return wrong(format!(
                    "Sec-WebSocket-Accept is {}, which is not the answer to the key",
                    quoted(accept)
                ));
            }
            None => {
                return wrong("the origin switched protocols without one Sec-WebSocket-Accept".to_owned());
            }
        }
        let mut protocols = head.get_all("sec-websocket-protocol");
        if let Some(protocol) = protocols.next() {
            if protocols.next().is_some() || !self.protocols.iter().any(|offered| offered == protocol) {
                return wrong(format!(
                    "Sec-WebSocket-Protocol is {}, which was not offered",
                    quoted(protocol)
                ));
            }
        }
        let extensions = head.get_all("sec-websocket-extensions").flat_map(members).map(name_of);
        for extension in extensions.filter(|name| !name.is_empty()) {
            if !self.extensions.iter().any(|offered| offered.eq_ignore_ascii_case(extension)) {
                return wrong(format!(
                    "Sec-WebSocket-Extensions has {}, which was not offered",
                    quoted(extension)
                ));
            }
        }
        Ok(())
    }
}

/// A member of a list without its parameters.
fn name_of(member: &[u8]) -> &[u8] {
    trim(member.split(|byte| *byte == b';').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{HeadLimits, parse_head};

    const OFFER: [(&str, &str); 3] = [
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Protocol", "chat, superchat"),
        ("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits, x"),
    ];

    fn answered(fields: &str) -> Result<()> {
        let handshake = Handshake::of(&OFFER.into_iter().collect())?;
        let limits = HeadLimits { head_bytes: 4096, head_fields: 20, interim_responses: 0 };
        let head = format!("HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n");
        handshake.check(&parse_head(head.as_bytes(), &limits)?)
    }

    const UPGRADE: &str = "Upgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\n";
    /// Of RFC 6455, section 1.3.
    const ACCEPT: &str = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

    #[test]
    fn an_answer_to_the_offer_is_taken() {
        for more in
            ["", "Sec-WebSocket-Protocol: chat\r\n", "Sec-WebSocket-Extensions: permessage-deflate; x=1\r\n"]
        {
            answered(&format!("{UPGRADE}{ACCEPT}{more}")).unwrap();
        }
    }

    #[test]
    fn an_answer_to_something_else_is_not() {
        for fields in [
            String::new(),
            UPGRADE.to_owned(),
            ACCEPT.to_owned(),
            format!("Upgrade: h2c\r\nConnection: upgrade\r\n{ACCEPT}"),
            format!("Upgrade: websocket\r\nConnection: close\r\n{ACCEPT}"),
            format!("{UPGRADE}Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOp=\r\n"),
            format!("{UPGRADE}{ACCEPT}{ACCEPT}"),
            format!("{UPGRADE}{ACCEPT}Sec-WebSocket-Protocol: other\r\n"),
            format!("{UPGRADE}{ACCEPT}Sec-WebSocket-Extensions: y\r\n"),
        ] {
            assert_eq!(answered(&fields).unwrap_err().code(), Code::UnexpectedUpgrade, "{fields}");
        }
    }

    #[test]
    fn an_offer_without_a_key_is_none() {
        for key in [None, Some("x"), Some("dGhlIHNhbXBsZSBub25jZQ="), Some("dGhlIHNhbXBsZQ==")] {
            let fields = key.into_iter().map(|key| ("Sec-WebSocket-Key", key)).collect();
            assert_eq!(Handshake::of(&fields).unwrap_err().code(), Code::BadRequest, "{key:?}");
        }
        let twice = [OFFER[0], OFFER[0]].into_iter().collect();
        assert_eq!(Handshake::of(&twice).unwrap_err().code(), Code::BadRequest);
    }
}
