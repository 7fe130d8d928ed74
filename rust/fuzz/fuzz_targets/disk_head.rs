//! The head of a file of the cache's disk: whatever its bytes are, reading it does not fail otherwise than by giving nothing,
//! what is given lies within the file, and is written again as what it was read from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_engine::store::format::{
    BLOCK, Head, Known, Layout, MAGIC, PREFIX, VERSION, decode, encode, room, seal,
};

const NAME: u64 = 7;

fuzz_target!(|input: &[u8]| {
    if let Some(prefix) = input.first_chunk() {
        assert!(room(prefix).is_none_or(|room| room >= PREFIX));
    }
    // The sum is one that no fuzzer guesses.
    assert!(decode(NAME, input, input.len() as u64).is_none());

    let Some((length, known)) = input.split_first_chunk() else { return };
    let length = u64::from_le_bytes(*length);
    let head = sealed(known, length);
    let layout = Layout { name: NAME, room: u32::try_from(head.len()).expect("an input is short"), length };
    let Some(size) = layout.size() else {
        assert!(decode(NAME, &head, u64::MAX).is_none(), "no file is so long");
        return;
    };
    let found = decode(NAME, &head, size);
    for other in [size - 1, size + 1] {
        assert!(decode(NAME, &head, other).is_none(), "of another length");
    }
    let Some((found, first)) = found else { return };
    assert_eq!(found, layout);
    for block in [0, found.blocks().saturating_sub(1)] {
        assert!(found.block_place(block) + found.block_length(block) as u64 <= found.sums_place());
    }
    assert!(found.sums_place() <= size);

    let (written, bytes) = encode(known_of(&first), NAME, length, None).expect("it has been in a head");
    // With the room for more that a head has, the file may be longer than can be.
    let Some(size) = written.size() else { return };
    let (again, second) = decode(NAME, &bytes, size).expect("it is as it was written");
    assert_eq!((again, format!("{second:?}")), (written, format!("{first:?}")));
    let (_, bytes_again) = encode(known_of(&second), NAME, length, Some(written.room)).expect("it fits");
    assert!(bytes == bytes_again);
});

/// A head with a right sum that says `known`.
fn sealed(known: &[u8], length: u64) -> Vec<u8> {
    let size = PREFIX + known.len();
    let mut head = MAGIC.to_vec();
    for number in [VERSION, known.len() as u64, size as u64, BLOCK, length, NAME, 0] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.extend_from_slice(known);
    seal(&mut head);
    head
}

fn known_of(head: &Head) -> Known<'_> {
    let Head { key, stored, reason, tags, trailers } = head;
    Known { key, stored, reason, tags, trailers }
}
