//! The client's socket, as far as the application sees it: options are read and set, and nothing else can be done.

use std::io;
use std::sync::Weak;

use crate::net::Connection;
use crate::sync::Arc;
use crate::sys::descriptor::{get_option, set_option};

/// The client's socket. It does not keep the connection open.
#[derive(Debug, Clone)]
pub struct ClientSocket(Weak<Connection>);

impl ClientSocket {
    pub(crate) fn new(connection: &Arc<Connection>) -> Self {
        Self(Arc::downgrade(connection))
    }

    /// Reads an option into `value`; how many bytes it has.
    ///
    /// # Errors
    /// The kernel's, or `EBADF`: the connection is closed.
    pub fn option(&self, level: i32, name: i32, value: &mut [u8]) -> io::Result<usize> {
        let connection = self.0.upgrade().ok_or_else(closed)?;
        connection.with_socket(|socket| socket.option(|socket| get_option(&*socket, level, name, value)))
    }

    /// Sets an option that is a number.
    ///
    /// # Errors
    /// As for [`ClientSocket::option`].
    pub fn set_option(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        let connection = self.0.upgrade().ok_or_else(closed)?;
        connection.with_socket(|socket| socket.option(|socket| set_option(&*socket, level, name, value)))
    }
}

fn closed() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}
