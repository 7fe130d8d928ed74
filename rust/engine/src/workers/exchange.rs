//! One request for the application in the edge: sent to a worker process, which answers it.
//!
//! To the connection of the client this is the application ([`Far`]); to the worker it is the client. The invariants: if a
//! worker has begun to answer a request, no other worker gets it; if not, another worker gets it only if that is safe;
//! what a worker has attached does not need the worker any more.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc as Plain;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::admitting::subscribe;
use super::fetching::{Asked, Fetched, Fetching, Guest, Response, Watch, events_of, fetch};
use super::flow::{join, send_flow};
use super::flows::Flows;
use super::member::Member;
use super::message::{
    Attached, FeedTopic, Fetch, FetchBody, Message, PIECE, Rest, Subscribe, TUNNEL, UNSENT,
};
use super::notice::{Feeding, Notice};
use super::shared::Shared;
use super::wire::Wire;
use crate::app::{Attachment, Completion, Content, Far, Loss, News, Request, Subscription};
use crate::codec::malformed;
use crate::edge::refused;
use crate::error::{Code, Error, Result};
use crate::origin::RequestBody;
use crate::stream::Stream;
use crate::sync::{Arc, Mutex, lock};
use crate::wire::Fields;

/// The limit of workers that a request is sent to, one after another. Arbitrary: a request that ends three
/// processes ends a fourth.
const TRIES: usize = 3;

/// The time in which a client may go on to send a body that is not read any more: as long as aiohttp lingers.
const LINGER: Duration = Duration::from_secs(10);

/// The time in which a worker must end a connection whose client has left. Arbitrary: a live worker does so at
/// once.
const PARTING: Duration = Duration::from_secs(10);

/// The outcome of a request at one worker.
enum End {
    /// It was answered, or the client left.
    Over,
    /// The worker refused it.
    Refused(Error),
    /// The worker is gone, and has sent nothing to the client.
    Gone(Error),
    /// The worker is gone in the middle of its response.
    CutOff,
}

/// Has a worker answer `request`.
pub(super) async fn run(shared: Arc<Shared>, request: Request) {
    let Request { head, body, chunked, ends, is_proven, thread, far, .. } = request;
    let is_safe = body.is_none() && is_safe(&head);
    let head_only = head.starts_with(b"HEAD ");
    let body = body.map(Plain::new);
    let mut far = Some(far);
    // No worker is asked twice: one that is gone may look connected for a moment.
    let mut tried = Vec::new();
    let mut failed = None;
    while let Some(own) = far.take() {
        let Some((busy, socket)) = shared.reach(&own, &tried).await else {
            let error = failed.unwrap_or_else(|| {
                Code::AppBusy.error("no worker process was there to answer the request in time")
            });
            return answer(&shared, &own, &error, head_only);
        };
        let member = busy.member();
        tried.push(member.number);
        let wire = Plain::new(Wire::new(socket));
        let has_body = body.is_some();
        let ends = ends.clone();
        wire.send(&Message::Request { head: &head, has_body, chunked, is_proven, ends });
        shared.counts.exchange(tried.len() > 1);
        let client = Some((own, is_proven));
        let exchange = Exchange::new(&shared, member, wire, client, thread, body.clone());
        let end = exchange.run().await;
        if matches!(end, End::CutOff) {
            shared.counts.cut_off.add(1);
        }
        let State { far: own, touched, .. } = exchange.into_state();
        // A dropped half cuts the response off.
        let Some(own) = own.filter(|_| !matches!(end, End::Over | End::CutOff)) else { return };
        let error = match end {
            End::Over | End::CutOff => return,
            End::Refused(_) | End::Gone(_) if touched => {
                Code::WorkerGone.error("the worker process that was answering has gone")
            }
            End::Refused(error) | End::Gone(error) if tried.len() == TRIES => error,
            // If all workers are full, the request does not wait.
            End::Refused(error) if error.code() == Code::AppBusy && !shared.has_other(&tried) => error,
            End::Gone(error) if !is_safe => error,
            End::Refused(error) | End::Gone(error) => {
                failed = Some(error);
                far = Some(own);
                continue;
            }
        };
        return answer(&shared, &own, &error, head_only);
    }
}

/// Opens the connection that a worker has called for by `number`, and does its tasks, which belong
/// to no request.
pub(super) async fn serve_line(shared: Arc<Shared>, member: Arc<Member>, number: u64, thread: usize) {
    let Some(socket) = member.connect().await else { return };
    let wire = Plain::new(Wire::new(socket));
    wire.send(&Message::Line(number));
    // There is no request to answer, however it ends.
    let _ = Exchange::new(&shared, &member, wire, None, thread, None).run().await;
}

/// Whether a request may be repeated if it may have been carried out (RFC 9110, section 9.2.1).
fn is_safe(head: &[u8]) -> bool {
    [b"GET ".as_slice(), b"HEAD ", b"OPTIONS ", b"TRACE "].iter().any(|method| head.starts_with(method))
}

/// Answers in the place of a worker.
fn answer(shared: &Shared, far: &Far, error: &Error, head_only: bool) {
    if error.code() == Code::WorkerGone {
        shared.counts.refused.add(1);
    }
    far.write(Content::Bytes(refused(error, head_only)));
    far.close();
}

struct Exchange {
    shared: Arc<Shared>,
    member: Arc<Member>,
    wire: Plain<Wire>,
    thread: usize,
    /// The body of the client's request.
    body: Option<Plain<Stream>>,
    /// See [`crate::origin::Request::is_proven`].
    is_proven: bool,
    fetched: Fetching,
    state: Mutex<State>,
}

struct State {
    /// `None` after the worker has left.
    far: Option<Far>,
    flows: Flows,
    /// The beginning of the body of the next request to fetch.
    front: Vec<u8>,
    tasks: JoinSet<()>,
    /// Some of the request's body was sent to the worker.
    touched: bool,
    /// Bytes written so far, and how many of them the worker knows to have left.
    written: u64,
    told: u64,
    /// The worker has sent something for the client.
    begun: bool,
    left: bool,
    /// The end of the client's body, if it goes on without the worker.
    rest: Option<oneshot::Receiver<()>>,
    /// The inspection of the part that is being sent.
    part: Option<Watch>,
}

impl Exchange {
    /// `client`: its half of the connection, and whether it is proven.
    fn new(
        shared: &Arc<Shared>,
        member: &Arc<Member>,
        wire: Plain<Wire>,
        client: Option<(Far, bool)>,
        thread: usize,
        body: Option<Plain<Stream>>,
    ) -> Self {
        // A fetch that belongs to no request is the application's own, and counts as proven.
        let (far, is_proven) = client.map_or((None, true), |(far, is_proven)| (Some(far), is_proven));
        let state = State {
            far,
            flows: Flows::default(),
            front: Vec::new(),
            tasks: JoinSet::new(),
            touched: false,
            written: 0,
            told: 0,
            begun: false,
            left: false,
            rest: None,
            part: None,
        };
        Self {
            shared: Arc::clone(shared),
            member: Arc::clone(member),
            wire,
            thread,
            body,
            is_proven,
            fetched: Plain::default(),
            state: Mutex::new(state),
        }
    }

    async fn run(&self) -> End {
        if let Some(body) = &self.body {
            self.send_flow(0, Plain::clone(body));
        }
        let read = self.wire.read(|message| self.hear(message), || self.flush());
        let news = poll_fn(|context| self.poll_news(context));
        let (mut read, mut write) = (pin!(read), pin!(self.wire.write_on()));
        tokio::select! {
            biased;
            said = &mut read => match said {
                Ok(refusal) => return End::Refused(refusal),
                Err(error) => return self.gone(error),
            },
            () = news => {}
            never = &mut write => never,
        }
        // The client has left. Messages that the worker sent meanwhile are handled too; the worker ends the connection when
        // it has heard.
        let said = async {
            tokio::select! {
                biased;
                said = read => drop(said),
                never = write => never,
            }
        };
        let _ = timeout(PARTING, said).await;
        End::Over
    }

    fn into_state(self) -> State {
        self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The connection has ended; a worker that has left the request ends it so.
    fn gone(&self, error: Error) -> End {
        let mut state = lock(&self.state);
        state.flows.fail(&error);
        match (state.left, state.begun) {
            (true, _) => End::Over,
            (false, true) => End::CutOff,
            (false, false) => End::Gone(error),
        }
    }

    fn send_flow(&self, flow: u32, stream: Plain<Stream>) {
        let mut state = lock(&self.state);
        let credit = state.flows.send_flow(flow);
        state.tasks.spawn(send_flow(stream, Plain::clone(&self.wire), flow, credit, None));
    }

    /// A reader of a flow of the worker.
    fn begin_flow(&self, state: &mut State, flow: u32) -> Stream {
        let (feed, stream) = self.shared.supplies.stream();
        drop(state.flows.receive_flow(&self.wire, flow, feed, true));
        stream
    }

    /// Sends what the worker has written to the client.
    fn flush(&self) {
        if let Some(far) = &lock(&self.state).far {
            far.flush();
        }
    }

    /// Handles a message of the worker; returns its reason if it refuses the request.
    fn hear(&self, message: Message<'_>) -> Result<Option<Error>> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        match &message {
            Message::Credit(0, _) => state.touched = true,
            // The reader of a fetched flow is gone.
            Message::Closed(flow) => {
                let fetched = lock(&self.fetched).remove(flow);
                if let Some(Fetched::Response(Response { stream, .. })) = fetched {
                    stream.close();
                }
            }
            _ => {}
        }
        let Some(message) = state.flows.hear(&self.shared.supplies.pool, message)? else {
            return Ok(None);
        };
        match message {
            Message::Body(bytes) => {
                let budget = self.shared.supplies.pool.budget();
                if state.front.len() + bytes.len() > budget {
                    let detail = format!(
                        "a worker process sends a request body of more than the {budget} bytes of memory"
                    );
                    return Err(Code::ObjectTooLarge.error(detail));
                }
                state.front.extend_from_slice(bytes);
            }
            Message::Fetch(order) => self.fetch(state, *order)?,
            Message::Subscribe(order) => self.subscribe(state, *order),
            Message::Feed(order) => self.feed(state, *order)?,
            Message::Refused(error) => return Ok(Some(error)),
            // This is not for the client: another worker may still be asked.
            Message::Note(note) => {
                if let Some(far) = &state.far {
                    far.note(note);
                }
            }
            Message::Leave => {
                state.left = true;
                let far = state.far.take();
                if let Some(rest) = state.rest.take() {
                    // The client's body is read to its end, because its next request comes after it.
                    tokio::spawn(async move {
                        let _ = timeout(LINGER, rest).await;
                        drop(far);
                    });
                }
            }
            message => self.obey(state, message)?,
        }
        Ok(None)
    }

    /// Handles a message for the client.
    fn obey(&self, state: &mut State, message: Message<'_>) -> Result<()> {
        let Some(far) = &state.far else { return Err(malformed()) };
        match message {
            Message::Write(bytes) => {
                state.written += bytes.len() as u64;
                // A worker that ignores the limit could fill this process.
                if far.write(Content::Bytes(bytes.to_vec())) > UNSENT + PIECE {
                    return Err(malformed());
                }
            }
            Message::Done => far.done(),
            Message::Close => far.close(),
            Message::Abort => {
                far.abort();
                state.left = true;
            }
            Message::Option(level, name, value) => far.set_option(level, name, value),
            Message::Attach(attached) => self.attach(state, attached)?,
            _ => return Err(malformed()),
        }
        state.begun = true;
        Ok(())
    }

    fn fetch(&self, state: &mut State, mut order: Fetch) -> Result<()> {
        let flow = order.flow;
        let watch = order.inspection.map(|inspection| Watch::new(&self.member, inspection));
        if state.far.as_ref().is_some_and(Far::is_lost) {
            return Ok(());
        }
        let body = match std::mem::replace(&mut order.body, FetchBody::None) {
            FetchBody::None => RequestBody::None,
            FetchBody::Bytes(last) => {
                let mut bytes = std::mem::take(&mut state.front);
                bytes.extend(last);
                RequestBody::Bytes(bytes)
            }
            FetchBody::Flow(length) => RequestBody::Stream { stream: self.begin_flow(state, flow), length },
            FetchBody::Client(length) => {
                let front = self.begin_flow(state, flow);
                RequestBody::Stream { stream: self.go_on(state, front)?, length }
            }
        };
        let credit = state.flows.send_flow(flow);
        let (shared, wire) = (Arc::clone(&self.shared), Plain::clone(&self.wire));
        let (thread, fetched) = (self.thread, Plain::clone(&self.fetched));
        let trace = state.far.as_ref().and_then(Far::trace);
        let asked = Asked { order, body, is_proven: self.is_proven, watch, trace };
        state.tasks.spawn(fetch(shared, thread, wire, asked, fetched, credit));
        Ok(())
    }

    /// The client's body: `front`, which the worker sends back, and then the rest, which was not sent to it.
    fn go_on(&self, state: &mut State, front: Stream) -> Result<Stream> {
        let rest = self.body.as_ref().ok_or_else(malformed)?.hand_over()?;
        if let Some(credit) = state.flows.keep(0) {
            credit.cut();
        }
        let supplies = &self.shared.supplies;
        let (feed, joined) = supplies.stream();
        let (over, rest_is_over) = oneshot::channel();
        state.rest = Some(rest_is_over);
        tokio::spawn(join(front, rest, feed, over));
        Ok(joined)
    }

    fn subscribe(&self, state: &mut State, order: Subscribe) {
        let credit = state.flows.send_flow(order.flow);
        let (shared, member) = (Arc::clone(&self.shared), Arc::clone(&self.member));
        let (wire, fetched) = (Plain::clone(&self.wire), Plain::clone(&self.fetched));
        state.tasks.spawn(subscribe(shared, member, wire, order, fetched, credit));
    }

    /// Has a topic fed. A fetched source does not need the worker any more.
    fn feed(&self, state: &mut State, order: FeedTopic) -> Result<()> {
        let FeedTopic { flow, source, is_own, hub, topic, error_event } = order;
        let stream = if is_own {
            self.begin_flow(state, source)
        } else {
            state.flows.keep(source);
            match self.take_fetched(source) {
                Some(Fetched::Response(Response { stream, .. })) => stream.hand_over()?,
                // The client has left: the stream is being drained, or was dropped.
                None if state.far.as_ref().is_some_and(Far::is_lost) => return Ok(()),
                _ => return Err(malformed()),
            }
        };
        let (begun, answer) = oneshot::channel();
        let feeding = Feeding { hub, topic, error_event, stream, begun };
        self.shared.notices.put(Notice::Feed(Box::new(feeding)));
        let wire = Plain::clone(&self.wire);
        state.tasks.spawn(async move {
            let closed = |_| Err(Code::EngineClosed.error("the edge is being closed"));
            wire.send(&match answer.await.unwrap_or_else(closed) {
                Ok(()) => Message::End(flow, Duration::ZERO, Fields::default()),
                Err(error) => Message::Fail(flow, error),
            });
        });
        Ok(())
    }

    fn attach(&self, state: &mut State, attached: Attached) -> Result<()> {
        let Attached { flow, is_own, is_events, has_policy, rest } = attached;
        let (stream, policy, known, watch) = if is_own {
            (self.begin_flow(state, flow), None, None, None)
        } else {
            state.flows.keep(flow);
            match self.take_fetched(flow) {
                None => {
                    // Behind the client's leaving it is being read on, or forgotten.
                    let is_lost = state.far.as_ref().is_some_and(Far::is_lost);
                    drop(rest.map(|rest| self.completion(rest, None, None)));
                    return if is_lost { Ok(()) } else { Err(malformed()) };
                }
                Some(Fetched::Guest(guest)) => return self.seat(state, guest, rest),
                Some(Fetched::Response(Response { stream, relay, watch })) => {
                    let handed = stream.hand_over()?;
                    if is_events {
                        handed.set_framing(&events_of(&relay))?;
                    }
                    (handed, relay.spec().events.clone().filter(|_| has_policy), Some(stream), watch)
                }
            }
        };
        let inspector = watch.as_ref().and_then(|watch| watch.inspector.clone());
        let rest = if let Some(rest) = rest {
            Some(self.completion(rest, known, watch))
        } else {
            state.part = watch;
            None
        };
        if let Some(far) = &state.far {
            far.attach(Attachment { stream, rest, policy, inspector, account: None });
        }
        Ok(())
    }

    /// Takes a fetched response whose head has come, or a subscriber.
    fn take_fetched(&self, flow: u32) -> Option<Fetched> {
        let mut fetched = lock(&self.fetched);
        if let Fetched::Response(response) = fetched.get(&flow)? {
            response.stream.head()?;
        }
        fetched.remove(&flow)
    }

    /// The completion that tells the worker of the end of a response, and what its inspection saw.
    fn completion(
        &self,
        (ticket, account): Rest,
        known: Option<Plain<Stream>>,
        watch: Option<Watch>,
    ) -> Completion {
        let member = Arc::clone(&self.member);
        Completion::told_by(move |outcome| {
            let report = watch.and_then(Watch::end);
            member.over(ticket, account, outcome, known.as_deref(), report);
        })
    }

    /// Attaches a subscriber to the response.
    fn seat(&self, state: &State, guest: Guest, rest: Option<Rest>) -> Result<()> {
        let (Some(far), Some((ticket, account))) = (&state.far, rest) else { return Err(malformed()) };
        let Guest { admitted, leased, .. } = guest;
        let lease = leased.as_ref().map(|leased| leased.lease.clone());
        let member = Arc::clone(&self.member);
        let rest = Completion::told_by(move |outcome| {
            drop(leased);
            member.over(ticket, account, outcome, None, None);
        });
        far.subscribe(Subscription { admitted, lease, rest });
        Ok(())
    }

    /// Sends news of the client's connection to the worker. Ready when the client has left.
    fn poll_news(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        let State { far, written, told, part, tasks, .. } = &mut *state;
        let Some(far) = far else { return Poll::Pending };
        far.listen(context.waker());
        let News { lost, outcome, tunnel, unsent, begun } = far.take();
        if let Some(outcome) = outcome {
            drop(part.take());
            self.wire.send(&Message::Outcome(outcome));
        }
        if let Some(loss) = lost {
            let error = match loss {
                Loss::Closed => None,
                Loss::Failed(error) => Some(error),
            };
            let has_left = error.is_some();
            self.wire.send(&Message::Lost(error, begun));
            drop(std::mem::take(tasks));
            if let Some(body) = &self.body {
                body.close();
            }
            let fetched = std::mem::take(&mut *lock(&self.fetched));
            for fetched in fetched.into_values().filter(|_| has_left) {
                if let Fetched::Response(response) = fetched {
                    response.client_left(&self.shared.supplies.meter);
                }
            }
            return Poll::Ready(());
        }
        let mut unsent = unsent as u64;
        loop {
            let left = written.saturating_sub(unsent);
            if left > *told {
                self.wire.send(&Message::Sent(left - *told));
                *told = left;
            }
            // The next message follows when half of the rest has left, not after each write to the
            // socket.
            if unsent == 0 || far.await_below(usize::try_from(unsent / 2).unwrap_or(usize::MAX)) {
                break;
            }
            unsent = far.unsent() as u64;
        }
        drop(state);
        if let Some(stream) = tunnel {
            self.wire.send(&Message::Tunnel);
            self.send_flow(TUNNEL, Plain::new(stream));
        }
        Poll::Pending
    }
}
