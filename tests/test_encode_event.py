"""Events that handlers make: the parser of the engine, and the rules of the standard, find in them what was put in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock import encode_event

LINE_ENDS = "\r\n"
LINES = st.text().filter(lambda text: not set(text) & set(LINE_ENDS))


def dispatched(block: bytes) -> dict[str, object]:
    """What a client makes of a block, by the letter of HTML Living Standard 9.2.6."""
    text = block.decode().replace("\r\n", "\n").replace("\r", "\n")
    assert text.endswith("\n\n"), "a blank line ends it"
    found: dict[str, object] = {}
    data: list[str] = []
    for line in text[:-1].split("\n")[:-1]:
        assert line, "and no other is within it"
        if line.startswith(":"):
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        else:
            found[name] = value
    return {**found, "data": "\n".join(data)} if data else found


@given(
    event=st.none() | LINES,
    identity=st.none() | LINES.filter(lambda text: "\0" not in text),
    retry=st.none() | st.integers(0, 1 << 40),
    data=st.text(),
    comment=st.none() | st.text(),
)
def test_what_is_put_in_comes_out(
    event: str | None, identity: str | None, retry: int | None, data: str, comment: str | None
) -> None:
    found = dispatched(encode_event(data, event=event, id=identity, retry=retry, comment=comment))
    expected = {"event": event, "id": identity, "retry": None if retry is None else str(retry)}
    lines = data.replace("\r\n", "\n").replace("\r", "\n")
    assert found == {**{name: value for name, value in expected.items() if value is not None}, "data": lines}


def test_an_event_as_it_stands_on_the_wire() -> None:
    assert encode_event("a\nb") == b"data: a\ndata: b\n\n"
    assert encode_event(b"\xff", event="tick", id="7") == b"event: tick\nid: 7\ndata: \xff\n\n"
    assert encode_event("") == b"data: \n\n"
    assert encode_event(comment="") == b": \n\n"
    assert encode_event(retry=0) == b"retry: 0\n\n"
    assert encode_event(id="") == b"id: \n\n"


@pytest.mark.parametrize(
    "wrong",
    [{}, {"event": "a\nb"}, {"event": "a\r"}, {"id": "1\n"}, {"id": "\0"}, {"retry": -1}],
    ids=str,
)
def test_what_would_be_another_event_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(penstock.ArgumentError):
        encode_event(None, **wrong)  # type: ignore[arg-type]
