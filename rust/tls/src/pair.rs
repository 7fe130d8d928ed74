//! A certificate and its key, as they are served.
//!
//! A pair is either whole or an error: the key is that of the certificate, which is well-formed and valid now.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use penstock_error::{Error, Result};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificate::Certificate;
use crate::files::{self, NO_CERTIFICATE, malformed, unusable};
use crate::provider::provider;
use crate::settings::CertificateFiles;
use crate::staple::Staple;

const CERTIFICATE: &str = "certificate";
const KEY: &str = "key";

/// Where a pair is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// What it is called in metrics.
    pub(crate) name: String,
    pub(crate) files: CertificateFiles,
    /// An OCSP response, if the file is there.
    pub(crate) staple: PathBuf,
    /// What is wrong with the place itself.
    pub(crate) problem: Option<String>,
}

impl Place {
    /// The place of a pair that is named by its files.
    pub(crate) fn of(files: &CertificateFiles) -> Self {
        Self {
            name: files.certificate.display().to_string(),
            staple: files.certificate.with_extension("ocsp"),
            files: files.clone(),
            problem: None,
        }
    }

    /// All files that decide what the pair is.
    pub(crate) fn paths(&self) -> [&Path; 3] {
        [&self.files.certificate, &self.files.key, &self.staple]
    }
}

/// The certificate and the key in `files`, for a side of a connection that shows one and no other.
///
/// # Errors
/// `BAD_CONFIGURATION`, which names a file and says what to do.
pub fn certified_key(files: &CertificateFiles) -> Result<CertifiedKey> {
    Pair::load(&Place::of(files), SystemTime::now()).map(|(pair, _)| CertifiedKey::clone(&pair.key))
}

/// A certificate and its key.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) certificate: Certificate,
    /// When its OCSP response ends to hold.
    pub(crate) staple_until: Option<SystemTime>,
}

impl Pair {
    /// When there is something to tell about it though its files are the same: its OCSP response or the certificate itself
    /// is out of date.
    pub(crate) fn until(&self) -> Option<SystemTime> {
        let expired = self.certificate.not_after.checked_add(Duration::from_secs(1));
        self.staple_until.into_iter().chain(expired).min()
    }

    /// Reads the pair at `place`, and what is wrong with its OCSP response, without which it is served.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION`.
    pub(crate) fn load(place: &Place, now: SystemTime) -> Result<(Self, Option<Error>)> {
        let CertificateFiles { certificate: path, key: key_path } = &place.files;
        if let Some(problem) = &place.problem {
            return Err(unusable(path, CERTIFICATE, problem));
        }
        let chain = chain(path)?;
        let certificate = Certificate::read(&chain[0])
            .ok_or_else(|| unusable(path, CERTIFICATE, "is malformed: copy it again, as PEM of X.509"))?;
        check_time(path, &certificate, now)?;
        let mut key = certified(path, key_path, chain)?;
        let (staple, problem) = match staple(&place.staple, &certificate, now) {
            Ok(staple) => (staple, None),
            Err(error) => (None, Some(error)),
        };
        let staple_until = staple.as_ref().map(|staple| staple.until);
        key.ocsp = staple.map(|staple| staple.der);
        Ok((Self { key: Arc::new(key), certificate, staple_until }, problem))
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let chain: Vec<CertificateDer<'static>> = files::read_pem(path, CERTIFICATE, NO_CERTIFICATE)?;
    if let Some(position) = chain.iter().position(|der| Certificate::read(der).is_none()) {
        let why = format!("is malformed in its certificate {}: copy it again, as PEM of X.509", position + 1);
        return Err(unusable(path, CERTIFICATE, &why));
    }
    Ok(chain)
}

fn check_time(path: &Path, certificate: &Certificate, now: SystemTime) -> Result<()> {
    if certificate.not_after < now {
        return Err(unusable(path, CERTIFICATE, "has expired: renew it"));
    }
    if certificate.not_before > now {
        return Err(unusable(path, CERTIFICATE, "is not valid yet: check the clock of this machine"));
    }
    Ok(())
}

fn certified(path: &Path, key_path: &Path, chain: Vec<CertificateDer<'static>>) -> Result<CertifiedKey> {
    let key = private_key(key_path)?;
    let key = provider().key_provider.load_private_key(key).map_err(|error| {
        let why = format!("cannot be used ({error}): it has to be ECDSA on P-256 or P-384, RSA of 2048 to 8192 bits, or Ed25519");
        unusable(key_path, KEY, &why)
    })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            let is_of = |der| CertifiedKey::new(vec![der], Arc::clone(&certified.key)).keys_match().is_ok();
            let why = if certified.cert.iter().cloned().any(is_of) {
                format!("has the certificate of the key {} behind others: put it first", key_path.display())
            } else {
                format!("is not that of the key {}: put both files of one pair there", key_path.display())
            };
            Err(unusable(path, CERTIFICATE, &why))
        }
        Err(error) => Err(unusable(path, CERTIFICATE, &format!("cannot be used: {error}"))),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let text = files::read(path, KEY)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        if text.windows(9).any(|word| word == b"ENCRYPTED") {
            return unusable(path, KEY, "is encrypted: write it without a password, as by openssl pkey");
        }
        match error {
            pem::Error::NoItemsFound => {
                unusable(path, KEY, "holds no key: it has to begin with BEGIN PRIVATE KEY, BEGIN EC PRIVATE KEY or BEGIN RSA PRIVATE KEY")
            }
            error => malformed(path, KEY, &error),
        }
    })
}

fn staple(path: &Path, certificate: &Certificate, now: SystemTime) -> Result<Option<Staple>> {
    if !path.try_exists().unwrap_or(true) {
        return Ok(None);
    }
    let what = "OCSP response";
    let staple = Staple::read(files::read(path, what)?, &certificate.serial, now);
    staple.map(Some).map_err(|why| unusable(path, what, why))
}
