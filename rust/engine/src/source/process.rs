//! Child processes: their output is the body, and their status decides whether it was whole.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr};
use tokio::time::timeout;

use super::{Intake, descriptor};
use crate::error::{Code, Result};

/// The command to run.
#[derive(Debug)]
pub struct Command {
    /// The program and its arguments.
    pub arguments: Vec<OsString>,
    /// The working directory; `None` for that of this process.
    pub directory: Option<PathBuf>,
    /// The whole environment; `None` for that of this process.
    pub environment: Option<Vec<(OsString, OsString)>>,
}

/// How many bytes of the end of standard error an error quotes: a few lines.
const QUOTE: usize = 2048;

/// A grandchild may keep standard error open for ever after the child has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Reads the standard output of `command` to its end. The child is killed if the stream is closed before.
///
/// The stream ends with `PROCESS_FAILED`, which quotes the end of standard error, if the child cannot be started or
/// does not end with status 0: the body is then not whole.
pub async fn read_process(command: Command, mut intake: Intake) {
    let result = run(command, &mut intake).await;
    intake.end(result);
}

async fn run(command: Command, intake: &mut Intake) -> Result<()> {
    let mut arguments = command.arguments.into_iter();
    let Some(program) = arguments.next() else {
        return Err(Code::ProcessFailed.error("no program was given"));
    };
    let name = PathBuf::from(&program).display().to_string();
    let failed = |what: &str, error: std::io::Error| {
        Code::ProcessFailed.error(format!("{name} could not be {what}: {error}"))
    };
    let mut builder = tokio::process::Command::new(&program);
    builder
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(directory) = command.directory {
        builder.current_dir(directory);
    }
    if let Some(environment) = command.environment {
        builder.env_clear().envs(environment);
    }
    let mut child = builder.spawn().map_err(|error| failed("started", error))?;
    let output =
        child.stdout.take().expect("piped above").into_owned_fd().map_err(|error| failed("read", error))?;
    let words = tokio::spawn(last_words(child.stderr.take().expect("piped above")));
    descriptor::read_pipe(File::from(output), intake).await?;
    let status = wait(&mut child, intake).await?.map_err(|error| failed("waited for", error))?;
    if status.success() {
        return Ok(());
    }
    let words = timeout(LAST_WORDS, words).await.ok().and_then(std::result::Result::ok).unwrap_or_default();
    Err(Code::ProcessFailed.error(format!("{name} ended with {status}: {}", words.trim())))
}

async fn wait(child: &mut Child, intake: &Intake) -> Result<std::io::Result<std::process::ExitStatus>> {
    // A child may close its output and run on; a consumer that leaves meanwhile has it killed.
    tokio::select! {
        biased;
        () = intake.feed.closed() => Err(Code::StreamClosed.error("the reader of this stream has gone")),
        status = child.wait() => Ok(status),
    }
}

/// The end of the child's standard error. All of it is read, so that the child does not block on the pipe.
async fn last_words(mut source: ChildStderr) -> String {
    let mut words = Vec::with_capacity(2 * QUOTE);
    while source.read_buf(&mut words).await.is_ok_and(|count| count > 0) {
        if words.len() > QUOTE {
            words.drain(..words.len() - QUOTE);
        }
    }
    String::from_utf8_lossy(&words).into_owned()
}
