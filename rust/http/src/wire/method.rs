//! What methods promise (RFC 9110, section 9.2).

/// Whether a method is known to change nothing (RFC 9110, section 9.2.1). One that is not known may change anything.
pub fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
}
