//! An application that breaks its own word, or does not come to it.

use penstock_engine::Code;

use crate::client::Client;
use crate::rig::{Patience, Rig, SHORT, on_each, on_each_with};
use crate::settings::AMPLE;
use crate::sites::until;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The fault that the application is told of, in its own words.
async fn fault(rig: &Rig) -> String {
    let fault = rig.fault().await;
    assert_eq!(fault.request.as_deref(), Some("GET /"));
    assert_eq!(fault.error.code(), Code::BadResponse);
    fault.error.detail().to_owned()
}

#[test]
fn a_response_that_is_too_long_ends_where_it_said() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        let exchange = rig.request().await;
        exchange.write(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        exchange.write("!");
        assert_eq!(client.rest().await, (Vec::new(), true));
        assert_eq!(exchange.lost().await, Some(Code::BadResponse));
        assert_eq!(fault(rig).await, "1 bytes after the end of the response");
    });
}

#[test]
fn a_response_that_is_too_long_at_once_is_not_sent() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        rig.request().await.answer([OK, "HTTP/1.1 200 OK\r\n\r\n"].concat());
        assert_eq!(client.rest().await, (Vec::new(), true));
        assert_eq!(fault(rig).await, "19 bytes after the end of the response");
    });
}

#[test]
fn a_response_that_is_too_short_is_not_taken_for_whole() {
    let cases = [
        ("Content-Length: 9", "half", "5 bytes of the body are missing"),
        ("Transfer-Encoding: chunked", "4\r\nhalf\r\n", "the last chunk is missing"),
    ];
    for (framing, half, why) in cases {
        on_each(&async |rig: &Rig| {
            let mut client = rig.connect().await;
            client.get("/").await;
            let exchange = rig.request().await;
            exchange.write(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{half}"));
            client.head().await;
            assert_eq!(client.read(half.len()).await, half.as_bytes());
            exchange.far.done();
            assert_eq!(exchange.lost().await, Some(Code::BadResponse));
            assert_eq!(client.rest().await, (Vec::new(), true));
            let fault = fault(rig).await;
            assert!(fault.contains(why), "{fault}");
        });
    }
}

#[test]
fn no_response_at_all_is_a_fault() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        rig.request().await.far.finish();
        assert_eq!(client.rest().await, (Vec::new(), true));
        assert_eq!(fault(rig).await, "there is no response");
    });
}

#[test]
fn what_was_broken_off_is_no_end() {
    on_each(&async |rig: &Rig| {
        let mut early = rig.connect().await;
        early.get("/").await;
        rig.request().await.far.abort();
        assert_eq!(early.rest().await, (Vec::new(), false), "nothing was said");

        for head in ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
            let mut late = rig.connect().await;
            late.get("/").await;
            let exchange = rig.request().await;
            exchange.write([head, "half"].concat());
            late.head().await;
            assert_eq!(late.read(4).await, b"half");
            drop(exchange);
            assert_eq!(late.rest().await, (Vec::new(), true));
        }
    });
}

#[test]
fn a_queue_that_is_full_refuses_at_once() {
    on_each_with(Patience { waiting: 2, limit: AMPLE }, &async |rig: &Rig| {
        let (mut first, mut second, mut third) =
            (rig.connect().await, rig.connect().await, rig.connect().await);
        for (client, waiting) in [(&mut first, 1), (&mut second, 2)] {
            client.get("/").await;
            until(|| rig.queue.len() == waiting).await;
        }
        third.get("/").await;
        let refusal = String::from_utf8(third.rest().await.0).unwrap();
        assert!(refusal.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{refusal}");
        assert!(refusal.contains("\r\nRetry-After: 1\r\n") && refusal.contains("\"APP_BUSY\""), "{refusal}");
        assert_eq!(rig.site.counts().refused, 1);
        for client in [&mut first, &mut second] {
            rig.request().await.answer(OK);
            assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        }
    });
}

#[test]
fn an_application_that_takes_nothing_is_waited_for_so_long() {
    on_each_with(Patience { waiting: 2, limit: SHORT }, &async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        let refusal = String::from_utf8(client.rest().await.0).unwrap();
        assert!(refusal.starts_with("HTTP/1.1 503 ") && refusal.contains("\"APP_BUSY\""), "{refusal}");
        assert!(rig.queue.take().is_none(), "it was withdrawn");
    });
}

#[test]
fn a_request_that_was_taken_may_take_its_time() {
    on_each_with(Patience { waiting: 2, limit: SHORT }, &async |rig: &Rig| {
        let mut slow = rig.connect().await;
        slow.get("/").await;
        let exchange = rig.request().await;
        // Another one's patience is over meanwhile, which began later.
        let mut other = rig.connect().await;
        other.get("/").await;
        assert!(other.head().await.starts_with("HTTP/1.1 503 "));
        exchange.answer(OK);
        assert_eq!(slow.read(OK.len()).await, OK.as_bytes());
    });
}

#[test]
fn nothing_is_sent_behind_half_an_interim_response() {
    // More than the sockets' buffers take between them.
    let hint = format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "x".repeat(250 << 10));
    let hints = hint.repeat(64);
    on_each(&async |rig: &Rig| {
        let mut client = Client::narrow(rig.address).await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        let exchange = rig.request().await;
        exchange.write(&hints);
        until(|| exchange.far.unsent() < hints.len()).await;
        client.send("no chunk\r\n").await;
        assert_eq!(exchange.lost().await, Some(Code::BadRequestBody));
        let (received, _) = client.rest().await;
        assert!(hints.as_bytes().starts_with(&received), "bytes follow half an interim response");
    });
}
