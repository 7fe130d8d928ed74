use std::future::poll_fn;
use std::io::Write;
use std::thread;

use super::super::directory::Directory;
use super::super::file::StoredFile;
use super::super::format::{BLOCK, Layout};
use super::super::queue::Queue;
use super::super::read::{FileReader, OpenFile, ReadFailure, open};
use super::*;
use crate::error::Code;
use crate::pool::testing::config;
use crate::pool::{Pool, REGION};

/// A file of `blocks` blocks in a directory of its own, and a queue without threads but [`Disk::work`].
struct Disk {
    _root: tempfile::TempDir,
    directory: Arc<Directory>,
    queue: Arc<Queue>,
    pool: Pool,
    stored_file: Arc<StoredFile>,
}

impl Disk {
    fn new(limit: Duration, blocks: u64) -> Self {
        let root = tempfile::tempdir().unwrap();
        let directory = Arc::new(Directory::open(root.path()).unwrap());
        let (layout, head) = head(&segment(), blocks * BLOCK);
        let mut file = directory.begin(layout.name).unwrap();
        file.write_all(&head).unwrap();
        file.write_all(&vec![7; usize::try_from(layout.length).unwrap()]).unwrap();
        for block in 0..blocks {
            file.write_all(&sum(layout, block).to_le_bytes()).unwrap();
        }
        directory.finish(layout.name).unwrap();
        let stored_file = Arc::new(StoredFile::new(layout, Item::new(1, key()), Ending::default()));
        let queue = Arc::new(Queue::new(limit));
        Self { _root: root, directory, queue, pool: Pool::new(config(REGION)).unwrap(), stored_file }
    }

    /// Does this many reads; then the thread ends, as if the disk had blocked it.
    fn work(&self, times: usize) -> thread::JoinHandle<()> {
        let queue = Arc::clone(&self.queue);
        thread::spawn(move || (0..times).for_each(|_| assert!(queue.read_next(), "it is open")))
    }

    async fn open(&self) -> Result<Arc<OpenFile>, ReadFailure> {
        open(&self.directory, &self.queue, &self.pool, &self.stored_file, 0).await
    }
}

fn sum(layout: Layout, block: u64) -> u64 {
    layout.sum(block, &vec![7; layout.block_length(block)])
}

async fn next(reader: &mut FileReader) -> Option<crate::error::Result<usize>> {
    poll_fn(|context| reader.poll_next(context)).await.map(|piece| piece.map(|piece| piece.len()))
}

#[tokio::test]
async fn a_body_is_broken_off_where_the_disk_hangs_in_the_middle_of_it() {
    let disk = Disk::new(Duration::from_millis(50), 4);
    // Opening reads the first block.
    let working = disk.work(2);
    let opened = disk.open().await.expect("a thread reads it");
    let mut reader = OpenFile::follow(&opened, 0..u64::MAX);
    for _ in 0..2 {
        assert_eq!(next(&mut reader).await.unwrap().unwrap(), 65536);
    }
    let error = next(&mut reader).await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::CacheDiskTimeout);
    assert!(disk.queue.deadline.is_hanging());
    working.join().unwrap();
    drop((reader, opened));
    assert_eq!(disk.pool.stats().live_bytes, 0, "an abandoned read holds no memory");
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_in_time_is_not_waited_for() {
    let disk = Disk::new(Duration::from_millis(50), 1);
    assert!(matches!(disk.open().await, Err(ReadFailure::Late)));
    assert!(!disk.queue.deadline.may_read());
    assert_eq!(disk.pool.stats().live_bytes, 0, "an abandoned read holds no memory");
    let working = disk.work(1);
    disk.open().await.expect("a thread reads it");
    working.join().unwrap();
}
