//! Requests at a rate that does not wait for the answers: `open-loop HOST:PORT RATE SECONDS CONNECTIONS PATH COUNT SIZE`.
//!
//! Requests are due at random (exponential gaps, seeded), for PATH and a random number below COUNT, and go to a
//! connection that is idle. A latency runs from the moment that a request was due to the last byte of its answer, so that
//! a gateway that falls behind is charged for the queue. The loop is busy and asks the clock each time round: a
//! timer of the kernel would add more than what is measured. Prints one line of JSON, with report.lua's names.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const BUFFER: usize = 256 * 1024;
/// Answers that are still missing when so much time has passed after the last request are timeouts.
const PATIENCE: Duration = Duration::from_secs(5);

struct Connection {
    socket: TcpStream,
    due: Option<Instant>,
    head: Vec<u8>,
    /// Bytes of the body that have not come; none while the head has not.
    left: Option<usize>,
}

struct Options {
    address: String,
    rate: f64,
    seconds: f64,
    connections: usize,
    path: String,
    count: u64,
    size: usize,
}

#[derive(Default)]
struct Counts {
    latencies: Vec<u64>,
    bytes: usize,
    read_errors: usize,
    status_errors: usize,
    timeouts: usize,
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Above 0, and 1 at most.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

impl Connection {
    fn open(address: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            due: None,
            head: Vec::new(),
            left: None,
        })
    }

    fn send(&mut self, request: &[u8], due: Instant) -> io::Result<()> {
        self.due = Some(due);
        self.head.clear();
        self.left = None;
        // Into the empty buffer of an idle connection it fits.
        self.socket.write_all(request)
    }

    /// Reads what has come. How many bytes that were; and whether the answer is whole.
    fn receive(&mut self, buffer: &mut [u8], size: usize) -> io::Result<(usize, bool)> {
        let count = match self.socket.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok((0, false)),
            Err(error) => return Err(error),
        };
        let mut body = count;
        if self.left.is_none() {
            let before = self.head.len();
            self.head.extend_from_slice(&buffer[..count.min(16 * 1024)]);
            let Some(end) = self.head.windows(4).position(|four| four == b"\r\n\r\n") else {
                return Ok((count, false));
            };
            if !self.head.starts_with(b"HTTP/1.1 200 ") {
                return Err(io::ErrorKind::InvalidData.into());
            }
            body = count - (end + 4 - before);
            self.left = Some(size);
        }
        let left = self
            .left
            .unwrap_or(0)
            .checked_sub(body)
            .ok_or(io::ErrorKind::InvalidData)?;
        self.left = Some(left);
        Ok((count, left == 0))
    }
}

fn run(options: &Options) -> io::Result<(Counts, Duration)> {
    let mut connections = (0..options.connections)
        .map(|_| Connection::open(&options.address))
        .collect::<io::Result<Vec<_>>>()?;
    let requests: Vec<Vec<u8>> = (0..options.count)
        .map(|number| {
            format!(
                "GET {}{number} HTTP/1.1\r\nHost: {}\r\n\r\n",
                options.path, options.address
            )
            .into_bytes()
        })
        .collect();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut counts = Counts::default();
    let mut buffer = vec![0; BUFFER];
    let mut idle: Vec<usize> = (0..connections.len()).collect();
    let mut busy: Vec<usize> = Vec::new();
    let mut waiting: VecDeque<Instant> = VecDeque::new();
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(options.seconds);
    let mut due = start;
    loop {
        let now = Instant::now();
        while due <= now && due < end {
            waiting.push_back(due);
            due += Duration::from_secs_f64(-random.unit().ln() / options.rate);
        }
        while let Some(due) = waiting.front().copied() {
            let Some(number) = idle.pop() else { break };
            waiting.pop_front();
            let place = random.next() % options.count;
            connections[number].send(&requests[usize::try_from(place).unwrap_or(0)], due)?;
            busy.push(number);
        }
        let mut place = 0;
        while let Some(number) = busy.get(place).copied() {
            let connection = &mut connections[number];
            match connection.receive(&mut buffer, options.size) {
                Ok((count, false)) => {
                    counts.bytes += count;
                    place += 1;
                    continue;
                }
                Ok((count, true)) => {
                    counts.bytes += count;
                    let latency = connection.due.map_or(0, |due| due.elapsed().as_nanos());
                    counts
                        .latencies
                        .push(u64::try_from(latency).unwrap_or(u64::MAX));
                }
                Err(error) => {
                    let count = if error.kind() == io::ErrorKind::InvalidData {
                        &mut counts.status_errors
                    } else {
                        &mut counts.read_errors
                    };
                    *count += 1;
                    *connection = Connection::open(&options.address)?;
                }
            }
            busy.swap_remove(place);
            idle.push(number);
        }
        if due >= end && waiting.is_empty() && busy.is_empty() {
            return Ok((counts, start.elapsed()));
        }
        if now > end + PATIENCE {
            counts.timeouts = waiting.len() + busy.len();
            return Ok((counts, start.elapsed()));
        }
    }
}

fn options() -> Option<Options> {
    let mut arguments = std::env::args().skip(1);
    Some(Options {
        address: arguments.next()?,
        rate: arguments.next()?.parse().ok()?,
        seconds: arguments.next()?.parse().ok()?,
        connections: arguments.next()?.parse().ok()?,
        path: arguments.next()?,
        count: arguments.next()?.parse().ok()?,
        size: arguments.next()?.parse().ok()?,
    })
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: open-loop HOST:PORT RATE SECONDS CONNECTIONS PATH COUNT SIZE");
        return ExitCode::from(2);
    };
    let (mut counts, duration) = match run(&options) {
        Ok(done) => done,
        Err(error) => {
            eprintln!("open-loop: {error}");
            return ExitCode::FAILURE;
        }
    };
    counts.latencies.sort_unstable();
    let percentile = |percent: f64| {
        let place = (counts.latencies.len() as f64 * percent / 100.0) as usize;
        counts
            .latencies
            .get(place)
            .or(counts.latencies.last())
            .map_or(0, |nanoseconds| nanoseconds / 1000)
    };
    println!(
        "{{\"requests\": {}, \"bytes\": {}, \"duration_us\": {}, \"p50_us\": {}, \"p99_us\": {}, \"connect_errors\": 0, \
         \"read_errors\": {}, \"write_errors\": 0, \"status_errors\": {}, \"timeouts\": {}}}",
        counts.latencies.len(),
        counts.bytes,
        duration.as_micros(),
        percentile(50.0),
        percentile(99.0),
        counts.read_errors,
        counts.status_errors,
        counts.timeouts
    );
    ExitCode::SUCCESS
}
