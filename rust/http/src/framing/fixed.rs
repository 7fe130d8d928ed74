//! Frames of one size.

use super::{Cut, Framer};
use penstock_error::{Code, Result};

#[derive(Debug)]
pub(super) struct Fixed {
    size: usize,
    left: usize,
}

impl Fixed {
    pub(super) fn new(size: usize) -> Self {
        Self { size, left: size }
    }
}

impl Framer for Fixed {
    fn scan(&mut self, bytes: &[u8]) -> Result<Option<Cut>> {
        if bytes.len() < self.left {
            self.left -= bytes.len();
            return Ok(None);
        }
        let end = std::mem::replace(&mut self.left, self.size);
        Ok(Some(Cut::at(end)))
    }

    fn wants(&self) -> Option<usize> {
        Some(self.left)
    }

    fn repeats(&self) -> bool {
        true
    }

    fn finish(&mut self, pending: usize) -> Result<Option<Cut>> {
        if pending == 0 {
            return Ok(None);
        }
        let size = self.size;
        Err(Code::FrameTruncated
            .error(format!("the body ended after {pending} of the {size} bytes of a frame")))
    }
}
