use std::future::poll_fn;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::error::Code;
use crate::framing::Framing;
use crate::pool::CopyReason;
use crate::pool::testing::config;
use crate::stream::{FlowConfig, Meter, Stream, channel};

const KIB: usize = 1024;
const READS: ReadSizes = ReadSizes { least: 4 * KIB, unknown: 16 * KIB, known: 64 * KIB, most: 256 * KIB };

fn pool() -> Pool {
    Pool::new(config(32 * 1024 * KIB)).unwrap()
}

fn start<R: Future<Output = ()> + Send + 'static>(
    pool: &Pool,
    framing: &Framing,
    read: impl FnOnce(Intake) -> R,
) -> Stream {
    start_reading(pool, framing, READS, read)
}

fn start_reading<R: Future<Output = ()> + Send + 'static>(
    pool: &Pool,
    framing: &Framing,
    reads: ReadSizes,
    read: impl FnOnce(Intake) -> R,
) -> Stream {
    let flow = FlowConfig { floor: 64 * KIB, ceiling: 1024 * KIB };
    let (feed, stream) = channel(pool, flow, framing, &Arc::new(Meter::default()));
    tokio::spawn(read(Intake::new(pool.clone(), reads, feed)));
    stream
}

async fn drain(stream: &Stream) -> (Vec<Vec<u8>>, Option<Code>) {
    let mut frames = Vec::new();
    loop {
        match poll_fn(|context| stream.poll_next(context)).await {
            None => return (frames, None),
            Some(Ok(frame)) => frames.push(frame.to_vec()),
            Some(Err(error)) => return (frames, Some(error.code())),
        }
    }
}

fn shell(script: &str) -> Command {
    Command { arguments: vec!["sh".into(), "-c".into(), script.into()], directory: None, environment: None }
}

#[tokio::test]
async fn a_file_comes_whole_or_in_the_part_asked_for() {
    let content: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&content).unwrap();
    let path = file.path().to_owned();
    let pool = pool();
    for (offset, length, expected) in [
        (0, None, &content[..]),
        (1000, None, &content[1000..]),
        (1000, Some(300_000), &content[1000..301_000]),
        (0, Some(0), &[][..]),
    ] {
        let path = path.clone();
        let stream = start(&pool, &Framing::Raw, |intake| read_file(path, offset, length, intake));
        let (frames, error) = drain(&stream).await;
        assert_eq!((frames.concat() == expected, error), (true, None));
    }
    assert_eq!(pool.stats().live_bytes, 0);
    assert_eq!(pool.stats().bytes_copied.iter().sum::<usize>(), 0);
}

#[tokio::test]
async fn a_device_that_cannot_be_waited_for_is_read_all_the_same() {
    let pool = pool();
    let zero = std::fs::File::open("/dev/zero").unwrap();
    let stream = start(&pool, &Framing::Raw, |intake| read_descriptor(zero.into(), intake));
    let frame = poll_fn(|context| stream.poll_next(context)).await.unwrap().unwrap();
    assert!(!frame.is_empty() && frame.iter().all(|&byte| byte == 0));
}

#[tokio::test]
async fn a_file_that_is_missing_or_short_is_an_error() {
    let pool = pool();
    let stream =
        start(&pool, &Framing::Raw, |intake| read_file(PathBuf::from("/no/such/file"), 0, None, intake));
    assert_eq!(drain(&stream).await, (vec![], Some(Code::FileFailed)));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"short").unwrap();
    let path = file.path().to_owned();
    let stream = start(&pool, &Framing::Raw, |intake| read_file(path, 0, Some(6), intake));
    assert_eq!(drain(&stream).await, (vec![b"short".to_vec()], Some(Code::FileFailed)));
}

#[tokio::test]
async fn pictures_from_a_child_are_contiguous_without_a_copy() {
    let pool = pool();
    let size = 1920 * 1080 * 3;
    let stream = start(&pool, &Framing::Fixed { size }, |intake| {
        read_process(shell("head -c 31104000 /dev/zero | tr '\\0' x"), intake)
    });
    let (frames, error) = drain(&stream).await;
    assert_eq!(error, None);
    assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [size; 5]);
    assert!(frames.iter().flatten().all(|&byte| byte == b'x'));
    assert_eq!(pool.stats().bytes_copied[CopyReason::FrameJoin as usize], 0);
}

#[tokio::test]
async fn a_large_frame_copies_no_more_than_what_came_with_its_length() {
    const FRAMES: u8 = 5;
    let size = 1024 * KIB;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for number in 0..FRAMES {
        file.write_all(&u32::try_from(size).unwrap().to_be_bytes()).unwrap();
        file.write_all(&vec![number; size]).unwrap();
    }
    let (path, pool) = (file.path().to_owned(), pool());
    let framing = Framing::LengthPrefixed { width: 4, little_endian: false, max_frame: size };
    let reads = ReadSizes { least: 64 * KIB, unknown: 64 * KIB, known: 64 * KIB, most: 64 * KIB };
    let stream = start_reading(&pool, &framing, reads, |intake| read_file(path, 0, None, intake));
    let (frames, error) = drain(&stream).await;
    assert_eq!((frames.len(), error), (usize::from(FRAMES), None));
    for (number, frame) in (0..FRAMES).zip(frames) {
        assert!(frame.len() == size && frame.iter().all(|&byte| byte == number));
    }
    let copied = pool.stats().bytes_copied[CopyReason::FrameJoin as usize];
    assert_eq!(copied, usize::from(FRAMES) * (64 * KIB - 4), "one read of each frame");
}

#[tokio::test]
async fn frames_of_one_size_that_lie_several_to_a_slab_are_not_copied() {
    let (pool, size) = (pool(), 100_000);
    let stream = start(&pool, &Framing::Fixed { size }, |intake| {
        read_process(shell("head -c 2000000 /dev/zero"), intake)
    });
    let (frames, error) = drain(&stream).await;
    assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [size; 20]);
    assert_eq!((error, pool.stats().bytes_copied.iter().sum::<usize>()), (None, 0));
}

#[tokio::test]
async fn a_child_that_fails_is_no_clean_end_and_is_quoted() {
    let pool = pool();
    let stream = start(&pool, &Framing::Raw, |intake| {
        read_process(shell("echo some; echo 'no such codec' >&2; exit 3"), intake)
    });
    let mut frames = Vec::new();
    let error = loop {
        match poll_fn(|context| stream.poll_next(context)).await {
            Some(Ok(frame)) => frames.extend_from_slice(&frame),
            Some(Err(error)) => break error,
            None => panic!("a clean end"),
        }
    };
    assert_eq!(frames, b"some\n");
    assert_eq!(error.code(), Code::ProcessFailed);
    assert!(error.detail().contains("no such codec") && error.detail().contains('3'), "{error}");
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_an_error() {
    let pool = pool();
    let command = Command { arguments: vec!["/no/such/program".into()], directory: None, environment: None };
    let stream = start(&pool, &Framing::Raw, |intake| read_process(command, intake));
    assert_eq!(drain(&stream).await, (vec![], Some(Code::ProcessFailed)));
}

#[tokio::test]
async fn closing_the_stream_ends_the_child() {
    let pool = pool();
    let mark = tempfile::NamedTempFile::new().unwrap();
    let script = format!("trap '' PIPE; echo $$ > {}; echo ready; exec sleep 1000", mark.path().display());
    let stream = start(&pool, &Framing::Raw, |intake| read_process(shell(&script), intake));
    assert!(poll_fn(|context| stream.poll_next(context)).await.is_some());
    let number = std::fs::read_to_string(mark.path()).unwrap().trim().to_owned();
    stream.close();
    while std::fs::read_to_string(format!("/proc/{number}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
    assert_eq!(pool.stats().live_bytes, 0);
}
