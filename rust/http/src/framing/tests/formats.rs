//! Fixed sizes, length prefixes and lines, in chosen cases.

use super::*;

#[test]
fn frames_of_one_size_leave_no_remainder() {
    let framing = Framing::Fixed { size: 3 };
    assert_eq!(cut_anyhow(&framing, b"abcdefghi"), (frames(&[b"abc", b"def", b"ghi"]), End::Clean));
    assert_eq!(cut_anyhow(&framing, b"abcdefgh"), (frames(&[b"abc", b"def"]), End::Truncated));
    assert_eq!(cut_anyhow(&framing, b""), (vec![], End::Clean));
    assert_eq!(cut_anyhow(&Framing::Fixed { size: 1 }, b"ab"), (frames(&[b"a", b"b"]), End::Clean));
}

#[test]
fn a_prefix_counts_the_bytes_after_it() {
    let framing = |width, little_endian| Framing::LengthPrefixed { width, little_endian, max_frame: 300 };
    let long = [&[1, 0][..], &[7; 256]].concat();
    assert_eq!(cut_anyhow(&framing(1, false), b"\x02ab\x00\x01c"), (frames(&[b"ab", b"", b"c"]), End::Clean));
    assert_eq!(cut_anyhow(&framing(2, false), &long), (frames(&[&[7; 256]]), End::Clean));
    assert_eq!(cut_anyhow(&framing(2, true), b"\x02\x00ab"), (frames(&[b"ab"]), End::Clean));
    assert_eq!(cut_anyhow(&framing(4, false), b"\0\0\0\x01a\0\0\0\0"), (frames(&[b"a", b""]), End::Clean));
    assert_eq!(cut_anyhow(&framing(8, true), b"\x01\0\0\0\0\0\0\0a"), (frames(&[b"a"]), End::Clean));
}

#[test]
fn a_prefix_or_payload_that_stops_short_is_truncated() {
    let framing = Framing::LengthPrefixed { width: 2, little_endian: false, max_frame: 9 };
    assert_eq!(cut_anyhow(&framing, b"\0\x01a\0"), (frames(&[b"a"]), End::Truncated));
    assert_eq!(cut_anyhow(&framing, b"\0\x01a\0\x02"), (frames(&[b"a"]), End::Truncated));
    assert_eq!(cut_anyhow(&framing, b"\0\x01a\0\x02b"), (frames(&[b"a"]), End::Truncated));
    assert_eq!(cut_anyhow(&framing, b""), (vec![], End::Clean));
}

#[test]
fn a_prefix_beyond_the_maximum_is_refused_before_its_payload() {
    for (width, max_frame) in [(1, 9), (2, 9), (4, usize::MAX >> 33), (8, 9), (8, usize::MAX / 2)] {
        for little_endian in [false, true] {
            let framing = Framing::LengthPrefixed { width, little_endian, max_frame };
            let prefix = vec![0xFF; usize::from(width)];
            assert_eq!(cut_anyhow(&framing, &prefix), (vec![], End::TooLarge));
        }
    }
    let framing = Framing::LengthPrefixed { width: 1, little_endian: false, max_frame: 2 };
    assert_eq!(cut_anyhow(&framing, b"\x02ab\x03c"), (frames(&[b"ab"]), End::TooLarge));
}

#[test]
fn the_largest_prefix_does_not_overflow() {
    POOL.with(|pool| {
        let framing = Framing::LengthPrefixed { width: 8, little_endian: false, max_frame: usize::MAX };
        let mut cutter = Cutter::new(&framing);
        let mut slabs = Slabs::new(pool);
        cutter.push(slabs.slice(&[0xFF; 8]));
        cutter.push(slabs.slice(b"payload"));
        assert!(cutter.next(pool).unwrap().is_none());
        assert_eq!(cutter.wants(), Some(usize::MAX - 7));
        assert_eq!(cutter.finish(pool).unwrap_err().code(), Code::FrameTruncated);
    });
}

#[test]
fn lines_lose_their_ends_and_nothing_else() {
    let framing = Framing::Lines { max_frame: 9 };
    assert_eq!(cut_anyhow(&framing, b"a\nbc\r\nd\n"), (frames(&[b"a", b"bc", b"d"]), End::Clean));
    assert_eq!(cut_anyhow(&framing, b"\n\r\n\n"), (frames(&[b"", b"", b""]), End::Clean));
    assert_eq!(cut_anyhow(&framing, b"a\rb\r\r\n\r"), (frames(&[b"a\rb\r", b"\r"]), End::Clean));
    assert_eq!(cut_anyhow(&framing, b"a\nb"), (frames(&[b"a", b"b"]), End::Clean));
    assert_eq!(cut_anyhow(&framing, b""), (vec![], End::Clean));
}

#[test]
fn a_line_may_fill_its_maximum_and_not_pass_it() {
    let framing = Framing::Lines { max_frame: 4 };
    assert_eq!(
        cut_anyhow(&framing, b"abcd\r\nabcd\nabcd"),
        (frames(&[b"abcd", b"abcd", b"abcd"]), End::Clean)
    );
    assert_eq!(cut_anyhow(&framing, b"abcd\r\nabcde\n"), (frames(&[b"abcd"]), End::TooLarge));
    assert_eq!(cut_anyhow(&framing, b"abcd\r"), (vec![], End::TooLarge));
    assert_eq!(cut_anyhow(&framing, b"abc\r\r\nabcd\rx\n"), (frames(&[b"abc\r"]), End::TooLarge));
}

#[test]
fn a_line_that_never_ends_is_refused_at_its_maximum() {
    for framing in [Framing::Lines { max_frame: 100 }, Framing::Events { max_frame: 100, blocks: true }] {
        POOL.with(|pool| {
            let mut cutter = Cutter::new(&framing);
            let mut slabs = Slabs::new(pool);
            for _ in 0..100 {
                cutter.push(slabs.slice(b"x"));
                assert!(cutter.next(pool).unwrap().is_none());
            }
            cutter.push(slabs.slice(b"x"));
            assert_eq!(cutter.next(pool).unwrap_err().code(), Code::FrameTooLarge);
        });
    }
}

#[test]
fn settings_that_make_no_frames_are_refused() {
    for framing in [
        Framing::Fixed { size: 0 },
        Framing::LengthPrefixed { width: 3, little_endian: false, max_frame: 1 },
        Framing::LengthPrefixed { width: 0, little_endian: false, max_frame: 1 },
        Framing::LengthPrefixed { width: 4, little_endian: false, max_frame: 0 },
        Framing::Lines { max_frame: 0 },
        Framing::Events { max_frame: 0, blocks: false },
    ] {
        assert_eq!(framing.framer().unwrap_err().code(), Code::BadConfiguration, "{framing:?}");
        let mut cutter = Cutter::new(&framing);
        POOL.with(|pool| {
            cutter.push(Slabs::new(pool).slice(b"text"));
            assert_eq!(cutter.next(pool).unwrap_err().code(), Code::BadConfiguration);
            assert_eq!(cutter.finish(pool).unwrap_err().code(), Code::BadConfiguration);
        });
    }
}
