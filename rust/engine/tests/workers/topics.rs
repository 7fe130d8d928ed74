//! Topics of the edge, to which a worker lets clients in.

use std::future::poll_fn;
use std::time::Duration;

use penstock_engine::app::{Content, RemoteEdge, Source, Subscribing};
use penstock_engine::hub::{Event, Lease};
use penstock_engine::origin::RequestBody;
use penstock_engine::stream::{Ending, Stream};
use penstock_engine::workers::{Feeding, Notice};
use penstock_engine::{Code, Result};

use crate::application::read;
use crate::client::Client;
use crate::fake::{Fake, message};
use crate::process::{Process, Taken, status};
use crate::rig::{OK, Rig, on_each};
use crate::server::{Server, ok};
use crate::settings::AMPLE;
use crate::sites::until;

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn publish(rig: &Rig, data: &str) -> String {
    let event = Event { data: data.as_bytes(), ..Event::default() };
    let id = rig.hub.publish("news", &event).unwrap().now().unwrap();
    format!("id: {id}\ndata: {data}\n\n")
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// What is left of a body in chunks, to its end.
async fn rest(client: &mut Client) -> String {
    let mut text = String::new();
    loop {
        let mut size = Vec::new();
        while !size.ends_with(b"\r\n") {
            size.extend(client.read(1).await);
        }
        let size = std::str::from_utf8(&size).unwrap().trim_end();
        let size = usize::from_str_radix(size, 16).unwrap();
        let chunk = client.read(size + 2).await;
        if size == 0 {
            return text;
        }
        text += std::str::from_utf8(&chunk[..size]).unwrap();
    }
}

fn subscribing(topic: &str, lease: Option<&Lease>) -> Subscribing {
    Subscribing {
        plan: b"topics".to_vec(),
        topic: topic.to_owned(),
        after: None,
        tenant: Some("tenant".to_owned()),
        address: None,
        lease: lease.cloned(),
    }
}

fn subscribe(process: &Process, taken: &Taken, topic: &str, lease: Option<&Lease>) -> Stream {
    let (feed, stream) = process.stream();
    taken.edge.subscribe(subscribing(topic, lease), feed, &stream);
    stream
}

/// A client that has its head, and is served without the worker.
async fn seated(rig: &Rig, process: &Process, lease: Option<&Lease>) -> Client {
    let mut client = rig.connect().await;
    client.get("/").await;
    let taken = process.request().await;
    let stream = subscribe(process, &taken, "news", lease);
    assert_eq!(status(&stream).await.unwrap(), 200);
    // Not by itself: a subscriber with a head keeps its seat if the worker ends.
    taken.exchange.far.write(Content::Bytes(CHUNKED.into()));
    taken.attach(process, 7, stream, None);
    assert_eq!(client.head().await, CHUNKED);
    client
}

#[test]
fn one_who_is_let_in_is_served_without_the_worker() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = seated(rig, &process, None).await;
        for data in ["one", "two"] {
            let block = chunk(&publish(rig, data));
            assert_eq!(client.read(block.len()).await, block.as_bytes());
            process.kill();
        }
        rig.hub.finish("news").unwrap();
        let end = rest(&mut client).await;
        assert!(end.starts_with("id: ") && end.contains("penstock-end"), "{end}");
    });
}

#[test]
fn the_worker_hears_how_it_has_ended() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = seated(rig, &process, None).await;
        let block = chunk(&publish(rig, "one"));
        assert_eq!(client.read(block.len()).await, block.as_bytes());
        drop(client);
        let (ticket, outcome) = process.completed().await;
        assert_eq!((ticket, outcome.begun), (7, true));
        assert_eq!(outcome.failure.map(|error| error.code()), Some(Code::ClientGone));
        process.end().await;
    });
}

#[test]
fn what_refuses_is_told_to_the_worker() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let first = seated(rig, &process, None).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        for (topic, code) in [("news", Code::TooManyRequests), ("", Code::BadTopic)] {
            let stream = subscribe(&process, &taken, topic, None);
            assert_eq!(status(&stream).await.unwrap_err().code(), code);
        }
        drop(first);
        until(|| rig.hub.stats().subscribers == 0).await;
        rig.hub.finish("over").unwrap();
        let stream = subscribe(&process, &taken, "over", None);
        assert_eq!(status(&stream).await.unwrap(), 204);
        assert_eq!(read(&stream).await.unwrap(), b"");
        drop(stream);
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        process.completed().await;
        process.end().await;
    });
}

#[test]
fn one_who_is_let_in_and_not_served_is_counted_out() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        for leaves in [false, true] {
            let mut client = rig.connect().await;
            client.get("/").await;
            let taken = process.request().await;
            let stream = subscribe(&process, &taken, "news", None);
            assert_eq!(status(&stream).await.unwrap(), 200);
            assert_eq!(rig.hub.stats().subscribers, 1);
            if leaves {
                drop(client);
                until(|| rig.hub.stats().subscribers == 0).await;
                drop((taken, stream));
            } else {
                drop(stream);
                until(|| rig.hub.stats().subscribers == 0).await;
                taken.exchange.answer(OK);
                assert_eq!(client.read(OK.len()).await, OK.as_bytes());
            }
        }
        process.end().await;
    });
}

#[test]
fn events_can_be_read_by_the_worker() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let lease = Lease::new(Some(AMPLE));
        let stream = subscribe(&process, &taken, "news", Some(&lease));
        assert_eq!(status(&stream).await.unwrap(), 200);
        let mut expected = String::new();
        for data in ["one", "two"] {
            expected += &publish(rig, data);
        }
        let first = poll_fn(|context| stream.poll_next(context)).await.unwrap().unwrap();
        let mut got = first.to_vec();
        drop(first);
        // Without a longer lease it ends as a whole response.
        lease.renew(Some(Duration::ZERO));
        got.extend(read(&stream).await.unwrap());
        assert_eq!(String::from_utf8(got).unwrap(), expected);
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        drop(stream);
        process.end().await;
    });
}

#[test]
fn a_lease_is_renewed_by_the_worker_and_runs_out_without() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let lease = Lease::new(Some(AMPLE));
        let mut client = seated(rig, &process, Some(&lease)).await;
        lease.renew(Some(Duration::ZERO));
        assert_eq!(rest(&mut client).await, "", "a whole response");
        assert_eq!(process.completed().await.1.failure, None);

        let short = Lease::new(Some(Duration::from_millis(200)));
        let mut client = seated(rig, &process, Some(&short)).await;
        short.renew(None);
        drop(short);
        let block = chunk(&publish(rig, "two"));
        assert_eq!(client.read(block.len()).await, block.as_bytes());
        drop(client);
        process.completed().await;
        until(|| rig.hub.stats().subscribers == 0).await;

        let short = Lease::new(Some(Duration::from_millis(200)));
        let mut client = seated(rig, &process, Some(&short)).await;
        process.kill();
        assert_eq!(rest(&mut client).await, "", "it runs out by itself");
    });
}

/// What the edge is asked to feed a topic by.
async fn feeding(rig: &Rig) -> Feeding {
    rig.notice(|notice| match notice {
        Notice::Feed(feeding) => Some(*feeding),
        _ => None,
    })
    .await
}

#[test]
fn a_topic_is_fed_by_what_was_fetched() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        let server = Server::always(ok("whole")).await;
        for answer in [Ok(()), Err(Code::Busy.error("another one feeds it"))] {
            let mut client = rig.connect().await;
            client.get("/").await;
            let taken = process.request().await;
            let stream = process.fetch(&taken, &server, "GET", RequestBody::None);
            assert_eq!(status(&stream).await.unwrap(), 200);
            let (feed, begun) = process.stream();
            let source = Source {
                stream: stream.hand_over().unwrap(),
                hub: 3,
                topic: "news".to_owned(),
                error_event: "error".to_owned(),
            };
            taken.edge.feed(source, feed);
            let Feeding { hub, topic, error_event, stream: source, begun: told } = feeding(rig).await;
            assert_eq!((hub, topic.as_str(), error_event.as_str()), (3, "news", "error"));
            let expected: std::result::Result<Vec<u8>, Code> =
                answer.as_ref().map(|()| Vec::new()).map_err(|error: &penstock_engine::Error| error.code());
            let sent: Result<()> = answer;
            told.send(sent).unwrap();
            assert_eq!(read(&begun).await, expected);
            taken.exchange.answer(OK);
            assert_eq!(client.read(OK.len()).await, OK.as_bytes());
            // The request is over, and what feeds goes on.
            assert_eq!(read(&source).await.unwrap(), b"whole");
            drop((stream, begun, source));
        }
        process.end().await;
    });
}

#[test]
fn what_the_worker_has_itself_feeds_a_topic_while_it_is_there() {
    for is_killed in [false, true] {
        on_each(&async |rig: &Rig| {
            let process = rig.worker(1, 0).await;
            let ((own, stream), (feed, begun)) = (process.stream(), process.stream());
            let (topic, error_event) = ("news".to_owned(), "error".to_owned());
            process.lines.edge().feed(Source { stream, hub: 3, topic, error_event }, feed);
            let Feeding { stream: source, begun: told, .. } = feeding(rig).await;
            told.send(Ok(())).unwrap();
            assert_eq!(read(&begun).await.unwrap(), b"");
            let next = || poll_fn(|context| source.poll_next(context));
            own.push(process.slice(b"one")).await.unwrap();
            assert_eq!(&next().await.unwrap().unwrap()[..], b"one");
            drop(begun);
            if is_killed {
                process.kill();
                assert_eq!(next().await.unwrap().unwrap_err().code(), Code::WorkerGone);
                drop(own);
            } else {
                own.finish(Ending::default());
                assert!(next().await.is_none());
                process.end().await;
            }
        });
    }
}

#[test]
fn a_topic_is_listened_to_without_a_request() {
    on_each(&async |rig: &Rig| {
        let process = rig.worker(1, 0).await;
        for leaves in [true, false] {
            let (feed, stream) = process.stream();
            process.lines.edge().subscribe(subscribing("news", None), feed, &stream);
            assert_eq!(status(&stream).await.unwrap(), 200);
            let expected = publish(rig, "one");
            let first = poll_fn(|context| stream.poll_next(context)).await.unwrap().unwrap();
            assert_eq!(&first[..], expected.as_bytes());
            drop(first);
            if !leaves {
                process.kill();
                until(|| rig.hub.stats().subscribers == 0).await;
                assert!(read(&stream).await.is_err());
                return;
            }
            drop(stream);
            until(|| rig.hub.stats().subscribers == 0).await;
        }
    });
}

#[test]
fn what_is_called_for_early_waits_and_what_is_late_is_refused() {
    on_each(&async |rig: &Rig| {
        let process = Process::start(&rig.path(1), 64);
        let (feed, stream) = process.stream();
        process.lines.edge().subscribe(subscribing("news", None), feed, &stream);
        rig.add(1, 0).await.unwrap();
        assert_eq!(status(&stream).await.unwrap(), 200);
        process.worker.drain();
        let (feed, late) = process.stream();
        process.lines.edge().subscribe(subscribing("news", None), feed, &late);
        assert_eq!(status(&late).await.unwrap_err().code(), Code::EngineClosed);
        // What is there goes on.
        let expected = publish(rig, "one");
        let first = poll_fn(|context| stream.poll_next(context)).await.unwrap().unwrap();
        assert_eq!(&first[..], expected.as_bytes());
        drop((first, stream, late));
        until(|| rig.hub.stats().subscribers == 0).await;
        process.end().await;
    });
}

/// As a worker asks for flow 2.
fn subscribe_message(plan: &[u8], tenant: Option<&str>) -> Vec<u8> {
    let text = |text: &[u8]| [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text].concat();
    let tenant = tenant.map_or(vec![0], |tenant| [&[1][..], &text(tenant.as_bytes())].concat());
    message(28, &[&[2, 0, 0, 0][..], &text(plan), &text(b"news"), &[0], &tenant, &[0, 0]].concat())
}

/// Flow 2, not the worker's own; a ticket and no account, or as a part.
fn attach_message(rest: bool) -> Vec<u8> {
    let rest: &[u8] = if rest { &[1, 7, 0, 0, 0, 0, 0, 0, 0, 0] } else { &[0] };
    message(25, &[&[2, 0, 0, 0, 0, 0, 0][..], rest].concat())
}

#[test]
fn one_who_is_let_in_is_attached_once_and_as_a_whole() {
    let lies = [attach_message(false), [attach_message(true), attach_message(true)].concat()];
    for lie in lies {
        on_each(&async |rig: &Rig| {
            let fake = Fake::start(rig, 1).await;
            let mut client = rig.connect().await;
            client.get("/").await;
            let mut said = fake.request().await;
            said.say(&subscribe_message(b"topics", None)).await;
            said.hear(9).await;
            assert_eq!(rig.hub.stats().subscribers, 1);
            said.say(&[message(18, CHUNKED.as_bytes()), lie.clone()].concat()).await;
            said.ended().await;
            let (got, _) = client.rest().await;
            assert!(!got.ends_with(b"0\r\n\r\n"), "it looks whole");
        });
    }
}

#[test]
fn what_is_described_as_something_else_is_refused() {
    on_each(&async |rig: &Rig| {
        let fake = Fake::start(rig, 1).await;
        let mut client = rig.connect().await;
        client.get("/").await;
        let mut said = fake.request().await;
        for plan in [&b"80"[..], b"nothing"] {
            said.say(&subscribe_message(plan, None)).await;
            // A Fail.
            said.hear(5).await;
        }
        said.answer(OK).await;
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        let process = rig.worker(2, 0).await;
        rig.workers.retire(1);
        let mut client = rig.connect().await;
        client.get("/").await;
        let taken = process.request().await;
        let (feed, stream) = process.stream();
        let order = Process::order("topics");
        taken.edge.fetch(order, feed, &stream);
        assert_eq!(status(&stream).await.unwrap_err().code(), Code::BadConfiguration);
        taken.exchange.answer(OK);
        assert_eq!(client.read(OK.len()).await, OK.as_bytes());
        drop(stream);
        process.end().await;
    });
}
