//! The Huffman code of HPACK (RFC 7541, appendix B). It is canonical, so that the lengths of its codes are all of it.

use super::Malformed;

/// Bits of the code of each byte, and of the end of a string, which no string contains.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];
const SYMBOLS: usize = 257;
const LONGEST: usize = 30;
/// Codes of at most so many bits are found at once: those of nearly all bytes that fields have.
const SHORT: u32 = 8;

#[derive(Debug)]
struct Code {
    /// By the next eight bits: the byte whose code they begin with, and its length; 0 if it is longer.
    short: [(u8, u8); 1 << SHORT],
    /// The first code of each length.
    first: [u32; LONGEST + 1],
    /// How many codes there are of each length.
    count: [u32; LONGEST + 1],
    /// Where they begin in `symbols`.
    start: [usize; LONGEST + 1],
    /// In the order of their codes.
    symbols: [u16; SYMBOLS],
}

static CODE: Code = Code::new();

impl Code {
    #[expect(clippy::cast_possible_truncation, reason = "a length is at most 30, and a symbol at most 256")]
    const fn new() -> Self {
        let mut code = Self {
            short: [(0, 0); 1 << SHORT],
            first: [0; LONGEST + 1],
            count: [0; LONGEST + 1],
            start: [0; LONGEST + 1],
            symbols: [0; SYMBOLS],
        };
        let (mut next, mut placed, mut length) = (0u32, 0, 1);
        while length <= LONGEST {
            next <<= 1;
            code.first[length] = next;
            code.start[length] = placed;
            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as usize == length {
                    code.symbols[placed] = symbol as u16;
                    if length <= SHORT as usize {
                        let spare = SHORT as usize - length;
                        let mut at = (next as usize) << spare;
                        while at < (next as usize + 1) << spare {
                            code.short[at] = (symbol as u8, length as u8);
                            at += 1;
                        }
                    }
                    code.count[length] += 1;
                    placed += 1;
                    next += 1;
                }
                symbol += 1;
            }
            length += 1;
        }
        code
    }
}

/// Appends what `text` stands for.
///
/// # Errors
/// It contains the end of a string, or is padded by other bits than the first ones of that (RFC 7541, section 5.2).
pub(super) fn decode(text: &[u8], bytes: &mut Vec<u8>) -> Result<(), Malformed> {
    // Of `bits` the low `has` are still to be decoded.
    let (mut bits, mut has) = (0u64, 0u32);
    let mut rest = text.iter();
    loop {
        while has <= 32 {
            let Some(byte) = rest.next() else { break };
            bits = bits << 8 | u64::from(*byte);
            has += 8;
        }
        let missing = SHORT.saturating_sub(has);
        // What is missing is padding: ones.
        let window = (bits << missing | ((1 << missing) - 1)) >> (has + missing - SHORT);
        let (byte, length) = CODE.short[usize::from(window.to_le_bytes()[0])];
        if length > 0 && u32::from(length) <= has {
            bytes.push(byte);
            has -= u32::from(length);
        } else if let Some((symbol, length)) = long(bits, has) {
            bytes.push(u8::try_from(symbol).map_err(|_| Malformed)?);
            has -= length;
        } else {
            let padding = (1 << has) - 1;
            return if has < 8 && bits & padding == padding { Ok(()) } else { Err(Malformed) };
        }
    }
}

/// The symbol whose code `bits` begin with, of the longer ones.
fn long(bits: u64, has: u32) -> Option<(u16, u32)> {
    (SHORT as usize + 1..=LONGEST).find_map(|at| {
        let length = u32::try_from(at).ok().filter(|length| *length <= has)?;
        let code = u32::try_from(bits >> (has - length) & ((1 << length) - 1)).ok()?;
        let place = code.checked_sub(CODE.first[at]).filter(|place| *place < CODE.count[at])?;
        Some((CODE.symbols[CODE.start[at] + place as usize], length))
    })
}

#[cfg(test)]
pub(super) fn encode(bytes: &[u8]) -> Vec<u8> {
    let (mut text, mut bits, mut has) = (Vec::new(), 0u64, 0);
    for byte in bytes {
        let length = usize::from(LENGTHS[usize::from(*byte)]);
        let of_length = &CODE.symbols[CODE.start[length]..][..CODE.count[length] as usize];
        let place = of_length.iter().position(|symbol| *symbol == u16::from(*byte)).unwrap();
        bits = bits << length | u64::from(CODE.first[length] + u32::try_from(place).unwrap());
        has += length;
        while has >= 8 {
            has -= 8;
            text.push((bits >> has).to_le_bytes()[0]);
        }
    }
    if has > 0 {
        text.push((bits << (8 - has)).to_le_bytes()[0] | (0xff >> has));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(text: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut bytes = Vec::new();
        decode(text, &mut bytes).map(|()| bytes)
    }

    /// RFC 7541, appendices C.4 and C.6.
    #[test]
    fn the_examples_of_the_specification_are_read() {
        for (text, bytes) in [
            (
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f], "custom-key"),
            (&[0x64, 0x02], "302"),
            (
                &[
                    0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81,
                    0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
                ],
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
        ] {
            assert_eq!(decoded(text), Ok(bytes.as_bytes().to_vec()));
            assert_eq!(encode(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn the_end_of_a_string_and_other_padding_are_refused() {
        assert_eq!(decoded(&[]), Ok(Vec::new()));
        // 30 ones, which is the end of a string, and two more.
        assert_eq!(decoded(&[0xff; 4]), Err(Malformed));
        // Padding of a whole byte.
        assert_eq!(decoded(&[0x64, 0x02, 0xff]), Err(Malformed));
        // "0" and zeros.
        assert_eq!(decoded(&[0b0000_0000]), Err(Malformed));
        assert_eq!(decoded(&[0b0000_0111]), Ok(b"0".to_vec()));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_as_it_was(bytes: Vec<u8>) {
            prop_assert_eq!(decoded(&encode(&bytes)), Ok(bytes));
        }

        #[test]
        fn what_is_read_is_written_as_it_was(text: Vec<u8>) {
            if let Ok(bytes) = decoded(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
