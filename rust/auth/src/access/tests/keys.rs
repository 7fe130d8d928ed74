//! Requests have the same key if they have the same values for each part, and else not.

use proptest::prelude::*;

use super::super::reading::{cookies, decoded, parameters};
use super::*;

fn asked<'a>(target: &'a str, headers: &'a Fields) -> Asked<'a> {
    Asked {
        method: "GET",
        target,
        prefix: "/vod/",
        authority: "Host:8080",
        remote: Some("10.0.0.1"),
        headers,
    }
}

fn fields(pairs: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in pairs {
        fields.push(name.as_bytes(), value.as_bytes());
    }
    fields
}

fn cookie(line: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    cookies(line.as_bytes(), name.as_bytes(), &mut |value| {
        found.push(String::from_utf8_lossy(value).into_owned());
    });
    found
}

fn parameter(query: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    parameters(query, name.as_bytes(), &mut |value| {
        found.push(String::from_utf8_lossy(&decoded(value).collect::<Vec<_>>()).into_owned());
    });
    found
}

#[test]
fn every_cookie_of_a_name_is_read() {
    assert_eq!(cookie("a=1; session=x; b=2", "session"), ["x"]);
    assert_eq!(cookie("session=x;session=y ;  session = z", "session"), ["x", "y", "z"]);
    assert_eq!(cookie("sessions=x; xsession=y; SESSION=z; a=session=1", "session"), Vec::<String>::new());
    assert_eq!(cookie("session=a=b; session", "session"), ["a=b", ""]);
    assert_eq!(cookie("a=\"x; session=y\"", "session"), ["y\""], "for some it is one, so it counts");
    assert_eq!(cookie("", ""), [""]);
}

#[test]
fn every_parameter_of_a_name_is_read_as_it_is_decoded() {
    assert_eq!(parameter("a=1&token=x%2By+z&token=&tok%65n=w&token", "token"), ["x+y z", "", "w", ""]);
    assert_eq!(parameter("tokens=1&Token=2&a=token=3", "token"), Vec::<String>::new());
    assert_eq!(parameter("token=%&token=%4&token=%zz&token=%e9", "token"), ["%", "%4", "%zz", "\u{fffd}"]);
}

#[test]
fn the_first_value_of_each_part_is_what_is_told() {
    let headers = fields(&[("Cookie", "s=1"), ("cookie", "s=2"), ("X", "a"), ("x", "b")]);
    let asked = asked("/vod/film/1.m4s?t=%41&t=b", &headers);
    let first = |part: Part| part.first(&asked).map(|value| String::from_utf8(value).unwrap());
    assert_eq!(first(Part::Cookie("s".into())).as_deref(), Some("1"));
    assert_eq!(first(Part::Header("x".into())).as_deref(), Some("a"));
    assert_eq!(first(Part::Query("t".into())).as_deref(), Some("A"));
    assert_eq!(first(Part::Path(1)).as_deref(), Some("film"));
    assert_eq!(first(Part::Path(2)).as_deref(), Some("film/1.m4s"));
    assert_eq!(first(Part::Path(9)).as_deref(), Some("film/1.m4s"));
    assert_eq!(first(Part::Address).as_deref(), Some("10.0.0.1"));
    assert_eq!(first(Part::Host).as_deref(), Some("host"));
    assert_eq!(first(Part::Method).as_deref(), Some("GET"));
    assert_eq!(first(Part::Header("none".into())), None);
}

#[test]
fn a_key_of_values_is_that_of_a_request_that_has_them() {
    let secret = Secret::new(&[7; 64]);
    let headers = fields(&[("X", "a")]);
    let asked = asked("/vod/film/1?t=b", &headers);
    let parts = [Part::Header("x".into()), Part::Query("t".into()), Part::Cookie("c".into()), Part::Path(1)];
    let values = [Some(b"a".to_vec()), Some(b"b".to_vec()), None, Some(b"film".to_vec())];
    assert!(secret.key("r", &parts, &asked) == secret.key_of("r", &values));
    assert!(secret.key("r", &parts, &asked) != secret.key_of("s", &values), "another route");
    assert!(Secret::new(&[8; 64]).key_of("r", &values) != secret.key_of("r", &values), "another process");
}

#[test]
fn a_process_has_one_secret_and_takes_that_of_another_only_before_it_has_made_keys() {
    let own = own_secret().unwrap();
    assert!(own != [0; 64] && own == own_secret().unwrap());
    assert!(!take_secret([7; 64]));
    assert_eq!(own_secret().unwrap(), own);
}

proptest! {
    /// The values that a request has for two parts, each any number of times, are the same if and only if the keys are.
    #[test]
    fn keys_are_equal_where_all_values_are(
        one in (proptest::collection::vec("[ab,;=]{0,3}", 0..3), proptest::collection::vec("[ab,;=]{0,3}", 0..3)),
        other in (proptest::collection::vec("[ab,;=]{0,3}", 0..3), proptest::collection::vec("[ab,;=]{0,3}", 0..3)),
    ) {
        let secret = Secret::new(&[7; 64]);
        let parts = [Part::Header("x".into()), Part::Header("y".into())];
        let key = |(x, y): &(Vec<String>, Vec<String>)| {
            let mut headers = Fields::default();
            for value in x {
                headers.push(b"x", value.as_bytes());
            }
            for value in y {
                headers.push(b"Y", value.as_bytes());
            }
            secret.key("r", &parts, &asked("/vod/", &headers))
        };
        prop_assert_eq!(one == other, key(&one) == key(&other));
    }

    /// Decoding agrees with a reader that shares no code with it.
    #[test]
    fn parameters_are_found_however_they_are_encoded(
        name in "[a-z]{1,4}", value in "[ -~]{0,12}", hidden in proptest::collection::vec(any::<bool>(), 16),
    ) {
        let encode = |text: &str| -> String {
            text.bytes().zip(hidden.iter().cycle()).map(|(byte, hide)| {
                if *hide || !byte.is_ascii_alphanumeric() { format!("%{byte:02x}") } else { char::from(byte).to_string() }
            }).collect()
        };
        let query = format!("1=1&{}={}&2", encode(&name), encode(&value));
        let found = parameter(&query, &name);
        prop_assert_eq!(found.last(), Some(&value));
    }

    /// Whatever a client sends as cookies, what stands between semicolons under the name is found, and nothing else.
    #[test]
    fn cookies_are_found_in_any_line(line in "[a-c=; \"\t]{0,24}", name in "[a-c]{1,2}") {
        let expected: Vec<String> = line.split(';').filter_map(|pair| {
            let mut halves = pair.splitn(2, '=');
            let known = halves.next().unwrap_or_default().trim_matches([' ', '\t']);
            (known == name).then(|| halves.next().unwrap_or_default().trim_matches([' ', '\t']).to_owned())
        }).collect();
        prop_assert_eq!(cookie(&line, &name), expected);
    }
}
