//! Properties of methods (RFC 9110, section 9.2).

use std::borrow::Cow;

/// Whether a method is safe (RFC 9110, section 9.2.1). An unknown method is not.
pub fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
}

/// `method`, which takes no allocation if it is one of RFC 9110 (section 9.3) or PATCH: nearly all are.
pub(super) fn kept(method: &[u8]) -> Cow<'static, str> {
    Cow::Borrowed(match method {
        b"GET" => "GET",
        b"HEAD" => "HEAD",
        b"POST" => "POST",
        b"PUT" => "PUT",
        b"DELETE" => "DELETE",
        b"OPTIONS" => "OPTIONS",
        b"TRACE" => "TRACE",
        b"PATCH" => "PATCH",
        other => return Cow::Owned(String::from_utf8_lossy(other).into_owned()),
    })
}
