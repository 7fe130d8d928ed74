//! Parsers against a plain second reading, on any text.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::plain::plain;
use super::reference;
use super::*;

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Pieces of Cache-Control, valid and invalid.
fn directives() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "max-age",
        "s-maxage",
        "no-cache",
        "private",
        "no-store",
        "public",
        "x",
        "=",
        "=",
        "\"",
        "\"",
        "\\",
        ",",
        ",",
        " ",
        "\t",
        "5",
        "003",
        "99999999999999999999",
        "-1",
        "a,b",
        "\u{e9}",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..16)
        .prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #[test]
    fn cache_control_is_read_as_the_reference_reads_it(lines in prop::collection::vec(directives(), 0..3)) {
        let lines: Vec<_> = lines.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(plain(&ResponseControl::parse(lines.iter().copied())), reference::control(&lines));
    }

    #[test]
    fn lists_are_cut_as_the_reference_cuts_them(line in directives()) {
        let ours: Vec<_> = elements(&line).map(<[u8]>::to_vec).collect();
        let theirs: Vec<_> =
            reference::members(&line, b',').into_iter().filter(|member| !member.is_empty()).collect();
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn ranges_name_the_bytes_that_the_reference_names(text in "(bytes|Bytes|b)=?([0-9]{0,2}-?[0-9]{0,2}[, ]{0,2}){0,4}", length in 0u64..70) {
        let expected = reference::range(text.as_bytes(), length);
        let ranges = Ranges::parse(text.as_bytes());
        prop_assert_eq!(ranges.is_some(), expected.is_some());
        let Some((ranges, expected)) = ranges.zip(expected) else { return Ok(()) };
        match ranges.select(length, 8) {
            Selected::Whole => prop_assert!(length == 0),
            Selected::Unsatisfiable => prop_assert!(expected.is_empty()),
            Selected::Parts(spans) => {
                let bytes: Vec<u64> = spans.iter().flat_map(|span| span.start()..span.end()).collect();
                prop_assert_eq!(bytes.len(), expected.len(), "a byte is sent twice");
                prop_assert_eq!(bytes.into_iter().collect::<BTreeSet<_>>(), expected);
            }
        }
    }

    #[test]
    fn content_range_is_written_as_it_is_read(start in 0u64..100, count in 1u64..100, more in prop::option::of(0u64..100)) {
        let span = Span::new(start, start + count);
        let range = ContentRange { span, length: more.map(|more| start + count + more) };
        prop_assert_eq!(ContentRange::parse(range.to_text().as_bytes()), Some(range));
    }

    #[test]
    fn sets_of_spans_are_sets_of_bytes(
        spans in prop::collection::vec((0u64..60, 1u64..12), 0..10),
        asked in (0u64..60, 1u64..20),
    ) {
        let spans: Vec<_> = spans.into_iter().filter_map(|(start, count)| Span::new(start, start + count)).collect();
        let bytes: BTreeSet<u64> = spans.iter().flat_map(|span| span.start()..span.end()).collect();
        let set: Spans = spans.into_iter().collect();
        let list: Vec<_> = set.iter().collect();
        prop_assert!(list.windows(2).all(|pair| pair[0].end() < pair[1].start()), "they touch: {:?}", list);
        prop_assert_eq!(set.total(), bytes.len() as u64);
        let asked = Span::new(asked.0, asked.0 + asked.1).unwrap();
        let missing: Vec<u64> = set.missing(asked).iter().flat_map(|span| span.start()..span.end()).collect();
        let expected: Vec<u64> = (asked.start()..asked.end()).filter(|byte| !bytes.contains(byte)).collect();
        prop_assert_eq!(set.contains(asked), expected.is_empty());
        prop_assert_eq!(missing, expected);
    }

    #[test]
    fn slices_are_aligned_and_hold_the_span(start in 0u64..1000, count in 1u64..500, size in 1u64..200, more in 0u64..300) {
        let span = Span::new(start, start + count).unwrap();
        let length = start + count + more;
        let aligned = span.aligned(size, Some(length));
        prop_assert!(aligned.contains(span));
        prop_assert!(aligned.start() % size == 0 && aligned.end() <= length);
        prop_assert!(aligned.end() % size == 0 || aligned.end() == length);
        prop_assert!(aligned.len() < span.len() + 2 * size);
    }

    #[test]
    fn dates_are_read_back(second in 0u64..253_402_300_800) {
        let time = Time::from_secs(second);
        prop_assert_eq!(Time::parse(time.to_string().as_bytes()), Some(time));
    }

    #[test]
    fn an_old_form_of_a_date_is_the_same_date(second in 0u64..3_155_760_000) {
        let time = Time::from_secs(second);
        let text = time.to_string();
        let (day, month, year, clock) = (&text[5..7], &text[8..11], &text[12..16], &text[17..25]);
        let asctime = format!("{} {month} {:>2} {clock} {year}", &text[..3], day.trim_start_matches('0'));
        prop_assert_eq!(Time::parse(asctime.as_bytes()), Some(time));
        let weekday = WEEKDAYS.into_iter().find(|name| name.starts_with(&text[..3])).expect("a day of the week");
        let rfc850 = format!("{weekday}, {day}-{month}-{} {clock} GMT", &year[2..]);
        prop_assert_eq!(Time::parse(rfc850.as_bytes()), Some(time));
        prop_assert_eq!(Time::parse(rfc850.to_lowercase().as_bytes()), Some(time));
    }

    #[test]
    fn no_text_is_a_date_by_accident(text in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(Time::parse(&text), None);
    }

    #[test]
    fn vary_is_read_as_the_reference_reads_it(text in "[a-cA-C*, ;\t]{0,12}") {
        let ours = match Vary::parse([text.as_bytes()].into_iter()) {
            Vary::Anything => None,
            Vary::Fields(names) => Some(names.into_iter().map(Vec::from).collect()),
        };
        prop_assert_eq!(ours, reference::vary(&[text.as_bytes()]));
    }

    #[test]
    fn unknown_fields_match_as_the_reference_says(
        stored in prop::collection::vec("[a, \"\\\\]{0,6}", 0..3),
        asked in prop::collection::vec("[a, \"\\\\]{0,6}", 0..3),
    ) {
        fn lines(values: &[String]) -> Vec<(&[u8], &[u8])> {
            values.iter().map(|value| (b"Foo".as_slice(), value.as_bytes())).collect()
        }
        fn bytes(values: &[String]) -> Vec<&[u8]> {
            values.iter().map(String::as_bytes).collect()
        }
        let vary = Vary::parse([b"foo".as_slice()].into_iter());
        let selection = Selection::of(&vary, &lines(&stored), Languages::Ordered).unwrap();
        prop_assert_eq!(
            selection.matches(&lines(&asked), Languages::Ordered, None),
            reference::on_one_line(&bytes(&stored)) == reference::on_one_line(&bytes(&asked))
        );
    }
}
