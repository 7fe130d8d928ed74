//! What a network is made of: connections, what is under way on them, and who listens.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Chance, Conditions, Door, End, LOST};

/// Makes of the seed of the network that of what the engine takes for chance.
const ENGINE: u64 = 0x656e_6769_6e65;

/// All hosts of a thread.
#[derive(Debug)]
pub(super) struct Fabric {
    conditions: Conditions,
    chance: Chance,
    /// Of its own, so that delays do not depend on what the engine asks.
    engine: Chance,
    pub(super) wires: Vec<[Side; 2]>,
    listeners: BTreeMap<SocketAddr, Listener>,
    pub(super) names: BTreeMap<String, Vec<SocketAddr>>,
    /// By their time and number.
    events: BTreeMap<(Instant, u64), Event>,
    numbered: u64,
    wake: Arc<Notify>,
}

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) door: Door,
    pub(super) come: Vec<End>,
}

/// What one side of a connection has.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a kernel has them too: the directions end each by itself")]
pub(super) struct Side {
    /// Its delays: of its own, so that what other connections do changes none of them.
    chance: Chance,
    room: usize,
    /// Written, and not on its way.
    unsent: VecDeque<u8>,
    /// On its way.
    flying: usize,
    /// Come, and not read.
    arrived: VecDeque<u8>,
    /// When the last of what is on its way to it comes: nothing overtakes.
    last: Instant,
    /// It writes nothing more, and has said so.
    ends: bool,
    is_end_sent: bool,
    /// The other side writes nothing more.
    is_ended: bool,
    /// A reset has come.
    is_reset: bool,
    /// It has not been told: an error is told once, by whichever call meets it first.
    is_untold: bool,
    is_closed: bool,
    pub(super) resets: bool,
    pub(super) readable: Ready,
    pub(super) writable: Ready,
    /// Bytes that its writes have had taken.
    pub(super) taken_from: u64,
}

/// What a runtime believes of one direction.
#[derive(Debug, Default)]
pub(super) struct Ready {
    now: bool,
    /// It stays so: the direction has ended.
    ended: bool,
    task: Option<Waker>,
}

#[derive(Debug)]
enum Event {
    Bytes(usize, usize, Vec<u8>),
    End(usize, usize),
    Reset(usize, usize),
    /// The runtime looks at what the kernel has.
    Look(usize, usize),
}

impl Ready {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.now || self.ended {
            return Poll::Ready(());
        }
        // One task waits for a direction: the last that has asked.
        self.task = Some(context.waker().clone());
        Poll::Pending
    }

    pub(super) fn clear(&mut self) {
        self.now = false;
    }

    fn set(&mut self, is_over: bool) {
        self.now = true;
        self.ended |= is_over;
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }
}

impl Side {
    fn new(chance: Chance, room: usize) -> Self {
        Self {
            chance,
            room,
            unsent: VecDeque::new(),
            flying: 0,
            arrived: VecDeque::new(),
            last: Instant::now(),
            ends: false,
            is_end_sent: false,
            is_ended: false,
            is_reset: false,
            is_untold: false,
            is_closed: false,
            resets: false,
            readable: Ready::default(),
            writable: Ready { now: true, ..Ready::default() },
            taken_from: 0,
        }
    }

    pub(super) fn untaken(&self) -> usize {
        self.unsent.len() + self.flying
    }

    pub(super) fn has_hung_up(&self) -> bool {
        self.is_reset || self.is_ended && self.ends
    }

    fn take_error(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_untold) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }

    pub(super) fn peek(&mut self) -> io::Result<usize> {
        if !self.arrived.is_empty() {
            return Ok(1);
        }
        self.take_error()?;
        if self.is_ended || self.is_reset { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }
}

impl Fabric {
    pub(super) fn new(conditions: Conditions, wake: Arc<Notify>) -> Self {
        Self {
            chance: Chance::new(conditions.seed),
            engine: Chance::new(conditions.seed ^ ENGINE),
            conditions,
            wires: Vec::new(),
            listeners: BTreeMap::new(),
            names: BTreeMap::new(),
            events: BTreeMap::new(),
            numbered: 0,
            wake,
        }
    }

    pub(super) fn listener(&mut self, address: SocketAddr) -> &mut Listener {
        let closed = || Listener { door: Door::Refuses, come: Vec::new() };
        self.listeners.entry(address).or_insert_with(closed)
    }

    pub(super) fn connect(&mut self) -> (End, End) {
        let wire = self.wires.len();
        let sides = [0, 1].map(|side| {
            let mut chance = Chance::new(self.conditions.seed ^ (((wire * 2 + side) as u64 + 1) << 32));
            let room = self.conditions.room / 2
                + usize::try_from(chance.up_to(self.conditions.room as u64)).unwrap_or(0);
            Side::new(chance, room.max(64))
        });
        self.wires.push(sides);
        (End { wire, side: 0 }, End { wire, side: 1 })
    }

    /// How long a connection takes to be made.
    pub(super) fn delay(&mut self) -> u64 {
        self.chance.up_to(self.conditions.delay)
    }

    /// What the engine takes for chance.
    pub(super) fn number(&mut self) -> u32 {
        u32::try_from(self.engine.up_to(u64::from(u32::MAX))).unwrap_or(u32::MAX)
    }

    pub(super) fn side(&mut self, end: &End) -> &mut Side {
        &mut self.wires[end.wire][end.side]
    }

    /// When the next event is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.events.keys().next().map(|(at, _)| *at)
    }

    fn add(&mut self, at: Instant, event: Event) {
        self.numbered += 1;
        self.events.insert((at, self.numbered), event);
        self.wake.notify_one();
    }

    /// The runtime hears a little later of what has changed.
    fn announce(&mut self, wire: usize, side: usize) {
        let late = self.wires[wire][side].chance.up_to(1);
        self.add(Instant::now() + Duration::from_millis(late), Event::Look(wire, side));
    }

    /// Sends `event` to the other side of `side`, after all that was sent before.
    fn post(&mut self, wire: usize, side: usize, event: Event) {
        let delay = self.conditions.delay;
        let [one, other] = &mut self.wires[wire];
        let (from, to) = if side == 0 { (one, other) } else { (other, one) };
        let lost = if from.chance.one_in(8) { LOST } else { 0 };
        let at = Instant::now() + Duration::from_millis(from.chance.up_to(delay) + lost);
        to.last = to.last.max(at);
        let at = to.last;
        self.add(at, event);
    }

    /// Puts on its way what the other side has a window for.
    fn transmit(&mut self, wire: usize, side: usize) {
        loop {
            let there = &self.wires[wire][1 - side];
            let (unread, is_gone) = (there.arrived.len(), there.is_closed);
            let here = &mut self.wires[wire][side];
            let window = if is_gone {
                usize::MAX
            } else {
                self.conditions.window.saturating_sub(unread + here.flying)
            };
            let most = usize::try_from(here.chance.up_to(self.conditions.packet as u64)).unwrap_or(1).max(1);
            let count = most.min(window).min(here.unsent.len());
            if count == 0 {
                break;
            }
            let bytes: Vec<_> = here.unsent.drain(..count).collect();
            here.flying += count;
            self.post(wire, side, Event::Bytes(wire, 1 - side, bytes));
        }
        let here = &mut self.wires[wire][side];
        if here.ends && here.unsent.is_empty() && !std::mem::replace(&mut here.is_end_sent, true) {
            self.post(wire, side, Event::End(wire, 1 - side));
        }
    }

    /// Whether the kernel would say so: a third of the buffer is free.
    pub(super) fn is_writable(&self, wire: usize, side: usize) -> bool {
        let side = &self.wires[wire][side];
        side.is_reset || side.ends || side.untaken() * 3 <= side.room * 2
    }

    pub(super) fn send(&mut self, end: &End, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let side = self.side(end);
        side.take_error()?;
        if side.is_reset || side.ends {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = side.room.saturating_sub(side.untaken());
        let mut left = room;
        for part in parts {
            let count = left.min(part.len());
            side.unsent.extend(&part[..count]);
            left -= count;
        }
        let count = room - left;
        if count == 0 && parts.iter().any(|part| !part.is_empty()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        side.taken_from += count as u64;
        self.transmit(end.wire, end.side);
        Ok(count)
    }

    /// As recv(2): what has come is read before an error is met.
    pub(super) fn receive(&mut self, end: &End, memory: &mut [u8]) -> io::Result<usize> {
        let side = self.side(end);
        if side.arrived.is_empty() || memory.is_empty() {
            side.take_error()?;
            let is_over = side.is_ended || side.is_reset || memory.is_empty();
            return if is_over { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let count = memory.len().min(side.arrived.len());
        for (byte, arrived) in memory.iter_mut().zip(side.arrived.drain(..count)) {
            *byte = arrived;
        }
        self.transmit(end.wire, 1 - end.side);
        Ok(count)
    }

    pub(super) fn end_writing(&mut self, wire: usize, side: usize) {
        self.wires[wire][side].ends = true;
        self.transmit(wire, side);
    }

    /// What was not read, or an order to do so, makes it a reset.
    pub(super) fn close(&mut self, wire: usize, side: usize) {
        let here = &mut self.wires[wire][side];
        here.is_closed = true;
        if here.is_reset {
            return;
        }
        if here.resets || !here.arrived.is_empty() {
            here.unsent.clear();
            here.is_reset = true;
            self.post(wire, side, Event::Reset(wire, 1 - side));
        } else {
            self.end_writing(wire, side);
        }
    }

    /// Has the next event happen. Whether what it has woken is to run before the one after it.
    pub(super) fn turn(&mut self) -> bool {
        let Some((_, event)) = self.events.pop_first() else { return false };
        match event {
            Event::Bytes(wire, side, bytes) => self.arrive(wire, side, &bytes),
            Event::End(wire, side) => {
                self.wires[wire][side].is_ended = true;
                self.announce(wire, side);
            }
            Event::Reset(wire, side) => self.reset(wire, side),
            Event::Look(wire, side) => self.look(wire, side),
        }
        self.chance.one_in(2)
    }

    fn arrive(&mut self, wire: usize, side: usize, bytes: &[u8]) {
        self.wires[wire][1 - side].flying -= bytes.len();
        let here = &mut self.wires[wire][side];
        if here.is_reset {
            return;
        }
        if here.is_closed {
            here.is_reset = true;
            return self.post(wire, side, Event::Reset(wire, 1 - side));
        }
        here.arrived.extend(bytes);
        self.announce(wire, side);
        if self.is_writable(wire, 1 - side) {
            self.announce(wire, 1 - side);
        }
        self.transmit(wire, 1 - side);
    }

    fn reset(&mut self, wire: usize, side: usize) {
        let here = &mut self.wires[wire][side];
        if std::mem::replace(&mut here.is_reset, true) {
            return;
        }
        here.unsent.clear();
        here.is_untold = true;
        self.announce(wire, side);
    }

    fn look(&mut self, wire: usize, side: usize) {
        let is_writable = self.is_writable(wire, side);
        let here = &mut self.wires[wire][side];
        let is_over = here.is_ended || here.is_reset;
        if is_over || !here.arrived.is_empty() {
            here.readable.set(is_over);
        }
        if is_writable {
            let is_over = here.is_reset;
            here.writable.set(is_over);
        }
    }
}
