//! A stapled OCSP response (RFC 6960, section 4.2; RFC 6066, section 8), from a file that another program renews.
//!
//! Clients verify its signature. Here is read only what decides whether it is of use at all: that it is a response, of
//! this certificate, and not out of date.

use std::time::SystemTime;

use crate::der::{ENUMERATED, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE};

/// Tags of a context: the response, the responder by name or by key, the version, the next update.
const RESPONSE: u8 = 0xa0;
const VERSION: u8 = 0xa0;
const NEXT_UPDATE: u8 = 0xa0;
/// The status of a certificate that is not revoked.
const GOOD: u8 = 0x80;

/// A response that may be stapled until `until`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Staple {
    pub(crate) der: Vec<u8>,
    pub(crate) until: SystemTime,
}

impl Staple {
    /// Reads the DER of an OCSP response about the certificate with `serial`.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn read(der: Vec<u8>, serial: &[u8], now: SystemTime) -> Result<Self, &'static str> {
        let Single { serial: of, is_good, until } =
            parse(&der).ok_or("is not a successful OCSP response in DER: fetch it again")?;
        if of != serial {
            return Err("is about another certificate: fetch the one of this certificate");
        }
        if !is_good {
            return Err("says that the certificate is revoked, or not known: get another certificate");
        }
        // Without a next update a newer response is always there (RFC 6960, section 4.2.2.1): it cannot be held.
        match until {
            Some(until) if until > now => Ok(Self { der, until }),
            Some(_) => Err("is out of date: fetch it again"),
            None => Err("does not say until when it holds: ask the authority for one that does"),
        }
    }
}

/// What is read of the first response in it.
struct Single<'a> {
    serial: &'a [u8],
    is_good: bool,
    until: Option<SystemTime>,
}

fn parse(der: &[u8]) -> Option<Single<'_>> {
    let mut outer = Reader::new(der);
    let mut response = outer.within(SEQUENCE)?;
    if !outer.is_empty() || response.take(ENUMERATED)? != [0] {
        return None;
    }
    let mut bytes = response.within(RESPONSE)?.within(SEQUENCE)?;
    let _basic = bytes.take(OBJECT_IDENTIFIER)?;
    let mut data = bytes.within(OCTET_STRING)?.within(SEQUENCE)?.within(SEQUENCE)?;
    data.take(VERSION);
    let _responder = data.next()?;
    let _produced = data.time()?;
    let mut single = data.within(SEQUENCE)?.within(SEQUENCE)?;
    let mut id = single.within(SEQUENCE)?;
    let (_algorithm, _name, _key) = (id.take(SEQUENCE)?, id.take(OCTET_STRING)?, id.take(OCTET_STRING)?);
    let serial = id.take(INTEGER)?;
    let (status, _) = single.next()?;
    let _this = single.time()?;
    let next = match single.within(NEXT_UPDATE) {
        Some(mut time) => Some(time.time()?),
        None => None,
    };
    Some(Single { serial, is_good: status == GOOD, until: next })
}
