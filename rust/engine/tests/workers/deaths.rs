//! Workers that go, at each stage of a request.

use std::sync::Arc;

use penstock_engine::origin::RequestBody;
use tokio::sync::Notify;

use crate::client::Client;
use crate::process::status;
use crate::rig::{OK, Rig, on_each};
use crate::server::{Server, ok};
use crate::sites::until;

const HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf";

/// An origin that sends the second half of its body when it is told to.
async fn halves() -> (Server, Arc<Notify>) {
    let go_on = Arc::new(Notify::new());
    let told = Arc::clone(&go_on);
    let server = Server::start(move |mut peer, _| {
        let go_on = Arc::clone(&told);
        async move {
            peer.request().await;
            peer.send(HALF).await;
            go_on.notified().await;
            peer.send("half").await;
            peer.until_closed().await;
        }
    })
    .await;
    (server, go_on)
}

async fn refusal(client: &mut Client) -> String {
    String::from_utf8(client.rest().await.0).unwrap()
}

#[test]
fn a_request_that_is_safe_is_answered_by_another() {
    on_each(&async |rig: &Rig| {
        for round in 0..6 {
            let numbers = [2 * round, 2 * round + 1];
            let one = rig.worker(numbers[0], 0).await;
            let two = rig.worker(numbers[1], 0).await;
            let mut client = rig.connect().await;
            client.get("/").await;
            let (taken, dying, other) = tokio::select! {
                taken = one.request() => (taken, &one, &two),
                taken = two.request() => (taken, &two, &one),
            };
            dying.kill();
            drop(taken);
            other.request().await.exchange.answer(OK);
            assert_eq!(client.read(OK.len()).await, OK.as_bytes());
            for number in numbers {
                rig.workers.remove(number);
            }
        }
    });
}

#[test]
fn a_request_that_is_safe_waits_for_a_worker_that_comes() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        process.kill();
        drop(taken);
        rig.workers.remove(1);
        let mut late = rig.connect().await;
        late.get("/late").await;
        let process = rig.worker(2, 0).await;
        for _ in 0..2 {
            process.request().await.exchange.answer(OK);
        }
        for client in [&mut client, &mut late] {
            assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        }
        process.end().await;
    });
}

#[test]
fn a_request_that_may_have_been_carried_out_is_not_repeated() {
    on_each(&async |rig: &Rig| {
        let requests = [
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody",
            "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody",
        ];
        for (number, request) in (1..).zip(requests) {
            let process = rig.worker(number, 0).await;
            let mut client = rig.connect().await;
            client.send(request).await;
            let taken = process.request().await;
            // Another one is there, and is not asked.
            let other = rig.worker(number + 100, 0).await;
            process.kill();
            drop(taken);
            let refusal = refusal(&mut client).await;
            assert!(refusal.starts_with("HTTP/1.1 502 "), "{refusal}");
            assert!(refusal.contains("\"WORKER_GONE\""), "{refusal}");
            assert_eq!(other.worker.active(), 0);
            other.end().await;
            for number in [number, number + 100] {
                rig.workers.remove(number);
            }
        }
    });
}

#[test]
fn a_response_that_was_begun_is_cut_off() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        taken.exchange.write(HALF);
        client.head().await;
        assert_eq!(client.read(4).await, b"half");
        process.kill();
        assert_eq!(client.rest().await, (Vec::new(), true));
        drop(taken);
    });
}

#[test]
fn what_was_attached_goes_on_and_its_end_is_told_to_others() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let (server, go_on) = halves().await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
        assert_eq!(status(&stream).await.unwrap(), 200);
        taken.exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n");
        taken.attach(&process, 7, stream, Some(b"account"));
        client.head().await;
        assert_eq!(client.read(4).await, b"half");
        process.kill();
        go_on.notify_one();
        assert_eq!(client.read(4).await, b"half");
        let orphan = rig.orphan().await;
        assert_eq!(orphan.account, b"account");
        assert_eq!((orphan.outcome.bytes, orphan.outcome.begun, orphan.outcome.failure), (8, true, None));
        let (_, body, reused) = orphan.timings.unwrap();
        assert!(body.is_some() && !reused);
    });
}

#[test]
fn an_end_that_the_worker_has_not_heard_of_is_told_to_others() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let server = Server::always(ok("whole")).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
        assert_eq!(status(&stream).await.unwrap(), 200);
        taken.exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        taken.attach(&process, 7, stream, Some(b"account"));
        client.head().await;
        assert_eq!(client.read(5).await, b"whole");
        // It has come as far as the worker's loop, which never looks at it.
        process.completed().await;
        process.kill();
        assert_eq!(rig.orphan().await.outcome.bytes, 5);
    });
}

#[test]
fn an_end_that_the_worker_has_heard_of_is_told_to_nobody_else() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let server = Server::always(ok("whole")).await;
        for account in [b"heard", b"other"] {
            let mut client = rig.connect().await;
            client.get("/").await;
            let taken = process.request().await;
            let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
            assert_eq!(status(&stream).await.unwrap(), 200);
            taken.exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
            let ticket = u64::from(account == b"other");
            taken.attach(&process, ticket, stream, Some(account));
            client.head().await;
            assert_eq!(client.read(5).await, b"whole");
            assert_eq!(process.completed().await.0, ticket);
        }
        process.queue.reports().note_heard(0);
        // Behind what is said on the same connection: the next sign comes after it.
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        process.kill();
        assert_eq!(rig.orphan().await.account, b"other");
    });
}

#[test]
fn a_stream_of_the_workers_own_ends_with_it() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let (feed, stream) = process.stream();
        taken.exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n");
        taken.attach(&process, 7, stream, Some(b"account"));
        client.head().await;
        feed.push(process.slice(b"half")).await.unwrap();
        assert_eq!(client.read(4).await, b"half");
        process.kill();
        // Less than was announced: the client sees that it is not the whole.
        assert_eq!(client.rest().await.0, b"");
        let orphan = rig.orphan().await;
        assert_eq!((orphan.outcome.bytes, orphan.outcome.failure.is_some()), (4, true));
        drop(feed);
    });
}

#[test]
fn an_upload_that_had_begun_is_not_repeated() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo").await;
        let taken = process.request().await;
        until(|| taken.exchange.body.as_ref().is_some_and(|body| body.held().0 > 0)).await;
        process.kill();
        drop(taken);
        let refusal = refusal(&mut client).await;
        assert!(refusal.starts_with("HTTP/1.1 502 ") && refusal.contains("\"WORKER_GONE\""), "{refusal}");
    });
}
