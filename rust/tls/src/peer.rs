//! What Python's `ssl` tells of a connection: the fields of a client's certificate, and the names of versions and suites.

use std::fmt::Write;

use rustls::{CipherSuite, ProtocolVersion};
use x509_parser::extensions::GeneralName;
use x509_parser::objects::{oid_registry, oid2sn};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};
use x509_parser::time::ASN1Time;

use crate::names::address_of;

/// A certificate as `ssl.SSLSocket.getpeercert` shows it. It was verified before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// Its owner: attributes by their names, such as `commonName`.
    pub subject: Vec<(String, String)>,
    /// Its authority.
    pub issuer: Vec<(String, String)>,
    /// 3 for all that have extensions.
    pub version: u32,
    /// In hexadecimal.
    pub serial: String,
    /// The first second in which it is valid, as OpenSSL writes it.
    pub not_before: String,
    /// The last second.
    pub not_after: String,
    /// The names in subjectAltName, each with its kind.
    pub names: Vec<(&'static str, String)>,
}

impl PeerCertificate {
    /// Reads the DER of a certificate. `None` if it is malformed.
    pub fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let names = certificate.subject_alternative_name().ok()?;
        Some(Self {
            subject: attributes(certificate.subject()),
            issuer: attributes(certificate.issuer()),
            version: certificate.version().0 + 1,
            serial: serial(certificate.raw_serial()),
            not_before: written(certificate.validity().not_before),
            not_after: written(certificate.validity().not_after),
            names: names.map_or_else(Vec::new, |names| {
                names.value.general_names.iter().filter_map(alternative).collect()
            }),
        })
    }
}

fn attributes(name: &X509Name<'_>) -> Vec<(String, String)> {
    let attribute = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        let kind = attribute.attr_type();
        let kind = oid2sn(kind, oid_registry()).map_or_else(|_| kind.to_id_string(), str::to_owned);
        let value = attribute.as_str().map_or_else(|_| hexadecimal(attribute.as_slice()), str::to_owned);
        (kind, value)
    };
    name.iter_attributes().map(attribute).collect()
}

/// As Python does: without the zero byte that says that the number is positive.
fn serial(bytes: &[u8]) -> String {
    let bytes = if bytes.len() > 1 { bytes.strip_prefix(&[0]).unwrap_or(bytes) } else { bytes };
    hexadecimal(bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A String takes all that is written.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// Such as `Jan  5 09:34:43 2018 GMT`.
fn written(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let month = &time.month().to_string()[..3];
    let (hour, minute, second) = time.to_hms();
    format!("{month} {:>2} {hour:02}:{minute:02}:{second:02} {} GMT", time.day(), time.year())
}

fn alternative(name: &GeneralName<'_>) -> Option<(&'static str, String)> {
    Some(match name {
        GeneralName::DNSName(name) => ("DNS", (*name).to_owned()),
        GeneralName::RFC822Name(address) => ("email", (*address).to_owned()),
        GeneralName::URI(uri) => ("URI", (*uri).to_owned()),
        GeneralName::IPAddress(bytes) => ("IP Address", address_of(bytes)?.to_string()),
        _ => return None,
    })
}

/// The name of a version, by its number on the wire, as `ssl` has it.
pub fn version_name(number: u16) -> &'static str {
    match ProtocolVersion::from(number) {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        _ => "unknown",
    }
}

/// IANA's name of a cipher suite, by its number, and the bits of its key.
pub fn suite_name(number: u16) -> (String, u16) {
    let Some(name) = CipherSuite::from(number).as_str() else { return (format!("0x{number:04X}"), 0) };
    let bits = if name.contains("AES_128") { 128 } else { 256 };
    // rustls tells the suites of TLS 1.3 from the others.
    (name.replacen("TLS13_", "TLS_", 1), bits)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn a_certificate_is_shown_as_openssl_shows_it() {
        let mut params = CertificateParams::new(["one.example".to_owned()]).unwrap();
        params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        params.distinguished_name.push(DnType::CommonName, "a client");
        params.distinguished_name.push(DnType::OrganizationName, "an organisation");
        params.not_before = rcgen::date_time_ymd(2024, 1, 5);
        params.serial_number = Some(vec![0, 0xab, 1].into());
        let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
        let certificate = PeerCertificate::read(&der).unwrap();
        assert!(certificate.subject.contains(&("commonName".into(), "a client".into())), "{certificate:?}");
        assert!(certificate.subject.contains(&("organizationName".into(), "an organisation".into())));
        assert_eq!(certificate.version, 3);
        assert_eq!(certificate.serial, "AB01");
        assert_eq!(certificate.not_before, "Jan  5 00:00:00 2024 GMT");
        assert_eq!(
            certificate.names,
            [("DNS", "one.example".to_owned()), ("IP Address", "127.0.0.1".to_owned())]
        );
    }

    #[test]
    fn what_is_no_certificate_is_none() {
        assert_eq!(PeerCertificate::read(b""), None);
        assert_eq!(PeerCertificate::read(&[0x30, 0x82, 0xff, 0xff]), None);
    }

    #[test]
    fn suites_and_versions_have_the_names_of_iana() {
        assert_eq!(suite_name(0x1301), ("TLS_AES_128_GCM_SHA256".to_owned(), 128));
        assert_eq!(suite_name(0xc02c), ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384".to_owned(), 256));
        assert_eq!(suite_name(0xfff0), ("0xFFF0".to_owned(), 0));
        assert_eq!(version_name(0x0304), "TLSv1.3");
    }
}
