//! What is said arrives as it was said, and what is no message is an error that costs nothing.

use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::super::message::{Message, PREFIX};
use super::super::rewritten;
use super::samples::{Sample, sample};
use crate::app::Ends;
use crate::error::Code;

/// The numbers of all kinds: 1 to this.
const KINDS: u8 = 34;

/// The kind and the rest of what was encoded, whose length is right.
fn taken_apart(encoded: &[u8]) -> (u8, &[u8]) {
    let (prefix, body) = encoded.split_first_chunk::<PREFIX>().unwrap();
    let [a, b, c, d, kind] = *prefix;
    assert_eq!(usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap(), body.len());
    (kind, body)
}

/// What `bytes` are as a message of `kind`, encoded anew.
fn again(kind: u8, bytes: &[u8]) -> Option<Vec<u8>> {
    let written = rewritten(kind, bytes).map_err(|error| error.code());
    assert!(matches!(written, Ok(_) | Err(Code::Internal)), "{written:?}");
    written.ok()
}

proptest! {
    #[test]
    fn every_message_arrives_as_it_was(sample in sample()) {
        let encoded = sample.encoded();
        let (kind, body) = taken_apart(&encoded);
        prop_assert!((1..=KINDS).contains(&kind));
        let decoded = Message::decode(kind, body).unwrap();
        sample.look(|message| assert_eq!(&decoded, message));
    }

    #[test]
    fn messages_stand_one_behind_the_other(samples in vec(sample(), 0..5)) {
        let mut all = Vec::new();
        for sample in &samples {
            sample.look(|message| message.encode(&mut all));
        }
        prop_assert_eq!(all, samples.iter().flat_map(Sample::encoded).collect::<Vec<_>>());
    }

    #[test]
    fn part_of_a_message_is_none(sample in sample()) {
        let encoded = sample.encoded();
        let (kind, body) = taken_apart(&encoded);
        for end in 0..body.len() {
            if let Some(again) = again(kind, &body[..end]) {
                prop_assert!(sample.is_open_ended(), "{end} bytes of {} were enough", body.len());
                prop_assert_eq!(&again[PREFIX..], &body[..end]);
            }
        }
    }

    #[test]
    fn more_than_a_message_is_none(sample in sample(), more in 0..=u8::MAX) {
        let encoded = sample.encoded();
        let (kind, body) = taken_apart(&encoded);
        let longer = [body, &[more]].concat();
        match again(kind, &longer) {
            None => {}
            Some(again) => {
                prop_assert!(sample.is_open_ended());
                prop_assert_eq!(&again[PREFIX..], longer);
            }
        }
    }

    #[test]
    fn any_bytes_are_one_message_or_none(kind: u8, bytes in vec(any::<u8>(), 0..80)) {
        if let Some(again) = again(kind, &bytes) {
            prop_assert_eq!(taken_apart(&again), (kind, bytes.as_slice()));
        }
    }

    #[test]
    fn a_message_with_one_byte_changed_is_another_or_none(sample in sample(), at: usize, byte: u8) {
        let encoded = sample.encoded();
        let (kind, body) = taken_apart(&encoded);
        prop_assume!(!body.is_empty());
        let mut changed = body.to_vec();
        changed[at % body.len()] = byte;
        if let Some(again) = again(kind, &changed) {
            prop_assert_eq!(&again[PREFIX..], changed);
        }
    }

    #[test]
    fn a_number_that_lies_costs_no_memory(sample in sample()) {
        let encoded = sample.encoded();
        let (kind, body) = taken_apart(&encoded);
        for at in 0..body.len().saturating_sub(3) {
            let mut lying = body.to_vec();
            lying[at..at + 4].fill(0xFF);
            let cost = allocation_counter::measure(|| drop(Message::decode(kind, &lying)));
            // A field of nothing takes eight bytes of a message and two numbers here, and a list has room for as many more.
            let most = 1024 + 8 * body.len() as u64;
            prop_assert!(cost.bytes_max <= most, "{} bytes for a message of {}", cost.bytes_max, body.len());
        }
    }
}

#[test]
fn numbers_of_no_kind_are_no_messages() {
    for kind in (0..=u8::MAX).filter(|kind| !(1..=KINDS).contains(kind)) {
        assert_eq!(Message::decode(kind, b"").unwrap_err().code(), Code::Internal);
    }
}

#[test]
fn the_failure_of_a_note_is_a_code_without_a_message() {
    // NOTE, no tenant, code 257, then the detail and the origin that an error would have.
    assert_eq!(again(34, &[0, 1, 1, 1, 0, 0, 0, 0, 0]), None);
}

/// Without a sample of its kind, none of the laws above is tried on a message.
#[test]
fn every_kind_has_a_sample() {
    let mut runner = TestRunner::deterministic();
    let samples = vec(sample(), 3000).new_tree(&mut runner).unwrap().current();
    let kinds: BTreeSet<u8> = samples.iter().map(|sample| taken_apart(&sample.encoded()).0).collect();
    assert_eq!(kinds, (1..=KINDS).collect());
}

#[test]
fn the_scope_of_an_address_arrives() {
    let scoped = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), 80, 5, 3));
    let ends = Ends { remote: Some(scoped), ..Ends::default() };
    let sample = Sample::Request { head: Vec::new(), flags: [false; 3], ends };
    let encoded = sample.encoded();
    let (kind, body) = taken_apart(&encoded);
    let Message::Request { ends, .. } = Message::decode(kind, body).unwrap() else {
        panic!("it was a request");
    };
    assert_eq!(ends.remote, Some(scoped));
}

#[test]
fn what_the_fuzzer_begins_with_are_messages() {
    let seeds =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/worker_message")).unwrap();
    for seed in seeds {
        let path = seed.unwrap().path();
        let said = std::fs::read(&path).unwrap();
        assert!(again(said[0], &said[1..]).is_some(), "{}", path.display());
    }
}
