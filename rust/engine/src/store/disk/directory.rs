//! The directory of a cache: 256 folders of files whose names are never used again, and a folder for unfinished files.
//!
//! A complete file is renamed to its place. Nothing is synchronised: a file that a crash has left half written has
//! wrong checksums, and counts as missing. The invariants: only files with names of this cache in its own folders are
//! removed; only regular files are opened, because a pipe in their place would block the reader; only this user can
//! read what is stored, for any umask.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Code, Error, Result};
use crate::sync::{Mutex, lock};
use crate::sys::descriptor::lock_file;
use crate::sys::fork::Own;
use crate::takeover;

/// The folder of unfinished files.
const UNFINISHED: &str = "unfinished";

/// The mode of directories: other users of the machine must not read what was stored for one client.
const PRIVATE: u32 = 0o700;

/// A directory that is locked by this process. The lock ends with the value.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    lock: Mutex<Option<Lock>>,
}

/// In this order: otherwise a child could get the file in between.
#[derive(Debug)]
struct Lock {
    _own: Own,
    _file: File,
}

impl Directory {
    /// Locks the directory, creates it if it does not exist, and removes unfinished files of a crash. A process that takes over
    /// from another opens it without the lock, which that still has.
    ///
    /// # Errors
    /// `CACHE_DIRECTORY_TAKEN` if another process has it, `CACHE_DIRECTORY_FAILED` if it cannot be created or written.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let directory = Self { root: root.to_owned(), lock: Mutex::new(None) };
        if directory.try_lock()? || takeover::is_held() { Ok(directory) } else { Err(taken(root)) }
    }

    /// As [`Directory::open`]; false if another process has the lock.
    pub(crate) fn try_lock(&self) -> Result<bool> {
        self.lock_and_clear().map_err(|error| {
            let detail = format!("the cache's directory {} cannot be used: {error}", self.root.display());
            Code::CacheDirectoryFailed.error(detail)
        })
    }

    fn lock_and_clear(&self) -> io::Result<bool> {
        if lock(&self.lock).is_some() {
            return Ok(true);
        }
        make(&self.root)?;
        let path = self.root.join("lock");
        let locked = regular(OpenOptions::new().create(true).truncate(false).write(true), &path)?;
        match lock_file(&locked) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            done => done?,
        }
        let held = Lock { _own: Own::new(&locked)?, _file: locked };
        for number in 0..=u8::MAX {
            make_own(&self.folder(number))?;
        }
        let unfinished = self.root.join(UNFINISHED);
        make_own(&unfinished)?;
        for entry in fs::read_dir(&unfinished)? {
            let entry = entry?;
            if is_regular(&entry) && named(&entry.file_name()).is_some() {
                fs::remove_file(entry.path())?;
            }
        }
        *lock(&self.lock) = Some(held);
        Ok(true)
    }

    /// Unlocks it. Nothing may be written afterwards.
    pub(crate) fn release(&self) {
        drop(lock(&self.lock).take());
    }

    /// A new name: 64 random bits.
    pub(crate) fn new_name() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// Begins a file, which is not found before [`Directory::finish`].
    pub(crate) fn begin(&self, name: u64) -> io::Result<File> {
        let file = regular(OpenOptions::new().write(true).create_new(true), &self.unfinished(name))?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    }

    /// The file is complete.
    pub(crate) fn finish(&self, name: u64) -> io::Result<()> {
        fs::rename(self.unfinished(name), self.place(name))
    }

    /// Removes an unfinished file.
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

    /// The names of the files of a folder. Other things, such as a pipe or a link, are ignored.
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

/// Creates a directory for this user alone, for any umask, unless it exists. Parents are not created: if the disk is
/// not mounted there, the cache must not fill the one below.
fn make(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(PRIVATE).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|()| fs::set_permissions(directory, Permissions::from_mode(PRIVATE))),
    }
}

/// The same for a folder of the cache, whose mode is set even if it exists. A link in its place is an error.
fn make_own(folder: &Path) -> io::Result<()> {
    make(folder)?;
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
    opened.set_permissions(Permissions::from_mode(PRIVATE))
}

/// Opens a regular file. Anything else with its name is not waited for, followed or read.
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
