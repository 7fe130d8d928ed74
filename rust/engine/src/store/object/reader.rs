//! Reading a response's bytes, part after part. What is in a file is opened when the reader comes to it.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Bytes, Object};
use crate::cache::Span;
use crate::error::Result;
use crate::pool::Slice;
use crate::store::body::{Body, Follower};
use crate::store::cache::Cache;
use crate::store::disk::{FileReader, Filed, Opened};
use crate::stream::Ending;
use crate::sync::Arc;

/// Reads bytes in their order.
#[derive(Debug)]
pub(in super::super) struct Reader {
    readers: VecDeque<One>,
    last: Option<Last>,
}

#[derive(Debug)]
enum One {
    Body(Follower),
    File(FileReader),
    /// In a file that has not been opened.
    Closed(Arc<Cache>, Arc<Filed>, Range<u64>),
    Opening(Opening),
}

struct Opening {
    bytes: Pin<Box<dyn Future<Output = Result<Bytes>> + Send>>,
    range: Range<u64>,
}

/// What says how the last part has ended.
#[derive(Debug)]
enum Last {
    Body(Arc<Body>),
    File(Arc<Filed>),
}

impl Object {
    /// Reads these bytes of the representation, which must be there or on their way; all where it is not said which.
    /// `cache` is that which it is stored in.
    pub(in super::super) fn read(&self, span: Option<Span>, cache: &Arc<Cache>) -> Reader {
        let all = || Span::new(0, self.stored.length().unwrap_or(u64::MAX));
        let mut read = Reader { readers: VecDeque::new(), last: None };
        for (part, piece) in span.or_else(all).into_iter().flat_map(|span| self.pieces(span)) {
            let range = piece.start - part.start..piece.end - part.start;
            read.last = part.last();
            read.readers.extend(match (&part.bytes, &part.filed) {
                (Some(bytes), _) => Some(One::of(bytes, range)),
                (None, Some(filed)) => Some(One::Closed(Arc::clone(cache), Arc::clone(filed), range)),
                (None, None) => None,
            });
        }
        read
    }
}

impl super::Part {
    fn last(&self) -> Option<Last> {
        let of_file = || self.filed.as_ref().map(|filed| Last::File(Arc::clone(filed)));
        self.body().map(|body| Last::Body(Arc::clone(body))).or_else(of_file)
    }
}

impl One {
    fn of(bytes: &Bytes, range: Range<u64>) -> Self {
        match bytes {
            Bytes::Body(body) => Self::Body(Body::follow(body, range)),
            Bytes::File(file) => Self::File(Opened::follow(file, range)),
        }
    }
}

impl Reader {
    /// Reads what lies in `range` of the bytes of one part.
    pub(in super::super) fn of(bytes: &Bytes, range: Range<u64>) -> Self {
        // What is read by itself is a slice, behind which nothing follows.
        Self { readers: [One::of(bytes, range)].into(), last: None }
    }

    /// The next bytes. `None` at the end.
    ///
    /// # Errors
    /// How a body has failed, and what a disk says: see [`FileReader::poll_next`].
    pub(in super::super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Slice>>> {
        while let Some(one) = self.readers.front_mut() {
            let next = match one {
                One::Body(follower) => follower.poll_next(context),
                One::File(reader) => reader.poll_next(context),
                One::Closed(cache, filed, range) => {
                    let (cache, filed, range) = (Arc::clone(cache), Arc::clone(filed), range.clone());
                    let place = range.start;
                    let bytes = Box::pin(async move { cache.read_file(&filed, place).await });
                    *one = One::Opening(Opening { bytes, range });
                    continue;
                }
                One::Opening(Opening { bytes, range }) => match bytes.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(bytes)) => {
                        *one = One::of(&bytes, range.clone());
                        continue;
                    }
                    Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
                },
            };
            match next {
                Poll::Ready(None) => drop(self.readers.pop_front()),
                other => return other,
            }
        }
        Poll::Ready(None)
    }

    /// What followed the last of the bodies.
    pub(in super::super) fn ending(&self) -> Ending {
        match &self.last {
            Some(Last::Body(body)) => body.ending().unwrap_or_default(),
            Some(Last::File(filed)) => filed.ending.clone(),
            None => Ending::default(),
        }
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").field("range", &self.range).finish_non_exhaustive()
    }
}
