//! The target of a request: which bytes it may have, and whether all servers read its path in the
//! same way.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use super::text::Characters;

/// `pchar` and `/` (RFC 3986, section 3.3), and what browsers send as it was typed (the WHATWG's URL, "path percent-encode
/// set"). A backslash is among them; [`has_dot_segments`] treats it as a separator.
const PATH: &Characters = &Characters::new(b"/-._~!$&'()*+,;=:@%|[]^\\");

/// `pchar`, `/` and `?` (RFC 3986, section 3.4), and what browsers send as it was typed.
const QUERY: &Characters = &Characters::new(b"/?-._~!$&'()*+,;=:@%|[]^\\{}`");

/// The first byte sequence in path and query, or in `*`, that a target must not have (RFC 9112, section 3.2); `None`
/// if the target is valid.
pub(super) fn fault(target: &[u8]) -> Option<&[u8]> {
    let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(end);
    let percent = |place: usize| {
        let digits = path.get(place + 1..place + 3);
        !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let bad = (0..path.len()).find(|&place| match path[place] {
        b'%' => percent(place),
        byte => !PATH.has(byte),
    });
    match bad {
        Some(place) => Some(&path[place..path.len().min(place + 3)]),
        None => query.iter().position(|byte| !QUERY.has(*byte)).map(|place| &query[place..=place]),
    }
}

/// Whether path and query of a target are valid.
pub fn is_target(target: &str) -> bool {
    fault(target.as_bytes()).is_none()
}

/// Whether an origin could take a path for another one: it has a segment that some server reads as `.` or `..` (RFC 3986,
/// section 5.2.4).
///
/// A segment ends at a slash; at a backslash, which some servers read as a slash; and at either of them percent-encoded.
/// Servlet containers drop the part of a segment from a semicolon on before they look for dots: they read `/a/..;/b` as
/// `/b`. Percent-encoding is decoded once, also of overlong UTF-8 for a dot, slash or backslash.
pub fn has_dot_segments(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    // Most paths have neither a dot after a slash nor a percent sign.
    if !path.contains("/.") && !path.contains('%') && !path.contains('\\') {
        return false;
    }
    let plain = decoded(path.as_bytes());
    plain.split(|byte| matches!(byte, b'/' | b'\\')).any(|segment| {
        let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        matches!(name, b"." | b"..")
    })
}

/// `path`, percent-decoded, with overlong dots and slashes replaced by the plain characters.
fn decoded(path: &[u8]) -> Cow<'_, [u8]> {
    if !path.contains(&b'%') {
        return Cow::Borrowed(path);
    }
    let mut plain = Vec::with_capacity(path.len());
    for byte in percent_decode(path) {
        plain.push(byte);
        // Two, three and four bytes for a character of one byte.
        for length in 2..=4 {
            let Some(start) = plain.len().checked_sub(length) else { break };
            if let Some(short) = overlong(&plain[start..]) {
                plain.truncate(start);
                plain.push(short);
                break;
            }
        }
    }
    Cow::Owned(plain)
}

/// The ASCII character that overlong UTF-8 stands for (RFC 3629, section 10).
fn overlong(bytes: &[u8]) -> Option<u8> {
    let (lead, last) = match bytes {
        [lead @ (0xc0 | 0xc1), last] => (lead & 1, last),
        [0xe0, middle @ (0x80 | 0x81), last] | [0xf0, 0x80, middle @ (0x80 | 0x81), last] => {
            (middle & 1, last)
        }
        _ => return None,
    };
    (0x80..=0xbf).contains(last).then(|| lead << 6 | last & 0x3f)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a reading that shares no code with it, of paths without overlong characters.
        #[test]
        fn dot_segments_are_those_that_a_decoder_finds(path in "(/|\\\\|%2f|%5C|\\.|%2e|;|%3B|a|%){0,12}") {
            let path = format!("/{path}");
            let plain = ["%2f", "%5C", "%2e", "%3B"].iter().zip(["/", "\\", ".", ";"]).fold(
                path.clone(),
                |plain, (coded, character)| plain.replace(coded, character),
            );
            let expected = plain.replace('\\', "/").split('/').any(|segment| {
                ["", ";"].iter().any(|end| {
                    [".", ".."].iter().any(|dots| {
                        if end.is_empty() { segment == *dots } else { segment.starts_with(&format!("{dots};")) }
                    })
                })
            });
            prop_assert_eq!(has_dot_segments(&path), expected, "{}", path);
        }

        #[test]
        fn no_bytes_are_too_odd(target: Vec<u8>) {
            let _ = fault(&target);
            let _ = has_dot_segments(&String::from_utf8_lossy(&target));
        }
    }

    #[test]
    fn segments_that_are_dots_to_somebody_are_found() {
        for path in [
            "/..",
            "/a/../b",
            "/a/./b",
            "/a/.",
            "/a/%2e%2E/b",
            "/a/.%2e",
            "/a%2f..%2Fb",
            "/a\\..\\b",
            "/a%5c..%5Cb",
            "/a/..;/b",
            "/a/..;x=y/b",
            "/a/.;/b",
            "/a/..%3b/b",
            "/a/%2e%2e;jsessionid=1",
            "/a/..;",
            "/a/%c0%ae%c0%ae/b",
            "/a/%C0%AE./b",
            "/a/.%C0%2e/b/%c0%ae.",
            "/a%c0%af..%c0%afb",
            "/a%c1%9c..%c1%9cb",
            "/a/%e0%80%ae%e0%80%ae/b",
            "/a/%f0%80%80%ae./b",
        ] {
            assert!(has_dot_segments(path), "{path}");
        }
    }

    #[test]
    fn dots_that_are_none_are_not() {
        for path in [
            "/",
            "/.hidden",
            "/a..b",
            "/...",
            "/..a;b/",
            "/x?p=/../y",
            "/%252e%252e/x",
            "/a;..",
            "/%c0.ae",
            "/%",
            "/%2",
            "/%zz/x",
            "/%c3%a9/%e2%82%ac",
        ] {
            assert!(!has_dot_segments(path), "{path}");
        }
    }

    #[test]
    fn what_no_target_has_is_named() {
        for (target, bad) in [
            ("/a%", "%"),
            ("/a%2", "%2"),
            ("/a%zz", "%zz"),
            ("/a\"b", "\"b"),
            ("/<a>", "<a>"),
            ("/{a}", "{a}"),
            ("/a`b", "`b"),
            ("/?a=\"", "\""),
            ("/?<", "<"),
            ("/a#b", "#b"),
            ("/?a#b", "#"),
        ] {
            let found = fault(target.as_bytes()).map(|bad| String::from_utf8_lossy(bad).into_owned());
            assert_eq!(found.as_deref(), Some(bad), "{target}");
        }
    }

    #[test]
    fn what_browsers_send_is_a_target() {
        for target in ["*", "/", "/a|b[c]^d", "/?q=100%&a[b]={c}|d`e^\\", "/%00%0d%0a", "/a;b=c", "?x", ""] {
            assert_eq!(fault(target.as_bytes()), None, "{target}");
        }
    }
}
