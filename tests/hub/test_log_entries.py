"""How events are written into a log: what is read is what was written, and what was not written so is no event."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.log.interface import Entry, Event, order
from penstock.log.redis_log import decode, encode, read_message, read_row

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
events = st.builds(
    Event,
    texts,
    type=st.none() | texts,
    id=st.none() | texts,
    key=st.none() | texts,
    retry=st.none() | st.integers(0, (1 << 63) - 1),
)
numbers = st.integers(0, 10**19 - 1)
positions = st.builds(lambda milliseconds, sequence: f"{milliseconds}-{sequence}", numbers, numbers)


@given(events, positions, positions)
def test_an_event_is_read_as_it_was_written(event: Event, position: str, before: str) -> None:
    blob = encode(event)
    assert decode(blob) == event
    expected = Entry(position, before, event)
    assert read_row((position.encode(), [b"before", before.encode(), b"event", blob])) == expected
    assert read_message(b" ".join((position.encode(), before.encode(), b"event", blob))) == expected
    end = Entry(position, before, None, is_end=True)
    assert read_row((position.encode(), [b"before", before.encode(), b"end", b""])) == end
    assert read_message(f"{position} {before} end ".encode()) == end


@given(
    st.binary(max_size=60) | st.text(max_size=40).map(lambda text: (text + "\nx").encode(errors="replace"))
)
def test_whatever_else_is_there_is_no_event_or_one_that_can_be_sent(blob: bytes) -> None:
    event = decode(blob)
    if event is not None:
        assert decode(encode(event)) == event
    entry = read_message(blob)
    assert entry is None or order(entry.position) >= (0, 0)
    row = read_row((b"1-0", [b"before", blob, b"event", blob]))
    assert row.before is None or order(row.before) >= (0, 0)
    assert row.event == event


def test_fields_that_no_event_has_make_it_none() -> None:
    for head in (
        b'{"data":"x"}',
        b'{"type":1}',
        b'{"retry":true}',
        b'{"retry":-1}',
        b'{"retry":9223372036854775808}',
        b'{"id":"\\ud800"}',
        b"[]",
        b"[" * 100_000,
        b"1",
        b"",
    ):
        assert decode(head + b"\nx") is None, head[:40]
    assert decode(b"{}") is None
    assert decode(b"{}\n\xff") is None
    assert decode(b"{}\n") == Event("")


@given(positions, positions)
def test_positions_have_the_order_of_their_numbers(one: str, other: str) -> None:
    numbers = [tuple(map(int, text.split("-"))) for text in (one, other)]
    assert (order(one) < order(other)) == (numbers[0] < numbers[1])
