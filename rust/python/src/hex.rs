//! Bytes as hexadecimal digits.

/// Two digits for each byte.
pub(crate) fn written(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// What [`written`] was made of, if it is that.
pub(crate) fn read(text: &str) -> Option<Vec<u8>> {
    let digits = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(digits).collect()
}
