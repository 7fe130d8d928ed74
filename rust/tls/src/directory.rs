//! Which pairs of files a directory of certificates has.
//!
//! It looks at names alone. A pair that lacks a file is listed all the same: to read it gives the error.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use penstock_error::{Error, Result};

use crate::files::unusable;
use crate::pair::Place;
use crate::settings::CertificateFiles;

/// More entries than a directory of certificates has; arbitrary.
const ENTRIES: usize = 200_000;

const WHAT: &str = "directory of certificates";

/// What was found under one name.
#[derive(Default)]
struct Found {
    certificates: Vec<PathBuf>,
    key: Option<PathBuf>,
    /// A directory of that name, with a pair.
    below: Option<PathBuf>,
}

/// The places of pairs in `directory`, by name.
///
/// # Errors
/// `BAD_CONFIGURATION` if the directory cannot be read.
pub(crate) fn places(directory: &Path) -> Result<Vec<Place>> {
    let fails = |error: io::Error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "does not exist: make it, or name another".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "may not be read by this process: let its user read it".to_owned()
            }
            _ => format!("cannot be read: {error}"),
        };
        unusable(directory, WHAT, &why)
    };
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for (count, entry) in fs::read_dir(directory).map_err(fails)?.enumerate() {
        if count == ENTRIES {
            return Err(unusable(directory, WHAT, "has more than 200,000 entries: name another"));
        }
        add(&mut found, &entry.map_err(fails)?);
    }
    Ok(found.into_iter().map(|(name, found)| place(directory, name, found)).collect())
}

/// An error about a directory without a certificate, if none is named besides.
pub(crate) fn is_empty(directory: &Path) -> Error {
    unusable(
        directory,
        WHAT,
        "holds no certificate: put NAME.pem and NAME.key there, or NAME/fullchain.pem and NAME/privkey.pem",
    )
}

fn add(found: &mut BTreeMap<String, Found>, entry: &DirEntry) {
    let path = entry.path();
    // Kubernetes has its versions beside the links to them, with names that begin with two dots.
    if entry.file_name().as_encoded_bytes().starts_with(b".") {
        return;
    }
    if path.is_dir() {
        if path.join("fullchain.pem").exists() || path.join("privkey.pem").exists() {
            found.entry(text(Some(&entry.file_name()))).or_default().below = Some(path);
        }
        return;
    }
    let name = text(path.file_stem());
    match path.extension().and_then(OsStr::to_str) {
        Some("pem" | "crt") => found.entry(name).or_default().certificates.push(path),
        Some("key") => found.entry(name).or_default().key = Some(path),
        _ => (),
    }
}

fn place(directory: &Path, name: String, mut found: Found) -> Place {
    found.certificates.sort();
    let count = found.certificates.len() + usize::from(found.below.is_some());
    let beside = |extension: &str| directory.join(format!("{name}.{extension}"));
    let files = match (found.below, found.certificates.pop()) {
        (Some(below), None) => {
            CertificateFiles { certificate: below.join("fullchain.pem"), key: below.join("privkey.pem") }
        }
        (_, certificate) => CertificateFiles {
            certificate: certificate.unwrap_or_else(|| beside("pem")),
            key: found.key.unwrap_or_else(|| beside("key")),
        },
    };
    let problem = (count > 1).then(|| "is one of several of the same name: leave one there".to_owned());
    Place { staple: beside("ocsp"), name, files, problem }
}

fn text(name: Option<&OsStr>) -> String {
    name.map(OsStr::to_string_lossy).unwrap_or_default().into_owned()
}
