//! Writes fields, without a table of its own: names that both sides know are numbers, and the rest is as it is. `HAProxy` does
//! the same. A table would save 100 bytes of a response, and take a search for each field.

use super::integer;
use super::names::number;

/// The numbers of fields whose values are secret: nothing on the way keeps them (RFC 7541, section 7.1.3).
const SECRET: [usize; 4] = [23, 32, 49, 55];

/// One side of a connection.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    has_begun: bool,
}

impl Encoder {
    /// Begins a section of fields.
    pub(crate) fn begin(&mut self, block: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            // Our table is empty and remains so: whatever size the other side sets is kept to (section 4.2).
            integer::encode(0, 5, 0x20, block);
        }
    }

    /// Appends a status.
    pub(crate) fn status(status: &[u8], block: &mut Vec<u8>) {
        let known = match status {
            b"200" => 8,
            b"204" => 9,
            b"206" => 10,
            b"304" => 11,
            b"400" => 12,
            b"404" => 13,
            b"500" => 14,
            _ => return Self::field(b":status", status, block),
        };
        integer::encode(known, 7, 0x80, block);
    }

    /// Appends a field, its name in lower case, whatever it is given in.
    pub(crate) fn field(name: &[u8], value: &[u8], block: &mut Vec<u8>) {
        let known = number(name);
        integer::encode(known, 4, if SECRET.contains(&known) { 0x10 } else { 0 }, block);
        if known == 0 {
            text(name, block);
            let start = block.len() - name.len();
            block[start..].make_ascii_lowercase();
        }
        text(value, block);
    }
}

fn text(bytes: &[u8], block: &mut Vec<u8>) {
    integer::encode(bytes.len(), 7, 0, block);
    block.extend_from_slice(bytes);
}
