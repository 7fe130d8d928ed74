//! Bodies of requests, and what follows a change of protocols.

use crate::application::read;
use crate::rig::{Rig, on_each};
use crate::sites::{WINDOW, pattern, until};
use penstock_engine::Code;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_body_that_is_not_read_holds_the_client_up() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        let whole = pattern(64 << 20);
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", whole.len())).await;
        let exchange = rig.request().await;
        let mut sent = 0;
        let mut full = 0;
        until(|| {
            let count = client.send_some(&whole[sent..]);
            sent += count;
            full = if count == 0 { full + 1 } else { 0 };
            // Fifty milliseconds in which nothing is taken.
            full == 50
        })
        .await;
        assert!(sent < whole.len() / 2, "{sent} bytes are more than sockets and a window hold");
        assert!(rig.pool.stats().live_bytes <= 2 * WINDOW);
        let (received, ()) = tokio::join!(exchange.read(), client.send(&whole[sent..]));
        assert!(received.unwrap() == whole, "the body was changed on its way");
        exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
    });
}

#[test]
fn a_body_in_chunks_is_given_without_them() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client
            .send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n")
            .await;
        let exchange = rig.request().await;
        assert!(exchange.head.contains("Transfer-Encoding: chunked\r\n"));
        assert_eq!(exchange.read().await.unwrap(), b"abcde");
        exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
    });
}

#[test]
fn what_is_not_the_body_is_the_next_request_even_if_nobody_has_read_it() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").await;
        client.get("/next").await;
        let exchange = rig.request().await;
        exchange.read().await.unwrap();
        exchange.answer(OK);
        let next = rig.request().await;
        assert!(next.head.starts_with("GET /next "));
        next.answer(OK);
        assert_eq!(client.read(2 * OK.len()).await, [OK, OK].concat().as_bytes());
    });
}

#[test]
fn a_body_that_breaks_off_is_an_error() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf").await;
        let exchange = rig.request().await;
        client.end().await;
        assert_eq!(exchange.read().await, Err(Code::RequestTruncated));
        assert_eq!(exchange.lost().await, Some(Code::RequestTruncated));
        assert_eq!(client.rest().await, (Vec::new(), true));
    });
}

#[test]
fn a_client_that_waits_with_its_body_is_the_applications_to_ask() {
    on_each(&async |rig: &Rig| {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
        let mut asked = rig.connect().await;
        asked.send(head).await;
        let exchange = rig.request().await;
        exchange.write("HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(asked.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
        asked.send("body").await;
        assert_eq!(exchange.read().await.unwrap(), b"body");
        exchange.answer(OK);
        assert_eq!(asked.read(OK.len()).await, OK.as_bytes());

        // It may send its body after a refusal or not: what comes next is not known.
        let mut refused = rig.connect().await;
        refused.send(head).await;
        let exchange = rig.request().await;
        exchange.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
        exchange.far.done();
        assert!(refused.head().await.starts_with("HTTP/1.1 403 "));
        assert_eq!(refused.rest().await, (Vec::new(), false));
    });
}

#[test]
fn behind_a_switch_bytes_go_both_ways() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client
            .send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly")
            .await;
        let exchange = rig.request().await;
        let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        exchange.write(switch);
        assert_eq!(client.head().await, switch);
        let tunnel = exchange.tunnel().await;
        exchange.write("from the application");
        assert_eq!(client.read(20).await, b"from the application");
        client.send(", late").await;
        client.end().await;
        assert_eq!(read(&tunnel).await.unwrap(), b"early, late");
        exchange.write("the end");
        exchange.far.close();
        assert_eq!(client.rest().await, (b"the end".to_vec(), false));
    });
}

#[test]
fn what_comes_behind_an_offer_that_was_refused_is_a_request() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").await;
        client.get("/next").await;
        rig.request().await.answer(OK);
        let next = rig.request().await;
        assert!(next.head.starts_with("GET /next "));
        next.answer(OK);
        assert_eq!(client.read(2 * OK.len()).await, [OK, OK].concat().as_bytes());
    });
}
