//! Clients that leave, and a site that is stopped.

use std::time::Duration;

use penstock_engine::Code;
use penstock_engine::app::{Attachment, Content};
use penstock_engine::framing::Framing;

use crate::client::Client;
use crate::rig::{Rig, on_each};
use crate::sites::until;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_client_that_leaves_is_told_of() {
    for leave in [drop as fn(Client), Client::reset] {
        on_each(&async |rig: &Rig| {
            let mut client = rig.connect().await;
            client.get("/").await;
            let exchange = rig.request().await;
            leave(client);
            assert_eq!(exchange.lost().await, Some(Code::ClientGone));
            assert_eq!(exchange.far.write(Content::Bytes(b"too late".to_vec())), 0);
        });
    }
}

#[test]
fn a_client_that_leaves_within_its_response_is_told_of() {
    for leave in [drop as fn(Client), Client::reset] {
        on_each(&async |rig: &Rig| {
            let mut client = rig.connect().await;
            client.get("/").await;
            let exchange = rig.request().await;
            exchange.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
            client.head().await;
            leave(client);
            assert_eq!(exchange.lost().await, Some(Code::ClientGone));
        });
    }
}

#[test]
fn a_request_whose_client_has_left_is_taken_back() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        until(|| rig.queue.len() == 1).await;
        drop(client);
        until(|| rig.queue.is_empty()).await;
    });
}

#[test]
fn what_a_client_sends_ahead_is_no_leaving() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/first").await;
        client.get("/second").await;
        for _ in 0..2 {
            rig.request().await.answer(OK);
            assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        }
    });
}

#[test]
fn a_site_that_is_drained_lets_responses_end() {
    on_each(&async |rig: &Rig| {
        let mut idle = rig.connect().await;
        let mut busy = rig.connect().await;
        busy.get("/").await;
        let exchange = rig.request().await;
        until(|| rig.site.counts().connections == 2).await;
        rig.site.drain(Duration::ZERO);
        assert_eq!(idle.rest().await, (Vec::new(), false));
        exchange.answer(OK);
        assert_eq!(busy.rest().await, (OK.as_bytes().to_vec(), false));
    });
}

#[test]
fn a_site_that_is_closed_breaks_responses_off() {
    on_each(&async |rig: &Rig| {
        let (mut silent, mut begun) = (rig.connect().await, rig.connect().await);
        silent.get("/").await;
        let unanswered = rig.request().await;
        begun.get("/").await;
        let exchange = rig.request().await;
        exchange.write("HTTP/1.1 200 OK\r\n\r\nhalf");
        begun.head().await;
        assert_eq!(begun.read(4).await, b"half");
        rig.site.close();
        assert_eq!(begun.rest().await, (Vec::new(), true));
        assert!(silent.head().await.starts_with("HTTP/1.1 503 "));
        for exchange in [unanswered, exchange] {
            assert_eq!(exchange.lost().await, Some(Code::Draining));
        }
    });
}

#[test]
fn events_end_whole_when_a_site_is_closed() {
    on_each(&async |rig: &Rig| {
        let mut client = rig.connect().await;
        client.get("/").await;
        let exchange = rig.request().await;
        let (feed, stream) = rig.stream(&Framing::Events { max_frame: 1024, blocks: true });
        exchange.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        exchange.far.attach(Attachment {
            stream,
            rest: Some(rig.queue.reports().completion(7)),
            policy: None,
            inspector: None,
            account: None,
        });
        exchange.far.finish();
        feed.push(rig.slice(b"data: whole\n\ndata: hal")).await.unwrap();
        client.head().await;
        assert_eq!(client.read(18).await, b"d\r\ndata: whole\n\n\r\n");
        rig.site.close();
        assert_eq!(client.rest().await, (b"0\r\n\r\n".to_vec(), false));
        let mut completed = Vec::new();
        until(|| {
            completed.append(&mut rig.queue.reports().take_completed());
            !completed.is_empty()
        })
        .await;
        let (ticket, outcome) = completed.remove(0);
        assert_eq!((ticket, outcome.bytes, outcome.failure.map(|error| error.code())), (7, 13, None));
    });
}
