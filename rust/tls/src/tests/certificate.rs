//! What is read of certificates, with x509-parser as the oracle, and which hosts their names stand for.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair, SanType, SerialNumber};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::Certificate;
use crate::der::Reader;

fn made(names: &[&str], change: impl Fn(&mut CertificateParams)) -> Vec<u8> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    change(&mut params);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

fn at(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn times_and_serial_numbers_are_those_that_x509_parser_reads(
        years in (1970..2200_i32, 1970..2200_i32), month in 1..=12_u8, day in 1..=28_u8,
        serial in prop::collection::vec(any::<u8>(), 1..20)
    ) {
        let der = made(&["a.example"], |params| {
            params.not_before = rcgen::date_time_ymd(years.0, month, day);
            params.not_after = rcgen::date_time_ymd(years.1, 2, if years.1 % 4 == 0 && years.1 % 100 != 0 { 29 } else { 28 });
            params.serial_number = Some(SerialNumber::from(serial.clone()));
        });
        let found = Certificate::read(&der).unwrap();
        let (_, oracle) = X509Certificate::from_der(&der).unwrap();
        prop_assert_eq!(found.not_before, at(oracle.validity().not_before.timestamp()));
        prop_assert_eq!(found.not_after, at(oracle.validity().not_after.timestamp()));
        prop_assert_eq!(&found.serial[..], oracle.raw_serial());
    }

    #[test]
    fn no_bytes_are_too_strange(der in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = Certificate::read(&der);
        let mut reader = Reader::new(&der);
        let _ = reader.time();
        while reader.next().is_some() {}
    }

    #[test]
    fn a_certificate_that_was_cut_is_none(place in any::<prop::sample::Index>()) {
        let der = made(&["a.example"], |_| ());
        prop_assert_eq!(Certificate::read(&der[..place.index(der.len())]), None);
    }
}

#[test]
fn a_certificate_with_something_after_it_is_none() {
    let mut der = made(&["a.example"], |_| ());
    der.push(0);
    assert_eq!(Certificate::read(&der), None);
}

#[test]
fn names_are_those_of_the_alternative_names_alone() {
    let der = made(&["A.example", "*.b.example"], |params| {
        params.distinguished_name.push(rcgen::DnType::CommonName, "common.example");
        let addresses = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse::<IpAddr>().unwrap());
        params.subject_alt_names.extend(addresses.map(SanType::IpAddress));
        params.subject_alt_names.push(SanType::Rfc822Name("one@mail.example".try_into().unwrap()));
        params.subject_alt_names.push(SanType::URI("https://uri.example/".try_into().unwrap()));
    });
    let names = Certificate::read(&der).unwrap().names;
    assert_eq!(names.list(), ["a.example", "*.b.example", "192.0.2.1", "2001:db8::1"]);
    for host in [
        "a.example",
        "A.EXAMPLE",
        "a.example.",
        "x.b.example",
        "192.0.2.1",
        "[2001:db8::1]",
        "[2001:DB8:0::1]",
    ] {
        assert!(names.cover(host), "{host}");
    }
    for host in [
        "",
        ".",
        "b.example",
        ".b.example",
        "y.x.b.example",
        "common.example",
        "mail.example",
        "uri.example",
        "a.example..",
        "192.0.2.2",
        "[2001:db8::2]",
        "a.example:443",
        "xa.example",
    ] {
        assert!(!names.cover(host), "{host}");
    }
}

#[test]
fn a_name_that_no_host_can_have_stands_for_none() {
    let mut names = crate::Names::default();
    for name in [
        &b"a.example\0.evil.example"[..],
        b"*",
        b"*.",
        b"a.*.example",
        b"f*.example",
        b"a b.example",
        b"\xff.example",
        b"",
    ] {
        names.add_name(name);
    }
    names.add_address(&[1, 2, 3]);
    assert_eq!(names.list(), [""; 0]);
}
