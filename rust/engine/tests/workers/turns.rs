//! Who is asked: which workers are there, and whose turn it is.

use std::time::Duration;

use penstock_engine::Code;
use penstock_engine::workers::Notice;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::process::Process;
use crate::rig::{OK, Rig, on_each, on_each_with};
use crate::sites::until;

#[test]
fn requests_go_to_whoever_has_fewest() {
    on_each(&async |rig: &Rig| {
        let (one, two) = (rig.worker(1, 0).await, rig.worker(2, 0).await);
        let mut clients = Vec::new();
        for _ in 0..6 {
            let mut client = rig.connect().await;
            client.get("/").await;
            clients.push(client);
            until(|| rig.workers.busy(1) + rig.workers.busy(2) == clients.len()).await;
        }
        assert_eq!((rig.workers.busy(1), rig.workers.busy(2)), (3, 3));
        for process in [&one, &two] {
            for _ in 0..3 {
                process.request().await.exchange.answer(OK);
            }
        }
        for client in &mut clients {
            assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        }
        one.end().await;
        two.end().await;
    });
}

#[test]
fn what_one_has_no_room_for_goes_to_another() {
    on_each(&async |rig: &Rig| {
        // In whose queue one waits and is never taken.
        let full = Process::busy(&rig.path(1), 1);
        rig.add(1, 0).await.unwrap();
        let mut waiting = rig.connect().await;
        waiting.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").await;
        until(|| full.queue.len() == 1).await;
        let process = rig.worker(2, 0).await;
        // Of as many as there are, some are offered to the full one first.
        for _ in 0..3 {
            let mut client = rig.connect().await;
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").await;
            let taken = process.request().await;
            assert_eq!(taken.exchange.read().await.unwrap(), b"body");
            // With as many as the full one has, the next would be that one's turn.
            let mut next = rig.connect().await;
            next.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nnext").await;
            let second = process.request().await;
            assert_eq!(second.exchange.read().await.unwrap(), b"next");
            for (taken, client) in [(taken, &mut client), (second, &mut next)] {
                taken.exchange.answer(OK);
                assert_eq!(client.read(OK.len()).await, OK.as_bytes());
            }
        }
        drop(waiting);
        until(|| rig.workers.busy(1) == 0).await;
        drop(full.queue.take());
        full.end().await;
        process.end().await;
    });
}

#[test]
fn where_no_worker_has_room_the_client_is_told() {
    on_each(&async |rig: &Rig| {
        let full = Process::busy(&rig.path(1), 0);
        rig.add(1, 0).await.unwrap();
        let mut client = rig.connect().await;
        client.get("/").await;
        let refusal = String::from_utf8(client.rest().await.0).unwrap();
        assert!(refusal.starts_with("HTTP/1.1 503 ") && refusal.contains("\"APP_BUSY\""), "{refusal}");
        full.end().await;
    });
}

#[test]
fn a_retired_worker_finishes_what_it_has() {
    on_each(&async |rig: &Rig| {
        let (one, two) = (rig.worker(1, 0).await, rig.worker(2, 0).await);
        rig.workers.retire(2);
        let mut old = rig.connect().await;
        old.get("/old").await;
        let taken = one.request().await;
        rig.workers.retire(1);
        // No worker is there for it.
        let mut waiting = rig.connect().await;
        waiting.get("/waiting").await;
        until(|| rig.site.active() == 2).await;
        let three = rig.worker(3, 0).await;
        let next = three.request().await;
        assert!(next.exchange.head.starts_with("GET /waiting "));
        next.exchange.answer(OK);
        assert_eq!(waiting.read(OK.len()).await, OK.as_bytes());
        taken.exchange.answer(OK);
        assert_eq!(old.read(OK.len()).await, OK.as_bytes());
        until(|| one.worker.active() == 0).await;
        assert_eq!(two.worker.active(), 0);
        for process in [one, two, three] {
            process.end().await;
        }
    });
}

#[test]
fn a_generation_takes_over_at_once() {
    on_each(&async |rig: &Rig| {
        let (old, new) = (rig.worker(1, 0).await, rig.worker(2, 1).await);
        for (generation, process) in [(0, &old), (1, &new), (0, &old)] {
            rig.workers.switch(generation);
            for _ in 0..3 {
                let mut client = rig.connect().await;
                client.get("/").await;
                process.request().await.exchange.answer(OK);
                assert_eq!(client.read(OK.len()).await, OK.as_bytes());
            }
        }
        // What waits goes to one that is not there yet.
        rig.workers.switch(2);
        let mut client = rig.connect().await;
        client.get("/").await;
        until(|| rig.site.active() == 1).await;
        let next = rig.worker(3, 2).await;
        next.request().await.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        for process in [old, new, next] {
            process.end().await;
        }
    });
}

#[test]
fn where_no_worker_comes_the_client_is_told() {
    on_each_with(Duration::from_secs(1), &async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        let refusal = String::from_utf8(client.rest().await.0).unwrap();
        assert!(refusal.starts_with("HTTP/1.1 503 ") && refusal.contains("\"APP_BUSY\""), "{refusal}");
    });
}

#[test]
fn a_worker_that_cannot_be_reached_is_told_of() {
    on_each(&async |rig: &Rig| {
        assert_eq!(rig.add(1, 0).await, Err(Code::WorkerGone));
    });
}

#[test]
fn a_worker_that_has_hung_up_and_is_still_there_is_told_of() {
    on_each(&async |rig: &Rig| {
        let listener = tokio::net::UnixListener::bind(rig.path(7)).unwrap();
        let hanging_up = tokio::spawn(async move {
            drop(listener.accept().await.unwrap());
            // It listens on: the process lives.
            listener
        });
        rig.add(7, 0).await.unwrap();
        let number = rig
            .notice(|notice| match notice {
                Notice::Silent(number, _) => Some(number),
                _ => None,
            })
            .await;
        assert_eq!(number, 7);
        drop(hanging_up.await.unwrap());
    });
}

#[test]
fn a_worker_whose_loop_hangs_is_told_of() {
    on_each(&async |rig: &Rig| {
        let hanging = Process::busy(&rig.path(7), 1);
        rig.add(7, 0).await.unwrap();
        let silent = |notice| match notice {
            Notice::Silent(number, owed) => Some((number, owed)),
            _ => None,
        };
        let (number, first) = rig.notice(silent).await;
        assert_eq!(number, 7);
        let (number, second) = rig.notice(silent).await;
        assert_eq!(number, 7);
        assert!(second > first, "it is the same silence");
        hanging.end().await;
    });
}

#[test]
fn a_worker_drains_and_finishes_what_it_has() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        process.worker.drain();
        until(|| std::os::unix::net::UnixStream::connect(rig.path(1)).is_err()).await;
        let (idle, waker) = (process.worker.clone(), std::task::Waker::noop());
        assert!(!idle.is_idle(waker));
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        until(|| idle.is_idle(waker)).await;
        process.end().await;
    });
}

#[test]
fn what_waits_for_a_worker_that_drains_is_taken() {
    on_each(&async |rig: &Rig| {
        let process = Process::start(&rig.path(1), 1);
        let release = process.hold();
        let mut edge = UnixStream::connect(rig.path(1)).await.unwrap();
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        // A request without a body, without addresses and TLS, and of a client that is not proven.
        edge.write_all(
            &[&[u8::try_from(head.len() + 6).unwrap(), 0, 0, 0, 2, 0, 0, 0, 0, 0, 0], &head[..]].concat(),
        )
        .await
        .unwrap();
        process.worker.drain();
        release.send(()).unwrap();
        process.request().await.exchange.answer(OK);
        let mut said = Vec::new();
        while !said.windows(OK.len()).any(|window| window == OK.as_bytes()) {
            assert_ne!(edge.read_buf(&mut said).await.unwrap(), 0);
        }
        drop(edge);
        assert!(UnixStream::connect(rig.path(1)).await.is_err());
        process.end().await;
    });
}

#[test]
fn nobody_but_the_parent_is_served() {
    on_each(&async |rig: &Rig| {
        let process = Process::of(std::os::unix::process::parent_id(), &rig.path(1), 1);
        let mut stranger = UnixStream::connect(rig.path(1)).await.unwrap();
        // It may be closed before or behind what is said.
        let _ = stranger.write_all(&[0, 0, 0, 0, 1]).await;
        let mut said = Vec::new();
        let _ = stranger.read_to_end(&mut said).await;
        assert!(said.is_empty());
        assert_eq!((process.queue.len(), process.worker.active()), (0, 0));
        process.end().await;
    });
}
