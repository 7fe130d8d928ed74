//! The chunked coding, as much of it as hubs use: no extensions, no trailers, any cut between reads.

use std::io;

#[derive(Default)]
pub struct Chunks {
    /// Bytes of the present chunk that have not come.
    left: usize,
    size: Vec<u8>,
}

impl Chunks {
    /// Appends to `body` what `input` has of it.
    pub fn decode(&mut self, mut input: &[u8], body: &mut Vec<u8>) -> io::Result<()> {
        while let Some(first) = input.first() {
            if self.left > 0 {
                let (data, rest) = input.split_at(self.left.min(input.len()));
                body.extend_from_slice(data);
                self.left -= data.len();
                input = rest;
                continue;
            }
            input = &input[1..];
            match first {
                b'\r' => {}
                // Behind the data of a chunk there is a line end too, with no size before it.
                b'\n' if self.size.is_empty() => {}
                b'\n' => {
                    let size = std::str::from_utf8(&self.size).map_err(io::Error::other)?;
                    self.left = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
                    self.size.clear();
                    if self.left == 0 {
                        return Err(io::Error::other("the stream has ended"));
                    }
                }
                digit => self.size.push(*digit),
            }
        }
        Ok(())
    }
}
