//! Pieces of memory of different owners on their way out, and what their owners are told by.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use super::pipe::Piped;
use crate::error;
use crate::pool::{Pool, Purpose, Slice};
use crate::stream::{Delivery, charge};
use crate::sync::{Mutex, lock};
use crate::wire::{CHUNK_END, ChunkHead};

/// Parts of a piece at most.
pub(super) const PARTS_OF_PIECE: usize = 3;

/// Bytes to write. Dropping it gives back what it holds of the pool, and of a stream's credit.
pub(crate) enum Piece {
    /// Of its own, such as a head.
    Bytes(Vec<u8>),
    /// Of its own, and of others.
    Shared(Arc<Vec<u8>>),
    /// A chunk: its size line, its bytes, and the line end after them.
    Chunk(ChunkHead, Payload),
    /// Constant.
    Mark(&'static [u8]),
    /// Of a body.
    Payload(Payload),
    /// Of a body, and in a pipe.
    Piped(Piped),
    /// Of an owner that is told by its drop that it is no longer needed.
    Foreign(Box<dyn AsRef<[u8]> + Send + Sync>),
}

/// Bytes of a body.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Of the pool, and charged to a stream.
    Charged(Delivery),
    /// Of the pool, and charged to their giver.
    Kept(Slice),
    /// Of its own, such as what stands between the parts of a body.
    Text(Vec<u8>),
}

impl Payload {
    /// As what streams are made of. What is of its own is copied into `pool`.
    ///
    /// # Errors
    /// `POOL_FULL`.
    pub(crate) fn into_slice(self, pool: &Pool) -> error::Result<Slice> {
        match self {
            Self::Charged(delivery) => Ok(delivery.slice().clone()),
            Self::Kept(slice) => Ok(slice),
            Self::Text(bytes) => {
                let mut writer = pool.writer(bytes.len(), Purpose::Control)?;
                writer.spare()[..bytes.len()].copy_from_slice(&bytes);
                Ok(writer.commit(bytes.len()))
            }
        }
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Charged(delivery) => delivery,
            Self::Kept(slice) => slice,
            Self::Text(bytes) => bytes,
        }
    }
}

impl Piece {
    /// The bytes, in order. A pipe shows none.
    pub(super) fn parts(&self) -> [&[u8]; PARTS_OF_PIECE] {
        match self {
            Self::Bytes(bytes) => [bytes, &[], &[]],
            Self::Shared(bytes) => [bytes, &[], &[]],
            Self::Chunk(head, payload) => [head, payload, CHUNK_END],
            Self::Mark(bytes) => [bytes, &[], &[]],
            Self::Payload(payload) => [payload, &[], &[]],
            Self::Piped(_) => [&[]; PARTS_OF_PIECE],
            Self::Foreign(bytes) => [(**bytes).as_ref(), &[], &[]],
        }
    }

    /// How many parts have bytes, at most.
    pub(super) fn count(&self) -> usize {
        if matches!(self, Self::Chunk(..)) { PARTS_OF_PIECE } else { 1 }
    }

    /// What it takes of a window.
    pub(super) fn charge(&self) -> usize {
        match self {
            Self::Chunk(_, payload) | Self::Payload(payload) => charge(payload.len()),
            Self::Bytes(_) | Self::Shared(_) | Self::Mark(_) | Self::Piped(_) | Self::Foreign(_) => 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Piped(piped) => piped.len(),
            _ => self.parts().iter().map(|part| part.len()).sum(),
        }
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece").field("length", &self.len()).finish()
    }
}

/// A piece that a [`super::Channel`] sends when its turn comes. Until it is dropped it counts as waiting.
#[derive(Debug)]
pub(crate) struct Lease {
    piece: Piece,
    lent: Arc<Lent>,
}

/// The pieces of one message that are lent.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    pieces: AtomicUsize,
    charge: AtomicUsize,
    waiting: Mutex<Option<Waker>>,
}

impl Lease {
    pub(super) fn new(piece: Piece, lent: &Arc<Lent>) -> Self {
        // Relaxed, here and below: counts of one thread. The waker is under a lock.
        lent.pieces.fetch_add(1, Ordering::Relaxed);
        lent.charge.fetch_add(piece.charge(), Ordering::Relaxed);
        Self { piece, lent: Arc::clone(lent) }
    }

    /// The bytes, in order.
    pub(super) fn parts(&self) -> [&[u8]; PARTS_OF_PIECE] {
        self.piece.parts()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.lent.charge.fetch_sub(self.piece.charge(), Ordering::Relaxed);
        if self.lent.pieces.fetch_sub(1, Ordering::Relaxed) == 1 {
            let waiting = lock(&self.lent.waiting).take();
            if let Some(waiting) = waiting {
                waiting.wake();
            }
        }
    }
}

impl Lent {
    /// What it takes of a window.
    pub(super) fn charge(&self) -> usize {
        self.charge.load(Ordering::Relaxed)
    }

    /// Whether no piece is lent.
    pub(super) fn is_returned(&self) -> bool {
        self.pieces.load(Ordering::Relaxed) == 0
    }

    /// Ready when no piece is lent.
    pub(super) fn poll_returned(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_returned() {
            return Poll::Ready(());
        }
        *lock(&self.waiting) = Some(context.waker().clone());
        Poll::Pending
    }
}
