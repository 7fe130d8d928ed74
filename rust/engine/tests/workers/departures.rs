//! Clients that leave, at each stage of a request: the worker hears of it, and what was fetched for it ends.

use std::sync::Arc;

use penstock_engine::Code;
use penstock_engine::app::Content;
use penstock_engine::origin::RequestBody;
use penstock_engine::stream::Stream;
use tokio::sync::Notify;

use crate::client::Client;
use crate::fake::{Fake, attach, fetch};
use crate::process::{Process, Taken, status};
use crate::rig::{Rig, on_each};
use crate::server::Server;
use crate::sites::until;

/// An origin that says `response` and then waits to be left, which it tells of.
async fn left(response: &'static str) -> (Server, Arc<Notify>) {
    let left = Arc::new(Notify::new());
    let tell = Arc::clone(&left);
    let server = Server::start(move |mut peer, _| {
        let tell = Arc::clone(&tell);
        async move {
            peer.request().await;
            peer.send(response).await;
            peer.until_closed().await;
            tell.notify_one();
        }
    })
    .await;
    (server, left)
}

const LOST: u8 = 10;
const OVER: u8 = 16;
const SEEN: u8 = 33;

/// A client whose request has `server` asked, which has not answered.
async fn fetching(rig: &Rig, process: &Process, server: &Server) -> (Client, Taken, Stream) {
    let mut client = rig.connect().await;
    client.get("/").await;
    let taken = process.request().await;
    let stream = process.fetch(&taken, server, "GET", RequestBody::None);
    until(|| server.connections() == 1).await;
    (client, taken, stream)
}

const HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf";

#[test]
fn a_client_that_leaves_is_told_of() {
    for leave in [drop as fn(Client), Client::reset] {
        on_each(&async |rig: &Rig| {
            let process = rig.worker(1, 0).await;
            let mut client = rig.connect().await;
            client.get("/").await;
            let taken = process.request().await;
            leave(client);
            assert_eq!(taken.exchange.lost().await, Some(Code::ClientGone));
            assert_eq!(taken.exchange.far.write(Content::Bytes(b"too late".to_vec())), 0);
            drop(taken);
            process.end().await;
        });
    }
}

#[test]
fn a_client_that_leaves_within_its_response_is_told_of() {
    for leave in [drop as fn(Client), Client::reset] {
        on_each(&async |rig: &Rig| {
            let process = rig.worker(1, 0).await;
            let mut client = rig.connect().await;
            client.get("/").await;
            let taken = process.request().await;
            taken.exchange.write(HALF);
            client.head().await;
            leave(client);
            assert_eq!(taken.exchange.lost().await, Some(Code::ClientGone));
            drop(taken);
            process.end().await;
        });
    }
}

#[test]
fn a_client_that_leaves_before_a_head_ends_what_is_fetched() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let (server, left) = left("").await;
        let (client, taken, stream) = fetching(rig, &process, &server).await;
        drop(client);
        assert_eq!(taken.exchange.lost().await, Some(Code::ClientGone));
        left.notified().await;
        assert!(status(&stream).await.is_err());
        drop((taken, stream));
        process.end().await;
    });
}

#[test]
fn a_client_that_leaves_ends_what_the_worker_reads() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let (server, left) = left(HALF).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
        assert_eq!(status(&stream).await.unwrap(), 200);
        let first = std::future::poll_fn(|context| stream.poll_next(context)).await.unwrap().unwrap();
        assert_eq!(&first[..], b"half");
        drop((client, first));
        left.notified().await;
        assert!(crate::application::read(&stream).await.is_err());
        drop((taken, stream));
        process.end().await;
    });
}

#[test]
fn a_client_that_leaves_ends_what_is_attached() {
    for leave in [drop as fn(Client), Client::reset] {
        on_each(&async |rig: &Rig| {
            let process = rig.worker(1, 0).await;
            let (server, left) = left(HALF).await;
            let mut client = rig.connect().await;
            client.get("/").await;
            let taken = process.request().await;
            let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
            assert_eq!(status(&stream).await.unwrap(), 200);
            taken.exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n");
            taken.attach(&process, 7, stream, Some(b"account"));
            client.head().await;
            assert_eq!(client.read(4).await, b"half");
            leave(client);
            left.notified().await;
            let (ticket, outcome) = process.completed().await;
            assert_eq!((ticket, outcome.begun), (7, true));
            assert_eq!(outcome.failure.map(|error| error.code()), Some(Code::ClientGone));
            process.end().await;
        });
    }
}

#[test]
fn what_a_worker_says_while_the_client_leaves_has_an_end_as_well() {
    on_each(&async |rig: &Rig| {
        let fake = Fake::start(rig, 1).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let mut said = fake.request().await;
        drop(client);
        said.hear(LOST).await;
        // A relay that is inspected, and all that is left of a response: neither knew that the client had left.
        said.say(&fetch(2, 80, 5)).await;
        assert_eq!(fake.told().await, (SEEN, [&5_u64.to_le_bytes()[..], &[0]].concat()));
        for (is_own, ticket) in [(false, 6_u64), (true, 7)] {
            said.say(&attach(2, is_own, ticket)).await;
            let (kind, over) = fake.told().await;
            assert_eq!((kind, &over[..8]), (OVER, &ticket.to_le_bytes()[..]));
        }
        drop(said);
        until(|| rig.workers.busy(1) == 0).await;
    });
}

#[test]
fn a_worker_that_leaves_before_a_head_ends_what_is_fetched() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let (server, left) = left("").await;
        let (mut client, taken, stream) = fetching(rig, &process, &server).await;
        drop(stream);
        left.notified().await;
        taken.exchange.answer(crate::rig::OK);
        assert!(client.head().await.starts_with("HTTP/1.1 200 "));
        process.end().await;
    });
}

#[test]
fn a_worker_that_leaves_what_it_has_fetched_ends_it() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let (server, left) = left(HALF).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
        assert_eq!(status(&stream).await.unwrap(), 200);
        drop(stream);
        left.notified().await;
        taken.exchange.answer(crate::rig::OK);
        assert!(client.head().await.starts_with("HTTP/1.1 200 "));
        process.end().await;
    });
}

#[test]
fn a_client_that_leaves_before_a_worker_is_there_is_forgotten() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        rig.workers.retire(1);
        let mut client = rig.connect().await;
        client.get("/").await;
        until(|| rig.site.active() == 1).await;
        drop(client);
        until(|| rig.site.active() == 0).await;
        assert_eq!(process.worker.active(), 0);
        process.end().await;
    });
}
