//! A worker: what runs in a process of its own outside of tests.

use std::future::poll_fn;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;

use penstock_engine::app::{Attachment, Ends, Order, Outcome, Queue, RemoteEdge, Request};
use penstock_engine::edge::Supplies;
use penstock_engine::framing::Framing;
use penstock_engine::origin::{RequestBody, Timeouts};
use penstock_engine::pool::{Purpose, Slice};
use penstock_engine::runtime::Threads;
use penstock_engine::stream::{Feed, Stream, channel};
use penstock_engine::wire::Fields;
use penstock_engine::workers::{Lines, Worker};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use crate::application::Exchange;
use crate::server::Server;
use crate::settings::AMPLE;
use crate::sites::{supplies, until};

pub(crate) struct Process {
    pub(crate) queue: Queue,
    pub(crate) worker: Arc<Worker>,
    pub(crate) lines: Arc<Lines>,
    pub(crate) supplies: Supplies,
    threads: Arc<Threads>,
    taken: Mutex<mpsc::UnboundedReceiver<Taken>>,
    taking: JoinHandle<()>,
}

/// A request as the application of a worker gets it.
pub(crate) struct Taken {
    pub(crate) exchange: Exchange,
    pub(crate) ends: Ends,
    pub(crate) edge: Arc<dyn RemoteEdge>,
}

impl Taken {
    fn new(mut request: Request) -> Self {
        let edge = request.edge.take().expect("there is an edge in a worker");
        Self { ends: request.ends.clone(), edge, exchange: Exchange::new(request) }
    }

    /// Has `stream` sent as all that is left of the response.
    pub(crate) fn attach(self, process: &Process, ticket: u64, stream: Stream, account: Option<&[u8]>) {
        self.exchange.far.attach(Attachment {
            stream,
            rest: Some(process.queue.reports().completion(ticket)),
            policy: None,
            inspector: None,
            account: account.map(<[u8]>::to_vec),
        });
        self.exchange.far.finish();
    }
}

impl Process {
    /// One that listens at `path`, and whose application takes whatever comes.
    pub(crate) fn start(path: &Path, waiting: usize) -> Self {
        let mut process = Self::busy(path, waiting);
        let (give, taken) = mpsc::unbounded_channel();
        let queue = process.queue.clone();
        process.taken = Mutex::new(taken);
        process.taking = tokio::spawn(async move {
            loop {
                let request = poll_fn(|context| {
                    queue.listen(context.waker());
                    queue.take().map_or(Poll::Pending, Poll::Ready)
                });
                // The test may be over.
                let _ = give.send(Taken::new(request.await));
            }
        });
        process
    }

    /// One whose application takes nothing, and gives no sign.
    pub(crate) fn busy(path: &Path, waiting: usize) -> Self {
        Self::of(std::process::id(), path, waiting)
    }

    /// As [`Process::busy`], to which `parent` alone may connect.
    pub(crate) fn of(parent: u32, path: &Path, waiting: usize) -> Self {
        let supplies = supplies(1);
        let queue = Queue::new(waiting, None, 1 << 20);
        let threads = Arc::new(Threads::start(1).unwrap());
        let (lines, parent) = (Arc::new(Lines::default()), i32::try_from(parent).unwrap());
        let worker = Arc::new(Worker::new(supplies.clone(), queue.clone(), parent, Arc::clone(&lines)));
        let listener = UnixListener::bind(path).unwrap();
        worker.serve(listener.into(), &threads).unwrap();
        let (_, taken) = mpsc::unbounded_channel();
        let taking = tokio::spawn(std::future::ready(()));
        Self { queue, worker, lines, supplies, threads, taken: Mutex::new(taken), taking }
    }

    /// The next request.
    pub(crate) async fn request(&self) -> Taken {
        self.taken.lock().await.recv().await.unwrap()
    }

    /// Has the edge fetch something from `server`.
    pub(crate) fn fetch(&self, taken: &Taken, server: &Server, method: &str, body: RequestBody) -> Stream {
        self.fetch_from(taken, server.address.port(), method, body)
    }

    pub(crate) fn fetch_from(&self, taken: &Taken, port: u16, method: &str, body: RequestBody) -> Stream {
        let (feed, stream) = self.stream();
        let order = Order { method: method.to_owned(), body, ..Self::order(&port.to_string()) };
        taken.edge.fetch(order, feed, &stream);
        stream
    }

    /// A GET of what `plan` describes.
    pub(crate) fn order(plan: &str) -> Order {
        Order {
            plan: plan.as_bytes().to_vec(),
            method: "GET".to_owned(),
            target: "/".to_owned(),
            fields: Arc::new(Fields::default()),
            body: RequestBody::None,
            timeouts: Timeouts {
                queue: Some(AMPLE),
                resolve: Some(AMPLE),
                connect: Some(AMPLE),
                tls: Some(AMPLE),
                first_byte: Some(AMPLE),
                between_bytes: Some(AMPLE),
                tunnel: Some(AMPLE),
                total: None,
                lets_events_pause: false,
            },
            overrides: None,
            is_clients: false,
            inspection: None,
        }
    }

    /// The two ends of a stream of the worker's own.
    pub(crate) fn stream(&self) -> (Feed, Stream) {
        channel(&self.supplies.pool, self.supplies.flow, &Framing::Raw, &self.supplies.meter)
    }

    pub(crate) fn slice(&self, bytes: &[u8]) -> Slice {
        let mut writer = self.supplies.pool.writer(bytes.len(), Purpose::Bulk).unwrap();
        writer.spare()[..bytes.len()].copy_from_slice(bytes);
        writer.commit(bytes.len())
    }

    /// What the application is told next of what it had attached.
    pub(crate) async fn completed(&self) -> (u64, Outcome) {
        let mut completed = Vec::new();
        until(|| {
            completed.append(&mut self.queue.reports().take_completed());
            !completed.is_empty()
        })
        .await;
        assert_eq!(completed.len(), 1, "{completed:?}");
        completed.remove(0)
    }

    /// Keeps its engine thread from everything, until what is returned is told something or dropped.
    pub(crate) fn hold(&self) -> std::sync::mpsc::Sender<()> {
        let (release, held) = std::sync::mpsc::channel();
        self.threads.spawn(0, move || async move {
            // An error is the drop.
            let _ = held.recv();
        });
        release
    }

    /// Ends as a process does that is killed: all that it has open is closed, and nothing is said.
    pub(crate) fn kill(&self) {
        self.threads.stop();
        self.threads.join();
    }

    /// Ends with nothing left of what it has done.
    pub(crate) async fn end(self) {
        until(|| self.worker.active() == 0 && self.queue.is_empty()).await;
        until(|| self.supplies.meter.live() == 0 && self.supplies.pool.stats().live_bytes == 0).await;
        self.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.taking.abort();
        self.threads.stop();
    }
}

/// The head of what is fetched: its status.
pub(crate) async fn status(stream: &Stream) -> penstock_engine::Result<u16> {
    poll_fn(|context| stream.poll_head(context).map(|head| head.map(|head| head.head.status))).await
}
