//! The access log: a line for each response, put at its end, on either lane. A thread of its own writes them to a
//! file, or others take them ([`Log::kept`], [`Log::take`]).
//!
//! Engine threads append to a buffer under a short lock and never wait for a disk or for Python. Lines that find the buffer
//! full are dropped, and the next line that is written says how many. The lines of a log stand in the order in which the
//! responses have ended.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::line::{Entry, Format};
use crate::clock::stamp;
use crate::error::{Code, Result};

/// How long a line may wait, to be written together with others. Arbitrary.
const DELAY: Duration = Duration::from_millis(100);

/// Bytes that may wait: some 10,000 lines, for a disk that pauses.
const MOST: usize = 1 << 20;

/// A file, or standard error, that lines are appended to; or a buffer that they are taken from.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    pub(super) format: Format,
    /// None if lines are taken, and after the log was closed.
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    filled: Condvar,
    /// Notified when all lines of a closed log are written.
    finished: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<u8>,
    dropped: u64,
    closed: bool,
    /// The file is to be opened anew.
    reopens: bool,
    /// The thread that writes has ended.
    is_finished: bool,
}

/// What was waited for.
struct Taken {
    lines: Vec<u8>,
    /// Lines that were dropped after them.
    dropped: u64,
    /// There will be no more.
    closed: bool,
    reopens: bool,
}

impl Log {
    /// Appends to `path`, or to standard error. A file that is moved away, as log rotation does, is made anew.
    ///
    /// # Errors
    /// `FILE_FAILED`.
    pub fn open(path: Option<PathBuf>, format: Format) -> Result<Self> {
        let failed = |error| Code::FileFailed.error(format!("cannot write the access log: {error}"));
        let target = Target::open(path).map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let other = Arc::clone(&shared);
        let writer = std::thread::Builder::new()
            .name("penstock-log".to_owned())
            .spawn(move || write_all(&other, target))
            .map_err(failed)?;
        Ok(Self { shared, format, writer: Mutex::new(Some(writer)) })
    }

    /// One whose lines are taken by [`Log::take`].
    pub fn kept(format: Format) -> Self {
        Self { shared: Arc::default(), format, writer: Mutex::default() }
    }

    /// Opens the file anew, for a program that has moved it away and waits until nothing more is written to it. The lines so far
    /// go there as well.
    pub fn reopen(&self) {
        hold(&self.shared.state).reopens = true;
        self.shared.filled.notify_one();
    }

    /// Waits for lines: all that have come, and how many were dropped after them. None once it is closed and they have
    /// all been taken.
    pub fn take(&self) -> Option<(Vec<u8>, u64)> {
        let Taken { lines, dropped, .. } = self.shared.next();
        (!lines.is_empty() || dropped > 0).then_some((lines, dropped))
    }

    /// Takes no more lines, and waits for `patience` at most until the thread has written the lines that it has. False if
    /// it has not: its disk or its pipe hangs, and the thread is left alone.
    pub fn close(&self, patience: Duration) -> bool {
        self.stop();
        if hold(&self.writer).take().is_none() {
            return true;
        }
        let unfinished = |state: &mut State| !state.is_finished;
        let state = hold(&self.shared.state);
        let waited = self.shared.finished.wait_timeout_while(state, patience, unfinished);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_finished
    }

    fn stop(&self) {
        hold(&self.shared.state).closed = true;
        self.shared.filled.notify_one();
    }

    /// Whether there was room for the line.
    pub(super) fn put(&self, entry: &Entry<'_>) -> bool {
        let mut state = hold(&self.shared.state);
        if state.lines.len() >= MOST || state.closed {
            state.dropped += 1;
            return false;
        }
        let first = state.lines.is_empty();
        self.format.write(entry, &mut state.lines);
        drop(state);
        if first {
            self.shared.filled.notify_one();
        }
        true
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
        if let Some(writer) = hold(&self.writer).take() {
            // A panic of the thread has been printed by it.
            let _ = writer.join();
        }
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Waits for lines, or for what else there is to do, and takes them.
    fn next(&self) -> Taken {
        let mut state = hold(&self.state);
        while state.lines.is_empty() && !state.closed && !state.reopens {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.closed && !state.reopens {
            // Others that come meanwhile go with it.
            let waited = self.filled.wait_timeout_while(state, DELAY, |state| !state.closed);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Taken {
            lines: std::mem::take(&mut state.lines),
            dropped: std::mem::take(&mut state.dropped),
            closed: state.closed,
            reopens: std::mem::take(&mut state.reopens),
        }
    }
}

fn write_all(shared: &Shared, mut target: Target) {
    loop {
        let Taken { lines, dropped, closed, reopens } = shared.next();
        if reopens {
            target.reopen();
        }
        target.write(&lines, dropped);
        if closed {
            hold(&shared.state).is_finished = true;
            shared.finished.notify_all();
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

    /// Opens the file anew. If that fails the lines go where they went before.
    fn reopen(&mut self) {
        if let Self::File { path, file } = self {
            if let Ok(fresh) = append(path) {
                *file = fresh;
            }
        }
    }

    fn write(&mut self, lines: &[u8], dropped: u64) {
        let note = if dropped > 0 {
            format!("{} penstock: {dropped} lines were dropped, the log is slow\n", stamp())
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
                if !lines.is_empty() && moved(path, file) {
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

#[cfg(test)]
mod tests {
    use super::super::line::samples;
    use super::*;
    use crate::wire::Incoming;

    fn entry(incoming: &Incoming) -> Entry<'_> {
        samples::entry(incoming)
    }

    fn request() -> Incoming {
        samples::request("GET /a%22b HTTP/1.1\r\nHost: a")
    }

    fn open(path: PathBuf) -> Log {
        Log::open(Some(path), Format::Plain).unwrap()
    }

    #[test]
    fn a_line_says_who_asked_for_what_and_what_became_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let incoming = request();
        let log = open(path.clone());
        log.put(&entry(&incoming));
        log.put(&Entry { route: None, failure: Some(Code::IoTimeout), ..entry(&incoming) });
        log.put(&Entry { incoming: None, route: None, tenant: Some("a\"\nb"), ..entry(&incoming) });
        drop(log);
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(
            lines,
            [
                "192.0.2.1 \"GET /a%22b HTTP/1.1\" 200 5 0.001500 route=vod",
                "192.0.2.1 \"GET /a%22b HTTP/1.1\" 200 5 0.001500 failed=0x102/IO_TIMEOUT",
                "192.0.2.1 \"-\" 200 5 0.001500 tenant=\"a\\\"\\nb\"",
            ]
        );
    }

    #[test]
    fn a_line_shows_no_token() {
        crate::wire::hide("a_line_shows_no_token");
        let incoming = samples::request("GET /a?a_line_shows_no_token=secret&b=1 HTTP/1.1\r\nHost: a");
        let mut lines = Vec::new();
        Format::Plain.write(&entry(&incoming), &mut lines);
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
    fn a_file_is_opened_anew_when_that_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let log = open(path.clone());
        std::fs::remove_file(&path).unwrap();
        log.reopen();
        assert!(log.close(Duration::from_secs(60)));
        assert_eq!(std::fs::read(path).unwrap(), b"", "it is there, without a line");
    }

    #[test]
    fn a_log_that_was_closed_has_written_all_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let incoming = request();
        let log = open(path.clone());
        log.put(&entry(&incoming));
        assert!(log.close(Duration::from_secs(60)));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
        assert!(log.close(Duration::ZERO), "it is idempotent");
    }

    #[test]
    fn a_file_that_hangs_is_waited_for_no_longer_than_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let log = open(path);
        hold(&log.shared.state).lines = vec![b'\n'; MOST];
        assert!(!log.close(Duration::from_millis(10)), "a pipe holds 64 KiB");
        drop(log);
        drop(reader);
    }

    #[test]
    fn what_finds_the_buffer_full_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let incoming = request();
        let log = open(path.clone());
        hold(&log.shared.state).lines = vec![b'\n'; MOST];
        assert!(!log.put(&entry(&incoming)));
        drop(log);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.ends_with("penstock: 1 lines were dropped, the log is slow\n"), "{}", text.len());
    }

    #[test]
    fn lines_that_are_taken_come_in_order_up_to_the_end() {
        let log = Log::kept(Format::Plain);
        let incoming = request();
        for bytes in 0..3 {
            assert!(log.put(&Entry { bytes, ..entry(&incoming) }));
        }
        assert!(log.close(Duration::ZERO), "no thread is waited for");
        assert!(!log.put(&entry(&incoming)), "it is closed");
        let (lines, dropped) = log.take().unwrap();
        let bytes: Vec<_> =
            str::from_utf8(&lines).unwrap().lines().map(|line| line.split(' ').nth(6).unwrap()).collect();
        assert_eq!((bytes, dropped), (vec!["0", "1", "2"], 1));
        assert!(log.take().is_none());
    }
}
