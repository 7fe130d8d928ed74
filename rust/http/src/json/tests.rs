//! Which texts are JSON, compared with `serde_json`.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::Json;

fn is_json(text: &[u8]) -> bool {
    Json::read(text).is_some()
}

#[test]
fn what_is_json_is_read() {
    for text in [
        "null",
        " true ",
        "false",
        "0",
        "-0",
        "10",
        "-1.5e+10",
        "0.1E-2",
        "1e999",
        "\"\"",
        "\"\\u00e9\\\"\\/\\b\"",
        "[]",
        "[ ]",
        "[1,2]",
        "[[],{}]",
        "{}",
        "{ }",
        "{\"a\":1}",
        "{ \"a\" : [ 1 , { } ] , \"b\" : null }\n",
        "{\"\":{\"\":0}}",
        "\"\u{7f}\u{e9}\u{1f600}\"",
        "\"\\ud83d\\ude00\"",
    ] {
        assert!(is_json(text.as_bytes()), "{text}");
    }
}

#[test]
fn what_is_no_json_is_not() {
    for text in [
        "",
        " ",
        "nul",
        "nulls",
        "True",
        "01",
        "1e999e9",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "-",
        "NaN",
        "Infinity",
        "\"",
        "\"\n\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "'a'",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "}",
        "{]",
        "[}",
        "{1:2}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\":1 \"b\":2}",
        "{\"a\" 1}",
        "{a:1}",
        "1 2",
        "{}{}",
        "// x\n1",
        "\u{feff}1",
        "\u{a0}1",
    ] {
        assert!(!is_json(text.as_bytes()), "{text}");
        assert!(serde_json::from_str::<Value>(text).is_err(), "the test is wrong about {text}");
    }
    assert!(!is_json(b"\"\xff\""), "no UTF-8");
}

#[test]
fn nesting_has_a_bound() {
    let nested = |depth: usize| format!("{}0{}", "[".repeat(depth), "]".repeat(depth));
    assert!(is_json(nested(128).as_bytes()));
    assert!(!is_json(nested(129).as_bytes()));
    // The limit is on depth, not on length.
    assert!(is_json(format!("[{}[]]", "[[]],".repeat(1000)).as_bytes()));
}

#[test]
fn the_last_member_of_a_name_counts() {
    let json = Json::read(b" {\"a\":1,\"b\":{\"a\":2}, \"a\" : [3] } ").unwrap();
    assert_eq!(json.get("a").unwrap().bytes(), b"[3]");
    assert_eq!(json.get("b").unwrap().get("a").unwrap().bytes(), b"2");
    assert!(json.get("c").is_none());
    assert!(json.get("a").unwrap().get("a").is_none());
}

#[test]
fn names_are_compared_decoded() {
    let json = Json::read(br#"{"\u0061\n\ud83d\ude00\"":1,"\ud800":2}"#).unwrap();
    assert_eq!(json.get("a\n\u{1f600}\"").unwrap().bytes(), b"1");
    // Half of a surrogate pair is not text, and matches no name.
    assert!(json.get("\u{fffd}").is_none());
}

const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\"a\"",
    "\"usage\"",
    "\\",
    "\\\"",
    "\\u",
    "00e9",
    "0",
    "-",
    "1",
    ".",
    "e",
    "+",
    "true",
    "null",
    " ",
    "\n",
    "\t",
    "\u{e9}",
    "\u{1}",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Eighths, which a number represents exactly.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_json_where_serde_json_says_so(tokens in prop::collection::vec(select(TOKENS), 0..16)) {
        let text = tokens.concat();
        let read = serde_json::from_str::<Value>(&text);
        // It has not read the bytes after the number, which is a number nevertheless.
        prop_assume!(!matches!(&read, Err(error) if error.to_string().starts_with("number out of range")));
        let is_read = read.is_ok();
        prop_assert_eq!(is_json(text.as_bytes()), is_read, "{}", text);
    }

    #[test]
    fn members_are_found_where_serde_json_finds_them(value in value(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let json = Json::read(text.as_bytes()).expect("it is JSON");
        prop_assert_eq!(json.is_object(), value.is_object());
        let members: Vec<(String, Value)> = json
            .members()
            .map(|member| (member.text().unwrap().into_owned(), serde_json::from_slice(member.value.bytes()).unwrap()))
            .collect();
        let expected: Vec<(String, Value)> =
            value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect();
        prop_assert_eq!(members.len(), expected.len());
        for (name, value) in expected {
            prop_assert!(members.contains(&(name.clone(), value)), "{}", name);
        }
    }
}

/// A text of escapes alone.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>().concat()
}

proptest! {
    /// A value has the properties that a parser gives it.
    #[test]
    fn strings_numbers_and_elements_are_those_of_a_parser(text in "\\PC{0,12}", other in "\\PC{0,3}", number in any::<f64>()) {
        prop_assume!(number.is_finite());
        let written = escaped(&text);
        let plain = serde_json::to_string(&text).unwrap();
        let array = format!("[ {plain} ,\"{written}\",{number:?}, [1,2] ]");
        let array = Json::read(array.as_bytes()).unwrap();
        let elements: Vec<_> = array.elements().collect();
        prop_assert_eq!(elements.len(), 4);
        for element in &elements[..2] {
            prop_assert_eq!(element.text().unwrap(), text.as_str());
            prop_assert!(element.is_text(&text));
            prop_assert_eq!(element.is_text(&other), text == other);
            prop_assert_eq!(element.number(), None);
        }
        prop_assert_eq!(elements[2].number(), Some(number));
        prop_assert_eq!(elements[2].text(), None);
        prop_assert_eq!(elements[3].elements().count(), 2);
    }

    #[test]
    fn a_name_that_is_there_twice_is_found_however_it_is_written(names in prop::collection::vec("[ab\u{1f600}]{0,2}", 0..4)) {
        let member = |(index, name): (usize, &String)| {
            let escaped = escaped(name);
            format!("\"{}\":{index}", if index % 2 == 0 { name } else { &escaped })
        };
        let text = format!("{{{}}}", names.iter().enumerate().map(member).collect::<Vec<_>>().join(","));
        let mut different = names.clone();
        different.sort();
        different.dedup();
        prop_assert_eq!(Json::read(text.as_bytes()).unwrap().has_duplicates(), different.len() < names.len());
    }
}
