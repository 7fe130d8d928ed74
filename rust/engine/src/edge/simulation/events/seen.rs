//! Reads a stream of events in the plainest way, and holds it against what the origin has to tell.

use crate::simulation::hold;

/// What has come of a stream.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Whole events of the origin, from the first on.
    pub(super) events: usize,
    /// Comments without a text.
    pub(super) beats: usize,
    /// An event tells that the stream has failed.
    pub(super) has_fault: bool,
    /// The client is told when to come back.
    pub(super) has_retry: bool,
    /// What has come after the last whole block, but for whole comments.
    pub(super) tail: String,
}

/// The event that tells of a failure begins so.
const FAULT: &str = "event: fault\ndata: {";
const RETRY: &str = "retry: ";

impl Seen {
    /// What `body` has, of a stream whose events are those of `event`.
    pub(super) fn of(body: &[u8], event: impl Fn(usize) -> String) -> Result<Self, String> {
        let mut seen = Self::default();
        let text = String::from_utf8_lossy(body);
        let mut rest = &*text;
        while let Some(end) = rest.find("\n\n") {
            let fields = seen.without_comments(&rest[..=end])?;
            rest = &rest[end + 2..];
            if fields.is_empty() {
                continue;
            }
            hold!(!seen.has_fault && !seen.has_retry, "after the last word there is {fields:?}");
            let expected = fields_of(&event(seen.events));
            if fields.starts_with(FAULT) {
                seen.has_fault = true;
            } else if fields.starts_with(RETRY) {
                seen.has_retry = true;
            } else {
                hold!(fields == expected, "event {} is {fields:?}", seen.events);
                seen.events += 1;
            }
        }
        seen.tail = seen.without_comments(rest)?;
        let (tail, next) = (&*seen.tail, fields_of(&event(seen.events)));
        let may_be = |text: &str| text.starts_with(tail) || tail.starts_with(text);
        let is_begun = tail.starts_with(':') || next.starts_with(tail);
        hold!(is_begun || may_be(FAULT) || may_be(RETRY), "event {} begins with {tail:?}", seen.events);
        Ok(seen)
    }

    /// The lines of a block that are no whole comments. Those are the origin's, or heartbeats.
    fn without_comments(&mut self, block: &str) -> Result<String, String> {
        let mut fields = String::new();
        for line in block.split_inclusive('\n') {
            if line == ":\n" {
                self.beats += 1;
            } else if line.starts_with(':') && line.ends_with('\n') {
                hold!(line == ": next\n", "no origin has sent the comment {line:?}");
            } else {
                fields.push_str(line);
            }
        }
        Ok(fields)
    }
}

/// What `Seen::tail` has once the beginning of an event has come.
pub(super) fn tail_of(beginning: &str) -> Result<String, String> {
    Seen::default().without_comments(beginning)
}

/// The fields of an event, without comments and without its end.
fn fields_of(event: &str) -> String {
    let lines = event.trim_end_matches('\n').split('\n').filter(|line| !line.starts_with(':'));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: usize) -> String {
        format!(": next\nid: {number}\ndata: a\n\n")
    }

    #[test]
    fn whole_events_are_told_from_what_is_between_and_after_them() {
        let body = [&event(0), ":\n\n", &event(1), ": next\n:\n\n", "id: 2\ndata"].concat();
        let seen = Seen::of(body.as_bytes(), event).expect("all is as it should be");
        assert_eq!((seen.events, seen.beats, seen.has_fault, &*seen.tail), (2, 2, false, "id: 2\ndata"));
        let body = [&event(0), "event: fault\ndata: {}\n\n"].concat();
        assert!(Seen::of(body.as_bytes(), event).expect("a failure").has_fault);
    }

    /// Found by a seed.
    #[test]
    fn a_heartbeat_after_a_comment_is_no_part_of_the_event() {
        for beginning in [": next\n:\n\nid: 0\nda", ": next\nid: 0\nda"] {
            let seen = Seen::of(beginning.as_bytes(), event).expect("a beginning");
            assert_eq!(Ok(seen.tail), tail_of(&event(0)[..": next\nid: 0\nda".len()]));
        }
    }

    #[test]
    fn what_no_origin_has_sent_is_found() {
        for body in [
            "id: 1\ndata: a\n\n",
            "id: 0\n:\n\ndata: a\n\n",
            ": other\n",
            "x",
            "event: fault\ndata: {}\n\nid: 0\ndata: a\n\n",
        ] {
            assert!(Seen::of(body.as_bytes(), event).is_err(), "{body:?}");
        }
    }
}
