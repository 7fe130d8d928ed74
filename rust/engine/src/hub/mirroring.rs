//! A hub that follows the same hub of another process, or leads it: the task of a link.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Weak;

use tokio::io::{AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::ReadHalf;

use super::clock::now;
use super::link::message::{LONGEST, Message, Record};
use super::link::{Link, Stage, send};
use super::{Event, Hub};
use crate::codec::malformed;
use crate::error::Result;
use crate::framing::event::parse;
use crate::sync::Arc;

/// Bytes that are read at once (arbitrary).
const READ: usize = 64 << 10;

/// Serves `link` over `socket`, on the calling engine thread, until one of the two ends.
pub(super) async fn serve(hub: Weak<Hub>, link: Arc<Link>, socket: OwnedFd) {
    let socket = StdStream::from(socket);
    let stream = socket.set_nonblocking(true).and_then(|()| UnixStream::from_std(socket));
    if let Ok(mut stream) = stream {
        let (reader, writer) = stream.split();
        // Whichever ends, and why, there is nothing to mend: what has not come is asked for again, or published here.
        tokio::select! {
            _ = send(&link, writer) => {}
            _ = receive(&hub, &link, reader) => {}
        }
    }
    match hub.upgrade() {
        Some(hub) => hub.end_link(&link),
        None => drop(link.end()),
    }
}

/// Takes what comes, until the other process ends or says what it may not.
async fn receive(hub: &Weak<Hub>, link: &Arc<Link>, reader: ReadHalf<'_>) -> Result<()> {
    let mut reader = BufReader::with_capacity(READ, reader);
    let mut bytes = Vec::new();
    loop {
        let length = reader.read_u32_le().await.map_err(|_| malformed())?;
        let length =
            usize::try_from(length).ok().filter(|length| *length <= LONGEST).ok_or_else(malformed)?;
        bytes.resize(length, 0);
        reader.read_exact(&mut bytes).await.map_err(|_| malformed())?;
        let Some(hub) = hub.upgrade() else { return Ok(()) };
        take(link, &hub, Message::read(&bytes)?)?;
        if bytes.capacity() > READ {
            bytes = Vec::new();
        }
    }
}

/// Does what is said.
fn take(link: &Arc<Link>, hub: &Hub, message: Message<'_>) -> Result<()> {
    match message {
        Message::Ask { number, wish } => {
            let placed = |id| link.note_placed(id, number);
            // A process that leads no more is not answered: the other one does it itself, once it hears that it leads.
            if let Some(answer) = hub.fulfil_for(link, &wish, placed) {
                link.give(number, answer);
            }
            return Ok(());
        }
        Message::Leads => {
            link.pass(Stage::Follows);
            return Ok(());
        }
        _ if !hub.follows(link) => return Err(malformed()),
        Message::Begun { topic, floor, floor_name } => {
            hub.mirror(topic, |topic| topic.begin_at(floor, floor_name));
        }
        Message::Event { topic, record } => take_event(link, hub, topic, record)?,
        Message::Finished { topic } => hub.mirror(topic, |topic| topic.finish(now()).map(drop)),
        Message::Fed { topic, is_fed } => hub.mirror(topic, |topic| topic.set_fed_afar(is_fed).map(drop)),
        Message::Abandoned { topic } => hub.abandon(topic),
        Message::Answer { number, answer } => {
            link.take_answer(number, answer);
        }
        Message::InStep => link.pass(Stage::InStep),
        Message::Lead { last } => hub.begin_to_lead(link, last),
    }
    Ok(())
}

fn take_event(link: &Link, hub: &Hub, topic: &str, record: Record<'_>) -> Result<()> {
    let Record { after, id, key, age, named, asked, lines } = record;
    let read = parse(lines);
    if !read.dispatches() {
        return Err(malformed());
    }
    let text = |range| std::str::from_utf8(&lines[range]).map_err(|_| malformed());
    let data = read.data.joined(lines);
    let event = Event {
        data: &data,
        name: read.name.map(text).transpose()?,
        id: read.id.filter(|_| named).map(text).transpose()?,
        key,
        retry: read.retry,
        nameless: false,
    };
    hub.mirror_event(topic, (after, id), &event, now().saturating_sub(age));
    if let Some(number) = asked {
        link.take_answer(number, Ok(Some(id)));
    }
    Ok(())
}
