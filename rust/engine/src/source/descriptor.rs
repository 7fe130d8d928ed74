//! Pipes, FIFOs, sockets, terminals: descriptors that can be waited for.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;

use super::{Intake, file};
use crate::error::{Code, Result};
use crate::sys::descriptor;

/// Reads `descriptor` to its end and closes it. A regular file is read on from where it stands.
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
        return file::read_open(source, offset, None, "the descriptor", intake).await;
    }
    read_pipe(source, intake).await
}

/// Reads what becomes readable until the end.
pub(super) async fn read_pipe(source: File, intake: &mut Intake) -> Result<()> {
    let failed = |error: io::Error| Code::FileFailed.error(format!("cannot read the descriptor: {error}"));
    descriptor::set_nonblocking(&source).map_err(failed)?;
    descriptor::enlarge_pipe(&source);
    let source = descriptor::watch(source).map_err(failed)?;
    loop {
        // Credit first, then the source, and memory only when there is something to put into it.
        intake.feed.room().await?;
        let mut ready = tokio::select! {
            biased;
            () = intake.feed.closed() => return Err(Code::StreamClosed.error("nobody reads this stream any more")),
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
