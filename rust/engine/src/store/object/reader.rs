//! Reads the bytes of a response part by part, if all of them can be read now.

use std::ops::Range;
use std::task::{Context, Poll};
use std::vec;

use super::{Bytes, Object, Part};
use crate::error::{Code, Result};
use crate::pool::Slice;
use crate::store::body::{Body, Follower};
use crate::store::disk::{FileReader, OpenFile, StoredFile};
use crate::stream::Ending;
use crate::sync::Arc;
use crate::wire::Span;

/// Reads bytes in order.
#[derive(Debug)]
pub(in super::super) struct Reader {
    /// What is read, and what comes after it. Most responses are in one part, which then takes no memory of its own.
    one: Option<One>,
    others: vec::IntoIter<One>,
    last: Option<Last>,
}

#[derive(Debug)]
enum One {
    Body(Follower),
    File(FileReader),
    /// In a file that was not opened: a bug, and not the end of a body.
    Missing,
}

/// The last part, which has the trailers.
#[derive(Debug)]
enum Last {
    Body(Arc<Body>),
    File(Arc<StoredFile>),
}

impl Object {
    /// Reads a span, which must be stored or growing, or all bytes.
    pub(in super::super) fn read(&self, span: Option<Span>) -> Reader {
        let all = || Span::new(0, self.stored.length().unwrap_or(u64::MAX));
        let mut last = None;
        let pieces = span.or_else(all).into_iter().flat_map(|span| self.pieces(span));
        let mut ones = pieces.map(|(part, piece)| {
            last = part.last();
            let range = piece.start - part.start..piece.end - part.start;
            part.bytes.as_ref().map_or(One::Missing, |bytes| One::of(bytes, range))
        });
        let (one, others) = (ones.next(), ones.collect::<Vec<_>>().into_iter());
        Reader { one, others, last }
    }
}

impl Part {
    fn last(&self) -> Option<Last> {
        let of_file = || self.stored_file.as_ref().map(|stored_file| Last::File(Arc::clone(stored_file)));
        self.body().map(|body| Last::Body(Arc::clone(body))).or_else(of_file)
    }
}

impl One {
    fn of(bytes: &Bytes, range: Range<u64>) -> Self {
        match bytes {
            Bytes::Body(body) => Self::Body(Body::follow(body, range)),
            Bytes::File(file) => Self::File(OpenFile::follow(file, range)),
        }
    }
}

impl Reader {
    /// Reads `range` of the bytes of one part.
    pub(in super::super) fn of(bytes: &Bytes, range: Range<u64>) -> Self {
        // The part is in the middle of a response.
        Self { one: Some(One::of(bytes, range)), others: vec::IntoIter::default(), last: None }
    }

    /// The next bytes. `None` at the end.
    ///
    /// # Errors
    /// The error of a body or of the disk: see [`FileReader::poll_next`].
    pub(in super::super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Slice>>> {
        while let Some(one) = &mut self.one {
            let next = match one {
                One::Body(follower) => follower.poll_next(context),
                One::File(reader) => reader.poll_next(context),
                One::Missing => Poll::Ready(Some(Err(
                    Code::Internal.error("a file was to be read and had not been opened")
                ))),
            };
            match next {
                Poll::Ready(None) => self.one = self.others.next(),
                other => return other,
            }
        }
        Poll::Ready(None)
    }

    /// The end and the trailers of the last part.
    pub(in super::super) fn ending(&self) -> Ending {
        match &self.last {
            Some(Last::Body(body)) => body.ending().unwrap_or_default(),
            Some(Last::File(stored_file)) => stored_file.ending.clone(),
            None => Ending::default(),
        }
    }
}
