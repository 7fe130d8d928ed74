//! Which paths a pattern stands for.

use proptest::prelude::*;

use super::*;

#[test]
fn a_pattern_is_a_path_or_the_beginning_of_some() {
    assert!(is_on("/vod/7/a", &["/vod/", "7/a"]));
    assert!(is_on("/vod/7/*", &["/vod/", "7/a"]));
    assert!(is_on("/vod/7/*", &["/vod/7/", ""]));
    assert!(is_on("/v*", &["/vod/", "7/a"]));
    assert!(is_on("*", &["/vod/", "7/a"]));
    for other in
        ["/vod/7", "/vod/7/", "/vod/7/a/", "/vod/8/*", "/vod/7/b*", "/vod/*/a", "", "/vod/7/a/*", "/vod/7/A"]
    {
        assert!(!is_on(other, &["/vod/", "7/a"]), "{other}");
    }
}

#[test]
fn a_template_that_is_none_is_found() {
    for wrong in ["/{", "/}", "/{}", "/{a", "/a}", "/{a{b}}", "/{a}}"] {
        assert_eq!(Pattern::parse(wrong), None, "{wrong}");
    }
    for right in ["/", "/{a}", "/{a}{b}/*", "/x/{https://a.example/b}/"] {
        assert!(Pattern::parse(right).is_some(), "{right}");
    }
}

proptest! {
    /// However a path is cut, a pattern stands for it or not as for the whole.
    #[test]
    fn pieces_are_one_path(pattern in "/?[ab/*]{0,6}", path in "/[ab/*]{0,6}", at in any::<prop::sample::Index>()) {
        let whole = match pattern.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => path == pattern,
        };
        let (front, back) = path.split_at(at.index(path.len() + 1));
        prop_assert_eq!(is_on(&pattern, &[&path]), whole);
        prop_assert_eq!(is_on(&pattern, &[front, back]), whole);
        prop_assert_eq!(is_on(&pattern, &["", front, "", back]), whole);
    }
}
