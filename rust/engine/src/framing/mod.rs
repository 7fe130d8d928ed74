//! Cutting a body into frames.

use std::collections::VecDeque;

use crate::error::Result;
use crate::pool::{Pool, Slice};

/// How a body is cut.
#[derive(Debug, Clone)]
pub enum Framing {
    /// As it arrives.
    Raw,
}

/// Slices on their way to becoming frames.
#[derive(Debug)]
pub struct Cutter(VecDeque<Slice>);

#[expect(missing_docs, reason = "until the framers land")]
impl Cutter {
    pub fn new(_framing: &Framing) -> Self {
        Self(VecDeque::new())
    }
    pub fn push(&mut self, slice: Slice) {
        self.0.push_back(slice);
    }
    pub fn next(&mut self, _pool: &Pool) -> Result<Option<Slice>> {
        Ok(self.0.pop_front())
    }
    pub fn finish(&mut self, _pool: &Pool) -> Result<Option<Slice>> {
        Ok(None)
    }
    pub fn wants(&self) -> Option<usize> {
        None
    }
    pub fn pending(&self) -> usize {
        self.0.iter().map(|slice| slice.len()).sum()
    }
    pub fn into_pending(self) -> Vec<Slice> {
        self.0.into()
    }
}
