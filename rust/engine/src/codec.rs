//! Numbers, texts and fields in a message: little-endian, with the length of each before its bytes.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::wire::Fields;

/// Writes the parts of a message, one after the other.
#[derive(Debug)]
pub(crate) struct Put<'a>(pub(crate) &'a mut Vec<u8>);

impl Put<'_> {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn flag(&mut self, value: bool) -> &mut Self {
        self.u8(u8::from(value))
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn i32(&mut self, value: i32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Bytes without a length before them: their length is fixed, or they are the rest of the
    /// message.
    pub(crate) fn rest(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        // A message of that length is refused by its receiver.
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX)).rest(bytes)
    }

    pub(crate) fn option<T>(
        &mut self,
        value: Option<T>,
        put: impl FnOnce(&mut Self, T) -> &mut Self,
    ) -> &mut Self {
        self.flag(value.is_some());
        match value {
            Some(value) => put(self, value),
            None => self,
        }
    }

    pub(crate) fn duration(&mut self, value: Duration) -> &mut Self {
        self.u64(value.as_secs()).u32(value.subsec_nanos())
    }

    pub(crate) fn limit(&mut self, value: Option<Duration>) -> &mut Self {
        self.option(value, |put, value| put.duration(value))
    }

    pub(crate) fn address(&mut self, value: Option<SocketAddr>) -> &mut Self {
        self.option(value, |put, address| match address {
            SocketAddr::V4(v4) => put.u8(4).rest(&v4.ip().octets()).u16(v4.port()),
            SocketAddr::V6(v6) => {
                put.u8(6).rest(&v6.ip().octets()).u16(v6.port()).u32(v6.flowinfo()).u32(v6.scope_id())
            }
        })
    }

    pub(crate) fn fields<'a>(
        &mut self,
        fields: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> &mut Self {
        self.u32(u32::try_from(fields.len()).unwrap_or(u32::MAX));
        for (name, value) in fields {
            self.bytes(name).bytes(value);
        }
        self
    }

    pub(crate) fn code(&mut self, code: Code) -> &mut Self {
        self.u16(code.number())
    }

    pub(crate) fn error(&mut self, error: &Error) -> &mut Self {
        self.code(error.code())
            .bytes(error.detail().as_bytes())
            .option(error.origin(), |put, origin| put.bytes(origin.as_bytes()))
    }
}

/// Takes the parts of a message.
#[derive(Debug)]
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    fn exactly(&mut self, count: usize) -> Result<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(front)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.exactly(N)?.try_into().map_err(|_| malformed())
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.exactly(1)?[0])
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed()),
        }
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn count(&mut self) -> Result<usize> {
        usize::try_from(self.u32()?).map_err(|_| malformed())
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.count()?;
        self.exactly(count)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed())
    }

    pub(crate) fn option<T>(&mut self, take: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.flag()? { take(self).map(Some) } else { Ok(None) }
    }

    pub(crate) fn duration(&mut self) -> Result<Duration> {
        let (seconds, nanos) = (self.u64()?, self.u32()?);
        if nanos >= 1_000_000_000 {
            return Err(malformed());
        }
        Ok(Duration::new(seconds, nanos))
    }

    pub(crate) fn limit(&mut self) -> Result<Option<Duration>> {
        self.option(Self::duration)
    }

    pub(crate) fn address(&mut self) -> Result<Option<SocketAddr>> {
        self.option(|take| match take.u8()? {
            4 => Ok(SocketAddrV4::new(Ipv4Addr::from(take.array::<4>()?), take.u16()?).into()),
            6 => {
                let (ip, port) = (Ipv6Addr::from(take.array::<16>()?), take.u16()?);
                Ok(SocketAddrV6::new(ip, port, take.u32()?, take.u32()?).into())
            }
            _ => Err(malformed()),
        })
    }

    pub(crate) fn fields(&mut self) -> Result<Fields> {
        let mut fields = Fields::default();
        for _ in 0..self.count()? {
            fields.push(self.bytes()?, self.bytes()?);
        }
        Ok(fields)
    }

    pub(crate) fn code(&mut self) -> Result<Code> {
        let number = self.u16()?;
        Code::all().iter().map(|row| row.code).find(|code| code.number() == number).ok_or_else(malformed)
    }

    pub(crate) fn error(&mut self) -> Result<Error> {
        let error = self.code()?.error(self.text()?.to_owned());
        Ok(match self.option(Self::text)? {
            Some(origin) => error.at(&origin.into()),
            None => error,
        })
    }

    /// The rest of the message.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// The message ends here.
    pub(crate) fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(malformed()) }
    }
}

pub(crate) fn malformed() -> Error {
    Code::Internal.error("a message from another process of this gateway is malformed")
}
