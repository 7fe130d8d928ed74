//! What a worker has fetched: attached, which it never sees, or read.

use std::sync::Arc;

use penstock_engine::Code;
use penstock_engine::origin::RequestBody;
use penstock_engine::stream::Ending;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::application::read;
use crate::process::status;
use crate::rig::{OK, Rig, on_each};
use crate::server::{Server, ok};
use crate::sites::pattern;

/// Answers each request with the body that it has, which is `length` bytes long.
async fn echo(length: usize) -> Server {
    Server::start(move |mut peer, _| async move {
        peer.request().await;
        let body = peer.take(length).await;
        peer.send(
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes(), &body].concat(),
        )
        .await;
        peer.until_closed().await;
    })
    .await
}

#[test]
fn what_is_attached_never_comes_to_the_worker() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let whole = pattern(3 << 20);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", whole.len());
        let server = Server::always([head.as_bytes(), &whole].concat()).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
        assert_eq!(status(&stream).await.unwrap(), 200);
        taken.exchange.write(&head);
        taken.attach(&process, 7, stream.hand_over().unwrap(), Some(b"account"));
        client.head().await;
        assert!(client.read(whole.len()).await == whole, "the body was changed on its way");
        let (ticket, outcome) = process.completed().await;
        assert_eq!((ticket, outcome.bytes, outcome.begun, outcome.failure), (7, 3 << 20, true, None));
        assert!(stream.ending().is_some(), "who is told finds how it ended");
        assert_eq!(process.supplies.meter.bytes(), 0);
        drop(stream);
        process.end().await;
    });
}

#[test]
fn what_is_fetched_can_be_read_by_the_worker() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let whole = pattern(3 << 20);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", whole.len());
        let server = Server::always([head.as_bytes(), &whole].concat()).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
        assert_eq!(status(&stream).await.unwrap(), 200);
        assert!(read(&stream).await.unwrap() == whole, "the body was changed on its way");
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        drop(stream);
        process.end().await;
    });
}

#[test]
fn what_was_begun_to_be_read_is_attached_without_a_gap() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let whole = pattern(1 << 20);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", whole.len());
        let server = Server::always([head.as_bytes(), &whole].concat()).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
        status(&stream).await.unwrap();
        let first = std::future::poll_fn(|context| stream.poll_next(context)).await.unwrap().unwrap();
        taken.exchange.write([head.as_bytes(), &first].concat());
        drop(first);
        taken.attach(&process, 7, stream, None);
        client.head().await;
        assert!(client.read(whole.len()).await == whole, "the body was changed on its way");
        assert_eq!(process.completed().await.1.failure, None);
        process.end().await;
    });
}

#[test]
fn a_part_is_attached_and_the_worker_goes_on_behind_it() {
    use penstock_engine::app::Attachment;
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let server = Server::always(ok("part")).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
        status(&stream).await.unwrap();
        taken.exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n<<");
        taken.exchange.far.attach(Attachment {
            stream,
            rest: None,
            policy: None,
            inspector: None,
            account: None,
        });
        taken.exchange.far.flush();
        let outcome = taken.exchange.outcome().await;
        assert_eq!((outcome.bytes, outcome.failure), (4, None));
        taken.exchange.answer(">>");
        client.head().await;
        assert_eq!(client.read(8).await, b"<<part>>");
        process.end().await;
    });
}

#[test]
fn a_stream_of_the_workers_own_is_sent_by_the_edge() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let (feed, stream) = process.stream();
        taken.exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
        taken.attach(&process, 7, stream, None);
        client.head().await;
        for half in [b"first", b"later"] {
            feed.push(process.slice(half)).await.unwrap();
            assert_eq!(client.read(5).await, half);
        }
        feed.finish(Ending::default());
        let (ticket, outcome) = process.completed().await;
        assert_eq!((ticket, outcome.bytes, outcome.failure), (7, 10, None));
        process.end().await;
    });
}

#[test]
fn a_body_goes_to_the_origin_by_way_of_the_edge() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let whole = pattern(300 << 10);
        let server = echo(whole.len()).await;
        let mut client = rig.connect().await;
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", whole.len())).await;
        client.send(&whole).await;
        let mut taken = process.request().await;
        let body = taken.exchange.body.take().unwrap();
        let body = RequestBody::Stream { stream: body, length: Some(whole.len() as u64) };
        let stream = process.fetch(&taken, &server, "POST", body);
        assert_eq!(status(&stream).await.unwrap(), 200);
        assert!(read(&stream).await.unwrap() == whole, "the body was changed on its way");
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        drop(stream);
        process.end().await;
    });
}

#[test]
fn a_body_at_hand_is_as_long_as_it_likes() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        for length in [0, 1, 3 << 20] {
            let whole = pattern(length);
            let server = echo(length).await;
            let mut client = rig.connect().await;
            client.get("/").await;
            let taken = process.request().await;
            let stream = process.fetch(&taken, &server, "POST", RequestBody::Bytes(whole.clone()));
            assert_eq!(status(&stream).await.unwrap(), 200);
            assert!(read(&stream).await.unwrap() == whole, "the body was changed on its way");
            taken.exchange.answer(OK);
            assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        }
        process.end().await;
    });
}

#[test]
fn a_failure_at_the_origin_is_the_same_at_the_worker() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let stream = process.fetch_from(&taken, port, "GET", RequestBody::None);
        let error = status(&stream).await.unwrap_err();
        assert_eq!(error.code(), Code::ConnectFailed);
        assert_eq!(error.origin(), Some(format!("http://127.0.0.1:{port}").as_str()));

        let server = Server::once("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
        let half = process.fetch(&taken, &server, "GET", RequestBody::None);
        assert_eq!(status(&half).await.unwrap(), 200);
        assert_eq!(read(&half).await, Err(Code::BodyTruncated));
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        drop((stream, half));
        process.end().await;
    });
}

#[test]
fn a_plan_that_cannot_be_made_fails_what_it_was_for() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        // Nothing can be reached at that port.
        let stream = process.fetch_from(&taken, 0, "GET", RequestBody::None);
        assert_eq!(status(&stream).await.unwrap_err().code(), Code::BadRequest);
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        drop(stream);
        process.end().await;
    });
}

#[test]
fn an_interim_response_comes_before_the_head() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let go_on = Arc::new(Notify::new());
        let told = Arc::clone(&go_on);
        let server = Server::start(move |mut peer, _| {
            let go_on = Arc::clone(&told);
            async move {
                peer.request().await;
                peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").await;
                go_on.notified().await;
                peer.send(ok("done")).await;
                peer.until_closed().await;
            }
        })
        .await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
        let interim = std::future::poll_fn(|context| {
            assert!(stream.poll_head(context).is_pending());
            let interim = stream.take_interim();
            if interim.is_empty() { std::task::Poll::Pending } else { std::task::Poll::Ready(interim) }
        });
        let interim = interim.await;
        assert_eq!((interim.len(), interim[0].status), (1, 103));
        go_on.notify_one();
        assert_eq!(status(&stream).await.unwrap(), 200);
        assert_eq!(read(&stream).await.unwrap(), b"done");
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        drop(stream);
        process.end().await;
    });
}
