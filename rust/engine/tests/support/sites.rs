//! Sites of the engine's own, what an engine lends to them, and waiting for what another thread does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use penstock_engine::edge::{
    ClientLimits, EdgeConfig, Heads, Ledger, ListenOptions, Listener, Site, Supplies,
};
use penstock_engine::origin::Roots;
use penstock_engine::runtime::Threads;
use penstock_engine::stream::{FlowConfig, Meter};
use penstock_engine::wire::IncomingLimits;

use crate::settings::{AMPLE, BODY, READS, origin_limits, origins, pool};

/// A window of a stream: what is under way in user space at most.
pub(crate) const WINDOW: usize = 1 << 20;

/// What an engine of `count` threads lends to a site.
pub(crate) fn supplies(count: usize) -> Supplies {
    let pool = pool();
    Supplies {
        flow: FlowConfig { floor: 64 << 10, ceiling: WINDOW },
        reads: READS,
        meter: Arc::new(Meter::default()),
        origins: (0..count).map(|_| origins(&pool, origin_limits(), Roots::WebPki)).collect(),
        ledger: Arc::new(Ledger::new(count)),
        heads: Arc::new(Heads::new(&pool)),
        tracer: None,
        pool,
    }
}

/// Limits of clients that no test meets, but for the second that a site lingers.
pub(crate) fn edge_config() -> EdgeConfig {
    EdgeConfig {
        head: IncomingLimits { line_bytes: 1024, head_bytes: 8192, head_fields: 32 },
        body: BODY,
        max_body: None,
        idle_timeout: Some(AMPLE),
        head_timeout: Some(AMPLE),
        body_timeout: Some(AMPLE),
        body_total_timeout: None,
        least_rate: None,
        head_patience: Duration::ZERO,
        body_patience: Duration::ZERO,
        write_timeout: Some(AMPLE),
        stall_grace: Duration::from_secs(1),
        overload_after: None,
        trusts_trace_context: false,
        clients: ClientLimits { client_connections: None, client_requests: None, client_prefix: 64 },
        linger: Duration::from_secs(1),
        max_event: 64 << 10,
        event_backlog: None,
        http2: None,
    }
}

/// Serves `site` on a port of its own.
pub(crate) fn listen(site: &Arc<Site>, threads: &Arc<Threads>) -> SocketAddr {
    let options = ListenOptions { backlog: 64, reuse_port: false, write_timeout: None };
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), options).unwrap();
    let address = listener.address().unwrap();
    listener.serve(site, threads);
    address
}

/// Waits for what another thread brings about.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(AMPLE / 2, wait).await.expect("it never comes about");
}

/// `size` bytes that show where they have been shifted.
pub(crate) fn pattern(size: usize) -> Vec<u8> {
    (0..=250).cycle().take(size).collect()
}
