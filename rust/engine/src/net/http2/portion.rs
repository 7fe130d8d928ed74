//! A part of lent memory that is one DATA frame.

use std::ops::Range;
use std::sync::Arc;

use bytes::Buf;

use super::gate::Grant;
use crate::net::Lease;

/// Bytes of one frame: with its head of 9 bytes it is one record of TLS (RFC 8446, section 5.1).
pub(super) const FRAME: usize = (16 << 10) - 9;

/// A part of a lease that no frame has yet.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) lease: Arc<Lease>,
    pub(super) part: usize,
    pub(super) range: Range<usize>,
}

/// The payload of one frame.
#[derive(Debug, Default)]
pub(crate) struct Portion {
    of: Option<(Unsent, Grant)>,
}

impl Unsent {
    /// The first `count` bytes.
    pub(super) fn take(&mut self, count: usize, grant: Grant) -> Portion {
        let middle = self.range.start + count;
        let range = self.range.start..middle;
        self.range.start = middle;
        let taken = Self { lease: Arc::clone(&self.lease), part: self.part, range };
        Portion { of: Some((taken, grant)) }
    }
}

impl Buf for Portion {
    fn remaining(&self) -> usize {
        self.of.as_ref().map_or(0, |(unsent, _)| unsent.range.len())
    }

    fn chunk(&self) -> &[u8] {
        self.of.as_ref().map_or(&[], |(unsent, _)| &unsent.lease.parts()[unsent.part][unsent.range.clone()])
    }

    fn advance(&mut self, count: usize) {
        if let Some((unsent, _)) = &mut self.of {
            assert!(count <= unsent.range.len(), "not beyond the end");
            unsent.range.start += count;
        }
    }
}
