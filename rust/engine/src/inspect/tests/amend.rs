//! What is added to requests, and that nothing else changes.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::Amendment;

fn amendment(object: &Value, insists: bool) -> Amendment {
    Amendment::new(object.to_string().into_bytes(), insists).unwrap()
}

fn applied(request: &str, insists: bool) -> Option<String> {
    let usage = amendment(&json!({"stream_options": {"include_usage": true}}), insists);
    usage.apply(request.as_bytes()).map(|amended| String::from_utf8(amended).unwrap())
}

#[test]
fn what_is_missing_is_added_and_the_rest_stays_as_it_is_written() {
    for (request, amended) in [
        (r#"{"stream":true}"#, r#"{"stream_options":{"include_usage":true},"stream":true}"#),
        (
            " { \"model\" : \"m\", \"seed\":1.50e2, \"stream\" : true }\n",
            " {\"stream_options\":{\"include_usage\":true}, \"model\" : \"m\", \"seed\":1.50e2, \"stream\" : true }\n",
        ),
        (
            r#"{"stream":true,"stream_options":{}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{ "x":[1] },"z":1}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true, "x":[1] },"z":1}"#,
        ),
        (
            r#"{"messages":[{"content":"\"stream_options\":{\"include_usage\":true}"}],"str\u0065am":true}"#,
            r#"{"stream_options":{"include_usage":true},"messages":[{"content":"\"stream_options\":{\"include_usage\":true}"}],"str\u0065am":true}"#,
        ),
    ] {
        assert_eq!(applied(request, false).as_deref(), Some(amended));
        assert_eq!(applied(request, true).as_deref(), Some(amended));
    }
}

#[test]
fn what_the_client_has_said_stays_unless_it_is_insisted() {
    for (request, insisted) in [
        (
            r#"{"stream":true,"stream_options":{"include_usage":false,"x":1}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true,"x":1}}"#,
        ),
        (
            r#"{"stream":true,"stream_options":null}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            r#"{"stream":true,"stream\u005foptions":{"include_usage":false}}"#,
            r#"{"stream":true,"stream\u005foptions":{"include_usage":true}}"#,
        ),
    ] {
        assert_eq!(applied(request, false), None);
        assert_eq!(applied(request, true).as_deref(), Some(insisted));
    }
    let said = r#"{"stream":true,"stream_options":{"include_usage":true}}"#;
    assert_eq!(applied(said, true), None, "it says so already");
}

#[test]
fn what_is_no_stream_or_not_clear_stays_as_it_is() {
    let deep = format!("{{\"stream\":true,\"x\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for request in [
        "",
        "{}",
        r#"{"stream":false}"#,
        r#"{"stream":null}"#,
        r#"{"stream":"true"}"#,
        r#"{"stream":1}"#,
        r#"{"x":{"stream":true}}"#,
        r#"[{"stream":true}]"#,
        r#"{"stream":true"#,
        r#"{"stream":true,}"#,
        r#"{"stream":true} x"#,
        r#"{"stream":true,"temperature":NaN}"#,
        r#"{"stream":true,"stream":true}"#,
        r#"{"stream":true,"stream_options":{},"stream_options":{}}"#,
        r#"{"stream":true,"stream_options":{"include_usage":false,"include_\u0075sage":false}}"#,
        &deep,
    ] {
        assert_eq!(applied(request, true), None, "{request}");
    }
    let not_text = b"{\"stream\":true,\"x\":\"\xff\"}";
    assert_eq!(amendment(&json!({"a": 1}), true).apply(not_text), None);
}

#[test]
fn an_amendment_is_an_object() {
    for text in ["", "1", "[]", "{", "{\"a\":1,}"] {
        assert!(Amendment::new(text.into(), false).is_none(), "{text}");
    }
}

/// The result for a parsed request, in the simplest way.
fn merged(old: &Map<String, Value>, new: &Map<String, Value>, insists: bool) -> Map<String, Value> {
    let mut merged = old.clone();
    for (name, value) in new {
        match (merged.get(name), value) {
            (None, _) => drop(merged.insert(name.clone(), value.clone())),
            (Some(Value::Object(old)), Value::Object(new)) => {
                let inner = self::merged(old, new, insists);
                merged.insert(name.clone(), Value::Object(inner));
            }
            (Some(_), _) if insists => drop(merged.insert(name.clone(), value.clone())),
            (Some(_), _) => {}
        }
    }
    merged
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    let name = "[abc\"\\\\\u{e9}]{1,2}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a\"\\\\{}:,\u{e9}]{0,4}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    prop::collection::vec((name, value), 0..5).prop_map(|members| members.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_request_is_amended_as_its_parse_would_be(
        request in object(),
        more in object(),
        insists in any::<bool>(),
        pretty in any::<bool>(),
    ) {
        let mut request = request;
        request.insert("stream".to_owned(), Value::Bool(true));
        let text = if pretty { serde_json::to_string_pretty(&request) } else { serde_json::to_string(&request) }.unwrap();
        let expected = merged(&request, &more, insists);
        let amended = amendment(&Value::Object(more), insists).apply(text.as_bytes());
        // Where it is insisted, the same value in other words takes the place of the client's.
        prop_assert!(amended.is_none() || insists || expected != request);
        let amended = amended.unwrap_or_else(|| text.into_bytes());
        prop_assert_eq!(serde_json::from_slice::<Map<String, Value>>(&amended).unwrap(), expected);
    }
}
