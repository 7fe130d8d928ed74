//! Media types of gRPC, and gRPC-Web as bytes (grpc/grpc, `doc/PROTOCOL-WEB.md`): trailers within the body, and bodies as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::text::is_same_name;

/// How the media types of gRPC and gRPC-Web begin.
pub const GRPC: &[u8] = b"application/grpc";

/// What follows [`GRPC`] in a media type, if it begins so.
pub fn grpc_kind(media_type: &[u8]) -> Option<&[u8]> {
    let (start, rest) = media_type.split_at_checked(GRPC.len())?;
    is_same_name(start, GRPC).then_some(rest)
}

/// Set in the first byte of a message: it has trailers.
const TRAILERS: u8 = 0x80;
/// Characters that stand for three bytes.
const GROUP: usize = 4;

/// The message that stands for the fields after a body: names in lower case, without a blank after the colon, which some
/// clients take for a part of the value.
pub fn encode_web_trailers<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut message = vec![TRAILERS, 0, 0, 0, 0];
    for (name, value) in fields {
        message.extend(name.to_ascii_lowercase());
        message.push(b':');
        message.extend_from_slice(value);
        message.extend_from_slice(b"\r\n");
    }
    let length = u32::try_from(message.len() - 5).unwrap_or(u32::MAX);
    message[1..5].copy_from_slice(&length.to_be_bytes());
    message
}

/// `bytes` as text, padded: a client reads it before anything follows.
pub fn encode_web_text(bytes: &[u8]) -> Vec<u8> {
    STANDARD.encode(bytes).into_bytes()
}

/// Reads text that comes in parts. Padding may stand after each part that a client has encoded.
#[derive(Debug, Default)]
pub struct WebText {
    group: [u8; GROUP],
    has: usize,
}

impl WebText {
    /// Appends to `bytes` what `text` stands for, as far as its groups are whole.
    ///
    /// # Errors
    /// It is not base64; where it is wrong does not matter.
    pub fn decode(&mut self, text: &[u8], bytes: &mut Vec<u8>) -> Result<(), NoText> {
        for byte in text {
            self.group[self.has] = *byte;
            self.has += 1;
            if self.has == GROUP {
                self.has = 0;
                STANDARD.decode_vec(self.group, bytes).map_err(|_| NoText)?;
            }
        }
        Ok(())
    }

    /// The text has ended.
    ///
    /// # Errors
    /// Its last group is not whole.
    pub fn end(self) -> Result<(), NoText> {
        if self.has == 0 { Ok(()) } else { Err(NoText) }
    }
}

/// What should be base64 is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoText;
