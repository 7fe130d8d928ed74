//! What is kept of an exchange when it is over: its line in the access log, and what its span is made of.

use std::sync::atomic::Ordering;

use penstock_trace::Trace;

use super::client::Client;
use super::line::Entry;
use super::network::ResponseClass;
use super::progress::Progress;
use super::route::Service;
use super::site::Site;
use super::tally::Lane;
use crate::access::Decision;
use crate::app::Note;
use crate::error::Error;
use crate::wire::Incoming;

/// The status in the log of a request that the application has closed the connection on instead of an answer, as nginx's.
const UNANSWERED: u16 = 444;

/// An exchange, for what is kept of it.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) site: &'a Site,
    pub(super) client: &'a Client,
    /// None if its head could not be read.
    pub(super) incoming: Option<&'a Incoming>,
    pub(super) service: Option<&'a Service>,
    pub(super) progress: &'a Progress,
}

impl<'a> Record<'a> {
    /// Of a request whose head could not be read.
    pub(super) fn of_none(site: &'a Site, client: &'a Client, progress: &'a Progress) -> Self {
        Self { site, client, incoming: None, service: None, progress }
    }

    /// The name of the route.
    pub(super) fn route(&self) -> Option<&'a str> {
        self.service.map(Service::name)
    }

    /// Who answers.
    pub(super) fn lane(&self) -> Lane {
        match (self.service, &self.site.app) {
            (Some(_), _) => Lane::Native,
            (None, Some(_)) if self.incoming.is_some() => Lane::App,
            _ => Lane::Edge,
        }
    }

    /// Looks at what the network did to the response, if it is time for that.
    pub(super) fn look(&self) {
        let network = &self.site.supplies.ledger.network;
        let class = match self.lane() {
            _ if self.progress.is_events() => ResponseClass::Events,
            Lane::Native => ResponseClass::Bulk,
            Lane::App => ResponseClass::App,
            Lane::Edge => return,
        };
        if network.is_due() {
            network.look(class, &self.client.looked());
        }
    }

    /// The exchange is over, with what the client got. `trace` knows the attempts at origins.
    pub(super) fn end(&self, status: u16, error: Option<&Error>, trace: Option<&Trace>) {
        let Self { site, progress, .. } = self;
        // An application that logs by itself does so of all that it has answered.
        let is_ours = site.logs_application
            || self.service.is_some()
            || site.app.is_none()
            || progress.status().is_none() && error.is_some();
        // The process that goes on with it writes its line.
        if is_ours && !progress.is_given() {
            self.log(status, error, trace);
        }
    }

    /// Writes the line.
    fn log(&self, status: u16, error: Option<&Error>, trace: Option<&Trace>) {
        let Self { site, client, incoming, progress, .. } = *self;
        let Some(log) = &site.log else { return };
        let Note { tenant, failure } = progress.note().unwrap_or_default();
        let decision = progress.decision();
        let is_written = log.put(&Entry {
            client: client.addresses.host.as_deref(),
            scheme: client.scheme(),
            incoming,
            version: client.version(incoming.map_or(1, |incoming| incoming.minor_version)),
            status: if status == 0 { UNANSWERED } else { status },
            bytes: progress.body_bytes(),
            received: progress.received(),
            elapsed: progress.elapsed(),
            first_byte: progress.first_byte(),
            lane: self.lane(),
            route: self.route(),
            cache: progress.cached(),
            tenant: tenant.as_deref().or(decision.as_deref().and_then(Decision::tenant)),
            failure: failure.or(error.map(Error::code)),
            trace,
        });
        if !is_written {
            // Relaxed: a count.
            site.unlogged.fetch_add(1, Ordering::Relaxed);
        }
    }
}
