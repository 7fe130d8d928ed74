//! The messages: each is read as it was written, other bytes are refused, and what an older build reads does not change.

use proptest::prelude::*;

use super::message::{Deed, Draft, LONGEST, Message, Record, Wish};
use crate::error::{Code, Error};
use crate::hub::{Event, Id};

/// As it goes over the socket.
fn written(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    bytes
}

const ID: Id = Id::Time { milliseconds: 7, sequence: 8 };

fn draft() -> Draft {
    Draft::new(&Event {
        data: b"d",
        name: Some("n"),
        id: None,
        key: Some("k"),
        retry: Some(3),
        nameless: false,
    })
}

fn error() -> Error {
    Code::TopicFinished.error("over")
}

fn every() -> Vec<(&'static str, Message<'static>)> {
    let record = Record {
        after: Id::default(),
        id: ID,
        key: Some("k"),
        age: std::time::Duration::new(1, 2),
        named: true,
        asked: Some(9),
        lines: b"id: x\ndata: d\n\n",
    };
    let ask = |deed| Message::Ask { number: 1, wish: Wish { topic: "t".to_owned(), deed } };
    vec![
        ("begun", Message::Begun { topic: "t", floor: ID, floor_name: Some("f") }),
        ("event", Message::Event { topic: "t", record }),
        ("finished", Message::Finished { topic: "t" }),
        ("fed", Message::Fed { topic: "t", is_fed: true }),
        ("abandoned", Message::Abandoned { topic: "t" }),
        ("given", Message::Answer { number: 1, answer: Ok(Some(ID)) }),
        ("not_given", Message::Answer { number: 1, answer: Ok(None) }),
        ("failed", Message::Answer { number: 1, answer: Err(error()) }),
        ("in_step", Message::InStep),
        ("lead", Message::Lead { last: Id::Offset { partition: 1, next: 2 } }),
        ("publish", ask(Deed::Publish(draft()))),
        ("finish", ask(Deed::Finish)),
        ("begin_feed", ask(Deed::BeginFeed)),
        ("end_feed", ask(Deed::EndFeed)),
        ("abandon", ask(Deed::Abandon)),
        ("leads", Message::Leads),
    ]
}

#[test]
fn each_message_is_read_as_it_was_written_and_no_part_of_it_is_a_message() {
    for (name, message) in every() {
        let bytes = written(&message);
        assert_eq!(bytes[..4], u32::try_from(bytes.len() - 4).unwrap().to_le_bytes(), "{name}");
        assert_eq!(Message::read(&bytes[4..]).unwrap(), message, "{name}");
        if name != "event" {
            for end in 4..bytes.len() {
                assert!(Message::read(&bytes[4..end]).is_err(), "{name}, {end} bytes");
            }
            let longer: Vec<_> = bytes[4..].iter().copied().chain([0]).collect();
            assert!(Message::read(&longer).is_err(), "{name}");
        }
    }
}

/// What a build of before has written, and one of later reads.
#[test]
fn the_messages_are_those_of_the_golden_file() {
    let golden = include_str!("golden.txt");
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let rows: Vec<_> =
        every().iter().map(|(name, message)| format!("{name} {}", hex(&written(message)))).collect();
    assert_eq!(golden.lines().collect::<Vec<_>>(), rows);
}

proptest! {
    #[test]
    fn other_bytes_are_no_message_and_cost_nothing_but_their_length(
        kind in 0..12u8, bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes: Vec<_> = [kind].into_iter().chain(bytes).collect();
        if let Ok(message) = Message::read(&bytes) {
            prop_assert_eq!(&written(&message)[4..], &bytes[..]);
        }
        prop_assert!(bytes.len() < LONGEST);
    }

    #[test]
    fn an_event_is_read_as_it_was_drafted(
        data in prop::collection::vec(any::<u8>(), 0..100),
        name in prop::option::of("[a-z]{1,9}"),
        id in prop::option::of("\\PC{1,9}"),
        key in prop::option::of("[^\r\n\0]{1,9}"),
        retry: Option<u64>,
    ) {
        let event = Event {
            data: &data, name: name.as_deref(), id: id.as_deref(), key: key.as_deref(), retry, nameless: false,
        };
        let wish = Wish { topic: "t".to_owned(), deed: Deed::Publish(Draft::new(&event)) };
        let bytes = written(&Message::Ask { number: 5, wish });
        let Ok(Message::Ask { number: 5, wish: Wish { deed: Deed::Publish(draft), .. } }) = Message::read(&bytes[4..])
        else {
            return Err(TestCaseError::fail("not what was asked"));
        };
        let read = draft.event();
        prop_assert_eq!((read.data, read.name, read.id, read.key, read.retry), (event.data, event.name, event.id, event.key, event.retry));
    }
}
