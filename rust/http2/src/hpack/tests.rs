//! Sections of fields, as RFC 7541 has them, and as they come back.

use proptest::prelude::*;

use super::{Decoder, Encoder, Malformed, huffman, integer};

type Fields = Vec<(String, String)>;

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, Malformed> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut fields = Vec::new();
    decoder.decode(block, |name, value| fields.push((text(name), text(value)))).map(|()| fields)
}

fn fields(pairs: &[(&str, &str)]) -> Fields {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];

/// RFC 7541, appendices C.3 and C.4: three requests, without the Huffman code and with it.
#[test]
fn requests_of_one_connection_share_a_table() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let encoded = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, encoded] {
        let mut decoder = Decoder::new();
        let mut second = GET.to_vec();
        second.push(("cache-control", "no-cache"));
        let third = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ];
        let expected = [(&GET[..], 57), (&second, 110), (&third, 164)];
        for (block, (pairs, size)) in blocks.iter().zip(expected) {
            assert_eq!(decoded(&mut decoder, &bytes(block)), Ok(fields(pairs)));
            assert_eq!(decoder.table_size(), size);
        }
    }
}

/// RFC 7541, appendix C.5: a table of 256 bytes evicts.
#[test]
fn old_fields_give_way_to_new_ones() {
    let mut decoder = Decoder::new();
    let first = "3fe1 01 4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a \
                 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d";
    let date = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
    let location = ("location", "https://www.example.com");
    let expected = [(":status", "302"), ("cache-control", "private"), date, location];
    assert_eq!(decoded(&mut decoder, &bytes(first)), Ok(fields(&expected)));
    assert_eq!(decoder.table_size(), 222);
    let expected = [(":status", "307"), ("cache-control", "private"), date, location];
    assert_eq!(decoded(&mut decoder, &bytes("4803 3330 37c1 c0bf")), Ok(fields(&expected)));
    assert_eq!(decoder.table_size(), 222);
    // The first status has gone.
    assert_eq!(decoded(&mut decoder, &bytes("c2")), Err(Malformed));
}

#[test]
fn what_is_no_section_is_refused() {
    for (block, why) in [
        ("80", "the number 0"),
        ("be", "a number that is not known"),
        ("82 3f e1 1f", "a size after a field"),
        ("3f e2 1f", "a size of more than 4,096"),
        ("40", "a name that is not there"),
        ("40 01 61", "a value that is not there"),
        ("40 05 61", "a name that is cut short"),
        ("00 81 ff 00", "a string of padding alone that is encoded as a byte"),
        ("41", "a known name without a value"),
        ("7f ff ff ff ff ff", "a number that never ends"),
    ] {
        assert_eq!(decoded(&mut Decoder::new(), &bytes(block)), Err(Malformed), "{why}");
    }
}

#[test]
fn a_size_may_be_changed_twice_at_the_beginning() {
    let mut decoder = Decoder::new();
    decoded(&mut decoder, &bytes("400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65")).unwrap();
    assert_eq!(decoded(&mut decoder, &bytes("20 3fe1 1f be")), Err(Malformed));
    assert_eq!(decoder.table_size(), 0);
}

#[test]
fn a_field_larger_than_the_table_empties_it() {
    let mut decoder = Decoder::new();
    let mut block = bytes("4001 6101 62");
    block.push(0x40);
    for text in ["x", &"y".repeat(5000)] {
        integer::encode(text.len(), 7, 0, &mut block);
        block.extend(text.bytes());
    }
    assert_eq!(decoded(&mut decoder, &block).unwrap().len(), 2);
    assert_eq!(decoder.table_size(), 0);
}

/// Fields, how each is written: with a table, by the Huffman code, or neither.
fn written(fields: &[(String, String, bool, bool)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value, is_kept, is_encoded) in fields {
        block.push(if *is_kept { 0x40 } else { 0 });
        for text in [name, value] {
            let text = if *is_encoded { huffman::encode(text.as_bytes()) } else { text.clone().into_bytes() };
            integer::encode(text.len(), 7, if *is_encoded { 0x80 } else { 0 }, &mut block);
            block.extend(text);
        }
    }
    block
}

proptest! {
    #[test]
    fn what_is_sent_is_read(sections in prop::collection::vec(prop::collection::vec(("[a-z-]{1,80}", "[ -~]{0,300}"), 0..8), 1..4)) {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::new());
        for section in sections {
            let mut block = Vec::new();
            encoder.begin(&mut block);
            Encoder::status(b"418", &mut block);
            for (name, value) in &section {
                Encoder::field(name.to_ascii_uppercase().as_bytes(), value.as_bytes(), &mut block);
            }
            let mut expected = fields(&[(":status", "418")]);
            expected.extend(section);
            prop_assert_eq!(decoded(&mut decoder, &block), Ok(expected));
        }
    }

    #[test]
    fn every_way_to_write_a_field_is_read(section in prop::collection::vec(("[ -~]{0,40}", "[ -~]{0,600}", any::<bool>(), any::<bool>()), 0..20)) {
        let mut decoder = Decoder::new();
        let expected: Fields = section.iter().map(|(name, value, ..)| (name.clone(), value.clone())).collect();
        prop_assert_eq!(decoded(&mut decoder, &written(&section)), Ok(expected));
        prop_assert!(decoder.table_size() <= 4096);
    }

    #[test]
    fn any_bytes_are_a_section_or_none(block: Vec<u8>) {
        let mut decoder = Decoder::new();
        let _ = decoded(&mut decoder, &block);
        prop_assert!(decoder.table_size() <= 4096);
    }
}

#[test]
fn what_is_secret_is_kept_by_nothing_on_the_way() {
    let first = |name: &str| {
        let mut block = Vec::new();
        Encoder::field(name.as_bytes(), b"value", &mut block);
        block[0] & 0xf0
    };
    for name in ["authorization", "Cookie", "proxy-authorization", "Set-Cookie"] {
        assert_eq!(first(name), 0x10, "{name}");
    }
    for name in ["content-type", "Date", "x-unknown"] {
        assert_eq!(first(name), 0, "{name}");
    }
}
