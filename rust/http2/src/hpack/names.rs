//! The fields that both sides know from the start (RFC 7541, appendix A).

/// Names and values. The first has the number 1.
pub(super) const FIELDS: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The most names of one length, and the length of the longest one.
const MOST: usize = 6;
const LONGEST: usize = 27;

/// The numbers of the names of each length, and zeros after them.
static BY_LENGTH: [[u8; MOST]; LONGEST + 1] = {
    let mut numbers = [[0; MOST]; LONGEST + 1];
    let (mut place, mut number) = (0, 1);
    while place < FIELDS.len() {
        let name = FIELDS[place].0.as_bytes();
        // Fields of one name stand together, and the first counts.
        if place == 0 || !is_same(name, FIELDS[place - 1].0.as_bytes()) {
            let mut free = 0;
            while numbers[name.len()][free] > 0 {
                free += 1;
            }
            numbers[name.len()][free] = number;
        }
        (place, number) = (place + 1, number + 1);
    }
    numbers
};

const fn is_same(name: &[u8], other: &[u8]) -> bool {
    let mut place = 0;
    while place < name.len() && place < other.len() && name[place] == other[place] {
        place += 1;
    }
    place == name.len() && place == other.len()
}

/// The number of the first field of a name, in any case, or 0. By a table: as a `match` it was 7 KB of code.
pub(super) fn number(name: &[u8]) -> usize {
    // Of a length that the compiler knows, so that all of it is lowered at once.
    let mut lower = [0; (LONGEST + 1).next_multiple_of(16)];
    let Some((numbers, place)) = BY_LENGTH.get(name.len()).zip(lower.get_mut(..name.len())) else { return 0 };
    place.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let name = &lower[..name.len()];
    let mut known = numbers.iter().map(|number| usize::from(*number)).take_while(|number| *number > 0);
    known.find(|number| is_named(*number, name)).unwrap_or(0)
}

#[inline]
fn is_named(number: usize, name: &[u8]) -> bool {
    let known = FIELDS[number - 1].0.as_bytes();
    known.first() == name.first() && known == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_number_of_its_first_field() {
        for (name, _) in FIELDS {
            let first = FIELDS.iter().position(|(known, _)| *known == name).unwrap();
            assert_eq!(number(name.as_bytes()), first + 1, "{name}");
            assert_eq!(number(name.to_ascii_uppercase().as_bytes()), first + 1, "{name}");
        }
        for name in [&b"x"[..], b"", b"dates", b"dat", b"vara", &[b'a'; 27], &[b'a'; 28]] {
            assert_eq!(number(name), 0);
        }
    }
}
