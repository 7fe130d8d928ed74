//! Reads compressed fields.

use std::ops::Range;

use super::table::Table;
use super::{Malformed, huffman, integer};

/// Bytes of the fields that are kept: what both sides begin with (RFC 9113, section 6.5.2). No setting of ours changes it.
const TABLE: usize = 4096;

/// What one side has sent so far.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: Table,
    /// Strings as they were before they were encoded.
    strings: Vec<u8>,
}

/// Where a string is.
#[derive(Debug)]
enum Text {
    Block(Range<usize>),
    Strings(Range<usize>),
}

/// Where a name is.
#[derive(Debug)]
enum Name {
    Known(usize),
    Text(Text),
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { table: Table::new(TABLE), strings: Vec::new() }
    }

    /// Calls `each` with the names and values of a whole section of fields.
    ///
    /// # Errors
    /// It is not as RFC 7541 has it. Fields before that have been told.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Malformed> {
        let (mut at, mut has_begun) = (0, false);
        while let Some(first) = block.get(at) {
            if first & 0xe0 == 0x20 {
                let size = integer::decode(block, &mut at, 5)?;
                // At the beginning alone (section 4.2).
                if has_begun || size > TABLE {
                    return Err(Malformed);
                }
                self.table.resize(size);
                continue;
            }
            has_begun = true;
            if first & 0x80 != 0 {
                let number = integer::decode(block, &mut at, 7)?;
                let (name, value) = self.table.get(number).ok_or(Malformed)?;
                each(name, value);
                continue;
            }
            let is_kept = first & 0x40 != 0;
            let number = integer::decode(block, &mut at, if is_kept { 6 } else { 4 })?;
            self.strings.clear();
            let name = if number > 0 { Name::Known(number) } else { Name::Text(self.text(block, &mut at)?) };
            let value = self.text(block, &mut at)?;
            let string = |text: &Text| match text {
                Text::Block(range) => &block[range.clone()],
                Text::Strings(range) => &self.strings[range.clone()],
            };
            let name = match &name {
                Name::Known(number) => self.table.get(*number).ok_or(Malformed)?.0,
                Name::Text(text) => string(text),
            };
            each(name, string(&value));
            if is_kept {
                // It may be of the table itself, which changes.
                let (name, value) = (name.to_vec(), string(&value).to_vec());
                self.table.insert(&name, &value);
            }
        }
        // A connection that is idle needs none.
        self.strings = Vec::new();
        Ok(())
    }

    fn text(&mut self, block: &[u8], at: &mut usize) -> Result<Text, Malformed> {
        let is_encoded = block.get(*at).ok_or(Malformed)? & 0x80 != 0;
        let length = integer::decode(block, at, 7)?;
        let range = *at..*at + length;
        let text = block.get(range.clone()).ok_or(Malformed)?;
        *at = range.end;
        if !is_encoded {
            return Ok(Text::Block(range));
        }
        let start = self.strings.len();
        huffman::decode(text, &mut self.strings)?;
        Ok(Text::Strings(start..self.strings.len()))
    }

    #[cfg(test)]
    pub(super) fn table_size(&self) -> usize {
        self.table.size()
    }
}
