//! The file of ticket keys that several nodes share: 48 or 80 bytes a line, in base64. The first line seals.
//!
//! It is read strictly, because a line that is taken for another would cost every resumption, and say nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::result::Result as StdResult;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use penstock_error::Result;

use crate::files::{self, unusable};

const WHAT: &str = "file of ticket keys";
/// As many keys as a file has; arbitrary. Each ticket is looked for among all of them.
const KEYS: usize = 64;

/// The keys of the file at `path`.
///
/// # Errors
/// `BAD_CONFIGURATION`.
pub(crate) fn load(path: &Path) -> Result<Vec<Vec<u8>>> {
    let text = files::read_checked(path, WHAT, |found| {
        let others = found.permissions().mode() & 0o007;
        if others == 0 {
            return Ok(());
        }
        // Who has a key reads what was sent in sessions that were resumed by it.
        Err(unusable(path, WHAT, "may be read or written by any user: give it mode 0600"))
    })?;
    parse(&text).map_err(|why| unusable(path, WHAT, &why))
}

/// The keys in `text`. Empty lines count for nothing.
///
/// # Errors
/// Says what is wrong with which line.
pub(crate) fn parse(text: &[u8]) -> StdResult<Vec<Vec<u8>>, String> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for (position, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let wrong = |why: &str| Err(format!("has in line {} {why}", position + 1));
        let Ok(key) = STANDARD.decode(line) else {
            return wrong("no base64: write 48 random bytes there, as by openssl rand -base64 48");
        };
        if !matches!(key.len(), 48 | 80) {
            return wrong(&format!("a key of {} bytes: it has to have 48 or 80", key.len()));
        }
        if keys.contains(&key) {
            return wrong("a key that an earlier line has: take it out");
        }
        keys.push(key);
        if keys.len() > KEYS {
            return wrong("more than its 64th key: take the old ones out");
        }
    }
    if keys.is_empty() {
        return Err(
            "holds no key: write 48 random bytes in base64 there, as by openssl rand -base64 48".to_owned()
        );
    }
    Ok(keys)
}
