//! The publisher: one kept-alive connection on which one POST after the other is made.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Published;

/// With the field's name and the line ends that makes an event of 200 bytes, as those of the relays' benchmark.
const SIZE: usize = 192;

pub struct Publisher {
    socket: TcpStream,
    /// What has come of an answer that is awaited.
    answer: Option<Vec<u8>>,
}

/// By the clock that the kernel's timestamps are of.
fn now() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

fn data(number: usize, sent: u64) -> Vec<u8> {
    let mut text = format!("{{\"sequence\": {number}, \"sent_ns\": {sent}, \"delta\": \"");
    while text.len() < SIZE - 2 {
        text.push_str("tokens of text ");
    }
    text.truncate(SIZE - 2);
    text.push_str("\"}");
    text.into_bytes()
}

impl Publisher {
    pub fn connect(address: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            answer: None,
        })
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub fn is_idle(&self) -> bool {
        self.answer.is_none()
    }

    pub fn publish(&mut self, number: usize) -> io::Result<Published> {
        let sent = now();
        let data = data(number, sent);
        let mut request = format!(
            "POST /publish HTTP/1.1\r\nHost: hub\r\nContent-Type: text/plain\r\nContent-Length: {SIZE}\r\n\r\n"
        )
        .into_bytes();
        request.extend_from_slice(&data);
        // Into the empty buffer of an idle connection it fits.
        self.socket.write_all(&request)?;
        self.answer = Some(Vec::new());
        Ok(Published { data, sent })
    }

    /// Takes what is there of the answer. Fails for any but a success.
    pub fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        let count = match self.socket.read(&mut buffer) {
            Ok(0) => {
                return Err(io::Error::other(
                    "the hub has closed the publisher's connection",
                ));
            }
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let answer = self
            .answer
            .as_mut()
            .ok_or_else(|| io::Error::other("an answer to no request"))?;
        answer.extend_from_slice(&buffer[..count]);
        let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(());
        };
        let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
        if !head.starts_with("http/1.1 20") {
            return Err(io::Error::other(format!(
                "the publisher was answered {head}"
            )));
        }
        let length: usize = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .map_or(Ok(0), |length| length.trim().parse())
            .map_err(io::Error::other)?;
        if answer.len() >= end + 4 + length {
            self.answer = None;
        }
        Ok(())
    }
}
