//! Stapled OCSP responses (RFC 6960).

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::SerialNumber;

use super::served::AnyName;
use super::support::{Authority, connect, settings};
use crate::staple::Staple;
use crate::{TlsServer, TlsSettings};

const GOOD: &[u8] = &[0x80, 0];
/// Revoked, at the beginning of 2024.
const REVOKED: &[u8] = b"\xa1\x11\x18\x0f20240101000000Z";
const UNKNOWN: &[u8] = &[0x82, 0];
/// The certificates have the serial number 42.
const SERIAL: u8 = 42;

/// An element of DER.
fn element(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[tag, 0x82][..], &length, &content].concat()
}

fn sequence(content: &[&[u8]]) -> Vec<u8> {
    element(0x30, content)
}

/// A response as a responder with a name signs it; the signature is nothing.
fn response(serial: u8, status: &[u8], next: Option<&str>) -> Vec<u8> {
    let time = |text: &str| element(0x18, &[text.as_bytes()]);
    let algorithm = sequence(&[b"\x06\x05\x2b\x0e\x03\x02\x1a", &[5, 0]]);
    let id = sequence(&[&algorithm, &element(4, &[&[1; 20]]), &element(4, &[&[2; 20]]), &[2, 1, serial]]);
    let next = next.map_or(Vec::new(), |next| element(0xa0, &[&time(next)]));
    let single = sequence(&[&id, status, &time("20240101000000Z"), &next]);
    let data =
        sequence(&[&element(0xa1, &[&sequence(&[])]), &time("20240101000000Z"), &sequence(&[&single])]);
    let basic = sequence(&[&data, &algorithm, &element(3, &[&[0; 9]])]);
    let bytes = sequence(&[b"\x06\x09\x2b\x06\x01\x05\x05\x07\x30\x01\x01", &element(4, &[&basic])]);
    sequence(&[&[10, 1, 0], &element(0xa0, &[&bytes])])
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// The beginning of 2024.
const BEGIN: u64 = 1_704_067_200;

#[test]
fn a_response_is_of_use_for_its_certificate_until_its_next_update() {
    let good = response(SERIAL, GOOD, Some("20240201000000Z"));
    let until = at(BEGIN + 31 * 86_400);
    let read = |der: &[u8], now| Staple::read(der.to_vec(), &[SERIAL], now);
    assert_eq!(read(&good, at(BEGIN)), Ok(Staple { der: good.clone(), until }));
    for (der, now, why) in [
        (&good, until, "is out of date"),
        (&response(7, GOOD, Some("20240201000000Z")), at(BEGIN), "is about another certificate"),
        (&response(SERIAL, GOOD, None), at(BEGIN), "does not say until when it holds"),
        (&response(SERIAL, REVOKED, Some("20240201000000Z")), at(BEGIN), "is revoked"),
        (&response(SERIAL, UNKNOWN, Some("20240201000000Z")), at(BEGIN), "is revoked, or not known"),
        (&sequence(&[&[10, 1, 3]]), at(BEGIN), "is not a successful OCSP response"),
        (&b"-----BEGIN OCSP RESPONSE-----".to_vec(), at(BEGIN), "is not a successful OCSP response"),
        (&Vec::new(), at(BEGIN), "is not a successful OCSP response"),
    ] {
        let said = read(der, now).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    for length in 0..good.len() {
        assert!(read(&good[..length], at(BEGIN)).is_err(), "cut at {length}");
    }
}

/// A pair in `a.pem` and `a.key` of which the response is in `a.ocsp`.
fn stapling(authority: &Authority) -> TlsSettings {
    let pem = authority.pem_of(&["a.example"], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.serial_number = Some(SerialNumber::from(vec![SERIAL]));
    });
    settings(vec![authority.write_pem("a", &pem)])
}

fn stapled(server: &TlsServer, authority: &Authority) -> Vec<u8> {
    let verifier = Arc::new(AnyName::default());
    let mut config = authority.client(None);
    config.dangerous().set_certificate_verifier(Arc::clone(&verifier) as _);
    connect(server.config(&[]), &Arc::new(config), "a.example").unwrap();
    verifier.staple()
}

#[test]
fn a_response_beside_the_certificate_is_stapled_as_long_as_it_holds() {
    let authority = Authority::new();
    let file = authority.path("a.ocsp");
    let good = response(SERIAL, GOOD, Some("20990101000000Z"));
    fs::write(&file, &good).unwrap();
    let server = TlsServer::new(stapling(&authority)).unwrap();
    assert_eq!(stapled(&server, &authority), good);
    // At that time the certificate is told to be out of date as well, if it is.
    let told = server.look_at(at(4_070_908_800), false);
    assert!(told.iter().any(|error| error.to_string().contains("a.ocsp is out of date")), "{told:?}");
    assert_eq!(stapled(&server, &authority), b"");
}

#[test]
fn a_bad_response_costs_the_staple_and_not_the_certificate() {
    let authority = Authority::new();
    let settings = stapling(&authority);
    let server = TlsServer::new(settings).unwrap();
    assert_eq!(stapled(&server, &authority), b"");
    let write = |path: &Path, content: &[u8]| fs::write(path, content).unwrap();
    let file = authority.path("a.ocsp");
    write(&file, b"not DER");
    let told = server.look();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].to_string().contains("a.ocsp is not a successful OCSP response"), "{told:?}");
    assert_eq!(server.look(), [], "it is told once");
    assert!(!server.certificates()[0].is_stale);
    let good = response(SERIAL, GOOD, Some("20990101000000Z"));
    write(&file, &good);
    assert_eq!(server.look(), []);
    assert_eq!(stapled(&server, &authority), good);
    fs::remove_file(&file).unwrap();
    assert_eq!(server.look(), []);
    assert_eq!(stapled(&server, &authority), b"");
}
