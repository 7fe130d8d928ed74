//! The directory of a cache: 256 folders of files with names that are never used again, and one for what is being written.
//!
//! A file is renamed to its place when it is whole. Nothing is synchronised: what a crash of the machine has left half
//! written does not have its checksums, and is as if it were not there. The invariants: nothing is removed here that does
//! not have a name as this cache gives them, in a folder of its own; nothing is opened that is not a regular file, because
//! a pipe in its place would hang whoever opens it; and what is stored here is for this user alone, whatever the umask.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Code, Error, Result};
use crate::sync::{Mutex, lock};
use crate::sys::descriptor::lock_file;
use crate::sys::fork::Own;

/// Where files are that are not whole.
const UNFINISHED: &str = "unfinished";

/// Of directories: what was stored for one client is not for other users of the machine.
const PRIVATE: u32 = 0o700;

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
        let locked = regular(OpenOptions::new().create(true).truncate(false).write(true), &root.join("lock"));
        let locked = locked.map_err(failed)?;
        lock_file(&locked).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => taken(root),
            _ => failed(error),
        })?;
        let held = Lock { _own: Own::new(&locked).map_err(failed)?, _file: locked };
        let directory = Self { root: root.to_owned(), lock: Mutex::new(Some(held)) };
        for number in 0..=u8::MAX {
            make_own(&directory.folder(number)).map_err(failed)?;
        }
        let unfinished = root.join(UNFINISHED);
        make_own(&unfinished).map_err(failed)?;
        for entry in fs::read_dir(&unfinished).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if is_regular(&entry) && named(&entry.file_name()).is_some() {
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
        let file = regular(OpenOptions::new().write(true).create_new(true), &self.unfinished(name))?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
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
        regular(OpenOptions::new().read(true), &self.place(name))
    }

    pub(crate) fn change(&self, name: u64) -> io::Result<File> {
        regular(OpenOptions::new().write(true), &self.place(name))
    }

    pub(crate) fn remove(&self, name: u64) -> io::Result<()> {
        fs::remove_file(self.place(name))
    }

    /// The names of a folder's files. What else is there, a pipe or a link, is left alone.
    pub(crate) fn names(&self, folder: u8) -> io::Result<Vec<u64>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.folder(folder))? {
            let entry = entry?;
            let name = named(&entry.file_name()).filter(|name| folder_of(*name) == folder);
            names.extend(name.filter(|_| is_regular(&entry)));
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

/// Makes a directory for this user alone, whatever the umask, unless it is there. Not its parents: where the disk is that was
/// to be mounted there, nobody wants the cache to be beside it.
fn make(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(PRIVATE).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|()| fs::set_permissions(directory, Permissions::from_mode(PRIVATE))),
    }
}

/// The same of a folder of the cache, which is for this user alone also where it was there. A link in its place is an error.
fn make_own(folder: &Path) -> io::Result<()> {
    make(folder)?;
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
    opened.set_permissions(Permissions::from_mode(PRIVATE))
}

/// Opens a regular file. What else has its name is not waited for, followed or read.
fn regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

fn is_regular(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_file())
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
