//! The page: a document that needs nothing else, and the policy by which a browser lets it have nothing else.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

use crate::edge::Shown;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The document, and its policy (Content Security Policy Level 3): the style and the script that are in it, by their hashes,
/// and events of this listener. Nothing of what requests say could be loaded or run, even if it were taken for markup.
static PAGE: LazyLock<(String, String)> = LazyLock::new(|| {
    let document = include_str!("page.html").replace("/*style*/", STYLE).replace("/*script*/", SCRIPT);
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    (document, policy)
});

/// The page as an answer.
pub(in crate::metrics) fn document() -> Shown {
    let (document, policy) = &*PAGE;
    Shown {
        content_type: "text/html; charset=utf-8",
        field: Some(("Content-Security-Policy", policy.clone())),
        ..Shown::text(200, document.clone())
    }
}
