//! Reads files whole, up to a limit, and tells whether one has changed since.
//!
//! A symbolic link counts as the file that it leads to: Kubernetes and certbot change certificates by moving a link.

use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use penstock_error::{Code, Error, Result};
use rustls_pki_types::pem::{self, PemObject};

/// The largest file that is read; arbitrary. The lists of public authorities have some 10 MB.
const LIMIT: u64 = 64 << 20;

/// What a file is known by: another file in its place, other content and other permissions each give another mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    File { place: (u64, u64), size: u64, modified: (i64, i64), changed: (i64, i64) },
    Failed(ErrorKind),
}

impl Mark {
    /// The mark of the file that is at `path` now.
    pub(crate) fn of(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(found) => Self::File {
                place: (found.dev(), found.ino()),
                size: found.size(),
                modified: (found.mtime(), found.mtime_nsec()),
                changed: (found.ctime(), found.ctime_nsec()),
            },
            Err(error) => Self::Failed(error.kind()),
        }
    }
}

/// The content of the file at `path`, which is called `what` in an error.
///
/// # Errors
/// `BAD_CONFIGURATION`, naming the file and what to do.
pub(crate) fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    read_checked(path, what, |_| Ok(()))
}

/// The same, if `check` finds nothing wrong about the file.
///
/// # Errors
/// `BAD_CONFIGURATION`, and what `check` gives.
pub(crate) fn read_checked(
    path: &Path,
    what: &str,
    check: impl Fn(&Metadata) -> Result<()>,
) -> Result<Vec<u8>> {
    let fails = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => unusable(path, what, "does not exist: put it there, or name another"),
        ErrorKind::PermissionDenied => {
            unusable(path, what, "may not be read by this process: let its user read it")
        }
        _ => unusable(path, what, &format!("cannot be read: {error}")),
    };
    // To open a pipe would wait for its other end.
    if !fs::metadata(path).map_err(fails)?.is_file() {
        return Err(unusable(path, what, "is not a file: name one"));
    }
    let file = File::open(path).map_err(fails)?;
    let found = file.metadata().map_err(fails)?;
    check(&found)?;
    let mut content = Vec::with_capacity(usize::try_from(found.size().min(LIMIT)).unwrap_or_default());
    file.take(LIMIT + 1).read_to_end(&mut content).map_err(fails)?;
    if content.len() as u64 > LIMIT {
        return Err(unusable(path, what, "has more than 64 MiB: name a file in PEM"));
    }
    Ok(content)
}

/// The items of one kind in the PEM of the file at `path`. `missing` says what is wrong with a file that has no such item.
///
/// # Errors
/// `BAD_CONFIGURATION`.
pub(crate) fn read_pem<T: PemObject>(path: &Path, what: &str, missing: &str) -> Result<Vec<T>> {
    let text = read(path, what)?;
    let found = T::pem_slice_iter(&text).collect::<std::result::Result<Vec<_>, _>>();
    let found = found.map_err(|error| malformed(path, what, &error))?;
    if found.is_empty() { Err(unusable(path, what, missing)) } else { Ok(found) }
}

/// An error about the file at `path`.
pub(crate) fn unusable(path: &Path, what: &str, why: &str) -> Error {
    Code::BadConfiguration.error(format!("TLS: the {what} {} {why}", path.display()))
}

/// What is wrong with a file that has no certificate.
pub(crate) const NO_CERTIFICATE: &str = "holds no certificate: it has to begin with BEGIN CERTIFICATE";

/// An error about a file that is PEM in part only, such as one that is being written.
pub(crate) fn malformed(path: &Path, what: &str, error: &pem::Error) -> Error {
    unusable(path, what, &format!("is not whole, or not PEM ({error}): copy it again"))
}
