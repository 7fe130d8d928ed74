//! Cache-Control of both sides, and targeted control.

use super::*;

fn response(lines: &[&str]) -> ResponseControl {
    ResponseControl::parse(lines.iter().map(|line| line.as_bytes()))
}

fn request(lines: &[&str], pragma: &[&str]) -> RequestControl {
    RequestControl::parse(lines.iter().map(|line| line.as_bytes()), pragma.iter().map(|line| line.as_bytes()))
}

fn fields(names: &[&str]) -> Scope {
    Scope::Fields(names.iter().map(|name| name.as_bytes().into()).collect())
}

/// RFC 9111, sections 1.2.2, 4.2.1 and 5.2.
#[test]
fn lifetimes_are_digits_and_the_shorter_of_two_holds() {
    for (lines, lifetime) in [
        (["max-age=3600", ""], Some(3600)),
        (["MaX-aGe=3600", ""], Some(3600)),
        (["max-age=003600", ""], Some(3600)),
        (["max-age=\"3600\"", ""], Some(3600)),
        (["foobar, max-age=3600", ""], Some(3600)),
        ([" ,, max-age=5 ,", ""], Some(5)),
        (["max-age=99999999999", ""], Some(1 << 31)),
        (["max-age=99999999999999999999999", ""], Some(1 << 31)),
        (["max-age=1800, max-age=1", ""], Some(1)),
        (["max-age=1, max-age=1800", ""], Some(1)),
        (["max-age=1800", "max-age=1"], Some(1)),
        (["max-age=1", "max-age=1800"], Some(1)),
        (["max-age=1, extension=\"max-age=3600\"", ""], Some(1)),
        (["extension=\"a\\\", max-age=3600\", max-age=1", ""], Some(1)),
        (["extension=\"max-age=3600\"", ""], None),
        (["", ""], None),
        // A value that is not a number counts as zero.
        (["max-age=-3600", ""], Some(0)),
        (["max-age='3600'", ""], Some(0)),
        (["max-age=3600.0", ""], Some(0)),
        (["max-age=a3600", ""], Some(0)),
        (["max-age=3600a", ""], Some(0)),
        (["max-age =3600", ""], Some(0)),
        (["max-age= 3600", ""], Some(0)),
        (["max-age=+1", ""], Some(0)),
        (["max-age=", ""], Some(0)),
        (["max-age", ""], Some(0)),
        (["max-age=3600, max-age=x", ""], Some(0)),
        (["max-age: 3600", ""], None),
    ] {
        assert_eq!(response(&lines).max_age, lifetime.map(seconds), "{lines:?}");
    }
}

#[test]
fn a_quote_that_never_closes_hides_nothing() {
    let control = response(&["extension=\"max-age=3600, no-store", "private=\"a"]);
    assert!(control.no_store);
    assert_eq!(control.private, Scope::Response);
    assert_eq!(control.max_age, None);
}

/// RFC 9111, sections 5.2.2.4 and 5.2.2.7.
#[test]
fn directives_that_name_fields() {
    for (line, no_cache) in [
        ("no-cache", Scope::Response),
        ("No-CaChE", Scope::Response),
        ("no-cache=\"A, b\"", fields(&["a", "b"])),
        ("no-cache=a", fields(&["a"])),
        ("no-cache=\"a\", no-cache=b", fields(&["a", "b"])),
        ("no-cache=\"a\", no-cache", Scope::Response),
        ("no-cache, no-cache=\"a\"", Scope::Response),
        ("no-cache=", Scope::Response),
        ("no-cache=\"\"", Scope::Response),
        ("no-cache=\"a b\"", Scope::Response),
        ("no-cache =\"a\"", Scope::Response),
        ("private=\"a\"", Scope::Nothing),
    ] {
        assert_eq!(response(&[line]).no_cache, no_cache, "{line:?}");
    }
    assert_eq!(response(&["private=\"Set-Cookie\""]).private, fields(&["set-cookie"]));
    assert!(response(&["private=x"]).private.names(b"X"));
    assert!(!response(&["private"]).private.names(b"X"));
}

#[test]
fn every_directive_of_a_response() {
    let text = "s-maxage=1, stale-while-revalidate=2, stale-if-error=3, no-store, public, must-revalidate, \
        proxy-revalidate, must-understand, immutable, no-transform";
    let all = ResponseControl {
        max_age: None,
        s_maxage: Some(seconds(1)),
        stale_while_revalidate: Some(seconds(2)),
        stale_if_error: Some(seconds(3)),
        no_cache: Scope::Nothing,
        private: Scope::Nothing,
        no_store: true,
        public: true,
        must_revalidate: true,
        proxy_revalidate: true,
        must_understand: true,
        immutable: true,
    };
    assert_eq!(response(&[text]), all);
    assert_eq!(response(&[&text.to_uppercase()]), all);
    assert_eq!(parse_targeted(text.as_bytes()), Some(all));
}

/// RFC 9111, sections 5.2.1 and 5.4.
#[test]
fn every_directive_of_a_request() {
    let text = "max-age=1, min-fresh=2, max-stale=3, stale-if-error=4, no-cache, no-store, only-if-cached";
    let all = RequestControl {
        max_age: Some(seconds(1)),
        min_fresh: Some(seconds(2)),
        max_stale: MaxStale::For(seconds(3)),
        stale_if_error: Some(seconds(4)),
        no_cache: true,
        no_store: true,
        only_if_cached: true,
    };
    assert_eq!(request(&[text], &[]), all);
    assert_eq!(request(&["max-age=1, max-age=9, min-fresh=2, min-fresh=1"], &[]).max_age, Some(seconds(1)));
    assert_eq!(request(&["min-fresh=1", "min-fresh=2"], &[]).min_fresh, Some(seconds(2)));
    for (line, stale) in [
        ("max-stale", MaxStale::Anything),
        ("max-stale=5, max-stale=3", MaxStale::For(seconds(3))),
        ("max-stale, max-stale=3", MaxStale::For(seconds(3))),
        ("max-stale=3, max-stale", MaxStale::For(seconds(3))),
        ("max-stale=x", MaxStale::Nothing),
    ] {
        assert_eq!(request(&[line], &[]).max_stale, stale, "{line}");
    }
    for line in ["max-age=x", "min-fresh=", "nothing-to-see-here"] {
        assert_eq!(request(&[line], &[]), RequestControl::default(), "{line}");
    }
    assert!(request(&[], &["foo, No-Cache"]).no_cache);
    assert!(!request(&[], &["foo"]).no_cache);
    assert!(!request(&["x"], &["no-cache"]).no_cache, "Pragma counts only where Cache-Control is not there");
}

/// RFC 9213, section 2.1; RFC 9651, section 4.2.2.
#[test]
fn targeted_control_is_a_dictionary() {
    let of = |text: &str| parse_targeted(text.as_bytes());
    let age = |text| of(text).and_then(|control| control.max_age);
    for (text, expected) in [
        ("max-age=3600", Some(seconds(3600))),
        ("foobar, max-age=3600;x=y", Some(seconds(3600))),
        ("max-age=99999999999", Some(LONGEST)),
        ("max-age=-1", Some(seconds(0))),
        ("max-age=\"1\", max-age=5", Some(seconds(5))),
        ("max-age=1, max-age=5", Some(seconds(5))),
    ] {
        assert_eq!(age(text), expected, "{text}");
    }
    for text in [
        "",
        "  ",
        "max-age =100",
        "max-age= 100",
        "MaX-aGe=3600",
        "max-age=10000, &&&&&",
        "max-age=\"10000\"",
        "max-age=1.5",
        "max-age",
        "max-age=x",
        "max-age=5, max-age=\"1\"",
        "max-age=(1)",
        "no-store,",
        "max-age=1000000000000000",
        "no-store;;",
        "max-age=@5",
    ] {
        assert_eq!(of(text), None, "{text}");
    }
    assert!(of("no-store").is_some_and(|control| control.no_store));
    assert!(of("no-store=?0").is_some_and(|control| !control.no_store));
    assert!(of("no-store=1").is_some_and(|control| control.no_store));
    assert_eq!(of("private=\"a, B\"").map(|control| control.private), Some(fields(&["a", "b"])));
    assert_eq!(of("private=a").map(|control| control.private), Some(fields(&["a"])));
    assert_eq!(of("no-cache").map(|control| control.no_cache), Some(Scope::Response));
    assert_eq!(of("no-cache=(a b)").map(|control| control.no_cache), Some(Scope::Response));
    assert_eq!(of("no-cache=?0").map(|control| control.no_cache), Some(Scope::Nothing));
}

/// RFC 9213, section 2.2.
#[test]
fn the_first_target_that_can_be_read_decides() {
    let of = |text: &str| {
        let text = Text::new(text);
        let (control, targeted) = response_control(&text.lines(), &policy().targets);
        (control.max_age.map(|age| age.as_secs()), targeted)
    };
    let all = "Cache-Control: max-age=1\nCDN-Cache-Control: max-age=2\nPenstock-Cache-Control: max-age=3";
    assert_eq!(of(all), (Some(3), true));
    assert_eq!(of("Cache-Control: max-age=1\nCDN-Cache-Control: max-age=2"), (Some(2), true));
    assert_eq!(
        of("Cache-Control: max-age=1\nCDN-Cache-Control: max-age=2\nPenstock-Cache-Control:"),
        (Some(2), true)
    );
    assert_eq!(of("Cache-Control: max-age=1\nCDN-Cache-Control: max-age=\"2\""), (Some(1), false));
    assert_eq!(of("CDN-Cache-Control: public\nCDN-Cache-Control: max-age=2"), (Some(2), true));
    assert_eq!(of("CDN-Cache-Control: public\nCDN-Cache-Control: &"), (None, false));
    assert_eq!(of("Surrogate-Control: max-age=2"), (None, false));
}
