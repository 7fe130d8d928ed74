//! Frames that have come (RFC 9113, sections 5 and 6).

use crate::frame::{ErrorCode, FrameHead, HEAD, LONGEST, flag, kind, number, write};
use crate::priority::Priority;
use crate::section::{Fault, Kind, Section};
use crate::send::First;
use crate::session::{Block, DRAINED, Drain, Failure, Session};
use crate::stream::{Item, Progress, Reset, Stream};
use crate::window::MOST;

type Result<T = ()> = std::result::Result<T, Failure>;

const fn failure(code: ErrorCode, why: &'static str) -> Failure {
    Failure { code, why }
}

const fn protocol(why: &'static str) -> Failure {
    failure(ErrorCode::PROTOCOL_ERROR, why)
}

const fn size(why: &'static str) -> Failure {
    failure(ErrorCode::FRAME_SIZE_ERROR, why)
}

const CLOSED: Failure = failure(ErrorCode::STREAM_CLOSED, "a frame came on a stream that had ended");

/// For a frame of a stream that was reset.
fn after(reset: Reset) -> Result {
    match reset {
        Reset::Received(_) | Reset::Refused => Err(CLOSED),
        // It may have been on its way.
        Reset::Sent(_) | Reset::Lost => Ok(()),
    }
}

impl Session {
    /// Takes bytes that have come.
    ///
    /// # Errors
    /// The connection cannot go on: [`Session::fail`] says so to the other side.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result {
        if !self.preface.is_empty() {
            let count = self.preface.len().min(bytes.len());
            let (begun, rest) = self.preface.split_at(count);
            if bytes[..count] != *begun {
                return Err(protocol("what has come first is no preface"));
            }
            bytes = &bytes[count..];
            self.preface = rest;
        }
        while !bytes.is_empty() {
            if self.partial.is_empty() {
                if let Some((head, payload)) = self.whole_frame(bytes)? {
                    bytes = &bytes[HEAD + head.length..];
                    self.frame_came(head, payload)?;
                    continue;
                }
            }
            // A frame that came in parts is put together.
            let missing = match self.partial.first_chunk() {
                Some(head) => HEAD + FrameHead::read(head).length - self.partial.len(),
                None => HEAD - self.partial.len(),
            };
            let (part, rest) = bytes.split_at(missing.min(bytes.len()));
            self.partial.extend_from_slice(part);
            bytes = rest;
            let partial = std::mem::take(&mut self.partial);
            match self.whole_frame(&partial)? {
                Some((head, payload)) => self.frame_came(head, payload)?,
                None => self.partial = partial,
            }
        }
        Ok(())
    }

    /// The frame at the front of `bytes`, if all of it is there.
    fn whole_frame<'a>(&self, bytes: &'a [u8]) -> Result<Option<(FrameHead, &'a [u8])>> {
        let Some((head, rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let head = FrameHead::read(head);
        if head.length > LONGEST {
            return Err(size("a frame is longer than 16 KiB"));
        }
        if !self.has_settings && (head.kind != kind::SETTINGS || head.has(flag::ACK)) {
            return Err(protocol("the first frame is not SETTINGS"));
        }
        Ok(rest.get(..head.length).map(|payload| (head, payload)))
    }

    fn frame_came(&mut self, head: FrameHead, payload: &[u8]) -> Result {
        if let Some(block) = &self.block {
            if head.kind != kind::CONTINUATION || head.stream != block.stream {
                return Err(protocol("fields are interrupted by another frame"));
            }
        }
        match head.kind {
            kind::DATA => self.data_came(head, payload),
            kind::HEADERS => self.headers_came(head, payload),
            kind::PRIORITY => self.priority_came(head, payload),
            kind::RST_STREAM => self.reset_came(head, payload),
            kind::SETTINGS => self.settings_came(head, payload),
            kind::PUSH_PROMISE => Err(protocol("a stream is promised, which was not allowed")),
            kind::PING => self.ping_came(head, payload),
            kind::GOAWAY => self.goaway_came(head, payload),
            kind::WINDOW_UPDATE => self.window_came(head, payload),
            kind::CONTINUATION => self.continuation_came(head, payload),
            kind::PRIORITY_UPDATE => self.priority_update_came(head, payload),
            // Section 5.5.
            _ => Ok(()),
        }
    }

    /// Whether a stream has not begun.
    fn is_idle(&self, stream: u32) -> bool {
        let is_theirs = (stream % 2 == 1) == self.is_server();
        if is_theirs { stream > self.last_received } else { stream >= self.next }
    }

    /// For a frame of a stream that has ended: it may have been on its way while this side reset the stream. `None`: the stream is
    /// not known, because it ended long ago or never began.
    fn after_the_end(&self, stream: u32) -> Option<Result> {
        let (_, is_ours) = self.recent.iter().rfind(|(recent, _)| *recent == stream)?;
        Some(if *is_ours { Ok(()) } else { Err(CLOSED) })
    }

    /// The other side has broken a rule that is a stream's. The owner of the stream learns it.
    fn break_off(&mut self, stream: u32, code: ErrorCode) {
        if self.place(stream).is_some() {
            self.reset(stream, code);
            self.forget_withheld(stream);
        } else {
            self.say_reset(stream, code);
        }
    }

    /// A stream that has ended before anything took it has no owner.
    fn forget_withheld(&mut self, stream: u32) {
        if self.place(stream).is_some_and(|place| self.streams[place].is_withheld) {
            self.close(stream);
        }
    }

    fn data_came(&mut self, head: FrameHead, payload: &[u8]) -> Result {
        if head.stream == 0 {
            return Err(protocol("DATA is of no stream"));
        }
        // Padding counts (section 6.9.1).
        let counted = payload.len();
        if !self.receive_window.take(counted) {
            return Err(failure(ErrorCode::FLOW_CONTROL_ERROR, "more came than the connection's window had"));
        }
        let payload = unpad(head, payload)?;
        let padding = counted - payload.len();
        if self.is_idle(head.stream) {
            return Err(protocol("DATA came before HEADERS"));
        }
        let Some(place) = self.place(head.stream) else {
            self.release_of_connection(counted);
            return self.after_the_end(head.stream).unwrap_or(Err(CLOSED));
        };
        let stream = &mut self.streams[place];
        if let Some(reset) = stream.reset {
            self.release_of_connection(counted);
            return after(reset);
        }
        let is_left = stream.is_left;
        if stream.received != Progress::Head {
            self.release_of_connection(counted);
            self.break_off(head.stream, ErrorCode::STREAM_CLOSED);
            return Ok(());
        }
        let ends = head.has(flag::END_STREAM);
        if let Err(code) = stream.admit(counted, payload.len(), ends) {
            self.release_of_connection(counted);
            self.break_off(head.stream, code);
            return Ok(());
        }
        if ends {
            stream.received = Progress::All;
            if std::mem::take(&mut stream.is_withheld) {
                self.arrived.push_back(head.stream);
            }
        }
        if is_left {
            // What it belongs to is not read any more.
            self.release_of_connection(counted);
            return Ok(());
        }
        stream.keep(payload);
        stream.wake();
        if padding > 0 {
            self.release(head.stream, padding);
        }
        Ok(())
    }

    fn headers_came(&mut self, head: FrameHead, payload: &[u8]) -> Result {
        if head.stream == 0 {
            return Err(protocol("HEADERS are of no stream"));
        }
        let mut payload = unpad(head, payload)?;
        let mut depends_on_itself = false;
        if head.has(flag::PRIORITY) {
            let Some((&[a, b, c, d, _weight], rest)) = payload.split_first_chunk::<5>() else {
                return Err(size("HEADERS are too short for their priority"));
            };
            depends_on_itself = number([a, b, c, d]) == head.stream;
            payload = rest;
        }
        if self.is_server() && self.place(head.stream).is_none() {
            if head.stream % 2 == 0 {
                return Err(protocol("a client has begun a stream of an even number"));
            }
            if head.stream <= self.last_received {
                // Section 5.1.1.
                let never = Err(protocol("a stream has begun whose number is below that of an earlier one"));
                self.after_the_end(head.stream).unwrap_or(never)?;
            }
        } else if self.is_idle(head.stream) {
            return Err(protocol("a response came without a request"));
        }
        let ends_stream = head.has(flag::END_STREAM);
        let block = Block { stream: head.stream, bytes: Vec::new(), ends_stream, depends_on_itself };
        if head.has(flag::END_HEADERS) {
            return self.block_came(&block, payload);
        }
        self.block = Some(Block { bytes: payload.to_vec(), ..block });
        Ok(())
    }

    fn continuation_came(&mut self, head: FrameHead, payload: &[u8]) -> Result {
        let Some(mut block) = self.block.take() else {
            return Err(protocol("CONTINUATION came without HEADERS"));
        };
        block.bytes.extend_from_slice(payload);
        if head.has(flag::END_HEADERS) {
            return self.block_came(&block, &block.bytes);
        }
        self.block = Some(block);
        Ok(())
    }

    /// All of a section of fields is here. It has to be read in any case: later ones refer to it.
    fn block_came(&mut self, block: &Block, bytes: &[u8]) -> Result {
        let Block { stream: id, ends_stream, depends_on_itself, .. } = *block;
        let place = self.place(id);
        let has_head = place.is_some_and(|place| self.streams[place].received != Progress::Nothing);
        let kind = match (has_head, self.is_server()) {
            (true, _) => Kind::Trailers,
            (false, true) => Kind::Request,
            (false, false) => Kind::Response,
        };
        let mut section = self.section(kind);
        let read = self.decoder.decode(bytes, |name, value| section.push(name, value));
        if read.is_err() {
            return Err(failure(ErrorCode::COMPRESSION_ERROR, "fields cannot be decompressed"));
        }
        if let Some(reset) = place.and_then(|place| self.streams[place].reset) {
            return after(reset);
        }
        if depends_on_itself {
            self.begin(id);
            self.break_off(id, ErrorCode::PROTOCOL_ERROR);
            return Ok(());
        }
        match kind {
            Kind::Trailers => self.trailers_came(id, section.trailers(), ends_stream),
            Kind::Request => self.request_came(id, section, ends_stream),
            Kind::Response => self.response_came(id, section, ends_stream),
        }
        Ok(())
    }

    /// A stream of this number begins; numbers below it never do any more.
    fn begin(&mut self, id: u32) {
        if self.is_server() {
            self.last_received = self.last_received.max(id);
        }
    }

    fn request_came(&mut self, id: u32, section: Section, ends_stream: bool) {
        if id <= self.last_received {
            // It was reset while this was on its way.
            return;
        }
        self.begin(id);
        if matches!(self.drain, Drain::After(last) if id > last) {
            return;
        }
        let open = self.streams.iter().filter(|stream| !stream.has_ended()).count();
        if open >= usize::try_from(self.limits.streams).unwrap_or(usize::MAX) {
            self.break_off(id, ErrorCode::REFUSED_STREAM);
            return;
        }
        let head = match section.head() {
            Ok(head) => head,
            Err(Fault::Malformed(_)) => return self.break_off(id, ErrorCode::PROTOCOL_ERROR),
            Err(Fault::TooLarge) => return self.answer_too_large(id, ends_stream),
        };
        if ends_stream && head.length.is_some_and(|length| length > 0) {
            return self.break_off(id, ErrorCode::PROTOCOL_ERROR);
        }
        let asked = self.early(id).or_else(|| head.priority.as_deref().and_then(Priority::parse));
        let mut stream = Stream::new(id, self.known_window, self.peer.window, asked);
        (stream.received, stream.length) = (progress(ends_stream), head.length);
        stream.inbound.push(Item::Head(head.text));
        // That no body follows is known at its end: what took the request before could not take it back.
        stream.is_withheld = !ends_stream && head.length == Some(0);
        if !stream.is_withheld {
            self.arrived.push_back(id);
        }
        self.push(stream);
    }

    /// RFC 6585, section 5.
    fn answer_too_large(&mut self, id: u32, ends_stream: bool) {
        self.streams.push(Stream::new(id, self.known_window, self.peer.window, None));
        self.send_head(id, First::Status(b"431"), [], true);
        self.streams.pop();
        if !ends_stream {
            self.say_reset(id, ErrorCode::NO_ERROR);
        }
    }

    fn response_came(&mut self, id: u32, section: Section, ends_stream: bool) {
        // One that this side has reset is gone.
        let Some(place) = self.place(id) else { return };
        let Ok(head) = section.head() else { return self.break_off(id, ErrorCode::PROTOCOL_ERROR) };
        let stream = &mut self.streams[place];
        let is_interim = head.status < 200;
        // A response to HEAD, and a 304, have no body, whatever length they tell (RFC 9110, section 8.6).
        stream.is_bodiless |= head.status == 304;
        let length = head.length.filter(|_| !stream.is_bodiless);
        if ends_stream && (is_interim || length.is_some_and(|length| length > 0)) {
            return self.break_off(id, ErrorCode::PROTOCOL_ERROR);
        }
        if !is_interim {
            (stream.received, stream.length) = (progress(ends_stream), length);
        }
        stream.inbound.push(Item::Head(head.text));
        stream.wake();
    }

    fn trailers_came(&mut self, id: u32, trailers: std::result::Result<Vec<u8>, Fault>, ends_stream: bool) {
        let Some(place) = self.place(id) else { return };
        let stream = &mut self.streams[place];
        if stream.received == Progress::All {
            return self.break_off(id, ErrorCode::STREAM_CLOSED);
        }
        let lacks_body = stream.length.is_some_and(|left| left > 0);
        match trailers {
            Ok(text) if ends_stream && !lacks_body => {
                stream.inbound.push(Item::Trailers(text));
                stream.received = Progress::All;
                stream.wake();
                if std::mem::take(&mut stream.is_withheld) {
                    self.arrived.push_back(id);
                }
            }
            _ => self.break_off(id, ErrorCode::PROTOCOL_ERROR),
        }
    }

    fn priority_came(&mut self, head: FrameHead, payload: &[u8]) -> Result {
        if head.stream == 0 {
            return Err(protocol("PRIORITY is of no stream"));
        }
        let Some(&[a, b, c, d, _weight]) = payload.first_chunk::<5>().filter(|_| payload.len() == 5) else {
            if self.is_idle(head.stream) {
                return Err(size("PRIORITY has not 5 bytes"));
            }
            self.break_off(head.stream, ErrorCode::FRAME_SIZE_ERROR);
            return Ok(());
        };
        if number([a, b, c, d]) == head.stream {
            if self.is_idle(head.stream) {
                return Err(protocol("a stream depends on itself"));
            }
            self.break_off(head.stream, ErrorCode::PROTOCOL_ERROR);
        }
        // It says nothing any more (section 5.3.2).
        Ok(())
    }

    fn reset_came(&mut self, head: FrameHead, payload: &[u8]) -> Result {
        let Ok(code) = <[u8; 4]>::try_from(payload) else {
            return Err(size("RST_STREAM has not 4 bytes"));
        };
        if head.stream == 0 || self.is_idle(head.stream) {
            return Err(protocol("RST_STREAM is of no stream"));
        }
        let code = ErrorCode(u32::from_be_bytes(code));
        // What comes after it was not on its way.
        self.recent
            .iter_mut()
            .filter(|(recent, _)| *recent == head.stream)
            .for_each(|(_, is_ours)| *is_ours = false);
        if let Some(stream) = self.stream(head.stream) {
            if !stream.has_ended() {
                let is_refused = code == ErrorCode::REFUSED_STREAM;
                stream.reset = Some(if is_refused { Reset::Refused } else { Reset::Received(code) });
                (stream.unsent, stream.end) = (0, None);
                stream.wake();
            }
        }
        self.forget_withheld(head.stream);
        Ok(())
    }

    fn settings_came(&mut self, head: FrameHead, payload: &[u8]) -> Result {
        if head.stream != 0 {
            return Err(protocol("SETTINGS are of a stream"));
        }
        if head.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(size("an acknowledgement of SETTINGS has a payload"));
            }
            self.shrink_windows();
            return Ok(());
        }
        if payload.len() % 6 != 0 {
            return Err(size("SETTINGS end within a setting"));
        }
        for setting in payload.chunks_exact(6) {
            let [a, b, value @ ..] = setting else { break };
            let value = value.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
            match u16::from_be_bytes([*a, *b]) {
                2 if value > 1 => return Err(protocol("ENABLE_PUSH is neither 0 nor 1")),
                2 if value == 1 && !self.is_server() => return Err(protocol("a server sets ENABLE_PUSH")),
                3 => self.peer.streams = value,
                4 => self.set_window(value)?,
                5 if !(16_384..=16_777_215).contains(&value) => {
                    return Err(protocol("MAX_FRAME_SIZE is not within its limits"));
                }
                9 if value > 1 => return Err(protocol("NO_RFC7540_PRIORITIES is neither 0 nor 1")),
                // What is sent is never longer than 16 KiB, and no table is used.
                _ => {}
            }
        }
        self.has_settings = true;
        write(kind::SETTINGS, flag::ACK, 0, &[], &mut self.out);
        Ok(())
    }

    /// The other side knows the window of streams, which may be smaller than the one that it took for granted (section 6.9.3).
    fn shrink_windows(&mut self) {
        let change = i64::from(self.limits.window) - i64::from(self.known_window);
        self.known_window = self.limits.window;
        for stream in &mut self.streams {
            stream.receive_window.open(change);
        }
    }

    /// Section 6.9.2.
    fn set_window(&mut self, window: u32) -> Result {
        let overflow = failure(ErrorCode::FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is above 2,147,483,647");
        if window > MOST {
            return Err(overflow);
        }
        let change = i64::from(window) - i64::from(self.peer.window);
        self.peer.window = window;
        for stream in &mut self.streams {
            if !stream.send_window.open(change) {
                return Err(overflow);
            }
        }
        Ok(())
    }

    fn ping_came(&mut self, head: FrameHead, payload: &[u8]) -> Result {
        let Ok(payload) = <[u8; 8]>::try_from(payload) else {
            return Err(size("PING has not 8 bytes"));
        };
        if head.stream != 0 {
            return Err(protocol("PING is of a stream"));
        }
        if !head.has(flag::ACK) {
            write(kind::PING, flag::ACK, 0, &payload, &mut self.out);
        } else if payload == DRAINED && self.drain == Drain::Said {
            self.drain = Drain::After(self.last_received);
            self.say_goaway(self.last_received, ErrorCode::NO_ERROR);
        }
        Ok(())
    }

    fn goaway_came(&mut self, head: FrameHead, payload: &[u8]) -> Result {
        let Some(last) = payload.first_chunk::<4>().filter(|_| payload.len() >= 8) else {
            return Err(size("GOAWAY has less than 8 bytes"));
        };
        if head.stream != 0 {
            return Err(protocol("GOAWAY is of a stream"));
        }
        self.is_refused = true;
        let last = number(*last);
        let is_server = self.is_server();
        for stream in self.streams.iter_mut().filter(|stream| !is_server && stream.id > last) {
            if !stream.has_ended() {
                stream.reset = Some(Reset::Refused);
                stream.wake();
            }
        }
        Ok(())
    }

    fn window_came(&mut self, head: FrameHead, payload: &[u8]) -> Result {
        let Ok(more) = <[u8; 4]>::try_from(payload) else {
            return Err(size("WINDOW_UPDATE has not 4 bytes"));
        };
        let more = number(more);
        if head.stream == 0 {
            if more == 0 {
                return Err(protocol("the connection's window is opened by nothing"));
            }
            if !self.send_window.open(more.into()) {
                return Err(failure(
                    ErrorCode::FLOW_CONTROL_ERROR,
                    "the connection's window is above 2,147,483,647",
                ));
            }
            return Ok(());
        }
        if self.is_idle(head.stream) {
            return Err(protocol("WINDOW_UPDATE came before HEADERS"));
        }
        let Some(stream) = self.stream(head.stream) else { return Ok(()) };
        let is_within = stream.send_window.open(more.into());
        let fault = if more == 0 {
            Some(ErrorCode::PROTOCOL_ERROR)
        } else if !is_within {
            Some(ErrorCode::FLOW_CONTROL_ERROR)
        } else {
            None
        };
        if let Some(code) = fault {
            self.break_off(head.stream, code);
        }
        Ok(())
    }

    /// RFC 9218, section 7.1.
    fn priority_update_came(&mut self, head: FrameHead, payload: &[u8]) -> Result {
        let Some((stream, value)) = payload.split_first_chunk::<4>() else {
            return Err(size("PRIORITY_UPDATE has less than 4 bytes"));
        };
        let stream = number(*stream);
        if head.stream != 0 || stream == 0 || !self.is_server() {
            return Err(protocol("PRIORITY_UPDATE is of a stream, of none, or of a server"));
        }
        let Some(priority) = Priority::parse(value) else { return Ok(()) };
        if let Some(stream) = self.stream(stream) {
            (stream.asked, stream.priority) = (Some(priority), priority);
        } else if self.is_idle(stream) {
            self.keep_early(stream, priority);
        }
        Ok(())
    }
}

fn progress(ends_stream: bool) -> Progress {
    if ends_stream { Progress::All } else { Progress::Head }
}

/// What is not padding (section 6.1).
fn unpad(head: FrameHead, payload: &[u8]) -> Result<&[u8]> {
    if !head.has(flag::PADDED) {
        return Ok(payload);
    }
    let (padding, payload) = payload.split_first().ok_or(size("a padded frame is empty"))?;
    let length = payload.len().checked_sub(usize::from(*padding));
    Ok(&payload[..length.ok_or(protocol("there is more padding than payload"))?])
}
