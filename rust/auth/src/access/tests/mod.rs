//! Keys of requests, and decisions, without sockets.

mod decisions;
mod gate;
mod keys;
mod moving;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::*;
use penstock_http::wire::Fields;
use penstock_memory::sync::Arc;

/// Counts how often it is woken.
#[derive(Debug, Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

const OPEN: TenantLimits = TenantLimits {
    requests: Limits { concurrency: None, rate: None, burst: 1.0 },
    bandwidth: None,
    total: None,
};

const CONFIG: AccessConfig = AccessConfig {
    decisions: 8,
    denials: 4,
    questions: 4,
    timeout: Duration::from_secs(60),
    tenants: 4,
    tenant_limits: OPEN,
};

/// Decisions with a listener.
fn listened(config: AccessConfig) -> (Arc<Decisions>, std::sync::Arc<Bell>) {
    let decisions = Arc::new(Decisions::new(&config));
    let bell = std::sync::Arc::new(Bell::default());
    decisions.listen(&Waker::from(std::sync::Arc::clone(&bell)));
    (decisions, bell)
}

fn key(number: u8) -> Key {
    Key::new([number; Key::LENGTH])
}

fn request() -> Request {
    Request {
        route: "/".to_owned(),
        method: "GET".to_owned(),
        target: "/".to_owned(),
        authority: "a".to_owned(),
        remote: None,
        headers: Fields::default(),
        key: Vec::new(),
    }
}

fn allow(tenant: &str) -> Verdict {
    Verdict::Allow(Grant { tenant: Some(tenant.into()), ..Grant::default() })
}

fn deny() -> Verdict {
    Verdict::Deny(Denial { status: 403, detail: None, challenge: None })
}
