//! How many bytes one side may send (RFC 9113, section 5.2).

/// The most (section 6.9.1).
pub(crate) const MOST: u32 = u32::MAX >> 1;

/// A window. The other side's settings may leave less than nothing of it (section 6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window(i64);

impl Window {
    pub(crate) fn new(bytes: u32) -> Self {
        Self(bytes.into())
    }

    /// Bytes that may be sent.
    pub(crate) fn room(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// `bytes` are sent; whether there was room for them.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        self.0 -= i64::try_from(bytes).unwrap_or(i64::MAX >> 1);
        self.0 >= 0
    }

    /// It is `bytes` larger; whether it is within its limit.
    pub(crate) fn open(&mut self, bytes: i64) -> bool {
        self.0 += bytes;
        self.0 <= MOST.into()
    }

    /// It is `bytes` larger, and the update that says so.
    pub(crate) fn reopen(&mut self, bytes: usize) -> u32 {
        let more = u32::try_from(bytes).unwrap_or(MOST).min(MOST);
        self.0 += i64::from(more);
        more
    }
}
