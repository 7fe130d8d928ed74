//! TLS towards clients, over all sites: handshakes, certificates, and how reading them anew went.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::SystemTime;

use super::Exposition;
use crate::edge::{HandshakeEnd, Site};
use crate::sync::Arc;
use crate::tls::TlsCounts;

/// Certificates that have a series of their own, the first to expire before others; arbitrary. An alert needs the first
/// few, and a directory may have thousands.
const NAMED: usize = 100;

/// What is counted of handshakes and of files.
#[derive(Debug, Clone, Default)]
pub(super) struct TlsTotals {
    ends: [u64; HandshakeEnd::ALL.len()],
    counts: TlsCounts,
}

impl TlsTotals {
    pub(super) fn of(site: &Site) -> Self {
        site.handshakes().map_or_else(Self::default, |handshakes| Self {
            ends: handshakes.counts().1,
            counts: handshakes.server().counts(),
        })
    }
}

impl AddAssign<&Self> for TlsTotals {
    fn add_assign(&mut self, other: &Self) {
        for (sum, count) in self.ends.iter_mut().zip(other.ends) {
            *sum += count;
        }
        self.counts.reloads += other.counts.reloads;
        self.counts.failed_reloads += other.counts.failed_reloads;
    }
}

pub(super) fn write(sites: &[Arc<Site>], totals: &TlsTotals, out: &mut Exposition) {
    let secured: Vec<_> = sites.iter().filter_map(|site| site.handshakes()).collect();
    let underway = secured.iter().map(|handshakes| handshakes.counts().0).sum::<usize>();
    out.gauge("penstock_tls_handshakes_active", "TLS handshakes of clients that are under way.")
        .sample(&[], underway);
    let help = "TLS handshakes of clients that are over, by how they ended: full or resumed if the client has a \
        connection, and else why it has none.";
    let mut ends = out.counter("penstock_tls_handshakes_total", help);
    for ((_, name), count) in HandshakeEnd::ALL.iter().zip(totals.ends) {
        ends.sample(&[("end", name)], count);
    }
    let help = "Times that changed files or turned ticket keys were put in place, and times that something in them was bad, \
        so that the earlier one stayed.";
    out.counter("penstock_tls_reloads_total", help)
        .sample(&[("result", "applied")], totals.counts.reloads)
        .sample(&[("result", "failed")], totals.counts.failed_reloads);
    let all: Vec<_> = secured.iter().map(|handshakes| handshakes.server().certificates()).collect();
    let (mut current, mut stale, mut unusable) = (0_usize, 0_usize, 0_usize);
    // Two sites may serve one certificate.
    let mut expiries = BTreeMap::new();
    for certificate in all.iter().flat_map(|served| served.iter()) {
        let Some(not_after) = certificate.not_after else {
            unusable += 1;
            continue;
        };
        *(if certificate.is_stale { &mut stale } else { &mut current }) += 1;
        let earliest = expiries.entry(&*certificate.name).or_insert(not_after);
        *earliest = not_after.min(*earliest);
    }
    let help = "Certificates: served as their files have them, served although their files have become bad since, or \
        not served because their files have been bad from the start.";
    out.gauge("penstock_tls_certificates", help)
        .sample(&[("state", "current")], current)
        .sample(&[("state", "stale")], stale)
        .sample(&[("state", "unusable")], unusable);
    let mut expiries: Vec<(&str, SystemTime)> = expiries.into_iter().collect();
    expiries.sort_by_key(|(_, not_after)| *not_after);
    let help = "When a served certificate expires, in seconds since 1970, by its name in the directory or by its file; the 100 \
        that expire first.";
    let mut gauge = out.gauge("penstock_tls_certificate_expiry_timestamp_seconds", help);
    for (name, not_after) in expiries.iter().take(NAMED) {
        let since = not_after.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        gauge.sample(&[("certificate", name)], since.as_secs());
    }
}
