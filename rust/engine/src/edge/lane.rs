//! Answers a request from the application: offers it, checks what is written, and sends it. A relay that the application
//! orders before it has written anything is the engine's from then on ([`Ordered`]).
//!
//! The connection's task does both ways of an exchange. What the application writes is sent once the
//! [`Checker`] has seen it, and what breaks the response's own framing ends the connection. An exchange is over when
//! the application has left it: a response may be sent whole while its handler still reads the request's body.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use super::exchange::{Announced, Interrupts, Task, fault, read_on};
use super::head::HSTS;
use super::in_flight::in_flight;
use super::inbound::Inbound;
use super::traced::Traced;
use crate::app::{
    Attachment, Checker, ClientSocket, Command, Completion, Content, Fault, File, Loss, Near, Outcome, Over,
    Place, Queue, RelayOrder, Request, Subscription, asks_to_switch, link, serialise,
};
use crate::error::{Code, Error, Result};
use crate::events::{EventBody, Leave};
use crate::net::{Fault as SendFault, Filing, Life, Outgoing, Piece, Socket, Supply, Watch, Wish};
use crate::pressure::Part;
use crate::runtime::from_afar;
use crate::stream::Stream;
use crate::sys::descriptor::set_option;
use crate::wire::{BodyFraming, shown, write_field};

/// A relay that the application has ordered in place of an answer of its own.
#[derive(Debug)]
pub(super) struct Ordered {
    pub(super) order: Box<RelayOrder>,
    pub(super) near: Near,
}

/// Has the application answer, over `queue`. The future ends when all of the response is with the kernel, or with the relay
/// that the application has ordered.
///
/// # Errors
/// What went wrong. If `progress` has no status then, nothing was sent.
pub(super) async fn answer(
    task: &Task<'_>,
    inbound: &mut Inbound<'_>,
    announced: Announced,
    queue: &Queue,
    life: &Life,
) -> Result<Option<Ordered>> {
    let site = task.site;
    let Announced { framing, most, .. } = announced;
    let (feed, body) =
        if announced.has_bytes() { Some(site.supplies.stream()).unzip() } else { (None, None) };
    let mut lane = Lane::offer(task, announced, body, queue, life)?;
    let result = lane.run(inbound.listen(framing, most, feed)).await;
    if let (Ok(()), Some(order)) = (&result, lane.order.take()) {
        return Ok(Some(Ordered { order, near: lane.near }));
    }
    let result = match result {
        Ok(()) if lane.checker.has_switched() => {
            let (feed, stream) = site.supplies.stream();
            lane.near.tunnel(stream);
            lane.tunnels = true;
            lane.run(inbound.listen(BodyFraming::Tunnel, None, Some(feed))).await
        }
        result => result,
    };
    if let (Err(error), Sending::Stream { leave, .. }) = (&result, &lane.sending) {
        let go_on = |context: &mut Context<'_>| life.wish(context) != Wish::End;
        read_on(task, error, leave, None, &mut lane.outgoing, go_on).await;
    }
    lane.end(&result);
    result.map(|()| None)
}

/// What the engine sends in the application's place.
#[derive(Debug)]
enum Sending {
    Nothing,
    /// A stream after `before` bytes of earlier streams; `rest` is told of its end if it is all that is left of
    /// the body.
    Stream {
        before: u64,
        rest: Option<Completion>,
        /// It can be ended after any of its frames: no length was announced.
        framed: bool,
        /// Whether it is read on when the client leaves.
        leave: Leave,
    },
    /// On the heap: it is twice as large as what a stream needs, which stays for longer.
    File(Box<Filing>),
}

#[expect(clippy::struct_excessive_bools, reason = "things that happen in any order")]
struct Lane<'a> {
    task: &'a Task<'a>,
    announced: Announced,
    queue: &'a Queue,
    life: &'a Life,
    place: Place,
    /// Until the request has been taken.
    patience: Option<Watch>,
    near: Near,
    /// The task's waker, and its form for other threads.
    waker: Option<(Waker, Waker)>,
    commands: VecDeque<Command>,
    checker: Checker,
    /// Written, and not to be sent before the head is whole.
    held: Vec<Content>,
    outgoing: Outgoing,
    /// Bytes given to `outgoing` that the application has not been told are sent.
    owed: usize,
    /// Bytes that were put into its head.
    added: usize,
    sending: Sending,
    done: bool,
    closing: bool,
    over: Option<Over>,
    tunnels: bool,
    /// What was written and is not with the kernel may hold a connection to an origin.
    feeds: bool,
    /// The body was ended early, and its last frames are on their way.
    ended: bool,
    /// What the application wants in place of an answer of its own.
    order: Option<Box<RelayOrder>>,
}

impl<'a> Lane<'a> {
    /// Offers the request, with its `body`, to the application.
    ///
    /// # Errors
    /// As [`Queue::offer`].
    fn offer(
        task: &'a Task<'a>,
        announced: Announced,
        body: Option<Stream>,
        queue: &'a Queue,
        life: &'a Life,
    ) -> Result<Self> {
        let Task { site, client, incoming, .. } = *task;
        let (near, far) = link();
        if let Some(trace) = task.trace() {
            near.set_trace(trace);
        }
        let told = task.traced.map_or_else(Vec::new, Traced::fields);
        let place = queue.offer(Request {
            head: serialise(incoming, announced.framing, &told),
            body,
            chunked: announced.framing == BodyFraming::Chunked,
            ends: client.ends(),
            is_proven: site.is_proven(client),
            thread: task.thread,
            far,
            socket: Some(ClientSocket::new(&client.connection)),
            edge: None,
        })?;
        Ok(Self {
            task,
            announced,
            queue,
            life,
            place,
            patience: Some(Watch::started(queue.limit())),
            near,
            waker: None,
            commands: VecDeque::new(),
            checker: Checker::new(incoming.method(), asks_to_switch(incoming.headers()))
                .looking_for_hsts(task.hsts().is_some()),
            held: Vec::new(),
            outgoing: Outgoing::new(site.config.write_timeout, Code::BadResponse),
            owed: 0,
            added: 0,
            sending: Sending::Nothing,
            done: false,
            closing: false,
            over: None,
            tunnels: false,
            feeds: false,
            ended: false,
            order: None,
        })
    }

    /// Goes on until the exchange is over, or changes to another protocol.
    async fn run(&mut self, listen: impl Future<Output = Error>) -> Result<()> {
        let mut listen = pin!(listen);
        let mut interrupts = Interrupts::default();
        let Task { site, progress, .. } = *self.task;
        let result = poll_fn(|context| {
            self.life.answer(|| in_flight(self.task.record, self.life, self.awaited()));
            match interrupts.poll(context, site, progress, self.life, listen.as_mut()) {
                Poll::Ready(error) => Poll::Ready(Err(error)),
                Poll::Pending => self.poll(context),
            }
        })
        .await;
        result.map_err(|error| interrupts.explain(error))
    }

    /// What the response waits for, unless that is the client.
    fn awaited(&self) -> &'static str {
        match self.sending {
            Sending::Stream { .. } => "stream",
            Sending::File(_) => "client",
            Sending::Nothing => "application",
        }
    }

    /// Whether the client sees by the framing that what it has is not the whole, however the connection ends.
    fn ends_visibly(&self) -> bool {
        self.task.progress.status().is_some()
            && matches!(self.checker.rest(), Ok(BodyFraming::Length(_) | BodyFraming::Chunked))
    }

    /// Tells the application how it ended.
    fn end(&mut self, result: &Result<()>) {
        let reason = result.as_ref().err();
        self.task.progress.tear(self.outgoing.is_torn());
        self.task.progress.set_note(self.near.take_note(), reason);
        if let Some(error) = reason {
            let begun = self.task.progress.status().is_some();
            let outcome =
                |bytes| Outcome { bytes: if begun { bytes } else { 0 }, begun, failure: Some(error.clone()) };
            match std::mem::replace(&mut self.sending, Sending::Nothing) {
                Sending::Nothing => {}
                Sending::Stream { before, rest, .. } => {
                    let outcome = outcome(self.outgoing.payload() - before);
                    match rest {
                        Some(completion) => completion.tell(outcome),
                        None => self.near.report(outcome),
                    }
                }
                Sending::File(filing) => {
                    self.task.progress.sent(usize::try_from(filing.sent()).unwrap_or(usize::MAX));
                    self.near.report(outcome(filing.sent()));
                }
            }
            for command in std::mem::take(&mut self.commands) {
                command.forsake(Some(error.clone()), begun);
            }
        }
        if self.patience.is_some() {
            // Nothing has been heard of it: it may still wait.
            self.queue.withdraw(self.place);
        }
        let begun = self.task.progress.status().is_some();
        self.near.lose(reason.map_or(Loss::Closed, |error| Loss::Failed(error.clone())), begun);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let is_framed = matches!(self.sending, Sending::Stream { rest: Some(_), framed: true, .. });
        self.task.check_or_end(is_framed, &mut self.ended, &mut self.outgoing)?;
        loop {
            match self.poll_commands(context)? {
                Some(Over::Aborted) => return Poll::Ready(self.break_off(context)),
                Some(Over::Refused) => {
                    return Poll::Ready(Err(self.task.site.pressure().refusal(Part::Application)));
                }
                Some(Over::Left) | None => {}
            }
            self.obey()?;
            if self.order.is_some() {
                return Poll::Ready(Ok(()));
            }
            let sent = self.outgoing.poll_send(context, &self.task.client.connection);
            self.note_written();
            let sent = sent.map_err(|error| {
                if matches!(error, SendFault::Source(_)) && self.ends_visibly() {
                    self.task.progress.end_visibly();
                }
                fault(error)
            })?;
            if self.checker.has_switched() && !self.tunnels {
                return Poll::Ready(Ok(()));
            }
            if sent.is_pending() {
                return Poll::Pending;
            }
            match &mut self.sending {
                Sending::Stream { before, rest, framed, .. } => {
                    let (bytes, rest) = (self.outgoing.payload() - *before, rest.take());
                    if *framed {
                        self.task.client.keep_any_backlog(self.task.site.config.event_backlog);
                    }
                    self.finish_sending(bytes, rest)?;
                }
                Sending::File(filing) => {
                    ready!(filing.poll_send(context, &self.task.client.connection)).map_err(fault)?;
                    let bytes = filing.sent();
                    self.task.progress.sent(usize::try_from(bytes).unwrap_or(usize::MAX));
                    // One that was shorter than promised is found out where the response ends.
                    self.finish_sending(bytes, None)?;
                }
                Sending::Nothing => {
                    if std::mem::take(&mut self.feeds) {
                        // What its client has taken holds nothing.
                        self.outgoing.end_life();
                    }
                    return if self.is_over()? { Poll::Ready(Ok(())) } else { Poll::Pending };
                }
            }
        }
    }

    /// Tells the application of what the kernel has taken, and the log of a response that has begun.
    fn note_written(&mut self) {
        let written = self.outgoing.take_written();
        if written == 0 {
            return;
        }
        self.task.progress.sent(written);
        let head = usize::try_from(self.checker.head_bytes()).unwrap_or(usize::MAX);
        self.task.progress.set_head(head.saturating_add(self.added));
        if let Some(status) = self.checker.status() {
            self.task.progress.begin(status);
        }
        let count = written.min(self.owed);
        if count > 0 {
            self.owed -= count;
            self.near.sent(count);
        }
    }

    /// What can be sent at once of an exchange that the application has broken off, and then its end.
    fn break_off(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.obey()?;
        let sent = self.outgoing.poll_send(context, &self.task.client.connection);
        self.note_written();
        let sent = sent.map_err(fault)?;
        // Another protocol has an end of its own, and this is not it: the client is told by a reset.
        let is_whole = self.checker.is_complete() && !self.checker.has_switched();
        let is_nothing = self.task.progress.status().is_none();
        if is_nothing || (is_whole && sent.is_ready() && matches!(self.sending, Sending::Nothing)) {
            self.task.progress.close(true);
            return Ok(());
        }
        Err(Code::BadResponse.error("the application has broken the exchange off"))
    }

    /// Takes in commands; says when there will be no more.
    fn poll_commands(&mut self, context: &mut Context<'_>) -> Result<Option<Over>> {
        let own = context.waker();
        let (_, afar) = match &mut self.waker {
            Some(known) if known.0.will_wake(own) => known,
            place => place.insert((own.clone(), from_afar(own))),
        };
        let mut afar = Context::from_waker(afar);
        while self.over.is_none() {
            match self.near.poll_commands(&mut afar, &mut self.commands) {
                Poll::Ready(Ok(())) => self.patience = None,
                Poll::Ready(Err(over)) => self.over = Some(over),
                Poll::Pending => break,
            }
        }
        if self.patience.as_mut().is_some_and(|patience| patience.poll_expired(context).is_ready()) {
            self.patience = None;
            if self.queue.expire(self.place) {
                let limit = self.queue.limit().unwrap_or_default();
                let detail = format!("the application has not taken the request for {limit:?}");
                return Err(Code::AppBusy.error(detail));
            }
        }
        Ok(self.over)
    }

    /// Carries out commands up to one that takes time.
    fn obey(&mut self) -> Result<()> {
        while matches!(self.sending, Sending::Nothing) {
            let Some(command) = self.commands.pop_front() else { break };
            match command {
                Command::Write(content) => self.write(content)?,
                Command::FeedOn(line) => {
                    self.outgoing.begin_life(self.life);
                    self.outgoing.feed_on(line);
                    self.feeds = true;
                }
                Command::Attach(stream) => self.attach(stream)?,
                Command::Subscribe(subscription) => self.subscribe(subscription)?,
                Command::File(file) => self.attach_file(file)?,
                Command::Relay(order) => {
                    if self.announced.has_bytes() || self.checker.head_bytes() > 0 || !self.held.is_empty() {
                        let detail =
                            "a relay is ordered of a request with a body, or after its response has begun";
                        return Err(self.blame(Code::BadResponse.error(detail)));
                    }
                    self.order = Some(order);
                    return Ok(());
                }
                Command::Option(level, name, value) => {
                    // The application cannot be told; what it may ask for is chosen so that it succeeds.
                    let _ = self.task.client.connection.with_socket(|socket| {
                        socket.option(|socket| set_option(&*socket, level, name, value))
                    });
                }
                Command::Done => {
                    self.checker.finish().map_err(|error| self.blame(error))?;
                    self.done = true;
                }
                Command::Close => self.closing = true,
            }
        }
        Ok(())
    }

    fn write(&mut self, mut content: Content) -> Result<()> {
        let length = content.bytes().len();
        let (heads, had_status) = (self.checker.head_bytes(), self.checker.status().is_some());
        let sent = self.checker.feed(content.bytes()).map_err(|error| self.blame(error))?;
        if sent < length {
            // The body of a response to HEAD: the application goes on as if it were sent.
            self.near.sent(length - sent);
            if sent == 0 {
                return Ok(());
            }
            content.truncate(sent);
        }
        if self.checker.is_within_head() {
            self.held.push(content);
            return Ok(());
        }
        if let Some(hsts) = self.task.hsts().filter(|_| !had_status && self.checker.wants_hsts()) {
            let end = usize::try_from(self.checker.head_bytes() - heads).unwrap_or(usize::MAX);
            self.push_secured(&content, end, hsts);
            return Ok(());
        }
        for content in std::mem::take(&mut self.held) {
            self.push(content);
        }
        self.push(content);
        Ok(())
    }

    /// Sends what is held and `content`, of which the first `end` bytes end the head, with the field that tells of https.
    fn push_secured(&mut self, content: &Content, end: usize, hsts: &[u8]) {
        let mut head = Vec::with_capacity(1024);
        for content in std::mem::take(&mut self.held) {
            head.extend_from_slice(content.bytes());
        }
        let (last, rest) = content.bytes().split_at(end.min(content.bytes().len()));
        head.extend_from_slice(last);
        // The application has not written the field, and is told of its own bytes alone.
        self.owed += head.len();
        let before = head.len();
        // Before the empty line.
        head.truncate(before - 2);
        write_field(&mut head, HSTS, hsts);
        head.extend_from_slice(b"\r\n");
        self.added = head.len() - before;
        self.outgoing.push(Piece::Bytes(head));
        if !rest.is_empty() {
            self.push(Content::Bytes(rest.to_vec()));
        }
    }

    fn push(&mut self, content: Content) {
        self.owed += content.bytes().len();
        self.outgoing.push(match content {
            Content::Bytes(bytes) => Piece::Bytes(bytes),
            Content::Foreign(bytes) => Piece::Foreign(bytes),
        });
    }

    /// From here on the engine frames the body.
    fn attach(&mut self, attachment: Attachment) -> Result<()> {
        let Attachment { stream, rest: completion, policy, inspector, account: _ } = attachment;
        if completion.is_none() && self.checker.drops_body() {
            return self.finish_sending(0, None);
        }
        let framing = self.checker.rest().map_err(|error| self.blame(error))?;
        let framed = stream.is_framed() && !matches!(framing, BodyFraming::Length(_));
        if framed {
            self.task.client.keep_backlog(self.task.site.config.event_backlog);
        }
        let line = stream.line();
        let policy = policy.filter(|_| framed);
        let leave = policy.as_ref().map_or(Leave::Cancel, |policy| policy.leave.clone());
        let supply = if policy.is_none() && inspector.is_none() {
            stream.into()
        } else {
            let meter = Arc::clone(&self.task.site.supplies.meter);
            Supply::Source(Box::new(EventBody::new(stream.into(), policy, meter).inspected(inspector)))
        };
        let supply = if framed { self.task.followed(self.checker.status(), supply) } else { supply };
        match &completion {
            Some(_) => self.outgoing.attach(supply, framing),
            None => self.outgoing.attach_part(supply, framing),
        }
        self.send_attached(completion, framed, leave);
        self.outgoing.feed_on(line);
        Ok(())
    }

    /// From here on the body is a topic's, and the one task that follows that on this thread may write it to the client.
    fn subscribe(&mut self, subscription: Subscription) -> Result<()> {
        let Subscription { admitted, lease, rest } = subscription;
        let framing = self.checker.rest().map_err(|error| self.blame(error))?;
        let framed = !matches!(framing, BodyFraming::Length(_));
        if framed {
            self.task.client.keep_backlog(self.task.site.config.event_backlog);
        }
        let wire = self.task.wire(framing == BodyFraming::Chunked);
        let supply = Supply::Source(Box::new(admitted.seat(wire, lease)));
        let supply = self.task.followed(self.checker.status(), supply);
        self.outgoing.attach_framed(supply, framing);
        self.send_attached(Some(rest), framed, Leave::Cancel);
        self.task.site.note_resumable(self.life);
        Ok(())
    }

    /// Begins to send what has been attached to the outgoing message.
    fn send_attached(&mut self, rest: Option<Completion>, framed: bool, leave: Leave) {
        if rest.is_some() {
            // It may take hours.
            self.checker.leave_rest();
            self.commands.shrink_to_fit();
        }
        let before = self.outgoing.payload();
        self.sending = Sending::Stream { before, rest, framed, leave };
        // Only now does the response hold memory of the pool that others may need more.
        self.outgoing.begin_life(self.life);
    }

    /// From here on a file is sent, whose bytes do not pass the engine: only a framing by length or by the
    /// end of the connection will do.
    fn attach_file(&mut self, file: File) -> Result<()> {
        if self.checker.drops_body() {
            return self.finish_sending(0, None);
        }
        match self.checker.rest().map_err(|error| self.blame(error))? {
            BodyFraming::Length(length) if file.count <= length => {}
            BodyFraming::UntilClose => {}
            _ => {
                return Err(
                    self.blame(Code::BadResponse.error("a file does not fit the framing of its response"))
                );
            }
        }
        let limit = self.task.site.config.write_timeout;
        if self.task.client.connection.is_tls() {
            let detail = "a file cannot be sent past the encryption of the connection";
            return Err(self.blame(Code::FileFailed.error(detail)));
        }
        let duplicate = self.task.client.connection.with_socket(Socket::duplicate);
        let socket = duplicate.map_err(|error| {
            Code::FileFailed.error(format!("the client's socket could not be duplicated: {error}"))
        })?;
        let filing = Filing::new(file.descriptor, file.offset, file.count, socket, limit);
        self.sending = Sending::File(Box::new(filing));
        Ok(())
    }

    /// All of it is with the kernel.
    fn finish_sending(&mut self, bytes: u64, rest: Option<Completion>) -> Result<()> {
        self.sending = Sending::Nothing;
        self.checker.pass(bytes).map_err(|error| self.blame(error))?;
        let outcome = Outcome { bytes, begun: true, failure: None };
        match rest {
            None => self.near.report(outcome),
            Some(completion) => {
                self.checker.finish_rest().map_err(|error| self.blame(error))?;
                self.task.progress.set_payload(bytes);
                completion.tell(outcome);
            }
        }
        Ok(())
    }

    /// Whether there is nothing left to do. Everything that was written is with the kernel.
    fn is_over(&self) -> Result<bool> {
        if self.closing {
            self.task.progress.close(true);
            // An end that is the connection's must be told from this one.
            return match self.checker.rest() {
                Ok(BodyFraming::UntilClose) => {
                    Err(Code::BadResponse.error("the application has closed before the end of its response"))
                }
                _ => Ok(true),
            };
        }
        // A client that was not told to send its body does not send it.
        let unasked = self.announced.expects_continue && !self.checker.has_continued();
        if !self.done || !(self.over.is_some() || unasked) {
            return Ok(false);
        }
        if unasked || !self.checker.keeps_alive() {
            self.task.progress.close(true);
        }
        Ok(true)
    }

    /// Has the application hear of its mistake.
    fn blame(&self, error: Error) -> Error {
        let request = format!("{} {}", self.task.incoming.method(), shown(self.task.incoming.target()));
        self.queue.reports().fault(Fault { request: Some(request), error: error.clone(), is_relay: false });
        error
    }
}
