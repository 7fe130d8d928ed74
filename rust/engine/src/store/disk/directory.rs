//! The directory of a cache: 256 folders of files with names that are never used again, and one for what is being written.
//!
//! A file is renamed to its place when it is whole. Nothing is synchronised: what a crash of the machine has left half
//! written does not have its checksums, and is as if it were not there. The invariant: nothing is removed here that does
//! not have a name as this cache gives them, in a folder of its own.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::{Code, Error, Result};
use crate::sync::{Mutex, lock};
use crate::sys::descriptor::lock_file;
use crate::sys::fork::Own;

/// Where files are that are not whole.
const UNFINISHED: &str = "unfinished";

/// A directory that this process alone uses. The lock goes with it.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    lock: Mutex<Option<Lock>>,
}

/// In this order: else a child could get the file between.
#[derive(Debug)]
struct Lock {
    _own: Own,
    _file: File,
}

impl Directory {
    /// Takes the directory, which is made if it is not there, and removes what a crash has left half written.
    ///
    /// # Errors
    /// `CACHE_DIRECTORY_TAKEN` if another has it, `CACHE_DIRECTORY_FAILED` if it cannot be made or written.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let failed = |error: io::Error| {
            Code::CacheDirectoryFailed
                .error(format!("the cache's directory {} cannot be used: {error}", root.display()))
        };
        make(root).map_err(failed)?;
        let locked = OpenOptions::new().create(true).truncate(false).write(true).open(root.join("lock"));
        let locked = locked.map_err(failed)?;
        lock_file(&locked).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => taken(root),
            _ => failed(error),
        })?;
        let held = Lock { _own: Own::new(&locked).map_err(failed)?, _file: locked };
        let directory = Self { root: root.to_owned(), lock: Mutex::new(Some(held)) };
        for number in 0..=u8::MAX {
            make(&directory.folder(number)).map_err(failed)?;
        }
        let unfinished = root.join(UNFINISHED);
        make(&unfinished).map_err(failed)?;
        for entry in fs::read_dir(&unfinished).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if named(&entry.file_name()).is_some() {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(directory)
    }

    /// Lets another have it. Nothing is to be written from now on.
    pub(crate) fn release(&self) {
        drop(lock(&self.lock).take());
    }

    /// A name that no file has had: 64 random bits.
    pub(crate) fn new_name() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// Writes a file that is not to be found until [`Directory::finish`].
    pub(crate) fn begin(&self, name: u64) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(self.unfinished(name))
    }

    /// The file is whole.
    pub(crate) fn finish(&self, name: u64) -> io::Result<()> {
        fs::rename(self.unfinished(name), self.place(name))
    }

    /// The file will not be whole.
    pub(crate) fn give_up(&self, name: u64) -> io::Result<()> {
        fs::remove_file(self.unfinished(name))
    }

    pub(crate) fn read(&self, name: u64) -> io::Result<File> {
        File::open(self.place(name))
    }

    pub(crate) fn change(&self, name: u64) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.place(name))
    }

    pub(crate) fn remove(&self, name: u64) -> io::Result<()> {
        fs::remove_file(self.place(name))
    }

    /// The names of a folder's files.
    pub(crate) fn names(&self, folder: u8) -> io::Result<Vec<u64>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.folder(folder))? {
            let name = named(&entry?.file_name());
            names.extend(name.filter(|name| folder_of(*name) == folder));
        }
        Ok(names)
    }

    fn folder(&self, number: u8) -> PathBuf {
        self.root.join(format!("{number:02x}"))
    }

    fn place(&self, name: u64) -> PathBuf {
        self.folder(folder_of(name)).join(format!("{name:016x}"))
    }

    fn unfinished(&self, name: u64) -> PathBuf {
        self.root.join(UNFINISHED).join(format!("{name:016x}"))
    }
}

/// Not its parents: where the disk is that was to be mounted there, nobody wants the cache to be beside it.
fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn folder_of(name: u64) -> u8 {
    name.to_be_bytes()[0]
}

fn named(name: &std::ffi::OsStr) -> Option<u64> {
    let name = name.to_str().filter(|name| name.len() == 16)?;
    let number = u64::from_str_radix(name, 16).ok()?;
    (format!("{number:016x}") == name).then_some(number)
}

fn taken(root: &Path) -> Error {
    Code::CacheDirectoryTaken.error(format!(
        "the cache's directory {} is in use; give each process one of its own",
        root.display()
    ))
}
