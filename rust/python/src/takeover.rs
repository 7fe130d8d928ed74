//! How a process takes over the sockets that another listens to: see `penstock_engine::takeover`.

use std::os::fd::{IntoRawFd, OwnedFd};
use std::time::Duration;

use penstock_engine::{duplicate, takeover};
use pyo3::prelude::*;

use crate::errors::os_error;

/// From now on no listener of this process accepts.
#[pyfunction]
pub(crate) fn hold_clients() {
    takeover::hold_clients();
}

/// From now on the listeners of this process accept.
#[pyfunction]
pub(crate) fn let_clients_in() {
    takeover::let_clients_in();
}

/// Duplicates of the sockets that the engine listens to, in the order in which it began. They are the caller's.
#[pyfunction]
pub(crate) fn listeners() -> PyResult<Vec<i32>> {
    let found = takeover::listeners().map_err(os_error)?;
    Ok(found.into_iter().map(IntoRawFd::into_raw_fd).collect())
}

/// Has listeners be opened on duplicates of `descriptors` where these have their addresses.
#[pyfunction]
pub(crate) fn give_listeners(descriptors: Vec<i32>) -> PyResult<()> {
    let sockets: Result<Vec<_>, _> = descriptors.into_iter().map(duplicate).collect();
    takeover::give_listeners(sockets.map_err(os_error)?);
    Ok(())
}

/// Closes the sockets that were given and that nothing listens to.
#[pyfunction]
pub(crate) fn close_given_listeners() {
    takeover::close_given_listeners();
}

/// The socket that was given for a place, an address with its port or `unix:` and a path, if there is one. It is the caller's.
#[pyfunction]
pub(crate) fn claim_listener(place: &str) -> Option<i32> {
    takeover::claim_listener(place).map(OwnedFd::into_raw_fd)
}

/// From now on connections on which no request is under way are given away, instead of closed, when their site drains.
#[pyfunction]
pub(crate) fn give_clients_away() {
    takeover::give_away();
}

/// Whether connections are given away.
#[pyfunction]
pub(crate) fn gives_clients_away() -> bool {
    takeover::gives_away()
}

/// Up to `most` connections to give away, after at most `within` seconds. They are the caller's.
#[pyfunction]
pub(crate) fn clients_given_away(py: Python<'_>, most: usize, within: f64) -> Vec<i32> {
    let left = py.detach(|| takeover::left(most, Duration::from_secs_f64(within)));
    left.into_iter().map(IntoRawFd::into_raw_fd).collect()
}

/// Serves a duplicate of a connection that another process has accepted. False if nothing listens where it was made to.
#[pyfunction]
pub(crate) fn adopt_client(descriptor: i32) -> PyResult<bool> {
    Ok(takeover::adopt(duplicate(descriptor).map_err(os_error)?))
}
