"""What is made of a record: an event that can be sent, or none."""

from aiokafka import ConsumerRecord
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.kafka_source import event_of

headers = st.lists(
    st.tuples(st.sampled_from(["kind", "other"]), st.none() | st.binary(max_size=8)), max_size=4
)


def record(
    value: bytes, key: bytes | None = None, headers: list[tuple[str, bytes | None]] | None = None
) -> "ConsumerRecord[bytes, bytes]":
    sizes = (-1 if key is None else len(key), len(value))
    return ConsumerRecord("t", 0, 5, 0, 0, key, value, None, *sizes, tuple(headers or ()))  # type: ignore[arg-type]


@given(
    st.binary(max_size=20) | st.text(max_size=20).map(str.encode), st.none() | st.binary(max_size=8), headers
)
def test_a_record_is_an_event_if_it_is_text(
    value: bytes, key: bytes | None, named: list[tuple[str, bytes | None]]
) -> None:
    event = event_of(record(value, key, named), "kind")
    kinds = [header or b"" for name, header in named if name == "kind"] or [b""]
    try:
        expected = (value.decode(), kinds[-1].decode() or None)
    except UnicodeDecodeError:
        assert event is None
    else:
        assert event is not None
        assert (event.data, event.type) == expected
        assert (event.id, event.retry) == (None, None)


@given(st.binary(max_size=8), st.binary(max_size=8))
def test_keys_are_the_same_if_their_bytes_are(one: bytes, other: bytes) -> None:
    keys = [event_of(record(b"", key), None) for key in (one, other)]
    assert all(event is not None and event.key is not None and event.key.isalnum() for event in keys)
    assert (keys[0] == keys[1]) == (one == other)


def test_without_a_key_there_is_none() -> None:
    event = event_of(record(b"x"), None)
    assert event is not None
    assert event.key is None
