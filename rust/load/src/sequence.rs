//! Whether the events of a stream are complete: each number once, in order, without a gap.

use std::collections::BTreeSet;

use serde::Serialize;

/// Numbers that are missing are remembered up to so many, to tell a late event from a repeated one.
const REMEMBERED: usize = 65_536;

/// What was found so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Events.
    pub received: u64,
    /// Events without a number, which cannot be checked.
    pub unnumbered: u64,
    /// Times that numbers were left out. One that comes late closes the gap that it fills.
    pub gaps: u64,
    /// Numbers that were left out and did not come.
    pub missing: u64,
    /// Events that came again.
    pub repeats: u64,
    /// Events that came after a later one.
    pub reordered: u64,
    /// Gaps that the server announced.
    pub announced: u64,
    /// Connections after the first.
    pub reconnects: u64,
}

/// Checks the numbers of one stream.
#[derive(Debug, Default)]
pub struct Sequence {
    last: Option<u64>,
    missing: BTreeSet<u64>,
    found: Found,
}

impl Sequence {
    /// An event came. The first number is the base of the others.
    pub fn event(&mut self, number: Option<u64>) {
        self.found.received += 1;
        let Some(number) = number else {
            self.found.unnumbered += 1;
            return;
        };
        let Some(last) = self.last else {
            self.last = Some(number);
            return;
        };
        if number <= last {
            self.late(number);
            return;
        }
        self.last = Some(number);
        let left_out = number - last - 1;
        if left_out == 0 {
            return;
        }
        self.found.gaps += 1;
        self.found.missing += left_out;
        let room = REMEMBERED - self.missing.len().min(REMEMBERED);
        self.missing.extend((last + 1..number).take(room));
    }

    fn late(&mut self, number: u64) {
        if !self.missing.remove(&number) {
            self.found.repeats += 1;
            return;
        }
        self.found.reordered += 1;
        self.found.missing -= 1;
        let beside = |other: Option<u64>| other.is_some_and(|other| self.missing.contains(&other));
        match (beside(number.checked_sub(1)), beside(number.checked_add(1))) {
            (false, false) => self.found.gaps -= 1,
            (true, true) => self.found.gaps += 1,
            _ => {}
        }
    }

    /// The server said that events are missing: the next number is a base again.
    pub fn announced(&mut self) {
        self.found.announced += 1;
        self.last = None;
    }

    /// The stream was connected again.
    pub fn reconnected(&mut self) {
        self.found.reconnects += 1;
    }

    /// What was found so far.
    pub fn found(&self) -> Found {
        self.found
    }
}

/// The number that an id ends with.
pub fn number_of_id(id: &[u8]) -> Option<u64> {
    let digits = id.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&id[id.len() - digits..]).ok()?.parse().ok()
}

/// The text of the number after a key of an object of JSON. The first place counts; a key within a text is taken for one.
pub fn number_of_key<'a>(data: &'a [u8], key: &str) -> Option<&'a str> {
    let mut rest = data;
    let after = loop {
        let quote = rest.iter().position(|byte| *byte == b'"')?;
        rest = &rest[quote + 1..];
        let named = rest.strip_prefix(key.as_bytes()).and_then(|rest| rest.strip_prefix(b"\""));
        if let Some(after) = named {
            break after;
        }
    };
    let value = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E');
    let end = value.iter().position(|byte| !is_part(byte)).unwrap_or(value.len());
    std::str::from_utf8(&value[..end]).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(numbers: impl IntoIterator<Item = u64>) -> Found {
        let mut sequence = Sequence::default();
        for number in numbers {
            sequence.event(Some(number));
        }
        sequence.found()
    }

    #[test]
    fn a_whole_stream_has_no_fault() {
        assert_eq!(found(17..10_017), Found { received: 10_000, ..Found::default() });
    }

    #[test]
    fn each_kind_of_fault_is_one() {
        let dropped = found((0..10_000).filter(|number| *number != 5000));
        assert_eq!(dropped, Found { received: 9999, gaps: 1, missing: 1, ..Found::default() });
        let repeated = found((0..10_000).flat_map(|number| vec![number; if number == 5000 { 2 } else { 1 }]));
        assert_eq!(repeated, Found { received: 10_001, repeats: 1, ..Found::default() });
        let mut swapped: Vec<u64> = (0..10_000).collect();
        swapped.swap(5000, 5001);
        assert_eq!(found(swapped), Found { received: 10_000, reordered: 1, ..Found::default() });
    }

    #[test]
    fn an_announced_gap_is_no_other() {
        let mut sequence = Sequence::default();
        sequence.event(Some(1));
        sequence.announced();
        sequence.event(Some(100));
        sequence.event(Some(101));
        assert_eq!(sequence.found(), Found { received: 3, announced: 1, ..Found::default() });
    }

    #[test]
    fn numbers_are_found_in_ids_and_in_data() {
        assert_eq!(number_of_id(b"topic-0042"), Some(42));
        assert_eq!(number_of_id(b"x"), None);
        assert_eq!(number_of_key(br#"{"a": 1, "n" : 17,"t":1.5e3}"#, "n"), Some("17"));
        assert_eq!(number_of_key(br#"{"t":1.5e3}"#, "t"), Some("1.5e3"));
        assert_eq!(number_of_key(br#"{"t":"x"}"#, "t"), None);
        assert_eq!(number_of_key(b"{}", "t"), None);
    }

    proptest! {
        /// Whatever the order, what did not come is missing, and what came twice is repeated.
        #[test]
        fn counts_are_those_of_sets(numbers in proptest::collection::vec(0u64..60, 1..80)) {
            let result = found(numbers.iter().copied());
            let (base, highest) = (numbers[0], numbers.iter().copied().max().unwrap());
            let seen: BTreeSet<u64> = numbers.iter().copied().filter(|number| *number >= base).collect();
            prop_assert_eq!(result.missing, highest - base + 1 - seen.len() as u64);
            let distinct: BTreeSet<u64> = seen.clone();
            prop_assert_eq!(result.repeats, (numbers.len() - distinct.len()) as u64);
            let holes = (base..=highest).filter(|number| !seen.contains(number) && seen.contains(&(number - 1))).count();
            prop_assert_eq!(result.gaps, holes as u64);
        }
    }
}
