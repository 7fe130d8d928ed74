//! Which paths a pattern stands for.

/// Whether `pattern` stands for a path, which is given in pieces: one that ends in `*` for all that begin so, any other
/// for itself alone. Both are compared as they stand on the wire.
pub fn is_on(pattern: &str, path: &[&str]) -> bool {
    let (mut rest, is_open) = pattern.strip_suffix('*').map_or((pattern, false), |start| (start, true));
    for piece in path {
        match rest.strip_prefix(piece) {
            Some(behind) => rest = behind,
            None => return is_open && piece.starts_with(rest),
        }
    }
    rest.is_empty()
}
