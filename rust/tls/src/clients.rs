//! What clients have to show (RFC 8446, section 4.4.2; RFC 5280, sections 5 and 6), and the policy as a digest.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use penstock_error::Result;
use ring::digest::{self, SHA256};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};

use crate::der::{INTEGER, Reader, SEQUENCE};
use crate::files::{self, NO_CERTIFICATE, unusable};
use crate::provider::provider;
use crate::settings::{ClientAuth, TlsSettings};

const AUTHORITIES: &str = "file of authorities";
const REVOKED: &str = "list of revoked certificates";

/// What clients have to show.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    /// Of all that decides who is let in.
    digest: [u8; 32],
    /// When the first of its lists is out of date.
    pub(crate) until: Option<SystemTime>,
}

impl Clients {
    /// What sessions are bound to that are made and resumed at `now`: two policies with one digest let in the same clients. A
    /// list that is out of date lets none in, and resumes none that was let in before.
    pub(crate) fn digest(&self, now: SystemTime) -> [u8; 32] {
        let is_over = self.until.is_some_and(|until| until <= now);
        if is_over { digest(b"out of date", &mut [&self.digest]) } else { self.digest }
    }

    /// Reads authorities and lists.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION`.
    pub(crate) fn load(settings: &TlsSettings, now: SystemTime) -> Result<Self> {
        let Some(path) = settings.clients.authorities() else {
            return Ok(Self {
                verifier: WebPkiClientVerifier::no_client_auth(),
                digest: digest(b"off", &mut []),
                until: None,
            });
        };
        let authorities: Vec<CertificateDer<'static>> = files::read_pem(path, AUTHORITIES, NO_CERTIFICATE)?;
        let mut roots = RootCertStore::empty();
        for der in &authorities {
            roots.add(der.clone()).map_err(|error| {
                unusable(
                    path,
                    AUTHORITIES,
                    &format!("holds a certificate that cannot be used ({error}): take it out"),
                )
            })?;
        }
        let (lists, until) =
            settings.revoked.as_deref().map_or(Ok((Vec::new(), None)), |path| lists(path, now))?;
        let mut parts: Vec<&[u8]> = authorities.iter().map(AsRef::as_ref).collect();
        parts.extend(lists.iter().map(AsRef::as_ref));
        let is_optional = matches!(settings.clients, ClientAuth::Optional { .. });
        let digest = digest(if is_optional { b"optional" } else { b"required" }, &mut parts);
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        // A list that is out of date says nothing of a key that was stolen since: clients are refused then.
        let builder = builder.with_crls(lists).enforce_revocation_expiration();
        let builder = if is_optional { builder.allow_unauthenticated() } else { builder };
        let verifier = builder.build().map_err(|error| {
            unusable(
                settings.revoked.as_deref().unwrap_or(path),
                REVOKED,
                &format!("cannot be used: {error}"),
            )
        })?;
        Ok(Self { verifier, digest, until })
    }
}

type Lists = (Vec<CertificateRevocationListDer<'static>>, Option<SystemTime>);

/// The lists in the file at `path`, and when the first of them is out of date.
fn lists(path: &Path, now: SystemTime) -> Result<Lists> {
    let mut first: Option<SystemTime> = None;
    let none = "holds no list: it has to begin with BEGIN X509 CRL";
    let found: Vec<CertificateRevocationListDer<'static>> = files::read_pem(path, REVOKED, none)?;
    for list in &found {
        let until = next_update(list).ok_or_else(|| {
            unusable(
                path,
                REVOKED,
                "is malformed, or does not say until when it holds: fetch it again, as PEM",
            )
        })?;
        // webpki takes a list until the second of its next update.
        if until <= now {
            return Err(unusable(path, REVOKED, "is out of date: fetch it again"));
        }
        first = Some(first.map_or(until, |first| first.min(until)));
    }
    Ok((found, first))
}

/// Until when a list holds (RFC 5280, section 5.1.2.5).
fn next_update(list: &[u8]) -> Option<SystemTime> {
    let mut signed = Reader::new(list).within(SEQUENCE)?.within(SEQUENCE)?;
    signed.take(INTEGER);
    let (_algorithm, _issuer) = (signed.take(SEQUENCE)?, signed.take(SEQUENCE)?);
    let _this = signed.time()?;
    signed.time()
}

/// The digest of a kind of policy and its certificates, in whatever order they were read.
fn digest(kind: &[u8], parts: &mut [&[u8]]) -> [u8; 32] {
    parts.sort_unstable();
    let mut context = digest::Context::new(&SHA256);
    for part in std::iter::once(&kind).chain(parts.iter()) {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}
