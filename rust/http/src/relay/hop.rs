//! Fields that end at this hop.

use crate::wire::{HOP_BY_HOP, Names, is_one_of, is_same_name, members};

/// The fields that a relay drops besides the fields of a connection: credentials and challenges of proxies
/// are between this hop and the next one.
const BETWEEN_PROXIES: Names =
    Names::new(&["proxy-authenticate", "proxy-authentication-info", "proxy-authorization"]);

const LENGTH: Names = Names::new(&["content-length"]);

/// Whether a field of that name is never passed on. Nor is `Transfer_Encoding`: an application behind CGI cannot tell it
/// from the field that frames a message.
fn ends_here(name: &[u8]) -> bool {
    HOP_BY_HOP.reads(name) || BETWEEN_PROXIES.reads(name)
}

/// Whether a field is not Content-Length, but an application behind CGI may take it for that.
fn is_like_length(name: &[u8]) -> bool {
    LENGTH.reads(name) && !LENGTH.has(name)
}

pub(super) fn is(name: &[u8], other: &str) -> bool {
    is_same_name(name, other.as_bytes())
}

/// Which fields of a message are passed on (RFC 9110, section 7.6.1).
#[derive(Debug)]
pub struct EndToEnd<'a> {
    /// What its Connection fields name.
    nominated: Vec<&'a [u8]>,
}

impl<'a> EndToEnd<'a> {
    /// Of the message that has these fields.
    pub fn of(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut nominated = Vec::new();
        for (_, value) in fields.filter(|(name, _)| is(name, "connection")) {
            // The options that name no field: nearly every Connection field has one of them alone.
            let is_name = |option: &&[u8]| !option.is_empty() && !is_one_of(option, &["close", "keep-alive"]);
            nominated.extend(members(value).filter(is_name));
        }
        Self { nominated }
    }

    /// Whether its fields of that name are.
    pub fn has(&self, name: &[u8]) -> bool {
        !ends_here(name)
            && !is_like_length(name)
            && !self.nominated.iter().any(|option| option.eq_ignore_ascii_case(name))
    }
}
