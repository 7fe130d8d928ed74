//! A certificate for a try-out: made on the spot, signed by its own key, and trusted by no client that is not told to.

use std::time::{Duration, SystemTime};

use penstock_error::{Code, Error, Result};
use rcgen::{CertificateParams, DnType, KeyPair};

/// A clock that is a little ahead of a client's is no reason to refuse it.
const BEFORE: Duration = Duration::from_secs(3_600);
/// Long enough for a try-out, and too short to be forgotten somewhere.
const LIFE: Duration = Duration::from_secs(7 * 86_400);

/// A certificate of a new ECDSA key on P-256 for `names`, host names or addresses, and the key; both as PEM. It is valid for a
/// week.
///
/// # Errors
/// `BAD_CONFIGURATION`: one of them is no name.
pub fn self_signed(names: &[String]) -> Result<(String, String)> {
    let failed = |error: rcgen::Error| -> Error {
        Code::BadConfiguration.error(format!("no certificate for {names:?}: {error}"))
    };
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, "penstock, for a try-out");
    let now = SystemTime::now();
    params.not_before = (now - BEFORE).into();
    params.not_after = (now + LIFE).into();
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{ClientConfig, RootCertStore};

    use super::*;
    use crate::TlsServer;
    use crate::tests::support::{Authority, connect, der, settings};

    #[test]
    fn a_client_that_is_told_to_trust_it_connects() {
        let pem = self_signed(&["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let files = Authority::new();
        let server = TlsServer::new(settings(vec![files.write_pem("own", &pem)])).unwrap();
        assert_eq!(server.certificates()[0].names, ["localhost", "127.0.0.1"]);
        let mut roots = RootCertStore::empty();
        roots.add(der(&pem.0)).unwrap();
        let client = ClientConfig::builder_with_provider(crate::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = Arc::new(client);
        for name in ["localhost", "127.0.0.1"] {
            connect(server.config(&[]), &client, name).unwrap();
        }
        assert!(connect(server.config(&[]), &Arc::new(files.client(None)), "localhost").is_err());
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let error = self_signed(&["\u{e9}".to_owned()]).unwrap_err();
        assert_eq!(error.code(), Code::BadConfiguration);
    }
}
