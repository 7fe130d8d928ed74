//! What is read of a certificate (RFC 5280, section 4.1): from when to when it is valid, and its names.

use std::time::SystemTime;

use crate::der::{BOOLEAN, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE};
use crate::names::Names;

/// The identifier of subjectAltName, 2.5.29.17.
const ALTERNATIVE_NAMES: &[u8] = b"\x55\x1d\x11";
/// Tags of a context that are left out if there is nothing in them.
const VERSION: u8 = 0xa0;
const ISSUER_ID: u8 = 0x81;
const SUBJECT_ID: u8 = 0x82;
const EXTENSIONS: u8 = 0xa3;
/// Tags of a `GeneralName`.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

/// What is read of a certificate. Its signature is not verified here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The serial number, as its bytes stand in the certificate.
    pub serial: Vec<u8>,
    /// The first second in which it is valid.
    pub not_before: SystemTime,
    /// The last second in which it is valid.
    pub not_after: SystemTime,
    /// The hosts that it is for.
    pub names: Names,
}

impl Certificate {
    /// Reads the DER of a certificate. `None` if it is malformed.
    pub fn read(der: &[u8]) -> Option<Self> {
        let mut outer = Reader::new(der);
        let mut signed = outer.within(SEQUENCE)?.within(SEQUENCE)?;
        if !outer.is_empty() {
            return None;
        }
        signed.take(VERSION);
        let serial = signed.take(INTEGER)?.to_vec();
        let _algorithm = signed.take(SEQUENCE)?;
        let _issuer = signed.take(SEQUENCE)?;
        let mut validity = signed.within(SEQUENCE)?;
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let _subject = signed.take(SEQUENCE)?;
        let _key = signed.take(SEQUENCE)?;
        signed.take(ISSUER_ID);
        signed.take(SUBJECT_ID);
        let mut names = Names::default();
        if let Some(mut extensions) = signed.within(EXTENSIONS) {
            read_extensions(extensions.within(SEQUENCE)?, &mut names)?;
        }
        Some(Self { serial, not_before, not_after, names })
    }
}

fn read_extensions(mut extensions: Reader<'_>, names: &mut Names) -> Option<()> {
    while !extensions.is_empty() {
        let mut extension = extensions.within(SEQUENCE)?;
        let kind = extension.take(OBJECT_IDENTIFIER)?;
        extension.take(BOOLEAN);
        let mut value = extension.within(OCTET_STRING)?;
        if kind == ALTERNATIVE_NAMES {
            let mut list = value.within(SEQUENCE)?;
            while !list.is_empty() {
                match list.next()? {
                    (DNS_NAME, name) => names.add_name(name),
                    (IP_ADDRESS, bytes) => names.add_address(bytes),
                    _ => (),
                }
            }
        }
    }
    Some(())
}
