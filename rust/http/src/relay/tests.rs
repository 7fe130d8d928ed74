use proptest::prelude::*;

use super::*;
use crate::wire::{Fields, Head, HeadLimits, parse_head};
use penstock_error::{Code, Result};

const QUIET: Forwarding = Forwarding {
    x_forwarded: false,
    forwarded: false,
    via: None,
    trust_incoming: false,
    trailers: false,
    grpc_web: None,
    preserve_host: false,
    map_location: false,
};

const CLIENT: Client<'static> =
    Client { address: Some("192.0.2.7"), scheme: "http", host: b"gateway.test", version: (1, 1) };

fn request(
    policy: &Forwarding,
    client: &Client<'_>,
    received: &[(&str, &str)],
    replaced: &[(&str, Option<&str>)],
) -> Result<Vec<String>> {
    let received = received.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let replaced: Vec<_> =
        replaced.iter().map(|(name, value)| (name.as_bytes(), value.map(str::as_bytes))).collect();
    Ok(lines(&policy.request_fields(received, client, &replaced, None)?))
}

fn lines(fields: &Fields) -> Vec<String> {
    fields.iter().map(|(name, value)| line(name, value)).collect()
}

fn line(name: &[u8], value: &[u8]) -> String {
    format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
}

fn response(fields: &str) -> Vec<String> {
    let head = head(fields);
    response_fields(&head).map(|(name, value)| line(name, value)).collect()
}

fn head(fields: &str) -> Head {
    let limits = HeadLimits { head_bytes: 65536, head_fields: 100, interim_responses: 1 };
    parse_head(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes(), &limits).unwrap()
}

#[test]
fn end_to_end_fields_pass_in_order() {
    let received = [("Accept", "a/b"), ("X-Twice", "1"), ("Cookie", "a"), ("x-twice", "2"), ("Empty", "")];
    assert_eq!(
        request(&QUIET, &CLIENT, &received, &[]).unwrap(),
        ["Accept: a/b", "X-Twice: 1", "Cookie: a", "x-twice: 2", "Empty: "]
    );
}

#[test]
fn what_is_of_this_hop_or_frames_the_message_stays() {
    let received = [
        ("Connection", "close, X-Mine"),
        ("connection", "\tx-other ,,"),
        ("x-mine", "1"),
        ("X-Other", "1"),
        ("Keep-Alive", "1"),
        ("TE", "trailers"),
        ("Trailer", "X"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "x"),
        ("Proxy-Connection", "x"),
        ("Proxy-Authorization", "x"),
        ("Content-Length", "5"),
        ("Host", "gateway.test"),
        ("Expect", "100-continue"),
        ("Kept", "1"),
    ];
    assert_eq!(request(&QUIET, &CLIENT, &received, &[]).unwrap(), ["Kept: 1"]);
}

#[test]
fn connection_cannot_take_the_relays_own_fields_away() {
    let policy = Forwarding { x_forwarded: true, via: Some("p".to_owned().into()), ..QUIET };
    let fields = request(&policy, &CLIENT, &[("Connection", "X-Forwarded-For, Via")], &[]).unwrap();
    assert_eq!(
        fields,
        [
            "X-Forwarded-For: 192.0.2.7",
            "X-Forwarded-Proto: http",
            "X-Forwarded-Host: gateway.test",
            "Via: 1.1 p"
        ]
    );
}

#[test]
fn a_client_that_is_not_trusted_claims_nothing() {
    let claims = ["Forwarded", "X-Forwarded-For", "X-Forwarded-Prefix", "X-Real-IP", "x-forwarded-ssl"];
    let received = claims.map(|name| (name, "1"));
    assert_eq!(request(&QUIET, &CLIENT, &received, &[]).unwrap(), Vec::<String>::new());
}

#[test]
fn a_trusted_client_is_added_to_on_one_line() {
    let policy = Forwarding { x_forwarded: true, forwarded: true, trust_incoming: true, ..QUIET };
    let received = [
        ("X-Forwarded-For", "192.0.2.1"),
        ("Forwarded", "for=192.0.2.1"),
        ("X-Forwarded-For", ""),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-For", "192.0.2.2"),
    ];
    assert_eq!(
        request(&policy, &CLIENT, &received, &[]).unwrap(),
        [
            "X-Forwarded-Proto: https",
            "X-Forwarded-For: 192.0.2.1, 192.0.2.2, 192.0.2.7",
            "X-Forwarded-Host: gateway.test",
            "Forwarded: for=192.0.2.1, for=192.0.2.7;host=gateway.test;proto=http",
        ]
    );
}

#[test]
fn forwarded_names_and_quotes_as_its_grammar_asks() {
    let policy = Forwarding { forwarded: true, ..QUIET };
    let told = |address, host: &str| {
        let client = Client { address, host: host.as_bytes(), ..CLIENT };
        request(&policy, &client, &[], &[])
    };
    for (address, node) in [
        (Some("2001:db8:0::17%eth0"), "\"[2001:db8::17]\""),
        (Some("/run/socket"), "unknown"),
        (Some(""), "unknown"),
        (None, "unknown"),
    ] {
        assert_eq!(told(address, "h").unwrap(), [format!("Forwarded: for={node};host=h;proto=http")]);
    }
    for (host, quoted) in [("h:80", "\"h:80\""), ("a\"b\\", "\"a\\\"b\\\\\""), ("", "\"\"")] {
        assert_eq!(told(None, host).unwrap(), [format!("Forwarded: for=unknown;host={quoted};proto=http")]);
    }
    assert_eq!(told(None, "a\rb").unwrap_err().code(), Code::BadRequest);
}

#[test]
fn a_client_without_an_address_is_unknown() {
    let policy = Forwarding { x_forwarded: true, ..QUIET };
    for (address, told) in [(None, "unknown"), (Some("fe80::1%eth0"), "fe80::1")] {
        let fields = request(&policy, &Client { address, ..CLIENT }, &[], &[]).unwrap();
        assert_eq!(fields[0], format!("X-Forwarded-For: {told}"));
    }
}

#[test]
fn what_the_application_says_stands_in_place_of_both() {
    let policy =
        Forwarding { x_forwarded: true, preserve_host: true, via: Some("p".to_owned().into()), ..QUIET };
    let received = [("Authorization", "client"), ("Cookie", "secret"), ("Kept", "1")];
    let replaced = [
        ("authorization", Some("origin")),
        ("Cookie", None),
        ("Host", Some("other.test")),
        ("Via", None),
        ("X-Forwarded-For", Some("hidden")),
    ];
    assert_eq!(
        request(&policy, &CLIENT, &received, &replaced).unwrap(),
        [
            "Kept: 1",
            "X-Forwarded-Proto: http",
            "X-Forwarded-Host: gateway.test",
            "authorization: origin",
            "Host: other.test",
            "X-Forwarded-For: hidden",
        ]
    );
}

#[test]
fn a_response_loses_what_is_of_this_hop() {
    let fields = "Server: x\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nTrailer: X\r\nUpgrade: x\r\n\
        Transfer-Encoding: chunked\r\nProxy-Authenticate: Basic\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n";
    assert_eq!(response(fields), ["Server: x", "Set-Cookie: a", "Set-Cookie: b"]);
}

#[test]
fn a_length_is_one_number() {
    for fields in ["Content-Length: 5\r\ncontent-length: 5\r\n", "Content-Length: 5 , 5\r\n"] {
        assert_eq!(response(fields), ["Content-Length: 5"]);
    }
}

#[test]
fn an_interim_response_has_neither_a_hop_nor_a_length() {
    let head = head("Link: </a>\r\nConnection: x-hop\r\nX-Hop: 1\r\nContent-Length: 5\r\n");
    let bytes = encode_interim(&head, Some("1.1 penstock"));
    assert_eq!(bytes, b"HTTP/1.1 200 OK\r\nLink: </a>\r\nVia: 1.1 penstock\r\n\r\n");
    assert!(encode_interim(&head, None).ends_with(b"Link: </a>\r\n\r\n"));
}

#[test]
fn values_are_not_printed() {
    let fields: Fields = [("Cookie", "secret")].into_iter().collect();
    assert_eq!(
        (fields.len(), fields.is_empty(), format!("{fields:?}")),
        (1, false, "[\"Cookie\"]".to_owned())
    );
}

proptest! {
    #[test]
    fn no_field_of_the_hop_ever_crosses(
        received in prop::collection::vec(
            (prop::sample::select(vec!["connection", "X-A", "x-b", "TE", "Upgrade", "Accept", "via", "X-Real-IP"]),
             prop::sample::select(vec!["", "x-a", "X-B, close", ",te ,\tx-a", "accept", "v"])), 0..8),
        trust_incoming: bool,
    ) {
        let policy = Forwarding { trust_incoming, ..QUIET };
        let passed = request(&policy, &CLIENT, &received, &[]).unwrap();
        let nominated: Vec<_> = received.iter().filter(|(name, _)| *name == "connection")
            .flat_map(|(_, value)| value.split(',')).map(|option| option.trim().to_lowercase()).collect();
        let expected: Vec<_> = received.iter().filter(|(name, _)| {
            let name = name.to_lowercase();
            !(["connection", "te", "upgrade"].contains(&name.as_str()) || nominated.contains(&name)
                || (name == "x-real-ip" && !trust_incoming))
        }).map(|(name, value)| format!("{name}: {value}")).collect();
        prop_assert_eq!(passed, expected);
    }
}

fn filled(
    policy: &Forwarding,
    client: &Client<'_>,
    received: &[(&str, &str)],
    fill: &FillFields,
) -> Vec<String> {
    let received = received.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    lines(&policy.request_fields(received, client, &[], fill.of_method("GET")).unwrap())
}

fn dropping(names: &[&str]) -> FillFields {
    FillFields::new(None, names.iter().map(|name| (*name).to_owned()).collect(), &["authorization"])
}

#[test]
fn a_fill_says_nothing_of_the_client_that_is_dropped() {
    let policy = Forwarding { x_forwarded: true, forwarded: true, via: Some("p".to_owned().into()), ..QUIET };
    let received =
        [("x_host", "1"), ("Via", "1.0 a"), ("X-Host-Not", "1"), ("X.Original.URL", "/"), ("Accept", "a")];
    let fill = dropping(&["Forwarded", "Via", "X-Forwarded*", "X-Host", "X-Original-*"]);
    let old = Client { version: (1, 0), ..CLIENT };
    assert_eq!(filled(&policy, &old, &received, &fill), ["X-Host-Not: 1", "Accept: a", "Via: 1.1 p"]);
}

#[test]
fn a_fill_tells_of_https_alone() {
    let policy = Forwarding { x_forwarded: true, forwarded: true, ..QUIET };
    let fill = dropping(&["Forwarded", "X-Forwarded*"]);
    let secure = Client { scheme: "https", ..CLIENT };
    let told = ["X-Forwarded-Proto: https", "Forwarded: proto=https"];
    assert_eq!(filled(&policy, &secure, &[], &fill), told);
    assert_eq!(filled(&policy, &CLIENT, &[("X-Forwarded-Proto", "https")], &fill), Vec::<String>::new());
    let trusting = Forwarding { trust_incoming: true, ..policy };
    for (name, value) in [
        ("X-Forwarded-Proto", "HTTPS"),
        ("x_forwarded_proto", "https, http"),
        ("Forwarded", "for=x; Proto=https, proto=http"),
        ("Forwarded", "proto=\"https\""),
    ] {
        assert_eq!(filled(&trusting, &CLIENT, &[(name, value)], &fill), told, "{name}: {value}");
    }
    for (name, value) in
        [("X-Forwarded-Proto", "http"), ("X-Forwarded-Proto", "x"), ("Forwarded", "proto=http, proto=https")]
    {
        assert_eq!(
            filled(&trusting, &secure, &[(name, value)], &fill),
            Vec::<String>::new(),
            "{name}: {value}"
        );
    }
}

#[test]
fn a_post_is_told_who_asks_and_not_where() {
    let policy = Forwarding { x_forwarded: true, ..QUIET };
    let fill = dropping(&["Forwarded", "X-Forwarded*", "X-Host"]);
    let received = [("X-Host".as_bytes(), "1".as_bytes())];
    let told =
        |method| policy.request_fields(received.into_iter(), &CLIENT, &[], fill.of_method(method)).unwrap();
    assert_eq!(lines(&told("POST")), ["X-Forwarded-For: 192.0.2.7"]);
    assert_eq!(told("GET").len() + told("HEAD").len(), 0);
    assert_eq!(told("PUT").len(), 4);
}

#[test]
fn a_fill_that_keeps_names_sends_no_others() {
    let fill = FillFields::new(Some(vec!["X-Kept*".to_owned()]), Vec::new(), &["authorization"]);
    let received = [("X_Kept_This", "1"), ("Cookie", "1"), ("Authorization", "a"), ("X-Kep", "1")];
    assert_eq!(filled(&QUIET, &CLIENT, &received, &fill), ["X_Kept_This: 1", "Authorization: a"]);
}

#[test]
fn names_are_read_as_cgi_does() {
    let received = [
        ("X.Forwarded_User", "1"),
        ("X-Forwarded", "1"),
        ("Transfer_Encoding", "chunked"),
        ("Content.Length", "1"),
        ("Proxy_Authorization", "x"),
        ("X-Forwardedly", "1"),
    ];
    assert_eq!(request(&QUIET, &CLIENT, &received, &[]).unwrap(), ["X-Forwardedly: 1"]);
    assert_eq!(response("Content_Length: 1\r\nTransfer.Encoding: x\r\nX_A: 1\r\n"), ["X_A: 1"]);
}

#[test]
fn an_event_stream_is_known_by_its_whole_media_type() {
    for (fields, expected) in [
        ("Content-Type: text/event-stream", true),
        ("Content-Type: Text/Event-Stream ;charset=utf-8", true),
        ("Content-Type: text/event-streamx", false),
        ("Content-Type: text/event", false),
        ("Content-Type: text/event-stream\r\nContent-Encoding: gzip", false),
        ("Content-Type: text/event-stream\r\nContent-Length: 9", false),
        ("X: 1", false),
    ] {
        assert_eq!(is_event_stream(&head(&format!("{fields}\r\n"))), expected, "{fields}");
    }
}

proptest! {
    /// A browser that resolves the mapped URL (RFC 3986, section 5.2) comes to the same host, or to the URL of the origin.
    #[test]
    fn what_is_mapped_names_no_other_host(
        rest in "[/\\\\?#.a:@]{0,6}",
        from in prop::sample::select(vec!["/", "/a/"]),
        to in prop::sample::select(vec!["/", "/b/"]),
    ) {
        let redirects = Redirects::new(|origin| origin == "http://o", from, to);
        let url = format!("http://o{rest}");
        let mapped = redirects.field(b"Location", url.as_bytes());
        let mapped = std::str::from_utf8(&mapped).unwrap();
        if mapped != url {
            prop_assert!(mapped.starts_with(to), "{}", mapped);
            prop_assert!(!mapped.starts_with("//") && !mapped.starts_with("/\\"), "{}", mapped);
        }
    }
}
