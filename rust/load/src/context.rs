//! What the sessions of a thread share.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rustls::ClientConfig;

use crate::catalogue::Catalogue;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::record::{Live, Recorder};
use crate::secured;
use crate::shared::Playlists;
use crate::url::Url;

/// What the sessions of a thread share.
pub(crate) struct Context {
    pub(crate) plan: Arc<Plan>,
    pub(crate) start: Instant,
    pub(crate) target: Url,
    pub(crate) target_address: SocketAddr,
    pub(crate) live: Arc<Live>,
    pub(crate) recorder: RefCell<Recorder>,
    /// One for each workload.
    pub(crate) catalogues: Vec<Catalogue>,
    /// What is read goes through it, and nothing stays in it.
    pub(crate) scratch: RefCell<Box<[u8]>>,
    /// What playlists say, by their texts.
    pub(crate) playlists: Playlists,
    /// Made with the first connection that needs it.
    pub(crate) tls: OnceCell<Arc<ClientConfig>>,
    /// The run has ended: sessions end.
    pub(crate) is_over: Cell<bool>,
}

impl Context {
    /// The TLS of connections.
    pub(crate) fn tls(&self) -> Result<Arc<ClientConfig>, Failure> {
        if let Some(known) = self.tls.get() {
            return Ok(Arc::clone(known));
        }
        let made = secured::config(self.plan.roots.as_deref()).map_err(Failure::Tls)?;
        Ok(Arc::clone(self.tls.get_or_init(|| made)))
    }

    /// Where a server is.
    pub(crate) async fn address(&self, url: &Url) -> Result<SocketAddr, Failure> {
        if url.authority == self.target.authority {
            return Ok(self.target_address);
        }
        resolve(url).await
    }

    /// The place of a path of the plan on the target.
    pub(crate) fn place(&self, path: &str, title: usize) -> Result<Url, Failure> {
        let path = path.replace("{title}", &title.to_string());
        self.target.join(&path).ok_or(Failure::Address(path))
    }
}

/// The address of a server. Asked once for the target, before the run begins.
pub(crate) async fn resolve(url: &Url) -> Result<SocketAddr, Failure> {
    let Some((host, port)) = url.host_and_port() else {
        return Err(Failure::Address(format!("{url} has no port that is a number")));
    };
    let mut found =
        tokio::net::lookup_host((host, port)).await.map_err(|error| Failure::Address(error.to_string()))?;
    found.next().ok_or_else(|| Failure::Address(format!("{host} has no address")))
}
