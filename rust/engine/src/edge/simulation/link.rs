//! A client's connection to the edge: what it has still to send, and how it has ended.

use std::collections::VecDeque;
use std::io::ErrorKind;

use crate::net::simulated::End;

/// A connection.
pub(super) struct Link {
    end: End,
    unsent: VecDeque<u8>,
    pub(super) reads: bool,
    pub(super) ended: Option<Ended>,
    /// A write has met a reset.
    is_reset: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Orderly,
    Reset,
}

impl Link {
    pub(super) fn new(end: End) -> Self {
        Self { end, unsent: VecDeque::new(), reads: true, ended: None, is_reset: false }
    }

    /// Bytes that are to be sent, after those before.
    pub(super) fn push(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.unsent.extend(bytes);
    }

    /// How many bytes are still to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Sends once; whether the network takes more.
    pub(super) fn send_once(&mut self) -> bool {
        let (first, _) = self.unsent.as_slices();
        match self.end.send(first) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            // What it has been sent is still to be read. The kernel tells of a reset once.
            Err(_) => {
                self.is_reset = true;
                self.unsent.clear();
                return false;
            }
        }
        true
    }

    /// Sends what the network takes.
    pub(super) fn send(&mut self) {
        while !self.unsent.is_empty() && self.send_once() {}
    }

    /// What has come, if the client reads; nothing if there is no more for now, or ever.
    pub(super) fn receive(&mut self) -> Option<Vec<u8>> {
        if !self.reads || self.ended.is_some() {
            return None;
        }
        let mut bytes = [0; 4096];
        match self.end.receive(&mut bytes) {
            Ok(0) if self.is_reset => self.ended = Some(Ended::Reset),
            Ok(0) => self.ended = Some(Ended::Orderly),
            Ok(count) => return Some(bytes[..count].to_vec()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.ended = Some(Ended::Reset),
        }
        None
    }

    /// Ends it, with a reset or in order.
    pub(super) fn leave(self, resets: bool) {
        if resets {
            self.end.reset_on_close();
        }
    }
}
