//! Who is let in to a topic by the application, and served by the engine.

use std::sync::Arc;
use std::time::Duration;

use penstock_engine::Code;
use penstock_engine::app::{Outcome, Subscription};
use penstock_engine::hub::{
    Admission, Admitted, Event, History, Hub, HubConfig, Join, Lease, Limits, Reading, Slow, Terms, admit,
};

use crate::rig::{Rig, on_each};
use crate::sites::until;

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn hub(rig: &Rig) -> Arc<Hub> {
    let history = History { events: 100, bytes: 1 << 16, age: None };
    let (memory, topics, finished_age) = (1 << 20, 10, Duration::from_secs(3600));
    Arc::new(Hub::new(rig.pool.clone(), HubConfig { memory, topics, history, finished_age, external: false }))
}

fn publish(hub: &Hub, data: &str) -> String {
    hub.publish("news", &Event { data: data.as_bytes(), ..Event::default() })
        .unwrap()
        .now()
        .unwrap()
        .to_string()
}

async fn admitted(hub: &Arc<Hub>) -> Box<Admitted> {
    let terms = Terms {
        join: Join::Now,
        slow: Slow::DropOldest,
        retry: None,
        open: true,
        heartbeat: None,
        max_age: None,
        limits: Limits::default(),
    };
    let reading = Reading { topic: "news".to_owned(), after: None, terms, tenant: None, address: None };
    match admit(Arc::clone(hub), reading).await.unwrap() {
        Admission::Admitted(admitted) => admitted,
        Admission::Over => panic!("the topic goes on"),
    }
}

async fn completed(rig: &Rig) -> (Outcome, Option<Code>) {
    let mut completed = Vec::new();
    until(|| {
        completed.append(&mut rig.queue.reports().take_completed());
        !completed.is_empty()
    })
    .await;
    let outcome = completed.remove(0).1;
    let code = outcome.failure.as_ref().map(penstock_engine::Error::code);
    (outcome, code)
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[test]
fn events_go_as_the_head_says_and_the_connection_goes_on_if_it_can() {
    for (head, chunked) in [(CHUNKED, true), ("HTTP/1.1 200 OK\r\n\r\n", false)] {
        on_each(&async |rig: &Rig| {
            let hub = hub(rig);
            let mut client = rig.connect().await;
            client.get("/").await;
            let exchange = rig.request().await;
            let admitted = admitted(&hub).await;
            assert_eq!(hub.stats().subscribers, 1);
            let first = publish(&hub, "before it is seated");
            exchange.write(head);
            let rest = rig.queue.reports().completion(0);
            exchange.far.subscribe(Subscription { admitted, lease: None, rest });
            exchange.far.finish();
            assert_eq!(client.head().await, head);
            let framed = |text: String| if chunked { chunk(&text) } else { text };
            let expected = framed(format!("id: {first}\ndata: before it is seated\n\n"));
            assert_eq!(client.read(expected.len()).await, expected.as_bytes());
            let mut sent = expected.len();
            for number in 0..100 {
                let data = number.to_string();
                let id = publish(&hub, &data);
                let expected = framed(format!("id: {id}\ndata: {data}\n\n"));
                assert_eq!(client.read(expected.len()).await, expected.as_bytes());
                sent += expected.len();
            }
            let last = publish(&hub, "last");
            hub.finish("news").unwrap();
            let mut expected = framed(format!("id: {last}\ndata: last\n\n"));
            expected +=
                &framed(format!("id: {last}\nevent: penstock-end\ndata: {{\"last\": \"{last}\"}}\n\n"));
            assert_eq!(client.read(expected.len()).await, expected.as_bytes());
            sent += expected.len();
            if chunked {
                assert_eq!(client.read(5).await, b"0\r\n\r\n");
                client.get("/next").await;
                rig.request().await.answer("HTTP/1.1 204 No Content\r\n\r\n");
                client.head().await;
            } else {
                assert_eq!(client.rest().await, (Vec::new(), false));
            }
            let (outcome, failure) = completed(rig).await;
            assert_eq!((outcome.bytes, outcome.begun, failure), (sent as u64, true, None));
            assert_eq!((hub.stats().subscribers, hub.stats().counted.delivered), (0, 102));
        });
    }
}

#[test]
fn a_lease_that_runs_out_ends_the_response_behind_a_whole_event() {
    on_each(&async |rig: &Rig| {
        let hub = hub(rig);
        let mut client = rig.connect().await;
        client.get("/").await;
        let exchange = rig.request().await;
        let (admitted, lease) = (admitted(&hub).await, Lease::new(None));
        exchange.write(CHUNKED);
        let rest = rig.queue.reports().completion(0);
        exchange.far.subscribe(Subscription { admitted, lease: Some(lease.clone()), rest });
        exchange.far.finish();
        client.head().await;
        for data in ["a", "b"] {
            let id = publish(&hub, data);
            let expected = chunk(&format!("id: {id}\ndata: {data}\n\n"));
            assert_eq!(client.read(expected.len()).await, expected.as_bytes());
            // Longer than the test takes, and then not at all.
            lease.renew(Some(Duration::from_secs(3600)));
        }
        lease.renew(Some(Duration::ZERO));
        assert_eq!(client.read(5).await, b"0\r\n\r\n");
        let (outcome, failure) = completed(rig).await;
        assert!(outcome.begun && failure.is_none());
        publish(&hub, "too late");
        assert_eq!((hub.stats().subscribers, hub.stats().counted.delivered), (0, 2));
    });
}

#[test]
fn one_whose_client_leaves_is_counted_out_wherever_it_is() {
    on_each(&async |rig: &Rig| {
        let hub = hub(rig);
        // While it is served.
        let mut client = rig.connect().await;
        client.get("/").await;
        let exchange = rig.request().await;
        exchange.write(CHUNKED);
        let (served, rest) = (admitted(&hub).await, rig.queue.reports().completion(0));
        exchange.far.subscribe(Subscription { admitted: served, lease: None, rest });
        exchange.far.finish();
        client.head().await;
        drop(client);
        let (outcome, failure) = completed(rig).await;
        assert_eq!((outcome.begun, failure), (true, Some(Code::ClientGone)));
        until(|| hub.stats().subscribers == 0).await;
        // Before, if no connection serves it.
        let mut client = rig.connect().await;
        client.get("/").await;
        let exchange = rig.request().await;
        let early = admitted(&hub).await;
        drop(client);
        assert_eq!(exchange.lost().await, Some(Code::ClientGone));
        let rest = rig.queue.reports().completion(0);
        exchange.far.subscribe(Subscription { admitted: early, lease: None, rest });
        let (outcome, failure) = completed(rig).await;
        assert_eq!((outcome.bytes, outcome.begun, failure), (0, false, Some(Code::ClientGone)));
        assert_eq!(hub.stats().subscribers, 0);
        // And where it is never given away.
        drop(admitted(&hub).await);
        assert_eq!(hub.stats().subscribers, 0);
    });
}
