//! What a plan is made of, and what the origin has.

use proptest::collection::vec;
use proptest::prelude::*;

use super::Unread;
use crate::wire::Fields;

/// Objects of the origin.
pub(super) const KEYS: usize = 2;
pub(super) const CLIENTS: usize = 5;

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) in_slices: bool,
    pub(super) unread: Unread,
    pub(super) steps: Vec<Step>,
}

/// Numbers of exchanges stand for one of those under way.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Ask {
        client: usize,
        key: usize,
        range: Option<(u64, u64)>,
    },
    Read(usize),
    Stall(usize),
    Leave(usize),
    /// The origin sends a head, with the length of the body or without.
    Head {
        exchange: usize,
        with_length: bool,
    },
    Body {
        exchange: usize,
        length: usize,
    },
    End(usize),
    Cut(usize),
    Change(usize),
    Purge {
        key: usize,
        kind: Kind,
        soft: bool,
    },
    Wait(u64),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Url,
    Prefix,
    Tag,
    All,
}

pub(super) fn plans() -> impl Strategy<Value = Plan> {
    let range = prop_oneof![3 => Just(None), 2 => (0..1800_u64, 1..2500_u64).prop_map(Some)];
    let key = prop_oneof![3 => Just(0_usize), 1 => Just(1)];
    let kind = prop_oneof![2 => Just(Kind::Url), 1 => Just(Kind::Prefix), 1 => Just(Kind::Tag), 1 => Just(Kind::All)];
    let step = prop_oneof![
        8 => (0..CLIENTS, key.clone(), range).prop_map(|(client, key, range)| Step::Ask { client, key, range }),
        2 => (0..CLIENTS).prop_map(Step::Read),
        2 => (0..CLIENTS).prop_map(Step::Stall),
        2 => (0..CLIENTS).prop_map(Step::Leave),
        7 => (any::<usize>(), prop::bool::weighted(0.8))
            .prop_map(|(exchange, with_length)| Step::Head { exchange, with_length }),
        6 => (any::<usize>(), 1..1500_usize).prop_map(|(exchange, length)| Step::Body { exchange, length }),
        5 => any::<usize>().prop_map(Step::End),
        1 => any::<usize>().prop_map(Step::Cut),
        2 => key.clone().prop_map(Step::Change),
        2 => (key, kind, any::<bool>()).prop_map(|(key, kind, soft)| Step::Purge { key, kind, soft }),
        3 => (1..2500_u64).prop_map(Step::Wait),
    ];
    let unread = prop_oneof![Just(Unread::Finish), Just(Unread::End), Just(Unread::Past(50))];
    (any::<bool>(), unread, vec(step, 1..120)).prop_map(|(in_slices, unread, steps)| Plan {
        in_slices,
        unread,
        steps,
    })
}

/// The bytes of a version.
pub(super) fn body(key: usize, version: usize) -> Vec<u8> {
    let length = 1500 + (version * 977 + key * 311) % 3000;
    let lines = (0..=length / 8).flat_map(|line| format!("{key}.{version:02}{line:03}\n").into_bytes());
    lines.take(length).collect()
}

pub(super) fn value<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    let named = |(other, _): &(&[u8], &[u8])| other.eq_ignore_ascii_case(name.as_bytes());
    fields.iter().find(named).and_then(|(_, value)| std::str::from_utf8(value).ok())
}

/// The first byte of `bytes=first-last`, and the one after the last.
pub(super) fn span(range: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().unwrap_or(usize::MAX));
    (first < length && first <= last).then(|| (first, last.saturating_add(1).min(length)))
}
