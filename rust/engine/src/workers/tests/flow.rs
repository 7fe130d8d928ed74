//! A body that crosses from one process to the other: between a source in one and a reader in the other stands a
//! connection.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, JoinSet, yield_now};

use super::super::flow::{Arrival, Arrivals, Credit, arrived, receive_flow, send_flow};
use super::super::message::{Message, PIECE};
use super::super::wire::Wire;
use super::run;
use crate::app::{Outcome, Queue};
use crate::error::{Code, Result};
use crate::framing::Framing;
use crate::pool::testing::config;
use crate::pool::{Pool, Purpose, REGION, Slice};
use crate::stream::{Ending, Feed, FlowConfig, Meter, ResponseHead, Stream, Timings, channel};
use crate::wire::{Fields, Head};

const FLOW: u32 = 5;
/// A window that does not grow.
const WINDOW: usize = 64 << 10;

/// What one end has heard of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Data(usize),
    End,
    Fail,
    Credit,
    Closed,
    /// Of the test's own: what was said before has come.
    Fence,
}

/// One end of a connection, which reads and writes by itself.
struct End {
    wire: Arc<Wire>,
    heard: Arc<Mutex<Vec<Said>>>,
    fenced: Arc<Notify>,
    tasks: JoinSet<()>,
}

impl End {
    fn new(socket: UnixStream, hear: impl Fn(Message<'_>) -> Said + Send + Sync + 'static) -> Self {
        let wire = Arc::new(Wire::new(socket));
        let (heard, fenced) = (Arc::<Mutex<Vec<Said>>>::default(), Arc::<Notify>::default());
        let mut tasks = JoinSet::new();
        let (reader, log, fence) = (Arc::clone(&wire), Arc::clone(&heard), Arc::clone(&fenced));
        tasks.spawn(async move {
            let take = |message: Message<'_>| {
                let said = if message == Message::Ping { Said::Fence } else { hear(message) };
                log.lock().unwrap().push(said);
                if said == Said::Fence {
                    fence.notify_one();
                }
                Ok(None::<()>)
            };
            // The other end goes when the test does.
            let _ = reader.read(take, || {}).await;
        });
        let writer = Arc::clone(&wire);
        tasks.spawn(async move { drop(writer.write().await) });
        Self { wire, heard, fenced, tasks }
    }

    fn heard(&self) -> Vec<Said> {
        self.heard.lock().unwrap().clone()
    }
}

/// A body on its way, of which the test is the source, and reads what arrives.
struct Crossing {
    pool: Pool,
    meter: Arc<Meter>,
    /// Where the source is, and where the reader is.
    here: End,
    there: End,
    credit: Arc<Credit>,
    source: Feed,
    /// Of the source: to be handed over.
    given: Arc<Stream>,
    giving: JoinHandle<()>,
    arrivals: Arrivals,
    stream: Stream,
    taking: JoinHandle<()>,
}

impl Crossing {
    /// `begun`: credit is granted before a reader reads.
    fn new(begun: bool) -> Self {
        let pool = Pool::new(config(4 * REGION)).unwrap();
        let meter = Arc::new(Meter::default());
        let flow = FlowConfig { floor: WINDOW, ceiling: WINDOW };
        let (near, far) = UnixStream::pair().unwrap();
        let credit = Credit::none();
        let granted = Arc::clone(&credit);
        let here = End::new(near, move |message| match message {
            Message::Credit(FLOW, bytes) => {
                granted.grant(bytes);
                Said::Credit
            }
            Message::Closed(FLOW) => {
                granted.close();
                Said::Closed
            }
            other => panic!("{other:?}"),
        });
        let (arrivals, arriving) = mpsc::unbounded_channel();
        let (arrive, memory) = (arrivals.clone(), pool.clone());
        let there = End::new(far, move |message| {
            let (said, arrival) = match message {
                Message::Data(FLOW, bytes) => {
                    assert!(bytes.len() <= PIECE);
                    (Said::Data(bytes.len()), arrived(&memory, bytes).unwrap())
                }
                Message::End(FLOW, body, trailers) => {
                    let trailers =
                        trailers.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                    (Said::End, Arrival::End(Ending { body, trailers }))
                }
                Message::Fail(FLOW, error) => (Said::Fail, Arrival::Fail(error)),
                other => panic!("{other:?}"),
            };
            // The reader may have left.
            let _ = arrive.send(arrival);
            said
        });
        let (source, given) = channel(&pool, flow, &Framing::Raw, &meter);
        let given = Arc::new(given);
        let giving = tokio::spawn(send_flow(
            Arc::clone(&given),
            Arc::clone(&here.wire),
            FLOW,
            Arc::clone(&credit),
            None,
        ));
        let (feed, stream) = channel(&pool, flow, &Framing::Raw, &meter);
        let taking = tokio::spawn(receive_flow(feed, arriving, Arc::downgrade(&there.wire), FLOW, begun));
        Self { pool, meter, here, there, credit, source, given, giving, arrivals, stream, taking }
    }

    async fn push(&self, bytes: &[u8]) {
        self.source.push(slice(&self.pool, bytes)).await.unwrap();
    }

    /// What the reader's end has heard when all tasks have had their turn, and what they had to say has come.
    async fn there_heard(&self) -> Vec<Said> {
        heard(&self.here, &self.there).await
    }

    /// As [`Crossing::there_heard`], of the end where the source is.
    async fn here_heard(&self) -> Vec<Said> {
        heard(&self.there, &self.here).await
    }
}

async fn heard(from: &End, to: &End) -> Vec<Said> {
    // After all tasks that can go on.
    yield_now().await;
    from.wire.send(&Message::Ping);
    to.fenced.notified().await;
    to.heard().into_iter().filter(|said| *said != Said::Fence).collect()
}

fn slice(pool: &Pool, bytes: &[u8]) -> Slice {
    let mut writer = pool.writer(bytes.len(), Purpose::Bulk).unwrap();
    writer.spare()[..bytes.len()].copy_from_slice(bytes);
    writer.commit(bytes.len())
}

async fn next(stream: &Stream) -> Option<Result<Vec<u8>>> {
    poll_fn(|context| stream.poll_next(context)).await.map(|next| next.map(|delivery| delivery.to_vec()))
}

/// Bytes of a body that were heard.
fn sum(heard: &[Said]) -> usize {
    heard.iter().map(|said| if let Said::Data(length) = said { *length } else { 0 }).sum()
}

/// Nothing of what crossed is held.
fn assert_empty(pool: &Pool, meter: &Meter) {
    assert_eq!((pool.stats().live_bytes, meter.live()), (0, 0));
}

fn response_head() -> ResponseHead {
    let head = Head::new(200, b"OK", std::iter::empty());
    ResponseHead { head, timings: Timings::default(), reused: false }
}

#[test]
fn no_more_is_sent_than_is_granted() {
    run(async {
        // The other end grants nothing: it has no reader.
        let crossing = Crossing::new(false);
        for _ in 0..4 {
            crossing.push(&vec![1; PIECE]).await;
        }
        let piece = u32::try_from(PIECE).unwrap();
        assert_eq!(crossing.there_heard().await, []);
        // One is sent whole, and what is too much counts against what is granted next.
        crossing.credit.grant(1);
        assert_eq!(crossing.there_heard().await, [Said::Data(PIECE)]);
        crossing.credit.grant(piece - 1);
        assert_eq!(crossing.there_heard().await, [Said::Data(PIECE)]);
        crossing.credit.grant(1);
        assert_eq!(crossing.there_heard().await, [Said::Data(PIECE); 2]);
    });
}

#[test]
fn more_than_was_granted_is_taken_for_a_lie() {
    run(async {
        // The sender uses credit that was not granted.
        let crossing = Crossing::new(false);
        for _ in 0..8 {
            crossing.push(&vec![1; PIECE]).await;
        }
        crossing.credit.grant(u32::try_from(8 * PIECE).unwrap());
        assert_eq!(crossing.there_heard().await, [Said::Data(PIECE); 8]);
        assert!(crossing.here_heard().await.contains(&Said::Closed));
    });
}

#[test]
fn what_is_small_is_sent_together_and_counts_together() {
    run(async {
        let crossing = Crossing::new(false);
        for length in [1000, 2000, 3000] {
            crossing.push(&vec![1; length]).await;
        }
        crossing.credit.grant(1);
        assert_eq!(crossing.there_heard().await, [Said::Data(6000)]);
        crossing.push(b"more").await;
        crossing.credit.grant(5999);
        assert_eq!(crossing.there_heard().await, [Said::Data(6000)]);
        crossing.credit.grant(1);
        assert_eq!(crossing.there_heard().await, [Said::Data(6000), Said::Data(4)]);
    });
}

#[test]
fn what_is_longer_than_a_message_crosses_in_pieces() {
    run(async {
        let crossing = Crossing::new(true);
        let whole: Vec<_> = (0..=250).cycle().take(PIECE * 2 + 1).collect();
        crossing.push(&whole).await;
        let mut read = Vec::new();
        while read.len() < whole.len() {
            read.extend(next(&crossing.stream).await.unwrap().unwrap());
        }
        assert!(read == whole, "the body was changed on its way");
        let pieces = [Said::Data(PIECE), Said::Data(PIECE), Said::Data(1)];
        assert_eq!(crossing.there_heard().await, pieces);
    });
}

#[test]
fn a_reader_that_is_slow_holds_the_source() {
    const PIECES: usize = 256;
    const LENGTH: usize = 16 << 10;
    run(async {
        let crossing = Crossing::new(true);
        let (pushed, read) = (Mutex::new(0), Mutex::new(0));
        let produce = async {
            for _ in 0..PIECES {
                crossing.source.room().await.unwrap();
                crossing.push(&[1; LENGTH]).await;
                *pushed.lock().unwrap() += LENGTH;
                let ahead = *pushed.lock().unwrap() - *read.lock().unwrap();
                // A window on either side, each with one piece more than it has room for, and what was granted before.
                assert!(ahead <= 3 * WINDOW + 2 * LENGTH, "{ahead} bytes are under way");
                yield_now().await;
            }
        };
        let consume = async {
            while *read.lock().unwrap() < PIECES * LENGTH {
                for _ in 0..32 {
                    yield_now().await;
                }
                *read.lock().unwrap() += next(&crossing.stream).await.unwrap().unwrap().len();
            }
        };
        tokio::join!(produce, consume);
    });
}

#[test]
fn of_what_is_fetched_nothing_is_granted_before_it_is_read() {
    run(async {
        let crossing = Crossing::new(false);
        crossing.push(b"a").await;
        crossing.arrivals.send(Arrival::Head(Box::new(response_head()))).unwrap();
        let head = poll_fn(|context| crossing.stream.poll_head(context).map(|head| head.is_ok())).await;
        assert!(head);
        assert_eq!(crossing.here_heard().await, []);
        assert_eq!(next(&crossing.stream).await.unwrap().unwrap(), b"a");
        assert_eq!(crossing.here_heard().await, [Said::Credit]);
    });
}

#[test]
fn what_is_never_read_is_not_granted_either_when_its_head_comes_late() {
    run(async {
        let crossing = Crossing::new(false);
        crossing.arrivals.send(Arrival::Interim(Head::new(103, b"", std::iter::empty()))).unwrap();
        assert_eq!(crossing.here_heard().await, []);
        assert_eq!(crossing.stream.take_interim().len(), 1);
        crossing.arrivals.send(Arrival::Head(Box::new(response_head()))).unwrap();
        assert_eq!(crossing.here_heard().await, []);
        assert!(crossing.stream.head().is_some());
    });
}

#[test]
fn a_reader_that_leaves_closes_the_source_that_waits_for_more() {
    run(async {
        let crossing = Crossing::new(true);
        let Crossing { pool, meter, here, there, source, given, giving, stream, taking, .. } = crossing;
        source.push(slice(&pool, b"a")).await.unwrap();
        assert_eq!(next(&stream).await.unwrap().unwrap(), b"a");
        // All of it is with the reader: the source's end awaits what has not come.
        drop(stream);
        taking.await.unwrap();
        giving.await.unwrap();
        assert_eq!(here.heard().last(), Some(&Said::Closed));
        drop(given);
        source.closed().await;
        drop((source, here, there));
        assert_empty(&pool, &meter);
    });
}

#[test]
fn a_reader_that_leaves_closes_the_source_that_may_not_send() {
    run(async {
        let crossing = Crossing::new(false);
        let Crossing { pool, meter, here, there, source, given, giving, stream, taking, .. } = crossing;
        source.push(slice(&pool, b"not read")).await.unwrap();
        drop(stream);
        taking.await.unwrap();
        giving.await.unwrap();
        assert_eq!(here.heard(), [Said::Closed]);
        assert_eq!(there.heard(), []);
        drop(given);
        source.closed().await;
        drop((source, here, there));
        assert_empty(&pool, &meter);
    });
}

#[test]
fn a_reader_that_leaves_while_its_window_is_full_closes_the_source() {
    const LENGTH: usize = 16 << 10;
    run(async {
        let crossing = Crossing::new(true);
        let fill = async {
            loop {
                crossing.source.room().await?;
                crossing.source.push(slice(&crossing.pool, &[1; LENGTH])).await?;
            }
        };
        let leave = async {
            while sum(&crossing.there.heard()) < WINDOW {
                yield_now().await;
            }
            crossing.stream.close();
            while !crossing.giving.is_finished() {
                yield_now().await;
            }
            crossing.given.close();
        };
        let (filled, ()): (Result<()>, ()) = tokio::join!(fill, leave);
        assert_eq!(filled.unwrap_err().code(), Code::StreamClosed);
        assert_eq!(crossing.here.heard().last(), Some(&Said::Closed));
    });
}

#[test]
fn an_end_arrives_as_it_was() {
    run(async {
        let crossing = Crossing::new(true);
        let Crossing { pool, meter, here, there, source, given, giving, stream, taking, .. } = crossing;
        source.push(slice(&pool, b"all")).await.unwrap();
        let trailers = vec![(b"Digest".to_vec(), b"a".to_vec()), (b"digest".to_vec(), Vec::new())];
        source.finish(Ending { body: Duration::from_nanos(1_000_000_007), trailers: trailers.clone() });
        assert_eq!(next(&stream).await.unwrap().unwrap(), b"all");
        assert!(next(&stream).await.is_none());
        let Ending { body, trailers: arrived } = stream.ending().unwrap();
        assert_eq!((body, arrived), (Duration::from_nanos(1_000_000_007), trailers));
        giving.await.unwrap();
        taking.await.unwrap();
        drop((stream, given, here, there));
        assert_empty(&pool, &meter);
    });
}

#[test]
fn an_error_arrives_as_it_was_behind_what_came_before() {
    run(async {
        let crossing = Crossing::new(true);
        crossing.push(b"half").await;
        let error = Code::BodyTruncated.error("three bytes are missing").at(&"http://a".into());
        let Crossing { source, stream, giving, taking, .. } = crossing;
        source.fail(error.clone());
        assert_eq!(next(&stream).await.unwrap().unwrap(), b"half");
        assert_eq!(next(&stream).await.unwrap().unwrap_err(), error);
        giving.await.unwrap();
        taking.await.unwrap();
    });
}

#[test]
fn a_source_that_is_torn_down_is_no_end() {
    run(async {
        let crossing = Crossing::new(true);
        let Crossing { source, stream, .. } = crossing;
        drop(source);
        assert_eq!(next(&stream).await.unwrap().unwrap_err().code(), Code::EngineClosed);
    });
}

#[test]
fn a_flow_that_can_bring_no_more_is_no_end() {
    run(async {
        let crossing = Crossing::new(true);
        let Crossing { there: End { mut tasks, .. }, arrivals, stream, taking, .. } = crossing;
        drop(arrivals);
        tasks.shutdown().await;
        taking.await.unwrap();
        assert_eq!(next(&stream).await.unwrap().unwrap_err().code(), Code::EngineClosed);
    });
}

#[test]
fn what_is_handed_over_in_the_middle_ends_without_a_word() {
    run(async {
        let crossing = Crossing::new(true);
        crossing.push(b"first").await;
        assert_eq!(next(&crossing.stream).await.unwrap().unwrap(), b"first");
        let taken = crossing.given.hand_over().unwrap();
        crossing.push(b"second").await;
        assert_eq!(crossing.there_heard().await, [Said::Data(5)]);
        assert!(crossing.giving.is_finished());
        assert_eq!(next(&taken).await.unwrap().unwrap(), b"second");
    });
}

#[test]
fn what_is_known_of_the_end_is_there_when_somebody_is_told() {
    for failure in [None, Some(Code::ClientGone.error("it left"))] {
        run(async {
            let crossing = Crossing::new(false);
            let Crossing { arrivals, stream, taking, .. } = crossing;
            let queue = Queue::new(1, None, 0);
            let outcome = Outcome { bytes: 7, begun: true, failure };
            let ending = Ending { body: Duration::from_secs(2), trailers: Vec::new() };
            let reader = stream.hand_over().unwrap();
            let over = Arrival::Over(outcome.clone(), ending, queue.reports().completion(3), reader);
            arrivals.send(over).unwrap();
            taking.await.unwrap();
            assert_eq!(queue.reports().take_completed(), [(3, outcome.clone())]);
            match outcome.failure {
                None => assert_eq!(stream.ending().unwrap().body, Duration::from_secs(2)),
                Some(_) => assert!(stream.ending().is_none()),
            }
        });
    }
}

#[test]
fn no_fields_are_no_trailers() {
    run(async {
        let crossing = Crossing::new(true);
        let Crossing { source, stream, there, .. } = crossing;
        source.finish(Ending::default());
        assert!(next(&stream).await.is_none());
        assert_eq!(stream.ending().unwrap().trailers.into_iter().collect::<Fields>(), Fields::default());
        assert_eq!(there.heard(), [Said::End]);
    });
}
