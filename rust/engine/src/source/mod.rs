//! Bodies that do not come over HTTP: files, descriptors, child processes.
//!
//! Each is one future that reads into slabs while its stream has room, and ends the stream. The memory for a read
//! follows the size of the reads before; if the framing knows the length of a frame, the frame is read into one
//! contiguous slab.

mod descriptor;
mod file;
mod process;

pub use descriptor::read_descriptor;
pub use file::read_file;
pub use process::{Command, read_process};

use std::future::poll_fn;
use std::time::Instant;

use crate::error::Result;
use crate::pool::{Pool, Purpose, Writer};
use crate::stream::reading::{self, ReadSize, worth_filling};
use crate::stream::{Ending, Feed, ReadSizes};

/// The intake of a source: its stream, and the memory into which it reads.
#[derive(Debug)]
pub struct Intake {
    pool: Pool,
    feed: Feed,
    size: ReadSize,
    writer: Option<Writer>,
    /// Bytes that the current frame still needs in a slab that was taken for it alone.
    reserved: usize,
    began: Instant,
}

impl Intake {
    /// The intake of the stream that `feed` feeds.
    pub fn new(pool: Pool, sizes: ReadSizes, feed: Feed) -> Self {
        Self {
            pool,
            feed,
            size: ReadSize::new(sizes, None),
            writer: None,
            reserved: 0,
            began: Instant::now(),
        }
    }

    /// Waits for credit, then for memory. Returns how many bytes the next read may fill.
    async fn offer(&mut self) -> Result<(&mut Writer, usize)> {
        self.feed.room().await?;
        if self.reserved == 0 {
            self.prepare().await?;
        }
        let writer = self.writer.as_mut().expect("prepared above");
        let offered =
            if self.reserved > 0 { self.reserved } else { writer.remaining().min(self.feed.credit()) };
        Ok((writer, offered))
    }

    async fn prepare(&mut self) -> Result<()> {
        let (pool, feed, writer) = (&self.pool, &self.feed, &mut self.writer);
        self.reserved =
            poll_fn(|context| reading::poll_reserve(context, pool, feed, writer, usize::MAX)).await?;
        let pays = |writer: &mut Writer| {
            writer.reclaim();
            worth_filling(writer.remaining(), writer.capacity())
        };
        if self.reserved == 0 && !self.writer.as_mut().is_some_and(pays) {
            self.writer = None;
            let (size, pool) = (self.size.next(None).min(self.feed.credit()), &self.pool);
            self.writer = Some(poll_fn(|context| pool.poll_some(context, size, Purpose::Bulk)).await?);
        }
        Ok(())
    }

    /// Passes on the `count` bytes that were read, of the `offered` bytes.
    async fn took(&mut self, offered: usize, count: usize) -> Result<()> {
        let slice = self.writer.as_mut().expect("offered before").commit(count);
        if self.reserved > 0 {
            self.reserved -= count;
            if self.reserved == 0 {
                // The next reads follow their own size.
                self.writer = None;
            }
        } else {
            self.size.record(offered, count);
        }
        self.feed.push(slice).await
    }

    /// Ends the stream.
    fn end(self, result: Result<()>) {
        match result {
            Ok(()) => self.feed.finish(Ending { body: self.began.elapsed(), trailers: Vec::new() }),
            Err(error) => self.feed.fail(error),
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests;
