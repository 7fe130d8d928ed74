//! TLS of a connection, as a client has it: over a socket that does not block.
//!
//! Connections resume no session of another one: each session is a client of its own.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::net::TcpStream;

use crate::failure::Failure;

/// What the connections of a thread have in common: the roots of the machine, or those in `roots`, as PEM.
pub(crate) fn config(roots: Option<&str>) -> Result<Arc<ClientConfig>, String> {
    let mut store = RootCertStore::empty();
    match roots {
        Some(text) => {
            for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
                let certificate = certificate.map_err(|error| format!("the roots are no PEM: {error}"))?;
                store.add(certificate).map_err(|error| format!("a root is no certificate: {error}"))?;
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if store.is_empty() {
        return Err("there is no root by which certificates could be verified".into());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(store).with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The TLS of one connection.
#[derive(Debug)]
pub(crate) struct Secured(Box<ClientConnection>);

/// A socket that does not block, as rustls reads and writes one.
struct Through<'a>(&'a TcpStream);

impl Read for Through<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Through<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Secured {
    /// Shakes hands with the server of this name.
    pub(crate) async fn open(
        config: Arc<ClientConfig>,
        host: &str,
        stream: &TcpStream,
    ) -> Result<Self, Failure> {
        let name =
            ServerName::try_from(host.to_owned()).map_err(|error| Failure::Address(error.to_string()))?;
        let made = ClientConnection::new(config, name).map_err(|error| Failure::Tls(error.to_string()))?;
        let mut made = Self(Box::new(made));
        while made.0.is_handshaking() {
            made.flush(stream).await.map_err(|error| Failure::Tls(error.to_string()))?;
            if made.0.is_handshaking()
                && made.receive(stream).await.map_err(|error| Failure::Tls(error.to_string()))? == 0
            {
                return Err(Failure::Tls("the connection ended in the handshake".into()));
            }
        }
        made.flush(stream).await.map_err(|error| Failure::Tls(error.to_string()))?;
        Ok(made)
    }

    /// Sends all of `bytes`.
    pub(crate) async fn send(&mut self, stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.0.writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.flush(stream).await?;
        }
        Ok(())
    }

    /// What has arrived already; `None` if nothing has. 0: the connection has ended as it should.
    pub(crate) fn take(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.0.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            read => read.map(Some),
        }
    }

    /// Waits until something comes. 0: the connection has ended.
    pub(crate) async fn receive(&mut self, stream: &TcpStream) -> io::Result<usize> {
        loop {
            stream.readable().await?;
            match self.0.read_tls(&mut Through(stream)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
                Ok(count) => {
                    self.0.process_new_packets().map_err(io::Error::other)?;
                    // Answers to what came, such as an update of keys.
                    self.flush(stream).await?;
                    return Ok(count);
                }
            }
        }
    }

    async fn flush(&mut self, stream: &TcpStream) -> io::Result<()> {
        while self.0.wants_write() {
            match self.0.write_tls(&mut Through(stream)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}
