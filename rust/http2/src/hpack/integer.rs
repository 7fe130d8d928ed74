//! Integers whose first bits share a byte with what they are for (RFC 7541, section 5.1).

use super::Malformed;

/// More than any length or index here may be. It keeps a sum from overflowing.
const MOST: usize = 1 << 24;

/// Reads an integer whose first `bits` bits are the low ones of the byte at `at`, which it moves after it.
pub(super) fn decode(block: &[u8], at: &mut usize, bits: u32) -> Result<usize, Malformed> {
    let mask = (1usize << bits) - 1;
    let mut value = usize::from(*block.get(*at).ok_or(Malformed)?) & mask;
    *at += 1;
    if value < mask {
        return Ok(value);
    }
    let mut shift = 0;
    loop {
        let byte = usize::from(*block.get(*at).ok_or(Malformed)?);
        *at += 1;
        value += (byte & 0x7f) << shift;
        if value > MOST {
            return Err(Malformed);
        }
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        shift += 7;
        // A fourth byte is beyond `MOST`, unless it is empty.
        if shift > 21 {
            return Err(Malformed);
        }
    }
}

/// Appends an integer whose first `bits` bits share a byte with `flags`.
#[inline]
pub(super) fn encode(value: usize, bits: u32, flags: u8, block: &mut Vec<u8>) {
    let mask = (1usize << bits) - 1;
    if value < mask {
        block.push(flags | low(value));
    } else {
        block.push(flags | low(mask));
        encode_rest(value - mask, block);
    }
}

/// What is left of one that does not fit in the first byte.
fn encode_rest(mut value: usize, block: &mut Vec<u8>) {
    while value >= 0x80 {
        block.push(low(value & 0x7f) | 0x80);
        value >>= 7;
    }
    block.push(low(value));
}

fn low(value: usize) -> u8 {
    value.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 7541, appendix C.1.
    #[test]
    fn the_examples_of_the_specification_are_read_and_written() {
        for (value, bits, bytes) in
            [(10, 5, &[0b01010][..]), (1337, 5, &[0b11111, 0b1001_1010, 0b1010]), (42, 8, &[42])]
        {
            let (mut block, mut at) = (Vec::new(), 0);
            encode(value, bits, 0, &mut block);
            assert_eq!(block, bytes);
            assert_eq!((decode(bytes, &mut at, bits), at), (Ok(value), bytes.len()));
        }
    }

    #[test]
    fn one_that_never_ends_is_refused() {
        for bytes in [&[0x1f, 0x80, 0x80, 0x80, 0x80, 0][..], &[0x1f, 0xff, 0xff, 0xff, 0xff], &[0x1f], &[]] {
            assert_eq!(decode(bytes, &mut 0, 5), Err(Malformed), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in 0..MOST / 2, bits in 4u32..=7) {
            let (mut block, mut at) = (Vec::new(), 0);
            encode(value, bits, 0, &mut block);
            prop_assert_eq!((decode(&block, &mut at, bits), at), (Ok(value), block.len()));
        }
    }
}
