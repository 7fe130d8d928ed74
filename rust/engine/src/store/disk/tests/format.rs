use proptest::prelude::*;

use super::super::format::{BLOCK, PREFIX, VERSION, decode, encode, room, seal};
use super::*;

#[test]
fn what_is_written_comes_back() {
    let stored = segment();
    let (layout, bytes) = head(&stored, 3 * BLOCK + 1);
    assert_eq!(bytes.len(), 4096);
    assert_eq!(room(bytes.first_chunk().unwrap()), Some(4096));
    let (again, known) = decode(layout.name, &bytes, layout.size().unwrap()).expect("it is whole");
    assert_eq!(again, layout);
    assert_eq!((again.blocks(), again.block_length(2), again.block_length(3)), (4, 65536, 1));
    assert_eq!(known.key, key());
    assert_eq!(&*known.reason, b"Fine");
    assert_eq!(known.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(), ["live", "a b"]);
    assert_eq!(known.trailers, [(b"Digest".to_vec(), b"x".to_vec())]);
    let Stored { status, fields, control, freshness, validators, selection, content, is_invalid } =
        known.stored;
    assert_eq!((status, fields), (stored.status, stored.fields));
    assert_eq!((control, freshness), (stored.control, stored.freshness));
    assert_eq!((validators, selection), (stored.validators, stored.selection));
    assert_eq!((content, is_invalid), (stored.content, stored.is_invalid));
}

#[test]
fn a_part_comes_back_as_that_part() {
    let stored = part(100, 250, 1000);
    let (layout, bytes) = head(&stored, 150);
    let (again, known) = decode(layout.name, &bytes, layout.size().unwrap()).expect("it is whole");
    assert_eq!((again, known.stored.status), (layout, 200));
    let Content::Parts(spans, length) = known.stored.content else { panic!("it was a part") };
    assert_eq!((spans.iter().collect::<Vec<_>>(), length), (vec![Span::new(100, 250).unwrap()], Some(1000)));
}

#[test]
fn a_part_of_another_length_than_its_body_is_none() {
    let (layout, bytes) = head(&part(100, 250, 1000), 149);
    assert!(decode(layout.name, &bytes, layout.size().unwrap()).is_none());
}

#[test]
fn several_parts_are_not_one() {
    let mut stored = part(100, 250, 1000);
    let spans = [Span::new(0, 10).unwrap(), Span::new(20, 30).unwrap()];
    stored.content = Content::Parts(spans.into_iter().collect(), Some(1000));
    let known = Known { key: &key(), stored: &stored, reason: b"OK", tags: &[], trailers: &[] };
    assert!(encode(known, 7, 20, None).is_none());
}

#[test]
fn no_byte_of_a_head_can_change() {
    let (layout, bytes) = head(&segment(), 10);
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1 << (place % 8);
        assert!(decode(layout.name, &changed, layout.size().unwrap()).is_none(), "byte {place}");
    }
    for length in 0..bytes.len() {
        assert!(decode(layout.name, &bytes[..length], layout.size().unwrap()).is_none(), "{length} bytes");
    }
}

#[test]
fn a_file_of_another_size_is_none() {
    let (layout, bytes) = head(&segment(), 10);
    let size = layout.size().unwrap();
    for other in [0, size - 1, size + 1, u64::MAX] {
        assert!(decode(layout.name, &bytes, other).is_none(), "{other} in place of {size}");
    }
}

#[test]
fn a_file_under_another_name_is_none() {
    let (layout, bytes) = head(&segment(), 10);
    assert!(decode(layout.name + 1, &bytes, layout.size().unwrap()).is_none());
}

#[test]
fn an_update_keeps_the_room_or_does_not_fit() {
    let (layout, bytes) = head(&segment(), 10);
    let larger = |count| {
        let value = "v".repeat(count);
        let stored = stored(&[("Cache-Control", "max-age=60"), ("X-Long", &value)]);
        let known = Known { key: &key(), stored: &stored, reason: b"OK", tags: &[], trailers: &[] };
        encode(known, layout.name, 10, Some(layout.room))
    };
    let (again, changed) = larger(100).expect("it fits");
    assert_eq!((again, changed.len()), (layout, bytes.len()));
    assert!(larger(4096).is_none());
}

#[test]
fn a_block_in_another_place_does_not_have_its_sum() {
    let (layout, _) = head(&segment(), 3 * BLOCK);
    assert_ne!(layout.sum(0, b"bytes"), layout.sum(1, b"bytes"));
    let other = Layout { name: layout.name + 77, ..layout };
    assert_ne!(layout.sum(0, b"bytes"), other.sum(0, b"bytes"));
    let mut summing = layout.summing(2);
    summing.update(b"by");
    summing.update(b"tes");
    assert_eq!(summing.digest(), layout.sum(2, b"bytes"));
}

proptest! {
    #[test]
    fn anything_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(decode(7, &bytes, bytes.len() as u64).is_none());
    }

    /// Also with a right checksum, as if this version had written what it never writes.
    #[test]
    fn what_has_a_right_sum_is_read_without_a_panic(
        known in prop::collection::vec(any::<u8>(), 0..512),
        size in 0_u64..600,
        length in any::<u64>(),
    ) {
        let mut bytes = b"penstock".to_vec();
        let room = PREFIX + known.len();
        for number in [VERSION, size, room as u64, BLOCK, length, 7, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&known);
        seal(&mut bytes);
        let layout = Layout { name: 7, room: u32::try_from(room).unwrap(), length };
        if let Some(size) = layout.size() {
            drop(decode(7, &bytes, size));
        }
    }

    #[test]
    fn any_damage_of_a_block_is_found(
        mut bytes in prop::collection::vec(any::<u8>(), 1..2048),
        place in any::<prop::sample::Index>(),
        change in 1_u8..,
    ) {
        let (layout, _) = head(&segment(), bytes.len() as u64);
        let sum = layout.sum(0, &bytes);
        *place.get_mut(&mut bytes) ^= change;
        prop_assert_ne!(sum, layout.sum(0, &bytes));
    }
}
