//! Frames that follow their length.
//!
//! The prefix is cut off as a frame that is not delivered. So no byte of it is pending when the payload begins, and
//! a payload of a power of two fits the slab of that size.

use super::{Cut, Framer};
use penstock_error::{Code, Result};

#[derive(Debug)]
pub(super) struct LengthPrefixed {
    width: usize,
    little_endian: bool,
    max: usize,
    prefix: [u8; 8],
    place: Place,
}

#[derive(Debug)]
enum Place {
    Prefix { have: usize },
    Payload { left: usize },
}

impl LengthPrefixed {
    pub(super) fn new(width: usize, little_endian: bool, max: usize) -> Self {
        Self { width, little_endian, max, prefix: [0; 8], place: Place::Prefix { have: 0 } }
    }

    fn length(&self) -> Result<usize> {
        let mut number = [0; 8];
        let value = if self.little_endian {
            number[..self.width].copy_from_slice(&self.prefix[..self.width]);
            u64::from_le_bytes(number)
        } else {
            number[8 - self.width..].copy_from_slice(&self.prefix[..self.width]);
            u64::from_be_bytes(number)
        };
        usize::try_from(value).ok().filter(|&length| length <= self.max).ok_or_else(|| {
            let max = self.max;
            Code::FrameTooLarge.error(format!("a frame of {value} bytes exceeds the maximum of {max} bytes"))
        })
    }
}

impl Framer for LengthPrefixed {
    fn scan(&mut self, bytes: &[u8]) -> Result<Option<Cut>> {
        match &mut self.place {
            Place::Prefix { have } => {
                let taken = bytes.len().min(self.width - *have);
                self.prefix[*have..*have + taken].copy_from_slice(&bytes[..taken]);
                *have += taken;
                if *have < self.width {
                    return Ok(None);
                }
                let length = self.length()?;
                if length == 0 {
                    self.place = Place::Prefix { have: 0 };
                    return Ok(Some(Cut::at(taken).trimming(self.width)));
                }
                self.place = Place::Payload { left: length };
                Ok(Some(Cut::at(taken).delivered(false)))
            }
            Place::Payload { left } if bytes.len() < *left => {
                *left -= bytes.len();
                Ok(None)
            }
            Place::Payload { left } => {
                let end = *left;
                self.place = Place::Prefix { have: 0 };
                Ok(Some(Cut::at(end)))
            }
        }
    }

    fn wants(&self) -> Option<usize> {
        match self.place {
            Place::Prefix { .. } => None,
            Place::Payload { left } => Some(left),
        }
    }

    fn finish(&mut self, _pending: usize) -> Result<Option<Cut>> {
        match self.place {
            Place::Prefix { have: 0 } => Ok(None),
            Place::Prefix { have } => {
                let width = self.width;
                Err(Code::FrameTruncated
                    .error(format!("the body ended after {have} of the {width} bytes of a length prefix")))
            }
            Place::Payload { left } => {
                Err(Code::FrameTruncated
                    .error(format!("the body ended {left} bytes before the end of a frame")))
            }
        }
    }
}
