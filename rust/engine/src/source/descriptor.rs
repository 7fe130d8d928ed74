//! Pipes, FIFOs, sockets, terminals: descriptors on which a task can wait.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use super::{Intake, file};
use crate::error::{Code, Result};
use crate::sys::descriptor;

/// Reads `descriptor` to its end and closes it. A regular file is read from its current position.
///
/// The stream ends with `FILE_FAILED` if the descriptor cannot be read or waited for.
pub async fn read_descriptor(descriptor: OwnedFd, mut intake: Intake) {
    let result = read(File::from(descriptor), &mut intake).await;
    intake.end(result);
}

async fn read(mut source: File, intake: &mut Intake) -> Result<()> {
    let failed = |error: io::Error| Code::FileFailed.error(format!("cannot read the descriptor: {error}"));
    if source.metadata().map_err(failed)?.is_file() {
        let offset = source.stream_position().map_err(failed)?;
        return file::read_open(source, FileExt::read_at, offset, None, "the descriptor", intake).await;
    }
    read_pipe(source, intake).await
}

/// A device such as /dev/urandom is always ready, and the kernel cannot wait for it.
async fn read_device(source: File, intake: &mut Intake) -> Result<()> {
    file::read_open(source, |mut file, space, _| file.read(space), 0, None, "the descriptor", intake).await
}

/// Reads whenever it is readable, until the end.
pub(super) async fn read_pipe(source: File, intake: &mut Intake) -> Result<()> {
    let failed = |error: io::Error| Code::FileFailed.error(format!("cannot read the descriptor: {error}"));
    descriptor::set_nonblocking(&source).map_err(failed)?;
    descriptor::enlarge_pipe(&source);
    let source = match descriptor::watch(source) {
        Ok(source) => source,
        Err((source, error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            return read_device(source, intake).await;
        }
        Err((_, error)) => return Err(failed(error)),
    };
    loop {
        // Credit first, then the source, and memory only when there are bytes to read.
        intake.feed.room().await?;
        let mut ready = tokio::select! {
            biased;
            () = intake.feed.closed() => return Err(Code::StreamClosed.error("the reader of this stream has gone")),
            ready = source.readable() => ready.map_err(failed)?,
        };
        let (writer, offered) = intake.offer().await?;
        let space = &mut writer.spare()[..offered];
        match ready.try_io(|source| source.get_ref().read(space)) {
            Err(_would_block) => {}
            Ok(Ok(0)) => return Ok(()),
            Ok(Ok(count)) => intake.took(offered, count).await?,
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(failed(error)),
        }
    }
}
