//! Files. The kernel may have to fetch their pages from a disk, so they are read on the blocking pool.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use tokio::task::spawn_blocking;

use super::Intake;
use crate::error::{Code, Error, Result};

/// Reads `length` bytes of the file at `path` from `offset` on, or all of them.
///
/// The stream ends with `FILE_FAILED` if the file cannot be opened or read, or is shorter than `length` says.
pub async fn read_file(path: PathBuf, offset: u64, length: Option<u64>, mut intake: Intake) {
    let name = path.display().to_string();
    let opened = spawn_blocking(move || File::open(path)).await.unwrap_or_else(|error| Err(error.into()));
    let result = match opened {
        Ok(file) => read_open(file, FileExt::read_at, offset, length, &name, &mut intake).await,
        Err(error) => Err(failed("open", &name, &error)),
    };
    intake.end(result);
}

/// How to read at an offset, or at the position of the file if it has no offsets.
pub(super) type Read = fn(&File, &mut [u8], u64) -> std::io::Result<usize>;

/// Reads an open file from `offset` on.
pub(super) async fn read_open(
    mut file: File,
    read: Read,
    mut offset: u64,
    length: Option<u64>,
    name: &str,
    intake: &mut Intake,
) -> Result<()> {
    let end = length.map(|length| offset.saturating_add(length));
    while end.is_none_or(|end| offset < end) {
        let remaining = end.map_or(usize::MAX, |end| usize::try_from(end - offset).unwrap_or(usize::MAX));
        let offered = intake.offer().await?.1.min(remaining);
        let mut writer = intake.writer.take().expect("offered above");
        let closed = || Code::EngineClosed.error("the engine was closed while it read a file");
        let (count, back, same) = spawn_blocking(move || {
            let count = read(&file, &mut writer.spare()[..offered], offset);
            (count, writer, file)
        })
        .await
        .map_err(|_| closed())?;
        (intake.writer, file) = (Some(back), same);
        match count.map_err(|error| failed("read", name, &error))? {
            0 => {
                return match end {
                    None => Ok(()),
                    Some(end) => Err(Code::FileFailed.error(format!(
                        "{name} ended at byte {offset}, {} before the end asked for",
                        end - offset
                    ))),
                };
            }
            count => {
                intake.took(offered, count).await?;
                offset += count as u64;
            }
        }
    }
    Ok(())
}

fn failed(what: &str, name: &str, error: &std::io::Error) -> Error {
    Code::FileFailed.error(format!("cannot {what} {name}: {error}"))
}
