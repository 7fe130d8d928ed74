//! Where an event stands in the order of its topic: milliseconds since the epoch and a number within them, written `ms-seq` as
//! Redis Streams do, or a place in a partition of Kafka, written `partition:offset`.
//!
//! [`Ids`] gives those of the first kind out for a hub. The invariant: each is above all before, whatever the machine's clock
//! does.

use std::fmt;
use std::str::FromStr;

use crate::sync::{Mutex, lock};

/// The place of an event in the order of its topic, whose ids are all of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// In the order of all of a hub, or of a log that numbers events by the time.
    Time {
        /// Since the epoch.
        milliseconds: u64,
        /// Among those of one millisecond.
        sequence: u64,
    },
    /// In a log that counts, and in which places can be empty.
    Offset {
        /// Of several logs of one name.
        partition: u32,
        /// One above the offset, so that there is a place before all others.
        next: u64,
    },
}

impl Id {
    /// The least that is above this one.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Time { milliseconds, sequence } => match sequence.checked_add(1) {
                Some(sequence) => Self::Time { milliseconds, sequence },
                None => Self::Time { milliseconds: milliseconds.saturating_add(1), sequence: 0 },
            },
            Self::Offset { partition, next } => Self::Offset { partition, next: next.saturating_add(1) },
        }
    }
}

impl Default for Id {
    /// The place of a topic that nothing was published to.
    fn default() -> Self {
        Self::Time { milliseconds: 0, sequence: 0 }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time { milliseconds, sequence } => write!(f, "{milliseconds}-{sequence}"),
            Self::Offset { partition, next } => match next.checked_sub(1) {
                Some(offset) => write!(f, "{partition}:{offset}"),
                None => write!(f, "{partition}:-1"),
            },
        }
    }
}

/// A text is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoId;

impl FromStr for Id {
    type Err = NoId;

    /// As [`Id`] writes it and in no other way, so that two texts are never one id.
    fn from_str(text: &str) -> Result<Self, NoId> {
        if let Some((partition, offset)) = text.split_once(':') {
            let partition = u32::try_from(number(partition)?).map_err(|_| NoId)?;
            let next = if offset == "-1" { 0 } else { number(offset)?.checked_add(1).ok_or(NoId)? };
            return Ok(Self::Offset { partition, next });
        }
        let (milliseconds, sequence) = text.split_once('-').ok_or(NoId)?;
        Ok(Self::Time { milliseconds: number(milliseconds)?, sequence: number(sequence)? })
    }
}

fn number(digits: &str) -> Result<u64, NoId> {
    // A sign would be parsed as well, and leading zeros would be a second way to write a number.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || digits.len() > 1 && digits.starts_with('0') {
        return Err(NoId);
    }
    digits.parse().map_err(|_| NoId)
}

/// Gives ids out.
#[derive(Debug, Default)]
pub(super) struct Ids(Mutex<Id>);

impl Ids {
    /// The next one, at `milliseconds` since the epoch, and above `other`.
    pub(super) fn next(&self, milliseconds: u64, other: Id) -> Id {
        let mut last = lock(&self.0);
        let now = Id::Time { milliseconds, sequence: 0 };
        *last = now.max(last.next()).max(other.next());
        *last
    }

    /// The last one.
    pub(super) fn last(&self) -> Id {
        *lock(&self.0)
    }

    /// Another process has given `id` out: the next ones are above it.
    pub(super) fn raise(&self, id: Id) {
        let mut last = lock(&self.0);
        *last = id.max(*last);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(milliseconds: u64, sequence: u64) -> Id {
        Id::Time { milliseconds, sequence }
    }

    fn offset(partition: u32, next: u64) -> Id {
        Id::Offset { partition, next }
    }

    #[test]
    fn ids_rise_when_the_clock_stands_still_goes_back_or_is_behind_others() {
        let ids = Ids::default();
        assert_eq!(ids.next(7, Id::default()), id(7, 0));
        assert_eq!(ids.next(7, Id::default()), id(7, 1));
        assert_eq!(ids.next(3, Id::default()), id(7, 2));
        assert_eq!(ids.next(8, id(9, 4)), id(9, 5));
        assert_eq!(ids.next(9, id(20, u64::MAX)), id(21, 0));
        assert_eq!(ids.next(9, Id::default()), id(21, 1));
    }

    #[test]
    fn what_is_written_otherwise_is_no_id() {
        let wrong =
            ["", "-", "1", "1-", "-1", "+1-0", "1-+0", "01-0", "1-00", "1-0 ", " 1-0", "1-0-0", "1_0", "a-0"];
        let wrong_offsets = [
            ":",
            "1:",
            ":1",
            "1:-2",
            "1:-0",
            "1:+1",
            "01:1",
            "1:01",
            "-1:1",
            "1:1:1",
            "1:1-1",
            "4294967296:0",
        ];
        for text in wrong.into_iter().chain(wrong_offsets) {
            assert_eq!(text.parse::<Id>(), Err(NoId), "{text}");
        }
        assert_eq!("18446744073709551616-0".parse::<Id>(), Err(NoId));
        assert_eq!("18446744073709551615-0".parse::<Id>(), Ok(id(u64::MAX, 0)));
        assert_eq!("0-0".parse::<Id>(), Ok(Id::default()));
        assert_eq!("0:18446744073709551615".parse::<Id>(), Err(NoId));
        assert_eq!("4294967295:18446744073709551614".parse::<Id>(), Ok(offset(u32::MAX, u64::MAX)));
        assert_eq!("3:-1".parse::<Id>(), Ok(offset(3, 0)));
        assert_eq!("3:0".parse::<Id>(), Ok(offset(3, 1)));
    }

    proptest! {
        #[test]
        fn an_id_is_what_it_is_written_as(milliseconds: u64, sequence: u64) {
            let id = id(milliseconds, sequence);
            prop_assert_eq!(id.to_string().parse::<Id>(), Ok(id));
        }

        #[test]
        fn so_is_an_offset_and_its_order_is_that_of_its_numbers(partition: u32, next: u64, other: u64) {
            prop_assert_eq!(offset(partition, next).to_string().parse::<Id>(), Ok(offset(partition, next)));
            prop_assert_eq!(offset(partition, next).cmp(&offset(partition, other)), next.cmp(&other));
        }

        #[test]
        fn a_text_is_an_id_if_the_id_writes_it_so(text in "[0-9+:-]{0,12}") {
            if let Ok(id) = text.parse::<Id>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
