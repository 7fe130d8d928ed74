//! A worker that says what is no message, or not its to say: that ends the exchange, and nothing besides.

use crate::client::Client;
use crate::fake::{Fake, attach, fetch, message};
use crate::rig::{OK, Rig, on_each};
use crate::server::Server;
use crate::sites::until;

/// What no worker says: no kind, a length above all, half a message, and what only the edge says.
fn garbage() -> Vec<Vec<u8>> {
    vec![
        message(0, b""),
        message(200, b"abc"),
        message(26, b"\x02"),
        vec![0xFF; 64],
        message(6, &[7; 9]),
        message(24, &[0xFF; 40]),
        message(28, &[0xFF; 40]),
        // A topic that is to be fed by what was never fetched: flow, source, whose, hub, topic, type.
        message(29, &[&[0; 17][..], &[1, 0, 0, 0, b'a', 1, 0, 0, 0, b'b']].concat()),
        // A lease that is renewed, or a call, elsewhere than at home.
        message(30, &[0; 9]),
        message(31, &[0; 8]),
        // An attachment of what was never fetched.
        message(25, &[9, 0, 0, 0, 0, 0, 0, 0]),
        // A Ping, and what is said at home.
        message(14, b""),
        message(15, b""),
        message(1, b""),
    ]
}

#[test]
fn garbage_ends_its_exchange_alone() {
    on_each(&async |rig: &Rig| {
        let fake = Fake::start(rig, 1).await;
        for garbage in garbage() {
            let (mut one, mut other) = (rig.connect().await, rig.connect().await);
            other.get("/other").await;
            let neighbour = fake.request().await;
            one.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
            let mut said = fake.request().await;
            said.say(&garbage).await;
            let (answer, is_reset) = one.rest().await;
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 500 ") && !is_reset, "{garbage:?}: {answer}");
            assert!(answer.contains("\"INTERNAL\""), "{garbage:?}: {answer}");
            said.ended().await;
            neighbour.answer(OK).await;
            assert_eq!(other.read(OK.len()).await, OK.as_bytes());
        }
        until(|| rig.workers.busy(1) == 0).await;
    });
}

#[test]
fn what_has_no_head_yet_is_not_attached() {
    on_each(&async |rig: &Rig| {
        let fake = Fake::start(rig, 1).await;
        let server = Server::stalling("").await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let mut said = fake.request().await;
        said.say(&fetch(2, server.address.port(), 5)).await;
        until(|| server.connections() == 1).await;
        said.say(&message(18, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")).await;
        said.say(&attach(2, false, 6)).await;
        let (_, is_reset) = client.rest().await;
        assert!(is_reset);
        said.ended().await;
        until(|| rig.workers.busy(1) == 0).await;
    });
}

#[test]
fn garbage_behind_half_a_response_cuts_the_client_off() {
    on_each(&async |rig: &Rig| {
        let fake = Fake::start(rig, 1).await;
        for garbage in garbage() {
            let mut client = rig.connect().await;
            client.get("/").await;
            let mut said = fake.request().await;
            said.say(&message(18, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")).await;
            client.head().await;
            assert_eq!(client.read(4).await, b"half");
            said.say(&garbage).await;
            assert_eq!(client.rest().await, (Vec::new(), true), "{garbage:?}");
            said.ended().await;
        }
        until(|| rig.workers.busy(1) == 0).await;
    });
}

#[test]
fn a_worker_that_writes_more_than_it_may_is_not_heard_further() {
    // More than the sockets' buffers take between them.
    const LENGTH: usize = 64 << 20;
    on_each(&async |rig: &Rig| {
        let fake = Fake::start(rig, 1).await;
        let mut client = Client::narrow(rig.address).await;
        client.get("/").await;
        let mut said = fake.request().await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        said.say(&message(18, head.as_bytes())).await;
        client.head().await;
        let piece = message(18, &[1; 16 << 10]);
        let mut said_so_far = 0;
        while said.try_to_say(&piece).await {
            said_so_far += piece.len();
        }
        assert!(said_so_far < LENGTH / 2, "{said_so_far} bytes were taken");
        let (received, _) = client.rest().await;
        assert!(received.len() < LENGTH);
    });
}

#[test]
fn a_worker_that_has_more_sent_than_there_is_memory_is_not_heard_further() {
    on_each(&async |rig: &Rig| {
        let fake = Fake::start(rig, 1).await;
        let mut client = rig.connect().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
        let mut said = fake.request().await;
        let piece = message(27, &[1; 16 << 10]);
        let most = rig.pool.budget() / piece.len() + 1;
        for _ in 0..=most {
            said.try_to_say(&piece).await;
        }
        let answer = String::from_utf8(client.rest().await.0).unwrap();
        assert!(answer.starts_with("HTTP/1.1 5"), "{answer}");
        assert!(answer.contains("\"OBJECT_TOO_LARGE\""), "{answer}");
        said.ended().await;
    });
}

#[test]
fn a_request_that_is_safe_is_answered_by_one_that_talks_sense() {
    on_each(&async |rig: &Rig| {
        let fake = Fake::start(rig, 1).await;
        for garbage in garbage() {
            let mut client = rig.connect().await;
            client.get("/").await;
            let mut said = fake.request().await;
            let process = rig.worker(2, 0).await;
            said.say(&garbage).await;
            process.request().await.exchange.answer(OK);
            assert_eq!(client.read(OK.len()).await, OK.as_bytes());
            rig.workers.remove(2);
            process.end().await;
            std::fs::remove_file(rig.path(2)).unwrap();
        }
    });
}

#[test]
fn a_connection_that_breaks_says_nothing_of_the_worker() {
    on_each(&async |rig: &Rig| {
        let fake = Fake::start(rig, 1).await;
        let mut client = rig.connect().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
        drop(fake.request().await);
        assert!(client.head().await.starts_with("HTTP/1.1 502 "));
        // It is there still, and gets the next.
        let mut client = rig.connect().await;
        client.get("/").await;
        fake.request().await.answer(OK).await;
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
    });
}
