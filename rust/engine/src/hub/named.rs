//! The hubs of this process by their names, by which the processes of an upgrade know which of them are one.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::Hub;
use super::link::{Link, Stage};
use super::mirroring;
use crate::runtime::Threads;
use crate::sync::{Arc, Mutex, lock};
use crate::work::{Work, worked};

/// The hubs that have a name.
static NAMED: Mutex<Vec<Named>> = Mutex::new(Vec::new());

struct Named {
    name: String,
    hub: Weak<Hub>,
    threads: Arc<Threads>,
}

/// Why a hub does not go on in another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlinked {
    /// There is no hub of that name, or several.
    Unknown,
    /// The other process has ended, or has no such hub.
    Ended,
    /// The other process has not answered in time.
    Late,
}

impl fmt::Display for Unlinked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "there is no hub of that name, or several",
            Self::Ended => "the other process has ended, or has no such hub",
            Self::Late => "the other process has not answered in time",
        })
    }
}

/// Calls `hub`, which runs on `threads`, by `name` from now on.
pub fn give_name(hub: &Arc<Hub>, name: String, threads: Arc<Threads>) {
    let mut named = lock(&NAMED);
    named.retain(|named| named.hub.strong_count() > 0);
    named.push(Named { name, hub: Arc::downgrade(hub), threads });
}

/// The names of the hubs, in the order in which they were given. A name of two hubs is there twice.
pub fn names() -> Vec<String> {
    let named = lock(&NAMED);
    let open = |named: &&Named| named.hub.upgrade().is_some_and(|hub| !hub.is_closed());
    named.iter().filter(open).map(|named| named.name.clone()).collect()
}

/// The only hub of that name.
fn find(name: &str) -> Result<(Arc<Hub>, Arc<Threads>), Unlinked> {
    let named = lock(&NAMED);
    let mut found = named.iter().filter(|named| named.name == name).filter_map(|named| {
        let hub = named.hub.upgrade().filter(|hub| !hub.is_closed())?;
        Some((hub, Arc::clone(&named.threads)))
    });
    found.next().filter(|_| found.next().is_none()).ok_or(Unlinked::Unknown)
}

fn begin(hub: &Arc<Hub>, threads: &Threads, link: &Arc<Link>, socket: OwnedFd) {
    let (hub, link) = (Arc::downgrade(hub), Arc::clone(link));
    threads.spawn(0, move || worked(Work::Hub, mirroring::serve(hub, link, socket)));
}

/// Has the process at the other end of `socket` follow the hub of that name.
///
/// # Errors
/// `Unknown`.
pub fn lead(name: &str, socket: OwnedFd) -> Result<(), Unlinked> {
    let (hub, threads) = find(name)?;
    let link = Arc::new(Link::new(true));
    hub.lead(&link);
    begin(&hub, &threads, &link, socket);
    Ok(())
}

/// Has the hub of that name follow the one of the process at the other end of `socket`; returns when it has all of it.
///
/// # Errors
/// It has not within `within`, or the other process ends.
pub fn follow(name: &str, socket: OwnedFd, within: Duration) -> Result<(), Unlinked> {
    let (hub, threads) = find(name)?;
    let link = Arc::new(Link::new(false));
    hub.follow(&link);
    begin(&hub, &threads, &link, socket);
    match link.wait_while(Stage::Joining, within) {
        Stage::Joining => Err(Unlinked::Late),
        Stage::Ended => Err(Unlinked::Ended),
        _ => Ok(()),
    }
}

/// Has the process that follows lead all hubs that it has. Returns when it does, with the number of hubs.
///
/// # Errors
/// It does not within `within`, or ends.
pub fn hand_over(within: Duration) -> Result<usize, Unlinked> {
    let hubs: Vec<_> = lock(&NAMED).iter().filter_map(|named| named.hub.upgrade()).collect();
    let links: Vec<_> = hubs.iter().filter_map(|hub| hub.hand_over()).collect();
    let until = Instant::now() + within;
    for link in &links {
        match link.wait_while(Stage::InStep, until.saturating_duration_since(Instant::now())) {
            Stage::InStep => return Err(Unlinked::Late),
            Stage::Ended => return Err(Unlinked::Ended),
            _ => {}
        }
    }
    Ok(links.len())
}
