//! What the application writes reaches the client as it is, and one response after the other.

use std::sync::Arc;

use crate::rig::{Rig, on_each};
use crate::sites::{pattern, until};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn requests_of_a_connection_are_answered_in_turn() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost: b\r\n\r\n").await;
        let first = rig.request().await;
        assert_eq!(first.head, "GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(rig.queue.is_empty(), "the second waits for the end of the first");
        first.answer(OK);
        let second = rig.request().await;
        assert_eq!(second.head, "GET /second HTTP/1.1\r\nHost: b\r\n\r\n");
        second.answer("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        assert_eq!(client.head().await, "HTTP/1.1 204 No Content\r\n\r\n");
    });
}

#[test]
fn a_head_is_sent_when_it_is_whole() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        let exchange = rig.request().await;
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        exchange.write(interim);
        assert_eq!(client.head().await, interim);
        exchange.write("HTTP/1.1 200 OK\r\nContent-Le");
        // What is written is looked at in order: a part of a head is kept back, and counts as unsent.
        until(|| exchange.far.unsent() == 27).await;
        exchange.write("ngth: 2\r\n\r\n");
        client.head().await;
        exchange.below(0).await;
        exchange.answer("ok");
        assert_eq!(client.read(2).await, b"ok");
    });
}

#[test]
fn a_client_that_does_not_read_holds_the_application_up() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        let exchange = rig.request().await;
        let piece = Arc::new(pattern(64 << 10));
        let count = 512;
        exchange.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", count * piece.len()));
        for _ in 0..count {
            exchange.lend(&piece);
        }
        // What the sockets take is sent and given back, and then no more.
        let mut held = 0;
        until(|| std::mem::replace(&mut held, exchange.far.unsent()) == exchange.far.unsent() && held > 0)
            .await;
        assert!(held > 8 << 20, "{held} bytes are unsent, so the sockets have taken nearly all");
        assert!(Arc::strong_count(&piece) > (8 << 20) / piece.len(), "what is unsent is still lent");
        let body = client.head().await;
        assert!(body.contains("Content-Length"));
        for _ in 0..count {
            assert!(client.read(piece.len()).await == *piece, "the body was changed on its way");
        }
        exchange.below(0).await;
        until(|| Arc::strong_count(&piece) == 1).await;
        exchange.far.finish();
    });
}

#[test]
fn an_end_that_is_the_connections_is_a_clean_one() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        rig.request().await.answer("HTTP/1.1 200 OK\r\n\r\nas long as it is");
        let (bytes, reset) = client.rest().await;
        assert!(bytes.ends_with(b"\r\n\r\nas long as it is"));
        assert!(!reset);
    });
}

#[test]
fn a_close_is_one_behind_all_that_was_written() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        let exchange = rig.request().await;
        exchange.write(OK);
        exchange.far.close();
        assert_eq!(client.rest().await, (OK.as_bytes().to_vec(), false));
        assert_eq!(exchange.lost().await, None);
    });
}

#[test]
fn a_head_request_is_answered_by_a_head() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        rig.request().await.answer(head);
        assert_eq!(client.head().await, head);
        client.get("/").await;
        rig.request().await.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
    });
}
