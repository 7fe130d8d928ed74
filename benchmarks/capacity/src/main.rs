//! Relays bytes through buffers of a length, in slots of a capacity, of which so many are in use at a time.
//!
//! A line of standard input is a cell: `LENGTH CAPACITY SLOTS HUGE MIB`. A slot is read into whole, and written from when
//! `SLOTS` others have been read into: as the buffers of so many connections are. What is before `LENGTH` in a slot is touched,
//! and nothing after it. The answer is a line: nanoseconds of processor time of the relaying thread by KiB, and page faults.
//!
//! Sources and sinks are Unix sockets, whose kernel memory is small and the same in all cells. They are served by a thread on the
//! other core while the relaying one waits, and it waits while they are read and written: neither disturbs the other.

use std::io::{self, BufRead, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::Barrier;
use std::thread;

use memmap2::{Advice, MmapMut};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Connections that are read in one turn, and then written.
const CONNECTIONS: usize = 16;
const RELAY_CORE: usize = 0;
const LOAD_CORE: usize = 1;
/// Bytes of a socket's buffer, which the kernel doubles: one must have room for all that is sent in a turn.
const BUFFER: usize = 208 << 10;

struct Cell {
    length: usize,
    capacity: usize,
    slots: usize,
    huge: bool,
    bytes: usize,
}

impl Cell {
    fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<usize>().ok());
        let mut next = || numbers.next().flatten();
        let (length, capacity, slots, huge, mib) = (next()?, next()?, next()?, next()? != 0, next()?);
        let is_sound = 0 < length && length <= capacity && slots.is_multiple_of(CONNECTIONS) && slots > 0;
        is_sound.then_some(Self { length, capacity, slots, huge, bytes: mib << 20 })
    }

    /// Turns to measure: at least two in which each slot is used.
    fn turns(&self) -> usize {
        let turn = self.length * CONNECTIONS;
        self.bytes.div_ceil(turn).max(2 * self.slots / CONNECTIONS)
    }
}

fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// Processor time of this thread, in nanoseconds.
fn spent() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Minor page faults of this thread (proc(5), /proc/PID/stat).
fn faults() -> io::Result<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat")?;
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    fields
        .split(' ')
        .nth(7)
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Connections: the ends that are read, and the ends that are written.
fn pairs() -> io::Result<(Vec<UnixStream>, Vec<UnixStream>)> {
    let pair = || {
        let (read, written) = UnixStream::pair()?;
        set_socket_send_buffer_size(&written, BUFFER)?;
        Ok((read, written))
    };
    (0..CONNECTIONS).map(|_| pair()).collect::<io::Result<Vec<_>>>().map(|pairs| pairs.into_iter().unzip())
}

/// Fills the sources and empties the sinks, a turn at a time.
fn load(
    mut sources: Vec<UnixStream>,
    mut sinks: Vec<UnixStream>,
    length: usize,
    turns: usize,
    turn: &Barrier,
) -> io::Result<()> {
    pin(LOAD_CORE)?;
    let mut data = vec![1; length];
    for _ in 0..turns {
        for source in &mut sources {
            source.write_all(&data)?;
        }
        turn.wait();
        // The other side relays.
        turn.wait();
        for sink in &mut sinks {
            sink.read_exact(&mut data)?;
        }
    }
    Ok(())
}

fn measure(cell: &Cell) -> io::Result<(f64, u64)> {
    let mut memory = MmapMut::map_anon(cell.capacity * cell.slots)?;
    memory.advise(if cell.huge { Advice::HugePage } else { Advice::NoHugePage })?;
    let (mut incoming, sources) = pairs()?;
    let (sinks, mut outgoing) = pairs()?;
    // Each slot is touched, and the pipeline filled, before anything is measured.
    let before = 2 * cell.slots / CONNECTIONS;
    let turns = before + cell.turns();
    let turn = Arc::new(Barrier::new(2));
    let loading = thread::spawn({
        let (turn, length) = (Arc::clone(&turn), cell.length);
        move || load(sources, sinks, length, turns, &turn)
    });
    let (mut time, mut faulted) = (0, 0);
    for number in 0..turns {
        turn.wait();
        if number == before {
            (time, faulted) = (0, faults()?);
        }
        let began = spent();
        let at = |back: usize| ((number * CONNECTIONS) + cell.slots - back) % cell.slots;
        for (index, from) in incoming.iter_mut().enumerate() {
            let start = (at(0) + index) * cell.capacity;
            from.read_exact(&mut memory[start..start + cell.length])?;
        }
        // The slots that were read into the longest ago: the next turn reads into them.
        for (index, to) in outgoing.iter_mut().enumerate() {
            let start = (at(cell.slots - CONNECTIONS) + index) * cell.capacity;
            to.write_all(&memory[start..start + cell.length])?;
        }
        time += spent() - began;
        turn.wait();
    }
    let faulted = faults()? - faulted;
    loading.join().map_err(|_| io::Error::other("the load has panicked"))??;
    let kib = (cell.turns() * CONNECTIONS * cell.length) as f64 / 1024.0;
    Ok((time as f64 / kib, faulted))
}

fn main() -> io::Result<()> {
    pin(RELAY_CORE)?;
    let mut output = io::stdout();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let cell = Cell::parse(&line).ok_or_else(|| io::Error::other(format!("no cell: {line}")))?;
        let (nanoseconds, faulted) = measure(&cell)?;
        writeln!(output, "{nanoseconds} {faulted}")?;
        output.flush()?;
    }
    Ok(())
}
