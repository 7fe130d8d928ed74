//! Properties of methods (RFC 9110, section 9.2).

/// Whether a method is safe (RFC 9110, section 9.2.1). An unknown method is not.
pub fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
}
