//! One subscriber: its request, the head of the answer, and the events that come.

use std::io::{self, IoSliceMut, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use crate::Published;
use crate::chunks::Chunks;

const REQUEST: &[u8] =
    b"GET /events/topic HTTP/1.1\r\nHost: hub\r\nAccept: text/event-stream\r\n\r\n";

enum State {
    /// What has come of the head.
    Head(Vec<u8>),
    /// The body, and how it is coded.
    Body(Option<Chunks>),
}

pub struct Subscriber {
    socket: TcpStream,
    state: State,
    /// Of a line whose end has not come.
    line: Vec<u8>,
    next: usize,
}

impl Subscriber {
    pub fn connect(address: &str) -> io::Result<Self> {
        let mut socket = TcpStream::connect(address)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        socket.write_all(REQUEST)?;
        Ok(Self {
            socket,
            state: State::Head(Vec::new()),
            line: Vec::new(),
            next: 0,
        })
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub fn is_subscribed(&self) -> bool {
        matches!(self.state, State::Body(_))
    }

    /// Takes what is there, and returns how many events that were. Fails if one is not the next, or altered.
    pub fn receive(
        &mut self,
        published: &[Published],
        latencies: &mut Vec<u64>,
    ) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        let mut control = cmsg_space!(TimeSpec);
        let (count, came) = {
            let mut slices = [IoSliceMut::new(&mut buffer)];
            let descriptor = self.socket.as_raw_fd();
            let found = recvmsg::<()>(
                descriptor,
                &mut slices,
                Some(&mut control),
                MsgFlags::MSG_DONTWAIT,
            );
            let message = match found {
                Err(Errno::EAGAIN) => return Ok(0),
                found => found?,
            };
            let mut came = None;
            for known in message.cmsgs()? {
                if let ControlMessageOwned::ScmTimestampns(time) = known {
                    came = u64::try_from(time.tv_sec() * 1_000_000_000 + time.tv_nsec()).ok();
                }
            }
            (message.bytes, came)
        };
        if count == 0 {
            return Err(io::Error::other("the hub has closed the connection"));
        }
        let mut body = Vec::new();
        self.decode(&buffer[..count], &mut body)?;
        let mut events = 0;
        let mut rest = body.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
            // Comments, names and ids are the hub's own.
            if let Some(data) = line.strip_prefix(b"data: ") {
                let due = published
                    .get(self.next)
                    .filter(|due| due.data == data)
                    .ok_or_else(|| {
                        let data = String::from_utf8_lossy(data);
                        io::Error::other(format!("{data:?} where event {} was due", self.next))
                    })?;
                // Of what came before it has begun to, the kernel tells no time: of heads alone.
                let came = came.ok_or_else(|| io::Error::other("the kernel told no time"))?;
                latencies.push(came.saturating_sub(due.sent));
                self.next += 1;
                events += 1;
            }
            self.line.clear();
        }
        self.line.extend_from_slice(rest);
        Ok(events)
    }

    fn decode(&mut self, input: &[u8], body: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.state {
            State::Body(Some(chunks)) => chunks.decode(input, body),
            State::Body(None) => {
                body.extend_from_slice(input);
                Ok(())
            }
            State::Head(head) => {
                head.extend_from_slice(input);
                let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else {
                    return Ok(());
                };
                let behind = head.split_off(end + 4);
                let head = String::from_utf8_lossy(head).to_ascii_lowercase();
                if !head.starts_with("http/1.1 200 ") {
                    return Err(io::Error::other(head));
                }
                let is_chunked = head.contains("\r\ntransfer-encoding: chunked\r\n");
                self.state = State::Body(is_chunked.then(Chunks::default));
                if behind.is_empty() {
                    Ok(())
                } else {
                    self.decode(&behind, body)
                }
            }
        }
    }
}
