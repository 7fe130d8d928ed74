//! Reads the bytes of a response from its file, block by block: the reading threads read each into memory of the pool,
//! and verify it before it is sent.
//!
//! Blocks are verified each time they are read, and not only the first time: nothing must be remembered, and later
//! damage of the disk is found as well.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep, timeout};

use super::directory::Directory;
use super::file::StoredFile;
use super::format::{BLOCK, SUM};
use super::queue::Queue;
use crate::error::{Code, Error, Result};
use crate::pool::{Pool, Purpose, Slice, Writer};
use crate::sync::{Arc, Mutex, lock};

/// The number of blocks that are read ahead, so that the disk and the client's socket are busy at once. They are on top
/// of the client's window.
const BLOCKS_AHEAD: usize = 2;

/// An open file, for any number of readers.
pub(crate) struct OpenFile {
    stored_file: Arc<StoredFile>,
    file: File,
    sums: Box<[u64]>,
    /// The block that was read when the file was opened, for the first reader that needs it.
    first: Mutex<Option<(u64, Slice)>>,
    queue: Arc<Queue>,
    pool: Pool,
}

/// Reads a range of a body in order, as a follower of a body in memory does.
#[derive(Debug)]
pub(crate) struct FileReader {
    opened: Arc<OpenFile>,
    place: u64,
    end: u64,
    /// The next block to request.
    next: u64,
    coming: VecDeque<PendingBlock>,
    /// The deadline of the first of them, while it is waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum PendingBlock {
    Here(Slice),
    Asked(oneshot::Receiver<Result<Slice>>),
}

/// Why a file cannot be read.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    /// It is missing or damaged, for good.
    Damaged,
    /// Another error, such as a lack of descriptors or memory.
    Failed,
    /// The disk has not answered in time.
    Late,
}

/// Opens the file of `stored_file` and reads the block with the byte at `place`, if there is one.
pub(crate) async fn open(
    directory: &Arc<Directory>,
    queue: &Arc<Queue>,
    pool: &Pool,
    stored_file: &Arc<StoredFile>,
    place: u64,
) -> std::result::Result<Arc<OpenFile>, ReadFailure> {
    let block = place / BLOCK;
    let length = stored_file.layout.block_length(block);
    let writer = match length {
        0 => None,
        length => {
            let room = poll_fn(|context| pool.poll_room(context, length, Purpose::Bulk));
            Some((block, room.await.map_err(|_| ReadFailure::Failed)?))
        }
    };
    let (directory, asked) = (Arc::clone(directory), Arc::clone(stored_file));
    let (of_reader, pool) = (Arc::clone(queue), pool.clone());
    let answer = queue.ask(stored_file.layout.name, move || {
        let opened = open_now(&directory, Arc::clone(&asked), writer, of_reader, pool);
        asked.set_late(false);
        opened
    });
    let Ok(opened) = timeout(queue.deadline.limit(), answer).await else {
        queue.record_timeout(Some(stored_file));
        return Err(ReadFailure::Late);
    };
    opened.unwrap_or(Err(ReadFailure::Failed))
}

fn open_now(
    directory: &Directory,
    stored_file: Arc<StoredFile>,
    writer: Option<(u64, Writer)>,
    queue: Arc<Queue>,
    pool: Pool,
) -> std::result::Result<Arc<OpenFile>, ReadFailure> {
    let layout = stored_file.layout;
    let of_file = |error: io::Error| match error.raw_os_error() {
        // The last one if another program has a lease on it.
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EWOULDBLOCK) => ReadFailure::Failed,
        _ => ReadFailure::Damaged,
    };
    let file = directory.read(layout.name).map_err(of_file)?;
    let count = usize::try_from(layout.blocks() * SUM).map_err(|_| ReadFailure::Damaged)?;
    let mut bytes = vec![0; count];
    file.read_exact_at(&mut bytes, layout.sums_place()).map_err(of_file)?;
    let sum = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let sums = bytes.chunks_exact(size_of::<u64>()).map(sum).collect();
    let opened = OpenFile { stored_file, file, sums, first: Mutex::new(None), queue, pool };
    if let Some((block, writer)) = writer {
        let slice = opened.read(block, writer).map_err(|_| ReadFailure::Damaged)?;
        *lock(&opened.first) = Some((block, slice));
    }
    Ok(Arc::new(opened))
}

impl OpenFile {
    /// Reads and verifies a block. Runs on a reading thread.
    fn read(&self, block: u64, mut writer: Writer) -> Result<Slice> {
        let layout = self.stored_file.layout;
        let length = layout.block_length(block);
        let bytes = &mut writer.spare()[..length];
        let is_read = self.file.read_exact_at(bytes, layout.block_place(block));
        let sum = usize::try_from(block).ok().and_then(|block| self.sums.get(block));
        if is_read.is_err() || sum != Some(&layout.sum(block, bytes)) {
            self.stored_file.damage();
            return Err(Code::CacheDamaged.error("a block of a stored response does not have its checksum"));
        }
        Ok(writer.commit(length))
    }

    /// Reads this range of the body, up to its end.
    pub(crate) fn follow(opened: &Arc<Self>, range: Range<u64>) -> FileReader {
        let (place, end) = (range.start, range.end.min(opened.stored_file.layout.length));
        let next = place / BLOCK;
        let (opened, coming) = (Arc::clone(opened), VecDeque::new());
        FileReader { opened, place, end, next, coming, timer: None }
    }

    pub(crate) fn stored_file(&self) -> &Arc<StoredFile> {
        &self.stored_file
    }
}

impl FileReader {
    /// The next bytes. `None` at the end.
    ///
    /// # Errors
    /// `CACHE_DAMAGED` if a checksum is wrong, `CACHE_DISK_TIMEOUT` if the disk does not answer in time, and errors of
    /// the pool.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Slice>>> {
        if self.place >= self.end {
            return Poll::Ready(None);
        }
        if let Err(error) = self.ask(context) {
            if self.coming.is_empty() {
                return Poll::Ready(Some(Err(error)));
            }
        }
        let slice = match self.coming.front_mut() {
            // The pool has no room, and wakes this task.
            None => return Poll::Pending,
            Some(PendingBlock::Here(slice)) => Ok(slice.clone()),
            Some(PendingBlock::Asked(answer)) => match Pin::new(answer).poll(context) {
                Poll::Pending => return self.wait(context),
                Poll::Ready(Ok(result)) => result,
                Poll::Ready(Err(_)) => Err(closed()),
            },
        };
        self.coming.pop_front();
        self.timer = None;
        let slice = match slice {
            Ok(slice) => slice,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        let first = self.place / BLOCK * BLOCK;
        // All offsets are within one block, so that they fit.
        let within = |place: u64| usize::try_from(place - first).unwrap_or(usize::MAX).min(slice.len());
        let part = slice.slice(within(self.place)..within(self.end));
        self.place += part.len() as u64;
        Poll::Ready(Some(Ok(part)))
    }

    /// Waits for the next block, up to the timeout.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Slice>>> {
        let queue = &self.opened.queue;
        let limit = queue.deadline.limit();
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        if timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.coming.clear();
        queue.record_timeout(Some(&self.opened.stored_file));
        let detail = format!("the cache's disk gave nothing back for {limit:?}");
        Poll::Ready(Some(Err(Code::CacheDiskTimeout.error(detail))))
    }

    /// Requests blocks as far ahead as allowed.
    fn ask(&mut self, context: &mut Context<'_>) -> Result<()> {
        while self.coming.len() < BLOCKS_AHEAD && self.next * BLOCK < self.end {
            let (opened, block) = (Arc::clone(&self.opened), self.next);
            let is_next = |first: &mut (u64, Slice)| first.0 == block;
            let coming = if let Some((_, slice)) = lock(&opened.first).take_if(is_next) {
                PendingBlock::Here(slice)
            } else {
                let length = opened.stored_file.layout.block_length(block);
                let room = self.opened.pool.poll_room(context, length, Purpose::Bulk);
                let Poll::Ready(writer) = room else { return Ok(()) };
                let writer = writer?;
                PendingBlock::Asked(self.opened.queue.ask(opened.stored_file.layout.name, move || {
                    let read = opened.read(block, writer);
                    opened.stored_file.set_late(false);
                    read
                }))
            };
            self.coming.push_back(coming);
            self.next += 1;
        }
        Ok(())
    }
}

fn closed() -> Error {
    Code::EngineClosed.error("the cache was closed while it read a file")
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile").field("stored_file", &self.stored_file).finish_non_exhaustive()
    }
}
