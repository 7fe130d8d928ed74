//! Where a token stands, and what is left without it.

use proptest::prelude::*;

use super::*;

fn asked<'a>(target: &'a str, headers: &'a Fields) -> Asked<'a> {
    Asked { method: "GET", target, prefix: "/vod/", authority: "a.example", remote: None, headers }
}

fn found(target: &str, fields: &[(&str, &str)]) -> std::result::Result<String, Code> {
    let headers: Fields = fields.iter().copied().collect();
    let token =
        places().token(&asked(target, &headers)).map(|token| String::from_utf8(token.to_vec()).unwrap());
    token.map_err(|error| error.code())
}

fn stripped(target: &str) -> Option<String> {
    places().stripped(&asked(target, &Fields::default()))
}

#[test]
fn a_token_is_found_in_each_place_and_the_first_counts() {
    let fields = [("Authorization", "Bearer d"), ("Cookie", "a=1; token=c; b=2")];
    assert_eq!(found("/vod/token=a/x?token=b", &fields).unwrap(), "a");
    assert_eq!(found("/vod/x?y&token=b", &fields).unwrap(), "b");
    assert_eq!(found("/vod/x", &fields).unwrap(), "d");
    assert_eq!(found("/vod/x", &fields[1..]).unwrap(), "c");
    assert_eq!(found("/vod/x", &[("authorization", "bEARER  d ")]).unwrap(), "d");
    assert_eq!(found("/vod/x", &[("Authorization", "Basic d")]), Err(Code::TokenMissing));
    assert_eq!(found("/vod/x/token=a/y?xtoken=b&Token=c", &[]), Err(Code::TokenMissing));
    assert_eq!(found("/vod/x?token", &[]), Err(Code::TokenMissing));
}

#[test]
fn a_place_with_two_tokens_has_none_that_could_be_meant() {
    for (target, fields) in [
        ("/vod/x?token=a&token=a", vec![]),
        ("/vod/x", vec![("Cookie", "token=a; token=a")]),
        ("/vod/x", vec![("Cookie", "token=a"), ("Cookie", "token=b")]),
        ("/vod/x", vec![("Authorization", "Bearer a"), ("Authorization", "Bearer b")]),
    ] {
        assert_eq!(found(target, &fields), Err(Code::TokenMalformed), "{target} {fields:?}");
    }
}

#[test]
fn a_place_that_is_not_looked_at_has_none() {
    let nowhere = Places { path: false, query: false, bearer: false, cookie: false, ..places() };
    let headers: Fields = [("Authorization", "Bearer d"), ("Cookie", "token=c")].into_iter().collect();
    let asked = asked("/vod/token=a/x?token=b", &headers);
    assert_eq!(nowhere.token(&asked).unwrap_err().code(), Code::TokenMissing);
    assert_eq!(nowhere.stripped(&asked), None);
    assert_eq!(nowhere.path(&asked).concat(), "/vod/token=a/x");
}

#[test]
fn what_is_left_of_a_target_is_as_it_was_written() {
    for (target, left) in [
        ("/vod/token=a/x/y.m4s", Some("/vod/x/y.m4s")),
        ("/vod/token=a/x?b=%20&c", Some("/vod/x?b=%20&c")),
        ("/vod/token=a/x?b=1&token=z&c=2", Some("/vod/x?b=1&c=2")),
        ("/vod/token=a", Some("/vod/")),
        ("/vod/token=a/", Some("/vod/")),
        ("/vod/token=a?", Some("/vod/?")),
        ("/vod/x?token=a", Some("/vod/x")),
        ("/vod/x?token=a&b", Some("/vod/x?b")),
        ("/vod/x?b&&token=a", Some("/vod/x?b&")),
        ("/vod/x?b", None),
        ("/vod/x", None),
        ("/vod/x/token=a", None),
    ] {
        assert_eq!(stripped(target).as_deref(), left, "{target}");
    }
}

#[test]
fn what_is_left_of_a_cookie_field_is_all_but_the_token() {
    let left = |line: &str| {
        places()
            .forwarded(b"cookie", line.as_bytes())
            .map(|left| String::from_utf8(left.into_owned()).unwrap())
    };
    assert_eq!(left("a=1; token=c; b=2").as_deref(), Some("a=1; b=2"));
    assert_eq!(left("token=c; b=2").as_deref(), Some("b=2"));
    assert_eq!(left("token=c"), None);
    assert_eq!(places().forwarded(b"Authorization", b"Bearer abc"), None);
    assert_eq!(places().forwarded(b"Authorization", b"Basic abc").unwrap(), &b"Basic abc"[..]);
    let open = Places { forward: true, ..places() };
    assert_eq!(open.forwarded(b"cookie", b"token=c").unwrap(), &b"token=c"[..]);
    assert_eq!(open.forwarded(b"authorization", b"Bearer abc").unwrap(), &b"Bearer abc"[..]);
    assert_eq!(left("atoken=c; tokens=1").as_deref(), Some("atoken=c; tokens=1"));
}

proptest! {
    /// Whatever else a target has, a token that is put into it is found, and taken out of it again.
    #[test]
    fn a_token_leaves_no_trace(
        path in "[a-z/.%]{0,8}",
        query in prop::option::of(prop::collection::vec("[a-z=%]{1,5}", 1..4)),
        at in any::<prop::sample::Index>(),
        token in "[A-Za-z0-9_.-]{1,20}",
    ) {
        prop_assume!(query.iter().flatten().all(|parameter| !parameter.starts_with("token=")));
        prop_assume!(!path.starts_with("token="));
        let text = query.as_ref().map_or(String::new(), |parameters| format!("?{}", parameters.join("&")));
        let plain = format!("/vod/{path}{text}");
        let in_path = format!("/vod/token={token}/{path}{text}");
        prop_assert_eq!(found(&in_path, &[]).unwrap(), token.clone());
        prop_assert_eq!(stripped(&in_path).unwrap(), plain.clone());
        let mut parameters = query.unwrap_or_default();
        parameters.insert(at.index(parameters.len() + 1), format!("token={token}"));
        let in_query = format!("/vod/{path}?{}", parameters.join("&"));
        prop_assert_eq!(found(&in_query, &[]).unwrap(), token);
        prop_assert_eq!(stripped(&in_query).unwrap(), plain);
    }
}
