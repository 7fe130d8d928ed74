//! What a client says of the order in which it needs responses (RFC 9218).

/// How much a response is needed, by a client that shares one connection among several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 is needed first, 7 last (section 4.1).
    pub urgency: u8,
    /// It is of use in parts (section 4.2).
    pub incremental: bool,
}

impl Priority {
    /// Of a response of which nothing is said.
    pub const DEFAULT: Self = Self { urgency: 3, incremental: false };

    /// Reads a `Priority` field, or the value of a `PRIORITY_UPDATE` frame: a dictionary of structured fields, of which two
    /// members are known. What is malformed says nothing (section 5). None if neither member is there.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let mut found = None;
        for member in value.split(|byte| *byte == b',') {
            // A parameter of a member says nothing here.
            let member = member.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            let before = found.unwrap_or(Self::DEFAULT);
            match member {
                [b'u', b'=', urgency @ b'0'..=b'7'] => {
                    found = Some(Self { urgency: urgency - b'0', ..before });
                }
                b"i" | b"i=?1" => found = Some(Self { incremental: true, ..before }),
                b"i=?0" => found = Some(Self { incremental: false, ..before }),
                _ => {}
            }
        }
        found
    }

    /// For a response of the media type `content_type`, if the client `asked` for this. Events are of use one by one, and few. A
    /// playlist goes before the segments that it names.
    pub fn of_response(content_type: Option<&[u8]>, asked: Option<Self>) -> Self {
        let given = asked.unwrap_or(Self::DEFAULT);
        match content_type.map(media_type) {
            Some(kind) if kind.eq_ignore_ascii_case(b"text/event-stream") => {
                Self { urgency: given.urgency.min(Self::DEFAULT.urgency), incremental: true }
            }
            Some(kind) if asked.is_none() && PLAYLISTS.iter().any(|name| kind.eq_ignore_ascii_case(name)) => {
                Self { urgency: 2, ..given }
            }
            _ => given,
        }
    }
}

/// HLS (RFC 8216, section 4) and DASH (ISO/IEC 23009-1, annex C).
const PLAYLISTS: [&[u8]; 3] = [b"application/vnd.apple.mpegurl", b"audio/mpegurl", b"application/dash+xml"];

fn media_type(value: &[u8]) -> &[u8] {
    value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priority(urgency: u8, incremental: bool) -> Priority {
        Priority { urgency, incremental }
    }

    #[test]
    fn the_two_members_are_found_among_others() {
        for (value, found) in [
            ("u=0", Some(priority(0, false))),
            ("i", Some(priority(3, true))),
            ("u=5, i", Some(priority(5, true))),
            ("i=?0,u=7", Some(priority(7, false))),
            ("a=1, u=2;x=y, i=?1;z", Some(priority(2, true))),
            ("u=1, u=4", Some(priority(4, false))),
            ("", None),
            ("u=8", None),
            ("u=-1", None),
            ("u=10", None),
            ("U=1", None),
            ("u = 1", None),
            ("i=1", None),
        ] {
            assert_eq!(Priority::parse(value.as_bytes()), found, "{value}");
        }
    }

    #[test]
    fn events_come_in_parts_and_playlists_before_segments() {
        let of = |kind: &str, asked| Priority::of_response(Some(kind.as_bytes()), asked);
        assert_eq!(of("text/event-stream; charset=utf-8", None), priority(3, true));
        assert_eq!(of("text/event-stream", Some(priority(6, false))), priority(3, true));
        assert_eq!(of("text/event-stream", Some(priority(1, false))), priority(1, true));
        assert_eq!(of("application/vnd.apple.mpegURL", None), priority(2, false));
        assert_eq!(of("application/dash+xml", Some(priority(4, true))), priority(4, true));
        assert_eq!(of("video/mp4", None), Priority::DEFAULT);
        assert_eq!(Priority::of_response(None, None), Priority::DEFAULT);
    }
}
