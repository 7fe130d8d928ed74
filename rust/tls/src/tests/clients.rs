//! What clients have to show: certificates, and lists of the revoked ones.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    CertificateRevocationList, CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber,
};
use rustls::time_provider::TimeProvider;
use rustls::{HandshakeKind, ServerConfig};
use rustls_pki_types::UnixTime;

use super::support::{Authority, connect, settings};
use crate::{ClientAuth, TlsServer, TlsSettings};

const NAME: &str = "a.example";
const HOUR: Duration = Duration::from_secs(3_600);

/// A certificate of a client with the serial number `serial`, and its key.
fn identity(authority: &Authority, serial: u8) -> (String, String) {
    authority.pem_of(&["client.example"], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.serial_number = Some(SerialNumber::from(vec![serial]));
    })
}

/// A list that holds for an hour, and revokes certificates with the serial numbers `serials`.
fn list(authority: &Authority, serials: &[u8]) -> CertificateRevocationList {
    list_until(authority, serials, SystemTime::now() + HOUR)
}

fn list_until(authority: &Authority, serials: &[u8], until: SystemTime) -> CertificateRevocationList {
    let revoked = serials.iter().map(|serial| RevokedCertParams {
        serial_number: SerialNumber::from(vec![*serial]),
        revocation_time: (until - HOUR * 2).into(),
        reason_code: None,
        invalidity_date: None,
    });
    let params = CertificateRevocationListParams {
        this_update: (until - HOUR * 2).into(),
        next_update: until.into(),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(&authority.issuer).unwrap()
}

/// A site that asks clients for certificates of `authorities`.
struct Asking {
    servers: Authority,
    revoked: Option<PathBuf>,
    file: PathBuf,
}

impl Asking {
    fn new(clients: &[&Authority], lists: Option<&[CertificateRevocationList]>) -> Self {
        let servers = Authority::new();
        let file = servers.path("clients.pem");
        let text: Vec<String> = clients.iter().map(|authority| authority.issuer.pem()).collect();
        fs::write(&file, text.concat()).unwrap();
        let revoked = lists.map(|_| servers.path("lists.pem"));
        let asking = Self { servers, revoked, file };
        if let Some(lists) = lists {
            asking.write(lists);
        }
        asking
    }

    fn write(&self, lists: &[CertificateRevocationList]) {
        let text: Vec<String> = lists.iter().map(|list| list.pem().unwrap()).collect();
        fs::write(self.revoked.as_ref().unwrap(), text.concat()).unwrap();
    }

    fn settings(&self, clients: ClientAuth) -> TlsSettings {
        let pairs = vec![self.servers.write("a", &[NAME])];
        TlsSettings { clients, revoked: self.revoked.clone(), ..settings(pairs) }
    }

    fn required(&self) -> TlsServer {
        TlsServer::new(self.settings(ClientAuth::Required { authorities: self.file.clone() })).unwrap()
    }

    fn optional(&self) -> TlsServer {
        TlsServer::new(self.settings(ClientAuth::Optional { authorities: self.file.clone() })).unwrap()
    }

    /// Whether a client with `identity` gets a connection.
    fn takes(&self, server: &TlsServer, identity: Option<&(String, String)>) -> bool {
        connect(server.config(&[]), &Arc::new(self.servers.client(identity)), NAME).is_ok()
    }
}

#[test]
fn a_client_without_a_valid_certificate_is_let_in_only_where_it_may_have_none() {
    let (authority, stranger) = (Authority::named("clients"), Authority::named("stranger"));
    let (own, other) = (identity(&authority, 1), identity(&stranger, 1));
    let asking = Asking::new(&[&authority], None);
    let (required, optional) = (asking.required(), asking.optional());
    assert!(asking.takes(&required, Some(&own)));
    assert!(!asking.takes(&required, None));
    assert!(!asking.takes(&required, Some(&other)));
    assert!(asking.takes(&optional, Some(&own)));
    assert!(asking.takes(&optional, None));
    // It could come without one; what it shows has to be right.
    assert!(!asking.takes(&optional, Some(&other)));
}

#[test]
fn an_expired_certificate_of_a_client_is_refused() {
    let authority = Authority::named("clients");
    let expired = authority.pem_of(&["client.example"], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.not_after = (SystemTime::now() - HOUR).into();
    });
    let asking = Asking::new(&[&authority], None);
    assert!(!asking.takes(&asking.required(), Some(&expired)));
}

#[test]
fn a_revoked_certificate_is_refused() {
    let authority = Authority::named("clients");
    let (good, revoked) = (identity(&authority, 1), identity(&authority, 2));
    let asking = Asking::new(&[&authority], Some(&[list(&authority, &[2])]));
    for server in [asking.required(), asking.optional()] {
        assert!(asking.takes(&server, Some(&good)));
        assert!(!asking.takes(&server, Some(&revoked)));
    }
}

#[test]
fn each_authority_needs_its_list() {
    let (one, other) = (Authority::named("one"), Authority::named("other"));
    let asking = Asking::new(&[&one, &other], Some(&[list(&one, &[])]));
    let server = asking.required();
    assert!(asking.takes(&server, Some(&identity(&one, 1))));
    // Nothing says that it is not revoked.
    assert!(!asking.takes(&server, Some(&identity(&other, 1))));
    asking.write(&[list(&one, &[]), list(&other, &[])]);
    assert_eq!(server.look(), []);
    assert!(asking.takes(&server, Some(&identity(&other, 1))));
}

#[test]
fn the_session_of_a_client_that_was_revoked_is_not_resumed() {
    let authority = Authority::named("clients");
    let asking = Asking::new(&[&authority], Some(&[list(&authority, &[])]));
    let server = asking.required();
    let client = Arc::new(asking.servers.client(Some(&identity(&authority, 1))));
    let kind =
        || connect(server.config(&[]), &client, NAME).map(|ends| ends.server.handshake_kind().unwrap());
    assert_eq!(kind(), Ok(HandshakeKind::Full));
    assert_eq!(kind(), Ok(HandshakeKind::Resumed));
    asking.write(&[list(&authority, &[1])]);
    assert_eq!(server.look(), []);
    assert!(kind().is_err());
}

#[test]
fn an_expired_list_is_refused_at_the_start() {
    let authority = Authority::named("clients");
    let old = list_until(&authority, &[], SystemTime::now() - HOUR);
    let asking = Asking::new(&[&authority], Some(&[list(&authority, &[]), old]));
    let settings = asking.settings(ClientAuth::Required { authorities: asking.file.clone() });
    let error = TlsServer::new(settings).unwrap_err().to_string();
    assert!(error.contains("lists.pem is out of date: fetch it again"), "{error}");
}

/// A clock of a handshake.
#[derive(Debug)]
struct At(SystemTime);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap()))
    }
}

#[test]
fn a_list_that_expires_while_it_is_used_is_told_once_and_lets_no_client_in() {
    let authority = Authority::named("clients");
    let asking = Asking::new(&[&authority], Some(&[list(&authority, &[])]));
    let server = asking.required();
    let client = Arc::new(asking.servers.client(Some(&identity(&authority, 1))));
    let at = |now: SystemTime| {
        let mut config = ServerConfig::clone(&server.config(&[]));
        config.time_provider = Arc::new(At(now));
        connect(Arc::new(config), &client, NAME)
    };
    let now = SystemTime::now();
    assert_eq!(server.look_at(now + HOUR / 2, false), []);
    assert!(at(now + HOUR / 2).is_ok());
    let later = now + HOUR * 2;
    let told = server.look_at(later, false);
    assert_eq!(told.len(), 1);
    assert!(told[0].to_string().contains("is out of date: fetch it again"), "{told:?}");
    assert_eq!(server.look_at(later + Duration::from_secs(10), false), []);
    assert!(at(later).is_err());
    // A new one is taken without a restart.
    asking.write(&[list_until(&authority, &[], later + HOUR)]);
    assert_eq!(server.look_at(later + Duration::from_secs(20), false), []);
    assert!(at(later).is_ok());
}

#[test]
fn what_is_wrong_with_files_about_clients_is_said() {
    let authority = Authority::named("clients");
    let asking = Asking::new(&[&authority], Some(&[list(&authority, &[])]));
    let error = |authorities: &str, lists: &str| {
        fs::write(&asking.file, authorities).unwrap();
        fs::write(asking.revoked.as_ref().unwrap(), lists).unwrap();
        let settings = asking.settings(ClientAuth::Required { authorities: asking.file.clone() });
        TlsServer::new(settings).unwrap_err().to_string()
    };
    let (good, list) = (authority.issuer.pem(), list(&authority, &[]).pem().unwrap());
    let cases = [
        (error("", &list), "clients.pem holds no certificate"),
        (error(&good[..good.len() / 2], &list), "clients.pem is not whole, or not PEM"),
        (error(&good, ""), "lists.pem holds no list"),
        (error(&good, &good), "lists.pem holds no list"),
        (error(&good, &list[..list.len() / 2]), "lists.pem is not whole, or not PEM"),
    ];
    for (error, part) in cases {
        assert!(error.contains(part), "{error}");
    }
}
