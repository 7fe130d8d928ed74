//! The access log of what the engine answers alone: a line for each request, written by a thread of its own.
//!
//! Engine threads append to a buffer under a short lock and never wait for a disk. Lines that find the buffer full are
//! dropped, and the next line that is written says how many.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::date::Stamp;
use crate::error::{Code, Error, Result};
use crate::wire::{Incoming, shown};

/// How long a line may wait for others to be written with it. Arbitrary; nobody reads faster.
const DELAY: Duration = Duration::from_millis(100);

/// Bytes that may wait: some 10,000 lines, for a disk that pauses.
const MOST: usize = 1 << 20;

/// A file, or standard error, that lines are appended to.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<u8>,
    dropped: u64,
    dropped_so_far: u64,
    closed: bool,
}

/// What a line says.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) client: Option<&'a str>,
    pub(super) incoming: &'a Incoming,
    /// What the client got; 499 if it left before a head.
    pub(super) status: u16,
    /// Bytes of the body.
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
    pub(super) route: Option<&'a str>,
    pub(super) error: Option<&'a Error>,
}

impl Log {
    /// Appends to `path`, or to standard error. A file that is moved away, as log rotation does, is made anew.
    ///
    /// # Errors
    /// `FILE_FAILED`.
    pub fn open(path: Option<PathBuf>) -> Result<Self> {
        let failed = |error| Code::FileFailed.error(format!("cannot write the access log: {error}"));
        let target = Target::open(path).map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let other = Arc::clone(&shared);
        let writer = std::thread::Builder::new()
            .name("penstock-log".to_owned())
            .spawn(move || write_all(&other, target))
            .map_err(failed)?;
        Ok(Self { shared, writer: Some(writer) })
    }

    /// Lines that have been dropped.
    pub(super) fn dropped_so_far(&self) -> u64 {
        hold(&self.shared.state).dropped_so_far
    }

    pub(super) fn put(&self, entry: &Entry<'_>) {
        self.append(|lines| entry.write(lines));
    }

    /// A line for a head that could not be read: what was asked is not known.
    pub(super) fn put_unread(&self, client: Option<&str>, error: &Error) {
        let code = error.code();
        self.append(|lines| {
            let client = client.unwrap_or("-");
            let (status, number, name) = (code.status(), code.number(), code.name());
            writeln!(
                lines,
                "{} {client} \"-\" {status} 0 0.000000 failed=0x{number:03X}/{name}",
                Stamp::now()
            )
            .expect("a Vec takes all that is written");
        });
    }

    fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = hold(&self.shared.state);
        if state.lines.len() >= MOST {
            state.dropped += 1;
            state.dropped_so_far += 1;
            return;
        }
        let first = state.lines.is_empty();
        write(&mut state.lines);
        drop(state);
        if first {
            self.shared.filled.notify_one();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        hold(&self.shared.state).closed = true;
        self.shared.filled.notify_one();
        if let Some(writer) = self.writer.take() {
            // A panic of the thread has been printed by it.
            let _ = writer.join();
        }
    }
}

fn hold(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_all(shared: &Shared, mut target: Target) {
    loop {
        let (lines, dropped, closed) = {
            let mut state = hold(&shared.state);
            while state.lines.is_empty() && !state.closed {
                state = shared.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !state.closed {
                // Others that come meanwhile go with it.
                let waited = shared.filled.wait_timeout_while(state, DELAY, |state| !state.closed);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            (std::mem::take(&mut state.lines), std::mem::take(&mut state.dropped), state.closed)
        };
        target.write(&lines, dropped);
        if closed {
            return;
        }
    }
}

enum Target {
    Stderr,
    File { path: PathBuf, file: File },
}

impl Target {
    fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self::Stderr) };
        Ok(Self::File { file: append(&path)?, path })
    }

    fn write(&mut self, lines: &[u8], dropped: u64) {
        let note = if dropped > 0 {
            format!("{} penstock: {dropped} lines were dropped, the log is slow\n", Stamp::now())
        } else {
            String::new()
        };
        // A full disk must not stop the service, and there is nowhere else to say so.
        let _ = match self {
            Self::Stderr => io::stderr()
                .lock()
                .write_all(lines)
                .and_then(|()| io::stderr().lock().write_all(note.as_bytes())),
            Self::File { path, file } => {
                if moved(path, file) {
                    if let Ok(fresh) = append(path) {
                        *file = fresh;
                    }
                }
                file.write_all(lines).and_then(|()| file.write_all(note.as_bytes()))
            }
        };
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn moved(path: &Path, file: &File) -> bool {
    match (std::fs::metadata(path), file.metadata()) {
        (Ok(there), Ok(ours)) => (there.dev(), there.ino()) != (ours.dev(), ours.ino()),
        _ => true,
    }
}

impl Entry<'_> {
    fn write(&self, lines: &mut Vec<u8>) {
        let Self { client, incoming, status, bytes, elapsed, route, error } = self;
        let written = write!(
            lines,
            "{} {} \"{} {} HTTP/1.{}\" {status} {bytes} {:.6}",
            Stamp::now(),
            client.unwrap_or("-"),
            incoming.method(),
            // Graphic ASCII; a quote must not end the string.
            shown(incoming.target()).replace('"', "%22"),
            incoming.minor_version,
            elapsed.as_secs_f64(),
        )
        .and_then(|()| route.map_or(Ok(()), |route| write!(lines, " route={route}")))
        .and_then(|()| {
            error.map_or(Ok(()), |error| {
                write!(lines, " failed=0x{:03X}/{}", error.code().number(), error.code().name())
            })
        })
        .and_then(|()| lines.write_all(b"\n"));
        written.expect("a Vec takes all that is written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{IncomingLimits, parse_incoming};

    fn entry(incoming: &Incoming) -> Entry<'_> {
        Entry {
            client: Some("192.0.2.1"),
            incoming,
            status: 200,
            bytes: 5,
            elapsed: Duration::from_micros(1500),
            route: Some("vod"),
            error: None,
        }
    }

    fn request() -> Incoming {
        let limits = IncomingLimits { line: 100, bytes: 1000, fields: 10 };
        parse_incoming(b"GET /a%22b HTTP/1.1\r\nHost: a\r\n\r\n", &limits).unwrap()
    }

    #[test]
    fn a_line_says_who_asked_for_what_and_what_became_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let incoming = request();
        let log = Log::open(Some(path.clone())).unwrap();
        log.put(&entry(&incoming));
        log.put(&Entry { route: None, error: Some(&Code::IoTimeout.error("x")), ..entry(&incoming) });
        drop(log);
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(
            lines,
            [
                "192.0.2.1 \"GET /a%22b HTTP/1.1\" 200 5 0.001500 route=vod",
                "192.0.2.1 \"GET /a%22b HTTP/1.1\" 200 5 0.001500 failed=0x102/IO_TIMEOUT",
            ]
        );
    }

    #[test]
    fn a_line_shows_no_token() {
        crate::wire::hide("a_line_shows_no_token");
        let limits = IncomingLimits { line: 100, bytes: 1000, fields: 10 };
        let head = b"GET /a?a_line_shows_no_token=secret&b=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        let incoming = parse_incoming(head, &limits).unwrap();
        let mut lines = Vec::new();
        entry(&incoming).write(&mut lines);
        let line = String::from_utf8(lines).unwrap();
        assert!(line.contains("/a?a_line_shows_no_token=***&b=1 "), "{line}");
    }

    #[test]
    fn a_file_that_was_moved_away_is_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let (path, old) = (directory.path().join("access.log"), directory.path().join("access.log.1"));
        let mut target = Target::open(Some(path.clone())).unwrap();
        target.write(b"one\n", 0);
        std::fs::rename(&path, &old).unwrap();
        target.write(b"two\n", 0);
        assert_eq!(std::fs::read(old).unwrap(), b"one\n");
        assert_eq!(std::fs::read(path).unwrap(), b"two\n");
    }

    #[test]
    fn what_finds_the_buffer_full_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let incoming = request();
        let log = Log::open(Some(path.clone())).unwrap();
        hold(&log.shared.state).lines = vec![b'\n'; MOST];
        log.put(&entry(&incoming));
        assert_eq!(log.dropped_so_far(), 1);
        drop(log);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.ends_with("penstock: 1 lines were dropped, the log is slow\n"), "{}", text.len());
    }
}
