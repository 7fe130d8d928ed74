//! Primary keys.

use super::*;

fn query(kept: Option<&[&str]>, dropped: &[&str], sorted: bool) -> Query {
    let names = |names: &[&str]| Names::new(names.iter().copied());
    Query { keep_parameters: kept.map(names), drop_parameters: names(dropped), sort_parameters: sorted }
}

fn key(scheme: &str, authority: &str, path: &str, query: &Query) -> String {
    Key::new(Target { scheme, authority, path }, query).as_str().to_owned()
}

/// RFC 9110, section 4.2.3.
#[test]
fn urls_that_mean_the_same() {
    let plain = query(None, &[], false);
    for (scheme, authority, path, expected) in [
        ("http", "media.test", "/a?b", "http://media.test/a?b"),
        ("HTTP", "Media.TEST:80", "/a", "http://media.test/a"),
        ("http", "media.test:", "", "http://media.test/"),
        ("https", "media.test:443", "/", "https://media.test/"),
        ("https", "media.test:80", "/", "https://media.test:80/"),
        ("http", "[::1]:80", "/", "http://[::1]/"),
        ("http", "[::80]", "/", "http://[::80]/"),
        ("http", "a", "?b", "http://a/?b"),
        ("http", "a", "/B?C", "http://a/B?C"),
        ("http", "a", "/%41", "http://a/%41"),
        ("http", "a", "/?", "http://a/?"),
        ("http", "a", "/?b&&c=1&b", "http://a/?b&&c=1&b"),
        ("http", "a", "/?b?c", "http://a/?b?c"),
    ] {
        assert_eq!(key(scheme, authority, path, &plain), expected);
    }
}

#[test]
fn what_of_a_query_is_in_the_key() {
    let cmcd: &[&str] = &["CMCD*", "session"];
    for (query, path, expected) in [
        (query(None, cmcd, false), "/a?CMCD=bl%3D1&x=1&session=s&CMCDx", "/a?x=1"),
        (query(None, cmcd, false), "/a?CMCD=1", "/a"),
        (query(None, cmcd, false), "/a?cmcd=1&sessions=2", "/a?cmcd=1&sessions=2"),
        (query(Some(&["v", "_HLS_*"]), &[], false), "/a?t=1&v=2&_HLS_msn=3&vv=4", "/a?v=2&_HLS_msn=3"),
        (query(Some(&["v"]), &["v"], false), "/a?v=2", "/a"),
        (query(Some(&[]), &[], false), "/a?v=2", "/a"),
        (query(None, &[], true), "/a?b=2&a=1&b=1&a", "/a?a=1&a&b=2&b=1"),
        (query(None, &[], true), "/a?&b&", "/a?b"),
        (query(None, &[], true), "/a?", "/a"),
        (query(None, &["*"], false), "/a?b&c", "/a"),
    ] {
        assert_eq!(key("http", "h", path, &query), format!("http://h{expected}"), "{path}");
    }
}
