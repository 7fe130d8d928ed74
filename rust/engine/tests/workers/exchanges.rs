//! Requests that workers answer, from end to end.

use penstock_engine::Code;

use crate::application::read;
use crate::client::Client;
use crate::rig::{OK, Rig, on_each};
use crate::sites::{WINDOW, pattern, until};

#[test]
fn a_worker_is_asked_and_answers() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        // On one connection of the client's, one exchange after the other.
        for target in ["/first", "/second"] {
            client.get(target).await;
            let taken = process.request().await;
            assert!(taken.exchange.head.starts_with(&format!("GET {target} HTTP/1.1\r\n")));
            assert_eq!(taken.ends.remote.map(|remote| remote.ip()), Some(rig.address.ip()));
            assert_eq!(taken.ends.local, Some(rig.address));
            assert!(taken.exchange.body.is_none());
            assert_eq!(process.worker.active(), 1);
            // The one before may have been released just now.
            until(|| rig.workers.busy(1) == 1).await;
            taken.exchange.answer(OK);
            assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        }
        until(|| rig.workers.busy(1) == 0).await;
        process.end().await;
    });
}

#[test]
fn a_response_in_pieces_comes_as_it_is_written() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        taken.exchange.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.head().await;
        for piece in ["1\r\na\r\n", "2\r\nbc\r\n"] {
            taken.exchange.write(piece);
            assert_eq!(client.read(piece.len()).await, piece.as_bytes());
        }
        taken.exchange.answer("0\r\n\r\n");
        assert_eq!(client.read(5).await, b"0\r\n\r\n");
        process.end().await;
    });
}

#[test]
fn a_worker_hears_how_much_of_a_long_response_has_left() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = Client::narrow(rig.address).await;
        client.get("/").await;
        let taken = process.request().await;
        let whole = pattern(8 << 20);
        taken.exchange.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", whole.len()));
        taken.exchange.write(&whole);
        client.head().await;
        assert!(taken.exchange.far.unsent() > whole.len() / 2, "sockets do not hold so much");
        let read = client.read(whole.len());
        let (read, ()) = tokio::join!(read, taken.exchange.below(0));
        assert!(read == whole, "the response was changed on its way");
        taken.exchange.far.finish();
        process.end().await;
    });
}

#[test]
fn a_body_comes_to_the_worker_in_pieces() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab").await;
        let taken = process.request().await;
        assert!(taken.exchange.head.contains("Content-Length: 5\r\n"));
        client.send("cde").await;
        assert_eq!(taken.exchange.read().await.unwrap(), b"abcde");
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());

        let chunks = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        client.send(chunks).await;
        let taken = process.request().await;
        assert_eq!(taken.exchange.read().await.unwrap(), b"abc");
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        process.end().await;
    });
}

#[test]
fn a_body_that_the_worker_does_not_read_holds_the_client_up() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        let whole = pattern(64 << 20);
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", whole.len())).await;
        let taken = process.request().await;
        let (mut sent, mut full) = (0, 0);
        until(|| {
            let count = client.send_some(&whole[sent..]);
            sent += count;
            full = if count == 0 { full + 1 } else { 0 };
            // Fifty milliseconds in which nothing is taken.
            full == 50
        })
        .await;
        assert!(sent < whole.len() / 2, "{sent} bytes are more than sockets and windows hold");
        assert!(rig.pool.stats().live_bytes <= 2 * WINDOW);
        assert!(process.supplies.pool.stats().live_bytes <= 2 * WINDOW);
        let (received, ()) = tokio::join!(taken.exchange.read(), client.send(&whole[sent..]));
        assert!(received.unwrap() == whole, "the body was changed on its way");
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        process.end().await;
    });
}

#[test]
fn a_body_that_is_not_read_does_not_spoil_the_next_request() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").await;
        process.request().await.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        client.get("/next").await;
        let taken = process.request().await;
        assert!(taken.exchange.head.starts_with("GET /next "));
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        process.end().await;
    });
}

#[test]
fn a_head_is_answered_without_a_body() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let taken = process.request().await;
        assert!(taken.exchange.head.starts_with("HEAD / "));
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        taken.exchange.answer(head);
        assert_eq!(client.head().await, head);
        client.get("/next").await;
        process.request().await.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        process.end().await;
    });
}

#[test]
fn a_client_that_waits_with_its_body_is_asked_by_the_worker() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
        client.send(head).await;
        let taken = process.request().await;
        taken.exchange.write("HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(client.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
        client.send("body").await;
        assert_eq!(taken.exchange.read().await.unwrap(), b"body");
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        process.end().await;
    });
}

#[test]
fn behind_a_switch_bytes_go_both_ways() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client
            .send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly")
            .await;
        let taken = process.request().await;
        let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        taken.exchange.write(switch);
        assert_eq!(client.head().await, switch);
        let tunnel = taken.exchange.tunnel().await;
        taken.exchange.write("from the worker");
        assert_eq!(client.read(15).await, b"from the worker");
        client.send(", late").await;
        client.end().await;
        assert_eq!(read(&tunnel).await.unwrap(), b"early, late");
        taken.exchange.write("the end");
        taken.exchange.far.close();
        assert_eq!(client.rest().await, (b"the end".to_vec(), false));
        drop((taken, tunnel));
        process.end().await;
    });
}

#[test]
fn what_a_worker_breaks_off_is_no_end() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        taken.exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
        client.head().await;
        assert_eq!(client.read(4).await, b"half");
        taken.exchange.far.abort();
        assert_eq!(client.rest().await, (Vec::new(), true));
        drop(taken);
        process.end().await;
    });
}

#[test]
fn a_body_that_breaks_off_is_an_error_at_the_worker() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf").await;
        let taken = process.request().await;
        client.end().await;
        assert_eq!(taken.exchange.read().await, Err(Code::RequestTruncated));
        assert_eq!(taken.exchange.lost().await, Some(Code::RequestTruncated));
        assert_eq!(client.rest().await, (Vec::new(), true));
        drop(taken);
        process.end().await;
    });
}
