//! What the kernel knows of a TCP connection (`TCP_INFO`, tcp(7)): how long a round trip takes, how fast the other side gets what it is
//! sent, and what holds that up.

use std::time::Duration;

use super::Socket;
use crate::sys::descriptor::get_option;

/// The part of the kernel's `struct tcp_info` (linux/tcp.h) that is read. A kernel that gives less is older than 4.19, and does
/// not count what it sends again.
const BYTES: usize = 216;

/// One look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// A round trip, smoothed (RFC 6298).
    pub(crate) rtt: Duration,
    /// Bytes a second that the other side has taken lately; none if this side had too little to send to tell.
    pub(crate) delivery_rate: Option<u64>,
    pub(crate) totals: TcpTotals,
}

/// What adds up over the life of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TcpTotals {
    /// Bytes that were sent, without headers.
    pub(crate) sent: u64,
    /// Those of them that were sent again.
    pub(crate) retransmitted: u64,
    /// Microseconds in which something was under way.
    pub(crate) busy: u64,
    /// Those in which the other side had no room for more.
    pub(crate) receiver_limited: u64,
    /// Those in which the buffer of this side was too small for more.
    pub(crate) buffer_limited: u64,
}

impl TcpTotals {
    /// What has been added since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            retransmitted: self.retransmitted.saturating_sub(before.retransmitted),
            busy: self.busy.saturating_sub(before.busy),
            receiver_limited: self.receiver_limited.saturating_sub(before.receiver_limited),
            buffer_limited: self.buffer_limited.saturating_sub(before.buffer_limited),
        }
    }
}

impl TcpInfo {
    /// None if the socket is not one of TCP, or the kernel is too old. It takes the lock of the socket, for a microsecond.
    pub(crate) fn of(socket: &Socket) -> Option<Self> {
        let Socket::Tcp(stream) = socket else { return None };
        let mut bytes = [0; BYTES];
        let length = get_option(stream, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes).ok()?;
        (length == BYTES).then(|| Self::read(&bytes))
    }

    /// Reads the kernel's struct.
    fn read(bytes: &[u8; BYTES]) -> Self {
        let number = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let small = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        // A bit field: the compilers of all machines with the least byte first begin with the lowest bit.
        let is_idle = bytes[7] & if cfg!(target_endian = "little") { 1 } else { 1 << 7 } != 0;
        Self {
            rtt: Duration::from_micros(small(68).into()),
            delivery_rate: Some(number(160)).filter(|rate| *rate > 0 && !is_idle),
            totals: TcpTotals {
                sent: number(200),
                retransmitted: number(208),
                busy: number(168),
                receiver_limited: number(176),
                buffer_limited: number(184),
            },
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_the_struct_of_the_kernel() {
        let mut bytes = [0; BYTES];
        bytes[68..72].copy_from_slice(&1500_u32.to_ne_bytes());
        for (at, value) in [(160, 1000_u64), (168, 5), (176, 2), (184, 3), (200, 100), (208, 10)] {
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let totals =
            TcpTotals { sent: 100, retransmitted: 10, busy: 5, receiver_limited: 2, buffer_limited: 3 };
        let info = TcpInfo { rtt: Duration::from_micros(1500), delivery_rate: Some(1000), totals };
        assert_eq!(TcpInfo::read(&bytes), info);
        bytes[7] = 0b1000_0001;
        assert_eq!(TcpInfo::read(&bytes), TcpInfo { delivery_rate: None, ..info });
        assert_eq!(
            totals.since(&TcpTotals { sent: 60, ..totals }),
            TcpTotals { sent: 40, ..TcpTotals::default() }
        );
    }

    #[tokio::test]
    async fn a_connection_over_loopback_has_sent_what_it_was_given() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut served, _) = listener.accept().await.unwrap();
        served.write_all(&[0; 1000]).await.unwrap();
        client.read_exact(&mut [0; 1000]).await.unwrap();
        let socket = Socket::Tcp(served);
        let info = TcpInfo::of(&socket).unwrap();
        assert_eq!((info.totals.sent, info.totals.retransmitted), (1000, 0));
        assert!(info.rtt > Duration::ZERO);
        let (left, _right) = tokio::net::UnixStream::pair().unwrap();
        assert_eq!(TcpInfo::of(&Socket::Unix(left)), None);
    }
}
