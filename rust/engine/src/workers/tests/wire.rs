//! One connection: messages arrive whole and in order, however the kernel cuts them.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use super::super::message::{LONGEST, Message, PREFIX};
use super::super::wire::Wire;
use super::run;
use super::samples::{Sample, sample};
use crate::error::Code;

/// A connection, of which the other end is read and written byte by byte.
fn wire() -> (Wire, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    (Wire::new(near), far)
}

fn encoded(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// Writes `bytes` in `pieces`, each once the one before was read.
async fn write_in_pieces(
    far: &mut UnixStream,
    mut bytes: &[u8],
    pieces: &[usize],
    mut paused: mpsc::UnboundedReceiver<()>,
) {
    for length in pieces.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        paused.recv().await.unwrap();
        let (piece, rest) = bytes.split_at(bytes.len().min(*length));
        far.write_all(piece).await.unwrap();
        bytes = rest;
    }
    far.shutdown().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn however_they_are_cut_the_same_messages_arrive(
        samples in vec(sample(), 1..6),
        pieces in vec(1..60_usize, 1..6),
        // The reader passes the connection on.
        parts in 1..4_usize,
    ) {
        run(async {
            let (wire, mut far) = wire();
            let all = samples.iter().flat_map(Sample::encoded).collect::<Vec<_>>();
            let (pause, paused) = mpsc::unbounded_channel();
            let mut heard = Vec::new();
            let read = async {
                loop {
                    let mut count = 0;
                    let take = |message: Message<'_>| {
                        heard.extend(encoded(&message));
                        count += 1;
                        Ok((count == parts).then_some(()))
                    };
                    if let Err(error) = wire.read(take, || pause.send(()).unwrap_or_default()).await {
                        return error;
                    }
                }
            };
            let (error, ()) = tokio::join!(read, write_in_pieces(&mut far, &all, &pieces, paused));
            assert_eq!(error.code(), Code::WorkerGone);
            assert_eq!(heard, all);
        });
    }
}

#[test]
fn a_message_that_is_too_long_ends_the_connection_before_it_comes() {
    run(async {
        let (wire, mut far) = wire();
        let prefix = |length: usize| {
            let mut bytes = encoded(&Message::Write(b""));
            bytes[..4].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
            bytes
        };
        far.write_all(&prefix(LONGEST)).await.unwrap();
        let body = vec![7; LONGEST];
        let read = wire.read(
            |message| {
                assert_eq!(message, Message::Write(&body));
                Ok(Some(()))
            },
            || {},
        );
        let (read, written) = tokio::join!(read, far.write_all(&body));
        written.unwrap();
        read.unwrap();

        far.write_all(&prefix(LONGEST + 1)).await.unwrap();
        let read = wire.read(|_| -> crate::error::Result<Option<()>> { panic!("it is no message") }, || {});
        assert_eq!(read.await.unwrap_err().code(), Code::Internal);
    });
}

#[test]
fn an_end_within_a_message_is_the_end_of_the_connection() {
    run(async {
        let message = encoded(&Message::Data(2, b"abc"));
        for end in 0..message.len() {
            let (wire, mut far) = wire();
            far.write_all(&message[..end]).await.unwrap();
            drop(far);
            let read = wire.read(|_| -> crate::error::Result<Option<()>> { panic!("half of one") }, || {});
            assert_eq!(read.await.unwrap_err().code(), Code::WorkerGone);
        }
    });
}

#[test]
fn what_was_begun_to_be_written_outlives_the_call() {
    run(async {
        let (wire, mut far) = wire();
        // More than the sockets' buffers take between them.
        let pieces: Vec<_> = (0..64_u8).map(|number| vec![number; LONGEST / 16]).collect();
        let whole: Vec<_> = pieces.iter().flat_map(|piece| encoded(&Message::Write(piece))).collect();
        for piece in &pieces {
            wire.send(&Message::Write(piece));
        }
        wire.end();
        let mut given_up = 0;
        let write = async {
            loop {
                tokio::select! {
                    biased;
                    written = wire.write() => return written.unwrap(),
                    () = tokio::task::yield_now() => given_up += 1,
                }
            }
        };
        let mut read = vec![0; whole.len()];
        let ((), count) = tokio::join!(write, far.read_exact(&mut read));
        count.unwrap();
        assert!(read == whole, "what was written was changed on its way");
        assert!(given_up > 1, "all of it was written by one call");
    });
}

#[test]
fn what_is_said_is_written_before_the_end() {
    run(async {
        let (wire, mut far) = wire();
        let wire = Arc::new(wire);
        let writing = Arc::clone(&wire);
        let write = tokio::spawn(async move { writing.write().await });
        wire.send(&Message::Ping);
        let mut ping = [0; PREFIX];
        far.read_exact(&mut ping).await.unwrap();
        wire.send_pieces(&[1; 3], Message::Write);
        wire.send(&Message::Done);
        wire.end();
        write.await.unwrap().unwrap();
        drop(wire);
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, [encoded(&Message::Write(&[1; 3])), encoded(&Message::Done)].concat());
    });
}

#[test]
fn whoever_writes_hears_that_nobody_reads() {
    run(async {
        let (wire, far) = wire();
        drop(far);
        wire.send(&Message::Ping);
        assert_eq!(wire.write().await.unwrap_err().code(), Code::WorkerGone);
    });
}
