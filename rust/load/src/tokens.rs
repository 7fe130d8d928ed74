//! A session that asks for a completion and reads its tokens as they come, in the form of `OpenAI`'s API.

use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::client::{Ask, Client};
use crate::context::Context;
use crate::failure::Failure;
use crate::plan;
use crate::record::{Class, Timing};
use crate::sequence::Found;
use crate::session::{Session, watched};
use crate::stream::Events;

/// A session that reads tokens.
pub(crate) struct Completing<'a> {
    settings: &'a plan::Tokens,
    client: Client,
    session: &'a mut Session,
    tokens: u64,
}

impl<'a> Completing<'a> {
    pub(crate) fn new(context: &Rc<Context>, settings: &'a plan::Tokens, session: &'a mut Session) -> Self {
        Self { settings, client: Client::new(Rc::clone(context)), session, tokens: 0 }
    }

    /// Reads the tokens to the end, or leaves in the middle.
    pub(crate) async fn run(&mut self, context: &Context) {
        let leaves = self.session.random.uniform() < self.settings.leave;
        let after = self.session.leaves(self.settings.watch);
        let until = if leaves { after } else { self.session.due + Duration::from_secs(365 * 86400) };
        let ended = watched(until, pin!(self.read(context))).await;
        self.session.note_end(ended);
    }

    /// Takes the number of tokens into the record.
    pub(crate) fn finish(self) {
        self.session.record.events =
            Some(Found { received: self.tokens, unnumbered: self.tokens, ..Found::default() });
    }

    async fn read(&mut self, context: &Context) -> Result<(), Failure> {
        let url = context.place(&self.settings.path, self.session.title)?;
        let mut fields =
            vec![("accept", "text/event-stream".to_owned()), ("content-type", "application/json".to_owned())];
        if let Some(authorization) = &self.settings.authorization {
            fields.push(("authorization", authorization.clone()));
        }
        let due = self.session.due;
        let body = Some(self.settings.body.as_str());
        let ask = Ask {
            url: &url,
            class: Class::FirstToken,
            due,
            range: None,
            fields: &fields,
            body,
            keep: false,
            wanted: None,
        };
        let found = self.tokens(context, &ask).await;
        if let Err(failure) = &found {
            // A failure of the head has been recorded.
            if matches!(
                failure,
                Failure::Events(_)
                    | Failure::Idle
                    | Failure::Broken(_)
                    | Failure::CutOff
                    | Failure::NotHttp(_)
            ) {
                self.client.failed(Class::Token, failure);
            }
        }
        found
    }

    async fn tokens(&mut self, context: &Context, ask: &Ask<'_>) -> Result<(), Failure> {
        let Some(opened) = self.client.open(ask).await? else {
            return Err(Failure::Events("there was no body"));
        };
        let sent = opened.sent;
        let mut events = Events::new(opened, Duration::from_secs_f64(self.settings.idle));
        let mut before = None;
        while let Some(block) = events.next(context, &mut self.client).await? {
            if !block.event.dispatches() {
                continue;
            }
            let done = Instant::now();
            if block.event.data.joined(block.bytes).trim_ascii() == b"[DONE]" {
                return Ok(());
            }
            self.tokens += 1;
            let (class, due, sent) = match before {
                None => (Class::FirstToken, ask.due, sent),
                Some(before) => (Class::Token, before, before),
            };
            before = Some(done);
            let timing = Timing { due, sent, first: done, done };
            context.recorder.borrow_mut().response(class, timing, block.bytes.len() as u64);
        }
        Err(Failure::Events("the stream ended without [DONE]"))
    }
}
