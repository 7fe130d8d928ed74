//! What the engine sends in the application's place: streams and files.

use std::io::Write;
use std::os::fd::OwnedFd;

use penstock_engine::Code;
use penstock_engine::app::{Attachment, File, Outcome};
use penstock_engine::framing::Framing;
use penstock_engine::stream::Ending;

use crate::rig::{Rig, on_each};
use crate::sites::{pattern, until};

/// What is told of the stream with that ticket.
async fn completed(rig: &Rig, ticket: u64) -> Outcome {
    let mut completed = Vec::new();
    until(|| {
        completed.append(&mut rig.queue.reports().take_completed());
        !completed.is_empty()
    })
    .await;
    assert_eq!(completed.len(), 1);
    assert_eq!(completed[0].0, ticket);
    completed.remove(0).1
}

fn code(outcome: &Outcome) -> Option<Code> {
    outcome.failure.as_ref().map(penstock_engine::Error::code)
}

#[test]
fn the_rest_of_a_body_is_framed_as_its_head_says() {
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "hello", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\n\r\n", "hello", true),
    ];
    for (head, body, closes) in cases {
        on_each(&async |rig: &Rig| {
            let mut client = rig.connect().await;
            client.get("/").await;
            let exchange = rig.request().await;
            let (feed, stream) = rig.stream(&Framing::Raw);
            exchange.write(head);
            exchange.far.attach(Attachment {
                stream,
                rest: Some(rig.queue.reports().completion(3)),
                policy: None,
                inspector: None,
                account: None,
            });
            exchange.far.finish();
            feed.push(rig.slice(b"hello")).await.unwrap();
            feed.finish(Ending::default());
            assert_eq!(client.head().await, head);
            assert_eq!(client.read(body.len()).await, body.as_bytes());
            let outcome = completed(rig, 3).await;
            assert_eq!((outcome.bytes, code(&outcome)), (5, None));
            if closes {
                assert_eq!(client.rest().await, (Vec::new(), false));
            } else {
                client.get("/next").await;
                rig.request().await.answer("HTTP/1.1 204 No Content\r\n\r\n");
                client.head().await;
            }
        });
    }
}

#[test]
fn a_stream_of_another_length_than_its_head_says_is_not_taken_for_whole() {
    for (sent, seen) in [("hell", 4), ("hello", 5), ("hello!", 0)] {
        on_each(&async |rig: &Rig| {
            let mut client = rig.connect().await;
            client.get("/").await;
            let exchange = rig.request().await;
            let (feed, stream) = rig.stream(&Framing::Raw);
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
            exchange.write(head);
            client.head().await;
            exchange.far.attach(Attachment {
                stream,
                rest: Some(rig.queue.reports().completion(0)),
                policy: None,
                inspector: None,
                account: None,
            });
            exchange.far.finish();
            feed.push(rig.slice(sent.as_bytes())).await.unwrap();
            feed.finish(Ending::default());
            assert_eq!(client.read(seen).await, &sent.as_bytes()[..seen]);
            let outcome = completed(rig, 0).await;
            if sent == "hello" {
                assert_eq!(code(&outcome), None);
            } else {
                assert_eq!(code(&outcome), Some(Code::BadResponse));
                let (rest, _) = client.rest().await;
                assert_eq!(rest, b"", "neither more nor an end of the body");
            }
        });
    }
}

#[test]
fn a_stream_that_fails_breaks_the_response_off() {
    // The second is not taken for what it is called where an upload has the wrong length.
    for failure in [Code::OriginReset, Code::UploadFailed] {
        on_each(&async |rig: &Rig| {
            let mut client = rig.connect().await;
            client.get("/").await;
            let exchange = rig.request().await;
            let (feed, stream) = rig.stream(&Framing::Raw);
            exchange.write("HTTP/1.1 200 OK\r\n\r\n");
            exchange.far.attach(Attachment {
                stream,
                rest: Some(rig.queue.reports().completion(0)),
                policy: None,
                inspector: None,
                account: None,
            });
            exchange.far.finish();
            feed.push(rig.slice(b"half")).await.unwrap();
            client.head().await;
            assert_eq!(client.read(4).await, b"half");
            feed.fail(failure.error("as the test wants it"));
            assert_eq!(client.rest().await, (Vec::new(), true));
            let outcome = completed(rig, 0).await;
            assert_eq!((outcome.bytes, code(&outcome)), (4, Some(failure)));
        });
    }
}

#[test]
fn the_application_goes_on_behind_a_part() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        let exchange = rig.request().await;
        let (feed, stream) = rig.stream(&Framing::Raw);
        exchange.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
        exchange.far.attach(Attachment { stream, rest: None, policy: None, inspector: None, account: None });
        exchange.far.flush();
        feed.push(rig.slice(b"bc")).await.unwrap();
        feed.finish(Ending::default());
        let outcome = exchange.outcome().await;
        assert_eq!((outcome.bytes, code(&outcome)), (2, None));
        exchange.answer("1\r\nd\r\n0\r\n\r\n");
        client.head().await;
        let body = b"1\r\na\r\n2\r\nbc\r\n1\r\nd\r\n0\r\n\r\n";
        assert_eq!(client.read(body.len()).await, body);
    });
}

fn file(bytes: &[u8]) -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn a_part_of_a_file_is_sent_from_where_it_begins() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        let exchange = rig.request().await;
        let whole = pattern(5 << 20);
        let count = whole.len() as u64 - 100;
        exchange.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {count}\r\n\r\n"));
        let descriptor = OwnedFd::from(file(&whole));
        exchange.far.send_file(File { descriptor, offset: 100, count });
        let (outcome, ()) = tokio::join!(exchange.outcome(), async {
            client.head().await;
            assert!(client.read(whole.len() - 100).await == whole[100..], "another part of the file");
        });
        assert_eq!((outcome.bytes, code(&outcome)), (count, None));
        exchange.far.finish();
        client.get("/next").await;
        rig.request().await.answer("HTTP/1.1 204 No Content\r\n\r\n");
        client.head().await;
    });
}

#[test]
fn a_file_that_is_shorter_is_not_taken_for_whole() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        let exchange = rig.request().await;
        exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
        let descriptor = OwnedFd::from(file(b"half"));
        exchange.far.send_file(File { descriptor, offset: 0, count: 9 });
        assert_eq!(exchange.outcome().await.bytes, 4);
        exchange.far.done();
        client.head().await;
        assert_eq!(client.rest().await, (b"half".to_vec(), true));
        assert_eq!(rig.fault().await.error.detail(), "5 bytes of the body are missing");
    });
}

#[test]
fn a_file_that_does_not_fit_its_response_is_not_sent() {
    for framing in ["Content-Length: 3", "Transfer-Encoding: chunked"] {
        on_each(&async |rig: &Rig| {
            let mut client = rig.connect().await;
            client.get("/").await;
            let exchange = rig.request().await;
            exchange.write(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
            client.head().await;
            exchange.far.send_file(File { descriptor: file(b"more").into(), offset: 0, count: 4 });
            assert_eq!(client.rest().await, (Vec::new(), true));
            assert_eq!(exchange.lost().await, Some(Code::BadResponse));
            assert!(rig.fault().await.error.detail().contains("does not fit"));
        });
    }
}
