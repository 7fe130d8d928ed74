//! A network in simulations: hosts of one thread, and connections of byte queues between them.
//!
//! An [`End`] stands where a socket does, with what a kernel and a runtime have of one: a buffer that takes a part of a write,
//! a window, a half-close, a reset that is told once, and readiness that is announced late and can be wrong. A [`Network`] is
//! the hosts, and moves what is under way; its delays are of a seed. It knows no HTTP.

mod chance;
mod end;
mod fabric;
mod tests;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

pub(crate) use chance::Chance;
pub(crate) use end::End;
use fabric::Fabric;

thread_local! {
    static FABRIC: RefCell<Option<Fabric>> = const { RefCell::new(None) };
}

/// How connections are.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    pub(crate) seed: u64,
    /// Milliseconds that a packet takes at most; one in eight is lost at first, and takes [`LOST`] longer.
    pub(crate) delay: u64,
    /// Bytes of the largest packet.
    pub(crate) packet: usize,
    /// Bytes that a sender may have written and the receiver has not got.
    pub(crate) room: usize,
    /// Bytes that a receiver may not have read.
    pub(crate) window: usize,
}

/// Until a lost packet is sent again.
const LOST: u64 = 200;

/// What an address does with attempts to connect to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Open,
    Refuses,
    /// It does not answer.
    Silent,
}

/// The network of this thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    moved: tokio::task::AbortHandle,
}

impl Network {
    /// One without hosts. Must be called in a runtime, whose task moves what is under way.
    pub(crate) fn new(conditions: Conditions) -> Self {
        let wake = Arc::new(Notify::new());
        FABRIC.set(Some(Fabric::new(conditions, Arc::clone(&wake))));
        Self { moved: tokio::spawn(run(wake)).abort_handle() }
    }

    /// Nothing moves any more.
    pub(crate) fn stop(&self) {
        self.moved.abort();
    }

    /// What the resolver answers for `name`.
    #[expect(clippy::unused_self, reason = "there is one of the thread as long as this lives")]
    pub(crate) fn name(&self, name: &str, addresses: Vec<SocketAddr>) {
        within(|fabric| drop(fabric.names.insert(name.to_owned(), addresses)));
    }

    /// From now on `address` does so with attempts to connect.
    #[expect(clippy::unused_self, reason = "there is one of the thread as long as this lives")]
    pub(crate) fn set_door(&self, address: SocketAddr, door: Door) {
        within(|fabric| fabric.listener(address).door = door);
    }

    /// What the other side of a connection has at `address`, in the order in which they came.
    #[expect(clippy::unused_self, reason = "there is one of the thread as long as this lives")]
    pub(crate) fn come(&self, address: SocketAddr) -> Vec<End> {
        within(|fabric| std::mem::take(&mut fabric.listener(address).come))
    }

    /// Bytes that the kernel has taken from the end that was at `place`.
    #[expect(clippy::unused_self, reason = "there is one of the thread as long as this lives")]
    pub(crate) fn taken_from(&self, (wire, side): (usize, usize)) -> u64 {
        within(|fabric| fabric.wires[wire][side].taken_from)
    }

    /// A connection that is there at once.
    #[expect(clippy::unused_self, reason = "there is one of the thread as long as this lives")]
    pub(crate) fn pair(&self) -> (End, End) {
        within(Fabric::connect)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.moved.abort();
        drop(FABRIC.take());
    }
}

/// Connects to `address`; `None` if this thread has no simulated network.
pub(crate) async fn connect(address: SocketAddr) -> Option<io::Result<End>> {
    let delay = within_any(Fabric::delay)?;
    sleep(Duration::from_millis(delay)).await;
    let door = within(|fabric| fabric.listener(address).door);
    match door {
        Door::Silent => std::future::pending().await,
        Door::Refuses => Some(Err(io::ErrorKind::ConnectionRefused.into())),
        Door::Open => Some(Ok(within(|fabric| {
            let (here, there) = fabric.connect();
            fabric.listener(address).come.push(there);
            here
        }))),
    }
}

/// The addresses of `name`; `None` if this thread has no simulated network.
pub(crate) fn resolve(name: &str) -> Option<io::Result<Vec<SocketAddr>>> {
    let found = within_any(|fabric| fabric.names.get(name).cloned())?;
    Some(found.ok_or_else(|| io::Error::other("there is no such host")))
}

/// From 0 to 1, by the seed; `None` if this thread has no simulated network.
pub(crate) fn chance() -> Option<f64> {
    let number = within_any(Fabric::number)?;
    Some(f64::from(number) / f64::from(u32::MAX))
}

fn within_any<T>(work: impl FnOnce(&mut Fabric) -> T) -> Option<T> {
    FABRIC.with_borrow_mut(|fabric| fabric.as_mut().map(work))
}

fn within<T>(work: impl FnOnce(&mut Fabric) -> T) -> T {
    within_any(work).expect("the ends of a network are used as long as it is there")
}

/// Moves what is under way.
async fn run(wake: Arc<Notify>) {
    loop {
        match within_any(|fabric| fabric.next()) {
            None => return,
            Some(None) => wake.notified().await,
            Some(Some(at)) if at > Instant::now() => {
                tokio::select! {
                    biased;
                    () = wake.notified() => {}
                    () = sleep_until(at) => {}
                }
            }
            // Whether what was woken runs before the next event of the same time is chance.
            Some(Some(_)) => {
                if within_any(Fabric::turn) == Some(true) {
                    let mut is_over = false;
                    std::future::poll_fn(|context| {
                        if std::mem::replace(&mut is_over, true) {
                            return Poll::Ready(());
                        }
                        context.waker().wake_by_ref();
                        Poll::Pending
                    })
                    .await;
                }
            }
        }
    }
}
