//! Accepts the edge's connections in a worker process, and serves each.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener as Raw, UnixStream as RawStream};
use std::sync::Arc as Plain;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};

use super::answering;
use super::wire::Wire;
use super::worker::Worker;
use crate::error::{Code, Result};
use crate::runtime::Threads;
use crate::sync::Arc;

/// As for clients: long enough for a descriptor to become free. Arbitrary.
const PAUSE: Duration = Duration::from_millis(50);

impl Worker {
    /// Accepts the edge's connections on `listener`, a Unix socket that listens, and serves each on one of `threads`.
    ///
    /// # Errors
    /// `LISTEN_FAILED`: `listener` is no Unix socket that listens.
    pub fn serve(self: &Arc<Self>, listener: OwnedFd, threads: &Arc<Threads>) -> Result<()> {
        let listener = Raw::from(listener);
        listener.set_nonblocking(true).map_err(|error| {
            Code::ListenFailed.error(format!("cannot listen to the socket of a worker: {error}"))
        })?;
        let (worker, all) = (Arc::clone(self), Arc::clone(threads));
        threads.spawn(0, move || accept(listener, worker, all));
        Ok(())
    }
}

/// Accepts connections until the worker drains, and then the connections that wait: the requests on them were sent to
/// this worker.
async fn accept(listener: Raw, worker: Arc<Worker>, threads: Arc<Threads>) {
    let Ok(listener) = UnixListener::from_std(listener) else { return };
    let going_on = async {
        loop {
            match listener.accept().await {
                Ok((socket, _)) => socket.into_std().map_or((), |socket| take(socket, &worker, &threads)),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    };
    tokio::select! {
        biased;
        () = worker.drain.draining() => {}
        never = going_on => never,
    }
    // The listener is asked itself, because the reactor may not know the last connections yet.
    let Ok(listener) = listener.into_std() else { return };
    while let Ok((socket, _)) = listener.accept() {
        if socket.set_nonblocking(true).is_ok() {
            take(socket, &worker, &threads);
        }
    }
}

fn take(socket: RawStream, worker: &Arc<Worker>, threads: &Threads) {
    let worker = Arc::clone(worker);
    let thread = threads.pick();
    threads.spawn(thread, move || async move {
        let Ok(socket) = UnixStream::from_std(socket) else { return };
        // No process except the parent is served.
        if !socket.peer_cred().is_ok_and(|peer| peer.pid() == Some(worker.parent)) {
            return;
        }
        let wire = Plain::new(Wire::new(socket));
        tokio::select! {
            biased;
            () = worker.drain.closed() => {}
            () = answering::serve(&worker, wire, thread) => {}
        }
    });
}
