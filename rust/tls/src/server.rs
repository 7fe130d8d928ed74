//! A site's TLS as it is now, and how it becomes another one.
//!
//! What connections use is one value that never changes; a reload puts another in its place. Two locks: one is held while
//! files are read, by reloads alone; the other for as long as it takes to copy a pointer.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use penstock_error::{Code, Error, Result};
use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, ServerConfig, SupportedProtocolVersion};

use crate::loader::{Loader, Look};
use crate::provider::provider;
use crate::settings::{TlsSettings, UnknownNames, Version};
use crate::table::Table;
use crate::tickets::{Policy, Ticketer};

/// A fatal alert as a record of its own, before anything is agreed on (RFC 8446, sections 5.1 and 6).
pub type Alert = [u8; 7];

static BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
static NEWEST: &[&SupportedProtocolVersion] = &[&TLS13];

const UNRECOGNIZED_NAME: u8 = 112;
const MISSING_EXTENSION: u8 = 109;

/// A site's TLS. Clones are the same one.
#[derive(Clone)]
pub struct TlsServer {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Arc<TlsSettings>,
    current: RwLock<Arc<Current>>,
    loader: Mutex<Loader>,
}

/// What is served now.
struct Current {
    config: Arc<ServerConfig>,
    /// The same, for clients whose order of suites counts.
    deferring: Arc<ServerConfig>,
    table: Arc<Table>,
    certificates: Arc<[CertificateStatus]>,
    counts: TlsCounts,
}

/// One certificate of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateStatus {
    /// Of the directory's entry, or the path of a declared certificate.
    pub name: String,
    /// The last second in which the one that is served is valid. None: what is in its files has been bad from the start, and
    /// nothing is served.
    pub not_after: Option<SystemTime>,
    /// The hosts that it is for.
    pub names: Vec<String>,
    /// Whether what is in its files now is bad.
    pub is_stale: bool,
}

/// How often something changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TlsCounts {
    /// Times that something new was put in place.
    pub reloads: u64,
    /// Times that something new was bad.
    pub failed_reloads: u64,
}

impl TlsServer {
    /// Reads all files.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION`, which names a file and says what to do.
    pub fn new(settings: TlsSettings) -> Result<Self> {
        settings.check()?;
        let settings = Arc::new(settings);
        let mut loader = Loader::new(Arc::clone(&settings));
        let now = SystemTime::now();
        let mut look = Look { now, all: true, errors: Vec::new() };
        loader.refresh(&mut look);
        if let Some(error) = look.errors.into_iter().next() {
            return Err(error);
        }
        let current = RwLock::new(Arc::new(build(&settings, &loader, TlsCounts::default(), now)?));
        Ok(Self { shared: Arc::new(Shared { settings, current, loader: Mutex::new(loader) }) })
    }

    /// The configuration for a new connection of a client that offers `suites`.
    ///
    /// AES-128-GCM goes before AES-256-GCM, which many clients name first and which costs 7 % more. A client that prefers
    /// `ChaCha20` has no instructions for AES, and gets `ChaCha20`.
    pub fn config(&self, suites: &[CipherSuite]) -> Arc<ServerConfig> {
        let current = self.current();
        let known = &current.config.crypto_provider().cipher_suites;
        let first = suites.iter().find(|suite| known.iter().any(|ours| ours.suite() == **suite));
        let defers = first.is_some_and(|suite| rank(*suite) == CHACHA20);
        Arc::clone(if defers { &current.deferring } else { &current.config })
    }

    /// The alert for a client that names `presented`, or nothing, if it is refused (RFC 6066, section 3; RFC 8446,
    /// section 9.2). rustls has no other than `access_denied` for it, so that the caller has to ask before it accepts.
    pub fn refusal(&self, presented: Option<&str>) -> Option<Alert> {
        if self.shared.settings.unknown_names == UnknownNames::Default {
            return None;
        }
        let alert = if presented.is_some() { UNRECOGNIZED_NAME } else { MISSING_EXTENSION };
        self.current().table.find(presented).is_empty().then_some([21, 3, 3, 0, 2, 2, alert])
    }

    /// Whether the certificate for a client that named `presented` is for `host` too (RFC 9110, section 15.5.20). `host`
    /// has no port.
    pub fn covers(&self, presented: Option<&str>, host: &str) -> bool {
        self.current().table.covers(presented, host)
    }

    /// Reads what changed in its files, and turns the ticket keys. What is bad changes nothing, and is told once for
    /// each change of the files. It blocks: call it now and then on a thread that may.
    pub fn look(&self) -> Vec<Error> {
        self.look_at(SystemTime::now(), false)
    }

    /// Reads all files. What is bad changes nothing. It blocks, as [`look`](Self::look) does.
    pub fn reload(&self) -> Vec<Error> {
        self.look_at(SystemTime::now(), true)
    }

    pub(crate) fn look_at(&self, now: SystemTime, all: bool) -> Vec<Error> {
        let mut loader = self.shared.loader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut look = Look { now, all, errors: Vec::new() };
        let is_new = loader.refresh(&mut look);
        let before = self.current();
        if !is_new && look.errors.is_empty() {
            return look.errors;
        }
        let counts = TlsCounts {
            reloads: before.counts.reloads + u64::from(is_new),
            failed_reloads: before.counts.failed_reloads + u64::from(!look.errors.is_empty()),
        };
        match build(&self.shared.settings, &loader, counts, now) {
            Ok(current) => {
                let current = Arc::new(current);
                let replaced = std::mem::replace(
                    &mut *self.shared.current.write().unwrap_or_else(PoisonError::into_inner),
                    current,
                );
                // Thousands of certificates may be freed here, which no handshake should wait for.
                drop(replaced);
            }
            Err(error) => look.errors.push(error),
        }
        look.errors
    }

    /// All certificates, the declared ones first.
    pub fn certificates(&self) -> Arc<[CertificateStatus]> {
        Arc::clone(&self.current().certificates)
    }

    /// How often something changed.
    pub fn counts(&self) -> TlsCounts {
        self.current().counts
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.shared.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

fn build(settings: &TlsSettings, loader: &Loader, counts: TlsCounts, now: SystemTime) -> Result<Current> {
    let pairs = loader.pairs();
    let (Some(clients), Some(ring), false) = (loader.clients(), loader.ring(), pairs.is_empty()) else {
        return Err(Code::BadConfiguration.error("TLS: there is no certificate to serve"));
    };
    let table = Arc::new(Table::new(&pairs, settings.unknown_names));
    let policy = Policy { site: &settings.name, clients: &clients.digest(now) };
    let mut provider = CryptoProvider::clone(&provider());
    provider.cipher_suites.sort_by_key(|suite| rank(suite.suite()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions(settings.minimum))
        .map_err(|error| Code::BadConfiguration.error(format!("TLS: {error}")))?
        .with_client_cert_verifier(Arc::clone(&clients.verifier))
        .with_cert_resolver(Arc::clone(&table) as _);
    config.alpn_protocols.clone_from(&settings.protocols);
    config.ticketer = Arc::new(Ticketer::new(ring, policy, settings.ticket_period));
    // Sessions that this process keeps would not be bound to a policy, nor known to other nodes.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.max_early_data_size = 0;
    let deferring = Arc::new(config.clone());
    config.ignore_client_order = true;
    let certificates = loader.all().map(|(place, pair, is_stale)| CertificateStatus {
        name: place.name.clone(),
        not_after: pair.map(|pair| pair.certificate.not_after),
        names: pair.map(|pair| pair.certificate.names.list()).unwrap_or_default(),
        is_stale,
    });
    Ok(Current { config: Arc::new(config), deferring, table, certificates: certificates.collect(), counts })
}

/// The rank of suites with `ChaCha20`.
const CHACHA20: u8 = 2;

/// Which suites go before others.
fn rank(suite: CipherSuite) -> u8 {
    let name = suite.as_str().unwrap_or_default();
    match (name.contains("AES_128_GCM"), name.contains("CHACHA20")) {
        (true, _) => 0,
        (false, false) => 1,
        (false, true) => CHACHA20,
    }
}

fn versions(minimum: Version) -> &'static [&'static SupportedProtocolVersion] {
    match minimum {
        Version::Tls12 => BOTH,
        Version::Tls13 => NEWEST,
    }
}
