//! One connection in a worker process: a request that the edge has sent, until the application is done with it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::os::fd::AsRawFd;
use std::sync::Arc as Plain;
use std::task::{Context, Poll};

use penstock_memory::active::Active;
use tokio::task::{JoinHandle, JoinSet};

use super::edge::{Edge, Errand, Errands, Numbers};
use super::flow::{Arrival, Arrivals, send_flow};
use super::flows::Flows;
use super::message::{Attached, FeedTopic, Fetch, FetchBody, Message, PIECE, Subscribe, TUNNEL, UNSENT};
use super::wire::Wire;
use super::worker::{AwaitedEnd, Worker, serve_control};
use crate::app::{
    Attachment, Command, Content, File, Inspection, Loss, Near, Order, Over, Request, Source, Subscribing,
    link,
};
use crate::codec::malformed;
use crate::error::{Code, Result};
use crate::events::{Leave, pipe};
use crate::origin::RequestBody;
use crate::runtime::from_afar;
use crate::source::{Intake, read_file};
use crate::stream::{Feed, Stream};
use crate::sync::{Arc, Mutex, lock};

/// Serves a connection of the edge, by its first message.
pub(super) async fn serve(worker: &Arc<Worker>, wire: Plain<Wire>, thread: usize) {
    enum First<'a> {
        Control,
        Line(Box<Exchange>, Errands),
        Exchange(Box<Exchange>, Errands, Active<'a>),
    }
    let first = wire.read(
        |message| match message {
            Message::Control => Ok(Some(First::Control)),
            Message::Line(number) => {
                let errands = worker.lines.answer(number).ok_or_else(malformed)?;
                let exchange = Exchange::new(worker, &wire, link().0, &errands);
                Ok(Some(First::Line(Box::new(exchange), errands)))
            }
            Message::Request { head, has_body, chunked, is_proven, ends } => {
                let (near, far) = link();
                let (edge, errands) = Edge::new();
                let exchange = Exchange::new(worker, &wire, near, &errands);
                let request = Request {
                    head: head.to_vec(),
                    body: has_body.then(|| exchange.begin_flow(0)),
                    chunked,
                    ends,
                    is_proven,
                    thread,
                    far,
                    socket: None,
                    edge: Some(edge),
                };
                // Counted before the application can take it.
                let active = worker.drain.begin();
                match worker.queue.offer(request) {
                    Ok(_) => Ok(Some(First::Exchange(Box::new(exchange), errands, active))),
                    Err(error) => {
                        wire.send(&Message::Refused(error.clone()));
                        Err(error)
                    }
                }
            }
            _ => Err(malformed()),
        },
        || {},
    );
    match first.await {
        Ok(First::Control) => serve_control(worker, &wire).await,
        Ok(First::Line(exchange, errands)) => exchange.run_line(errands).await,
        Ok(First::Exchange(exchange, errands, _active)) => exchange.run(errands).await,
        Err(_) => {
            // The reason for the refusal is in the buffer.
            wire.end();
            let _ = wire.write().await;
        }
    }
}

/// A flow that is attached as a part, until the edge has told its outcome.
type Parts = Option<(Arrivals, Stream)>;

struct Exchange {
    worker: Arc<Worker>,
    wire: Plain<Wire>,
    near: Near,
    numbers: Numbers,
    flows: Mutex<Flows>,
    /// The tasks that receive flows.
    taking: Mutex<Vec<JoinHandle<()>>>,
    /// Flows of subscribers, whose streams end when they are attached.
    guests: Mutex<HashSet<u32>>,
    /// Bytes that were written and have not left the edge.
    unsent: Mutex<u64>,
    part: Mutex<Parts>,
    /// Tickets of the inspection reports of flows that are not attached, by flow.
    inspected: Mutex<HashMap<u32, u64>>,
    /// The sending of request bodies, which ends with the exchange.
    uploads: Mutex<JoinSet<()>>,
    /// The sending of flows of this worker that are attached, or feed a topic.
    sending: Mutex<JoinSet<()>>,
}

impl Exchange {
    fn new(worker: &Arc<Worker>, wire: &Plain<Wire>, near: Near, errands: &Errands) -> Self {
        Self {
            worker: Arc::clone(worker),
            wire: Plain::clone(wire),
            near,
            numbers: errands.numbers.clone(),
            flows: Mutex::default(),
            taking: Mutex::default(),
            guests: Mutex::default(),
            unsent: Mutex::default(),
            part: Mutex::default(),
            inspected: Mutex::default(),
            uploads: Mutex::default(),
            sending: Mutex::default(),
        }
    }

    /// A reader of a flow of the edge.
    fn begin_flow(&self, flow: u32) -> Stream {
        let (feed, stream) = self.worker.supplies.stream();
        self.receive_flow(flow, feed, true);
        stream
    }

    fn receive_flow(&self, flow: u32, feed: Feed, begun: bool) {
        let taking = lock(&self.flows).receive_flow(&self.wire, flow, feed, begun);
        lock(&self.taking).push(taking);
    }

    fn send_flow(&self, flow: u32, stream: Stream, tasks: &Mutex<JoinSet<()>>) {
        let credit = lock(&self.flows).send_flow(flow);
        lock(tasks).spawn(send_flow(Plain::new(stream), Plain::clone(&self.wire), flow, credit, None));
    }

    async fn run(self: Box<Self>, mut errands: Errands) {
        let mut outgoing = Outgoing::default();
        let result = {
            let read = self.wire.read(|message| self.hear(message), || {});
            let send = async {
                self.send(&mut errands).await;
                std::future::pending().await
            };
            let obey = async {
                let over = poll_fn(|context| outgoing.poll(&self, context)).await;
                // The sending of attached flows goes on without the application.
                let mut sending = std::mem::take(&mut *lock(&self.sending));
                while over == Over::Left && sending.join_next().await.is_some() {}
            };
            tokio::select! {
                // All in one task: a message is handled, and its answers are sent, in one turn.
                biased;
                lost = read => lost,
                never = send => never,
                () = obey => Ok(()),
                never = self.wire.write_on() => never,
            }
        };
        if let Err(error) = result {
            lock(&self.flows).fail(&error);
            // The edge may not have heard of them, and will not report.
            for (_, ticket) in lock(&self.inspected).drain() {
                self.worker.seen(ticket, None);
            }
            self.near.lose(Loss::Failed(error), false);
            return;
        }
        self.wire.end();
        let _ = self.wire.write().await;
    }

    /// Serves tasks that belong to no request, until all results have come.
    async fn run_line(self: Box<Self>, mut errands: Errands) {
        let result = {
            let read = self.wire.read(|message| self.hear(message), || {});
            let work = async {
                self.send(&mut errands).await;
                let taking = std::mem::take(&mut *lock(&self.taking));
                for taking in taking {
                    // An error means that the engine is being closed.
                    let _ = taking.await;
                }
                let mut sending = std::mem::take(&mut *lock(&self.sending));
                while sending.join_next().await.is_some() {}
            };
            tokio::select! {
                biased;
                lost = read => lost,
                () = work => Ok(()),
                never = self.wire.write_on() => never,
            }
        };
        if let Err(error) = result {
            return lock(&self.flows).fail(&error);
        }
        self.wire.end();
        let _ = self.wire.write().await;
    }

    /// Sends tasks to the edge, until there are no more.
    async fn send(&self, errands: &mut Errands) {
        while let Some((flow, errand, feed)) = errands.next().await {
            match errand {
                Errand::Fetch(order) => self.fetch(flow, *order, feed),
                Errand::Subscribe(subscribing) => self.subscribe(flow, subscribing, feed),
                Errand::Feed(source) => self.feed(flow, source, feed),
            }
        }
    }

    fn hear(&self, message: Message<'_>) -> Result<Option<()>> {
        let Some(message) = lock(&self.flows).hear(&self.worker.supplies.pool, message)? else {
            return Ok(None);
        };
        match message {
            Message::Interim(flow, head) => lock(&self.flows).arrive(flow, Arrival::Interim(head)),
            Message::Head(flow, head) => lock(&self.flows).arrive(flow, Arrival::Head(Box::new(head))),
            Message::Sent(bytes) => {
                let mut unsent = lock(&self.unsent);
                *unsent = unsent.saturating_sub(bytes);
                drop(unsent);
                self.near.sent(usize::try_from(bytes).unwrap_or(usize::MAX));
            }
            Message::Outcome(outcome) => {
                let part = lock(&self.part).take();
                drop(part);
                self.near.report(outcome);
            }
            Message::Tunnel => {
                self.near.tunnel(self.begin_flow(TUNNEL));
            }
            Message::Lost(error, begun) => {
                // Nothing more comes of any flow.
                if let Some(error) = &error {
                    lock(&self.flows).fail(error);
                }
                let loss = error.map_or(Loss::Closed, Loss::Failed);
                self.near.lose(loss, begun);
                return Ok(Some(()));
            }
            _ => return Err(malformed()),
        }
        Ok(None)
    }

    fn fetch(&self, flow: u32, order: Order, feed: Feed) {
        let Order { plan, method, target, fields, body, timeouts, overrides, is_clients, inspection } = order;
        let body = match body {
            RequestBody::None => FetchBody::None,
            RequestBody::Tunnel(_) => {
                return feed.fail(Code::Internal.error("a worker process has no tunnel of its own"));
            }
            RequestBody::Bytes(mut bytes) => {
                // A body may be longer than a message.
                let last = bytes.split_off(bytes.len() / PIECE * PIECE);
                self.wire.send_pieces(&bytes, Message::Body);
                FetchBody::Bytes(last)
            }
            RequestBody::Stream { stream, length } => {
                self.send_flow(flow, stream, &self.uploads);
                if is_clients { FetchBody::Client(length) } else { FetchBody::Flow(length) }
            }
        };
        self.receive_flow(flow, feed, false);
        let fields = (*fields).clone();
        let inspection = inspection.map(|Inspection { amended, seen }| {
            let ticket = self.worker.expect(seen);
            lock(&self.inspected).insert(flow, ticket);
            (ticket, amended)
        });
        let fetch = Fetch { flow, plan, method, target, fields, timeouts, body, overrides, inspection };
        self.wire.send(&Message::Fetch(Box::new(fetch)));
    }

    fn subscribe(&self, flow: u32, subscribing: Subscribing, feed: Feed) {
        let Subscribing { plan, topic, after, tenant, address, lease } = subscribing;
        let lease = lease.map(|lease| self.worker.lines.pass_on(&lease));
        lock(&self.guests).insert(flow);
        self.receive_flow(flow, feed, false);
        let subscribe = Subscribe { flow, plan, topic, after, tenant, address, lease };
        self.wire.send(&Message::Subscribe(Box::new(subscribe)));
    }

    fn feed(&self, flow: u32, source: Source, feed: Feed) {
        let Source { stream, hub, topic, error_event } = source;
        let distant = stream.distant();
        let source = distant.unwrap_or_else(|| self.numbers.next());
        self.receive_flow(flow, feed, false);
        let feed = FeedTopic { flow, source, is_own: distant.is_none(), hub, topic, error_event };
        self.wire.send(&Message::Feed(Box::new(feed)));
        match distant {
            // After the message, because the end of the stream here closes the flow there.
            Some(_) => drop(stream),
            None => self.send_flow(source, stream, &self.sending),
        }
    }

    fn attach(&self, attachment: Attachment) {
        let Attachment { stream, rest, policy, inspector, account } = attachment;
        let distant = stream.distant();
        let rest = rest.map(|completion| (completion.ticket(), account, completion));
        let told = rest.as_ref().map(|(ticket, account, _)| (*ticket, account.clone()));
        let flow = distant.unwrap_or_else(|| self.numbers.next());
        let attached = Attached {
            flow,
            is_own: distant.is_none(),
            is_events: distant.is_some() && stream.is_framed(),
            has_policy: distant.is_some() && policy.is_some(),
            rest: told,
        };
        let mut guest = None;
        let fetched = if distant.is_some() {
            lock(&self.inspected).remove(&flow);
            let fetched = lock(&self.flows).release(flow).map(|arrivals| (arrivals, stream));
            // Thousands may subscribe for hours, so none of them keeps a stream here.
            if lock(&self.guests).contains(&flow) {
                guest = fetched;
                None
            } else {
                fetched
            }
        } else {
            let stream = match (&policy, &inspector) {
                (None, None) => stream,
                _ => self.seen(stream, policy, inspector),
            };
            self.send_flow(flow, stream, &self.sending);
            None
        };
        // Before the message: the end may come at once.
        match rest {
            Some((ticket, _, completion)) => {
                self.worker.await_end(ticket, AwaitedEnd { completion, fetched });
            }
            None => *lock(&self.part) = fetched,
        }
        self.wire.send(&Message::Attach(attached));
        // After the message, because the end of the stream here closes the flow there.
        drop(guest);
    }

    /// Reads a file here, and attaches it as a part.
    fn attach_file(&self, file: File) {
        let supplies = &self.worker.supplies;
        let (feed, stream) = supplies.stream();
        let intake = Intake::new(supplies.pool.clone(), supplies.reads, feed);
        tokio::spawn(async move {
            let File { descriptor, offset, count } = file;
            // Opened again, because the descriptor shares its position with the application's.
            let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
            read_file(path.into(), offset, Some(count), intake).await;
            drop(descriptor);
        });
        self.attach(Attachment { stream, rest: None, policy: None, inspector: None, account: None });
    }

    /// The stream that is sent in the place of `stream`, with a policy and an inspector that the edge does not apply
    /// to a worker's own streams.
    fn seen(
        &self,
        stream: Stream,
        policy: Option<Plain<crate::events::Policy>>,
        inspector: Option<crate::inspect::Inspector>,
    ) -> Stream {
        let supplies = &self.worker.supplies;
        let (feed, seen) = supplies.stream();
        let leave = policy.as_ref().map_or(Leave::Cancel, |policy| policy.leave.clone());
        tokio::spawn(pipe(stream, policy, leave, inspector, Plain::clone(&supplies.meter), feed, None));
        seen
    }
}

/// The application's commands that the edge has not been sent.
#[derive(Default)]
struct Outgoing {
    commands: VecDeque<Command>,
    /// Bytes that were sent of the first command, if it is a write.
    written: usize,
    over: Option<Over>,
}

impl Outgoing {
    /// Sends commands. Ready when the application is done; returns how it ended.
    fn poll(&mut self, exchange: &Exchange, context: &mut Context<'_>) -> Poll<Over> {
        let afar = from_afar(context.waker());
        let mut afar = Context::from_waker(&afar);
        while self.over.is_none() {
            match exchange.near.poll_commands(&mut afar, &mut self.commands) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(over)) => self.over = Some(over),
                Poll::Pending => break,
            }
        }
        if let Some(note) = exchange.near.take_note() {
            exchange.wire.send(&Message::Note(note));
        }
        // A worker refuses nothing: what waits for it waits in the edge.
        if matches!(self.over, Some(Over::Aborted | Over::Refused)) {
            exchange.wire.send(&Message::Abort);
            for command in self.commands.drain(..) {
                command.forsake(None, false);
            }
            return Poll::Ready(Over::Aborted);
        }
        while let Some(command) = self.commands.pop_front() {
            match command {
                Command::Write(bytes) => {
                    if !self.write(exchange, &bytes) {
                        self.commands.push_front(Command::Write(bytes));
                        return Poll::Pending;
                    }
                }
                // This is about connections of the worker's own engine.
                Command::FeedOn(_) => {}
                Command::Attach(attachment) => exchange.attach(attachment),
                Command::Option(level, name, value) => {
                    exchange.wire.send(&Message::Option(level, name, value));
                }
                Command::Done => exchange.wire.send(&Message::Done),
                Command::Close => exchange.wire.send(&Message::Close),
                Command::File(file) => exchange.attach_file(file),
                command @ (Command::Subscribe(_) | Command::Relay(_)) => {
                    let error = Code::Internal.error("topics and relays are carried out by the parent alone");
                    command.forsake(Some(error), false);
                    exchange.wire.send(&Message::Abort);
                    return Poll::Ready(Over::Aborted);
                }
            }
        }
        if self.over == Some(Over::Left) {
            exchange.wire.send(&Message::Leave);
            return Poll::Ready(Over::Left);
        }
        Poll::Pending
    }

    /// Sends the rest of `content`, within the limit of unsent bytes. Returns whether all of it was
    /// sent.
    fn write(&mut self, exchange: &Exchange, content: &Content) -> bool {
        while self.written < content.bytes().len() {
            let rest = &content.bytes()[self.written..];
            let mut unsent = lock(&exchange.unsent);
            if *unsent >= UNSENT as u64 {
                return false;
            }
            let piece = &rest[..rest.len().min(PIECE)];
            *unsent += piece.len() as u64;
            drop(unsent);
            exchange.wire.send(&Message::Write(piece));
            self.written += piece.len();
        }
        self.written = 0;
        true
    }
}
