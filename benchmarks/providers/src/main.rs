//! What a TLS server costs over ring and over aws-lc-rs: handshakes for each second of one core's time, and megabytes of
//! records for each. Client and server are in memory, and the time of the server alone is counted.
//!
//! `cargo run --release` prints a table. docs/decisions/055 says what follows from it.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, ProducesTickets};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, ServerConfig,
    ServerConnection, SupportedProtocolVersion,
};

/// Runs for each figure, of which the best is printed: another process can only cost time.
const RUNS: usize = 7;
const HANDSHAKES: u32 = 400;
/// As much as a socket takes at a time.
const PART: usize = 256 << 10;
const PARTS: usize = 200;

/// The time that this thread has had of a core.
fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value of this frame.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// Adds the time of `work` to `sum`.
fn timed<T>(sum: &mut Duration, work: impl FnOnce() -> T) -> T {
    let before = used();
    let result = work();
    *sum += used() - before;
    result
}

struct Provider {
    name: &'static str,
    provider: CryptoProvider,
    tickets: Arc<dyn ProducesTickets>,
}

/// A certificate, its key, and what a client trusts.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
}

fn identity(key: KeyPair) -> Identity {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    Identity {
        chain: vec![leaf.der().clone()],
        key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        roots: Arc::new(roots),
    }
}

/// What both ends are to agree on.
#[derive(Clone, Copy)]
struct Terms {
    version: &'static SupportedProtocolVersion,
    group: NamedGroup,
    suite: Option<CipherSuite>,
}

const FIRST: Terms = Terms { version: &TLS13, group: NamedGroup::X25519, suite: None };

struct Pair {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

/// None: the provider lacks something.
fn pair(of: &Provider, identity: &Identity, terms: Terms, resumes: bool) -> Option<Pair> {
    let mut provider = of.provider.clone();
    provider.kx_groups.retain(|group| group.name() == terms.group);
    if let Some(suite) = terms.suite {
        provider.cipher_suites.retain(|known| known.suite() == suite);
    }
    if provider.kx_groups.is_empty() {
        return None;
    }
    let provider = Arc::new(provider);
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[terms.version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())
        .unwrap();
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.ticketer = Arc::clone(&of.tickets);
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[terms.version])
        .unwrap()
        .with_root_certificates(Arc::clone(&identity.roots))
        .with_no_client_auth();
    client.resumption = if resumes { Resumption::in_memory_sessions(8) } else { Resumption::disabled() };
    Some(Pair { server: Arc::new(server), client: Arc::new(client) })
}

/// A handshake, up to the tickets, and the server's time for it.
fn shake(pair: &Pair) -> (ClientConnection, ServerConnection, Duration) {
    let mut spent = Duration::ZERO;
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::clone(&pair.client), name).unwrap();
    let mut server = timed(&mut spent, || ServerConnection::new(Arc::clone(&pair.server)).unwrap());
    let (mut up, mut down) = (Vec::new(), Vec::new());
    loop {
        while client.wants_write() {
            client.write_tls(&mut up).unwrap();
        }
        timed(&mut spent, || {
            let mut unread = &up[..];
            while !unread.is_empty() {
                server.read_tls(&mut unread).unwrap();
                server.process_new_packets().unwrap();
            }
            while server.wants_write() {
                server.write_tls(&mut down).unwrap();
            }
        });
        if up.is_empty() && down.is_empty() {
            return (client, server, spent);
        }
        let mut unread = &down[..];
        while !unread.is_empty() {
            client.read_tls(&mut unread).unwrap();
            client.process_new_packets().unwrap();
        }
        up.clear();
        down.clear();
    }
}

/// Handshakes for each second of a core.
fn handshakes(pair: &Pair, kind: HandshakeKind) -> f64 {
    // The client learns of the groups, and has its first ticket.
    drop(shake(pair));
    let run = || {
        let mut spent = Duration::ZERO;
        for _ in 0..HANDSHAKES {
            let (_, server, time) = shake(pair);
            assert_eq!(server.handshake_kind(), Some(kind));
            spent += time;
        }
        f64::from(HANDSHAKES) / spent.as_secs_f64()
    };
    (0..RUNS).map(|_| run()).fold(0.0, f64::max)
}

/// Megabytes that a server sends and receives, for each second of a core.
fn bulk(pair: &Pair) -> (f64, f64) {
    let (mut client, mut server, _) = shake(pair);
    server.set_buffer_limit(None);
    client.set_buffer_limit(None);
    let part = vec![7_u8; PART];
    let (mut wire, mut plain) = (Vec::with_capacity(PART * 2), vec![0; PART]);
    let mut run = || {
        let (mut sending, mut receiving) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..PARTS {
            wire.clear();
            timed(&mut sending, || {
                server.writer().write_all(&part).unwrap();
                while server.wants_write() {
                    server.write_tls(&mut wire).unwrap();
                }
            });
            let mut unread = &wire[..];
            while !unread.is_empty() {
                client.read_tls(&mut unread).unwrap();
                client.process_new_packets().unwrap();
                while matches!(client.reader().read(&mut plain), Ok(1..)) {}
            }
            wire.clear();
            client.writer().write_all(&part).unwrap();
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            timed(&mut receiving, || {
                let mut unread = &wire[..];
                while !unread.is_empty() {
                    server.read_tls(&mut unread).unwrap();
                    server.process_new_packets().unwrap();
                    while matches!(server.reader().read(&mut plain), Ok(1..)) {}
                }
            });
        }
        let megabytes = (PART * PARTS) as f64 / 1e6;
        (megabytes / sending.as_secs_f64(), megabytes / receiving.as_secs_f64())
    };
    (0..RUNS).map(|_| run()).fold((0.0, 0.0), |best: (f64, f64), now| (best.0.max(now.0), best.1.max(now.1)))
}

fn main() {
    let providers = [
        Provider {
            name: "ring",
            provider: ring::default_provider(),
            tickets: ring::Ticketer::new().unwrap(),
        },
        Provider {
            name: "aws-lc-rs",
            provider: aws_lc_rs::default_provider(),
            tickets: aws_lc_rs::Ticketer::new().unwrap(),
        },
    ];
    let ecdsa = identity(KeyPair::generate().unwrap());
    let rsa = identity(KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap());
    let older = Terms { version: &TLS12, ..FIRST };
    let hybrid = Terms { group: NamedGroup::X25519MLKEM768, ..FIRST };
    let rows = [
        ("full, 1.3, ECDSA P-256, X25519", &ecdsa, FIRST, HandshakeKind::Full),
        ("full, 1.2, ECDSA P-256, X25519", &ecdsa, older, HandshakeKind::Full),
        ("full, 1.3, RSA-2048, X25519", &rsa, FIRST, HandshakeKind::Full),
        ("full, 1.3, ECDSA P-256, X25519MLKEM768", &ecdsa, hybrid, HandshakeKind::Full),
        ("resumed, 1.3, X25519", &ecdsa, FIRST, HandshakeKind::Resumed),
        ("resumed, 1.2", &ecdsa, older, HandshakeKind::Resumed),
    ];
    let names = providers.each_ref().map(|of| of.name);
    println!("| handshakes for each second of a core | {} | {} |\n|---|--:|--:|", names[0], names[1]);
    for (name, identity, terms, kind) in rows {
        let figure = |of| {
            let pair = pair(of, identity, terms, kind == HandshakeKind::Resumed);
            pair.map_or("-".to_owned(), |pair| format!("{:.0}", handshakes(&pair, kind)))
        };
        println!("| {name} | {} | {} |", figure(&providers[0]), figure(&providers[1]));
    }
    println!("\n| MB for each second of a core | {} | {} |\n|---|--:|--:|", names[0], names[1]);
    // The first run teaches the allocator which sizes it is to keep.
    for of in &providers {
        bulk(&pair(of, &ecdsa, FIRST, false).unwrap());
    }
    for suite in [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    ] {
        let terms = Terms { suite: Some(suite), ..FIRST };
        let figures = providers.each_ref().map(|of| bulk(&pair(of, &ecdsa, terms, false).unwrap()));
        let name = suite.as_str().unwrap_or_default();
        println!("| {name}, sending | {:.0} | {:.0} |", figures[0].0, figures[1].0);
        println!("| {name}, receiving | {:.0} | {:.0} |", figures[0].1, figures[1].1);
    }
}
