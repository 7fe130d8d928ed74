//! Header compression (RFC 7541).

mod decoder;
mod encoder;
mod huffman;
mod integer;
mod names;
mod table;

pub(crate) use decoder::Decoder;
pub(crate) use encoder::Encoder;

/// Compressed fields that cannot be read. What follows them on the connection cannot be read either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

#[cfg(test)]
mod tests;
