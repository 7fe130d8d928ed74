//! Says to the other process what was noted.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use tokio::io::AsyncWriteExt;
use tokio::net::unix::WriteHalf;

use super::message::{LONGEST, Message, Record};
use super::{Link, Stage, Word};
use crate::hub::Id;
use crate::hub::clock::now;
use crate::hub::topic::{News, Topic};
use crate::sync::{Arc, lock};

/// Bytes that are written at once, at least (arbitrary).
const BATCH: usize = 128 << 10;

/// What is to be said now.
struct Batch {
    topics: Vec<Arc<Topic>>,
    words: Vec<Word>,
    /// The messages that ask.
    wishes: Vec<u8>,
    turns_at: Option<Id>,
}

/// Says what is noted, until the link ends.
pub(in crate::hub) async fn send(link: &Link, mut writer: WriteHalf<'_>) -> io::Result<()> {
    let mut bytes = Vec::new();
    while let Some(batch) = poll_fn(|context| link.poll_batch(context)).await {
        for topic in &batch.topics {
            while !topic.tell_news(link.number, |news| link.write(topic, news, &mut bytes)) {
                writer.write_all(&bytes).await?;
                bytes.clear();
            }
        }
        for word in batch.words {
            link.write_word(word, &mut bytes);
        }
        if let Some(last) = batch.turns_at {
            Message::Lead { last }.write(&mut bytes);
        }
        bytes.extend(batch.wishes);
        writer.write_all(&bytes).await?;
        bytes.clear();
        bytes.shrink_to(BATCH * 2);
    }
    Ok(())
}

impl Link {
    /// What is to be said; `None` once the link has ended.
    fn poll_batch(&self, context: &Context<'_>) -> Poll<Option<Batch>> {
        let mut state = lock(&self.state);
        if state.stage == Stage::Ended {
            return Poll::Ready(None);
        }
        let turns_at = state.turns_at.take();
        if turns_at.is_some() {
            // Sent after the word that the other process leads, and before any other.
            state.may_ask = true;
        }
        let mut wishes = Vec::new();
        if state.may_ask {
            for (number, asked) in state.asked.range(state.unsent..) {
                Message::Ask { number: *number, wish: asked.wish.clone() }.write(&mut wishes);
            }
            state.unsent = state.next_number;
        }
        if state.changed.is_empty() && state.words.is_empty() && wishes.is_empty() && turns_at.is_none() {
            state.sender = Some(context.waker().clone());
            return Poll::Pending;
        }
        let topics = std::mem::take(&mut state.changed).into_values().collect();
        Poll::Ready(Some(Batch { topics, words: std::mem::take(&mut state.words), wishes, turns_at }))
    }

    /// Writes what is new of `topic` behind `bytes`. Whether there is room for more.
    fn write(&self, topic: &Topic, news: News<'_>, bytes: &mut Vec<u8>) -> bool {
        let topic = &topic.name;
        match news {
            News::Begun { floor, floor_name } => Message::Begun { topic, floor, floor_name }.write(bytes),
            News::Event(kept) => {
                let record = Record {
                    after: kept.after,
                    id: kept.id,
                    key: kept.key,
                    age: now().saturating_sub(kept.at),
                    named: kept.named,
                    asked: lock(&self.state).placed.remove(&kept.id),
                    lines: kept.lines,
                };
                if kept.lines.len() < LONGEST / 2 {
                    Message::Event { topic, record }.write(bytes);
                }
            }
            News::Finished => Message::Finished { topic }.write(bytes),
            News::Fed(is_fed) => Message::Fed { topic, is_fed }.write(bytes),
        }
        bytes.len() < BATCH
    }

    fn write_word(&self, word: Word, bytes: &mut Vec<u8>) {
        match word {
            Word::Answer(number, answer) => {
                if let Ok(Some(id)) = answer {
                    // Its event has left the history before it was told.
                    lock(&self.state).placed.remove(&id);
                }
                Message::Answer { number, answer }.write(bytes);
            }
            Word::Abandoned(topic) => Message::Abandoned { topic: &topic }.write(bytes),
            Word::InStep => {
                Message::InStep.write(bytes);
                self.pass(Stage::InStep);
            }
            Word::Leads => Message::Leads.write(bytes),
        }
    }
}
