//! Bodies that do not come over HTTP: files, descriptors, child processes.
//!
//! Each is one future that reads into slabs for as long as its stream has room and ends the stream. Reads are offered
//! as much memory as arrives at a time; where the framing knows how long a frame is, it is read straight into one
//! contiguous piece.

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
use crate::stream::reading::{ReadSize, worth_filling};
use crate::stream::{Ending, Feed, ReadSizes};

/// Where a source puts what it reads, and the memory that it reads into.
#[derive(Debug)]
pub struct Intake {
    pool: Pool,
    feed: Feed,
    size: ReadSize,
    writer: Option<Writer>,
    began: Instant,
}

impl Intake {
    /// The intake of the stream that `feed` feeds.
    pub fn new(pool: Pool, sizes: ReadSizes, feed: Feed) -> Self {
        Self { pool, feed, size: ReadSize::new(sizes, None), writer: None, began: Instant::now() }
    }

    /// Waits for credit, then for memory, and says how many bytes of it the next read may fill.
    async fn offer(&mut self) -> Result<(&mut Writer, usize)> {
        self.feed.room().await?;
        let wants = self.feed.wants();
        let least = wants.unwrap_or(1);
        let fits = self.writer.as_mut().is_some_and(|writer| {
            writer.reclaim();
            match wants {
                // Reading on in the same piece joins what is read to what was, for nothing.
                Some(bytes) => writer.remaining() >= bytes,
                None => worth_filling(writer.remaining(), writer.capacity()),
            }
        });
        if !fits {
            self.writer = None;
            let size = wants.unwrap_or_else(|| self.size.next(None));
            let pool = &self.pool;
            let writer = poll_fn(|context| pool.poll_room(context, size, Purpose::Bulk)).await?;
            self.writer = Some(writer);
        }
        let writer = self.writer.as_mut().expect("taken above");
        // Beyond the frame's end the next one would begin in the wrong place and have to be joined.
        let most = if wants.is_some() { least } else { writer.remaining() };
        Ok((writer, most))
    }

    /// Passes on the `count` bytes that were read of the `offered`.
    async fn took(&mut self, offered: usize, count: usize) -> Result<()> {
        self.size.record(offered, count);
        let slice = self.writer.as_mut().expect("offered before").commit(count);
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
