//! What two processes that have a hub in common say to each other during an upgrade, over a stream socket: messages, each after
//! its length.
//!
//! One process leads: it gives the events their order. The other follows.
//!
//! ```text
//!   leader → follower    begun, event, finished, fed, abandoned    what is new of a topic
//!                        answer                                    to something that was asked for
//!                        in step                                   all that there was has been told
//!                        lead                                      the follower is the leader from now on
//!   follower → leader    ask                                       for an event, an end of a topic, or the right to feed one
//!                        leads                                     it leads
//! ```

use std::ops::Range;
use std::time::Duration;

use crate::codec::{Put, Take, malformed};
use crate::error::{Error, Result};
use crate::framing::event::parse;
use crate::hub::log::Kept;
use crate::hub::{Event, Id};

/// The limit of a message in bytes. An event that is longer is not told, and so is missing.
pub(in crate::hub) const LONGEST: usize = 16 << 20;

/// What a follower asks the leader for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct Wish {
    pub(in crate::hub) topic: String,
    pub(in crate::hub) deed: Deed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) enum Deed {
    Publish(Draft),
    Finish,
    /// A stream of the follower is to publish to the topic alone.
    BeginFeed,
    EndFeed,
    /// The topic is dropped.
    Abandon,
}

/// An event that is not published yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct Draft {
    data: Vec<u8>,
    name: Option<String>,
    id: Option<String>,
    key: Option<String>,
    retry: Option<u64>,
}

impl Draft {
    pub(in crate::hub) fn new(event: &Event<'_>) -> Self {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Self {
            data: event.data.to_vec(),
            name: text(event.name),
            id: text(event.id),
            key: text(event.key),
            retry: event.retry,
        }
    }

    /// What `kept` was made of; `None` for what no publisher could say.
    pub(in crate::hub) fn of(kept: &Kept<'_>) -> Option<Self> {
        let read = parse(kept.lines);
        let text = |range: Range<usize>| String::from_utf8(kept.lines[range].to_vec()).ok();
        read.dispatches().then(|| Self {
            data: read.data.joined(kept.lines).into_owned(),
            name: read.name.and_then(text),
            id: read.id.filter(|_| kept.named).and_then(text),
            key: kept.key.map(str::to_owned),
            retry: read.retry,
        })
    }

    pub(in crate::hub) fn event(&self) -> Event<'_> {
        Event {
            data: &self.data,
            name: self.name.as_deref(),
            id: self.id.as_deref(),
            key: self.key.as_deref(),
            retry: self.retry,
            nameless: false,
        }
    }
}

/// An event of the leader's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hub) struct Record<'a> {
    /// The id of the event before it.
    pub(in crate::hub) after: Id,
    pub(in crate::hub) id: Id,
    pub(in crate::hub) key: Option<&'a str>,
    /// Time since it was published.
    pub(in crate::hub) age: Duration,
    /// Its id on the wire is the publisher's.
    pub(in crate::hub) named: bool,
    /// What the follower has asked for, by its number, and gets with it.
    pub(in crate::hub) asked: Option<u64>,
    /// As it stands on the wire, without framing.
    pub(in crate::hub) lines: &'a [u8],
}

/// What is given to a wish: nothing, or the id of an event, which for the others says yes.
pub(in crate::hub) type Given = Option<Id>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) enum Message<'a> {
    Begun {
        topic: &'a str,
        floor: Id,
        floor_name: Option<&'a str>,
    },
    Event {
        topic: &'a str,
        record: Record<'a>,
    },
    Finished {
        topic: &'a str,
    },
    Fed {
        topic: &'a str,
        is_fed: bool,
    },
    Abandoned {
        topic: &'a str,
    },
    Answer {
        number: u64,
        answer: Result<Given>,
    },
    InStep,
    /// The highest id of the hub.
    Lead {
        last: Id,
    },
    Ask {
        number: u64,
        wish: Wish,
    },
    Leads,
}

const BEGUN: u8 = 1;
const EVENT: u8 = 2;
const FINISHED: u8 = 3;
const FED: u8 = 4;
const ABANDONED: u8 = 5;
const ANSWER: u8 = 6;
const IN_STEP: u8 = 7;
const LEAD: u8 = 8;
const ASK: u8 = 9;
const LEADS: u8 = 10;

const PUBLISH: u8 = 1;
const FINISH: u8 = 2;
const BEGIN_FEED: u8 = 3;
const END_FEED: u8 = 4;
const ABANDON: u8 = 5;

impl<'a> Message<'a> {
    /// Appends it to `bytes`, after its length.
    pub(in crate::hub) fn write(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        let mut put = Put(bytes);
        put.u32(0);
        match self {
            Self::Begun { topic, floor, floor_name } => {
                text(put.u8(BEGUN), topic);
                put_id(&mut put, *floor);
                put.option(*floor_name, text);
            }
            Self::Event { topic, record } => {
                text(put.u8(EVENT), topic);
                put_id(put_id(&mut put, record.after), record.id);
                put.option(record.key, text).duration(record.age).flag(record.named);
                put.option(record.asked, |put, number| put.u64(number)).rest(record.lines);
            }
            Self::Finished { topic } => drop(text(put.u8(FINISHED), topic)),
            Self::Fed { topic, is_fed } => drop(text(put.u8(FED).flag(*is_fed), topic)),
            Self::Abandoned { topic } => drop(text(put.u8(ABANDONED), topic)),
            Self::Answer { number, answer } => {
                put.u8(ANSWER).u64(*number).flag(answer.is_ok());
                match answer {
                    Ok(given) => drop(put.option(*given, put_id)),
                    Err(error) => drop(put.error(error)),
                }
            }
            Self::InStep => drop(put.u8(IN_STEP)),
            Self::Lead { last } => drop(put_id(put.u8(LEAD), *last)),
            Self::Ask { number, wish } => put_wish(put.u8(ASK).u64(*number), wish),
            Self::Leads => drop(put.u8(LEADS)),
        }
        let length = u32::try_from(bytes.len() - start - 4).unwrap_or(u32::MAX);
        bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Reads one, which came after its length.
    ///
    /// # Errors
    /// It is not a message.
    pub(in crate::hub) fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut take = Take(bytes);
        let message = match take.u8()? {
            BEGUN => Self::Begun {
                topic: take.text()?,
                floor: take_id(&mut take)?,
                floor_name: take.option(Take::text)?,
            },
            EVENT => Self::Event {
                topic: take.text()?,
                record: Record {
                    after: take_id(&mut take)?,
                    id: take_id(&mut take)?,
                    key: take.option(Take::text)?,
                    age: take.duration()?,
                    named: take.flag()?,
                    asked: take.option(Take::u64)?,
                    lines: take.rest(),
                },
            },
            FINISHED => Self::Finished { topic: take.text()? },
            FED => Self::Fed { is_fed: take.flag()?, topic: take.text()? },
            ABANDONED => Self::Abandoned { topic: take.text()? },
            ANSWER => {
                let (number, is_given) = (take.u64()?, take.flag()?);
                let answer = if is_given { Ok(take.option(take_id)?) } else { Err(take.error()?) };
                Self::Answer { number, answer }
            }
            IN_STEP => Self::InStep,
            LEAD => Self::Lead { last: take_id(&mut take)? },
            ASK => Self::Ask { number: take.u64()?, wish: take_wish(&mut take)? },
            LEADS => Self::Leads,
            _ => return Err(malformed()),
        };
        take.end()?;
        Ok(message)
    }
}

fn text<'p, 'b>(put: &'p mut Put<'b>, text: &str) -> &'p mut Put<'b> {
    put.bytes(text.as_bytes())
}

fn put_id<'p, 'b>(put: &'p mut Put<'b>, id: Id) -> &'p mut Put<'b> {
    match id {
        Id::Time { milliseconds, sequence } => put.u8(1).u64(milliseconds).u64(sequence),
        Id::Offset { partition, next } => put.u8(2).u32(partition).u64(next),
    }
}

fn take_id(take: &mut Take<'_>) -> Result<Id> {
    match take.u8()? {
        1 => Ok(Id::Time { milliseconds: take.u64()?, sequence: take.u64()? }),
        2 => Ok(Id::Offset { partition: take.u32()?, next: take.u64()? }),
        _ => Err(malformed()),
    }
}

fn put_wish(put: &mut Put<'_>, wish: &Wish) {
    text(put, &wish.topic);
    match &wish.deed {
        Deed::Publish(draft) => {
            put.u8(PUBLISH).bytes(&draft.data);
            for part in [&draft.name, &draft.id, &draft.key] {
                put.option(part.as_deref(), text);
            }
            put.option(draft.retry, |put, retry| put.u64(retry));
        }
        Deed::Finish => drop(put.u8(FINISH)),
        Deed::BeginFeed => drop(put.u8(BEGIN_FEED)),
        Deed::EndFeed => drop(put.u8(END_FEED)),
        Deed::Abandon => drop(put.u8(ABANDON)),
    }
}

fn take_wish(take: &mut Take<'_>) -> Result<Wish> {
    let topic = take.text()?.to_owned();
    let part = |take: &mut Take<'_>| Ok::<_, Error>(take.option(Take::text)?.map(str::to_owned));
    let deed = match take.u8()? {
        PUBLISH => Deed::Publish(Draft {
            data: take.bytes()?.to_vec(),
            name: part(take)?,
            id: part(take)?,
            key: part(take)?,
            retry: take.option(Take::u64)?,
        }),
        FINISH => Deed::Finish,
        BEGIN_FEED => Deed::BeginFeed,
        END_FEED => Deed::EndFeed,
        ABANDON => Deed::Abandon,
        _ => return Err(malformed()),
    };
    Ok(Wish { topic, deed })
}
