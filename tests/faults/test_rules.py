"""The rules of the matrix refuse what they are there to refuse."""

import pytest

from support.fault_relay import Action, Place

from .cells import Cell
from .rules import check_events, check_next, check_seen
from .seen import Message, events, read, read_all, read_request

TRUTH = b"0123456789"
CUT = Cell("miss", 1, Action.CUT, "in the body", Place(b"(x)"), 1)
DELAY = Cell("miss", 1, Action.DELAY, "in the body", Place(b"(x)"), 1)
CORRUPT = Cell("miss", 1, Action.CORRUPT, "in the body", Place(b"(x)"), 1)
EVENTS = [b"id: 0\ndata: a", b"id: 1\ndata: b"]


@pytest.mark.parametrize(
    ("cell", "seen"),
    [
        (CUT, Message(200, body=TRUTH[:5], whole=True)),
        (CUT, Message(200, body=b"0123x")),
        (CUT, Message(404, whole=True)),
        (DELAY, Message(200, body=TRUTH)),
        (DELAY, Message(502, whole=True)),
        (CORRUPT, Message(200, body=b"another", whole=True)),
    ],
)
def test_a_response_that_is_wrong_is_refused(cell: Cell, seen: Message) -> None:
    with pytest.raises(AssertionError):
        check_seen(cell, seen, TRUTH, [])


@pytest.mark.parametrize("seen", [Message(200, body=TRUTH[:5], whole=True), Message(502, whole=True)])
def test_what_the_cache_kept_that_is_damaged_is_refused(seen: Message) -> None:
    with pytest.raises(AssertionError):
        check_next(CUT, seen, TRUTH, [seen])


@pytest.mark.parametrize("got", [[EVENTS[1]], [EVENTS[0], EVENTS[0]], EVENTS[::-1]], ids=str)
def test_events_that_are_missing_doubled_or_turned_round_are_refused(got: list[bytes]) -> None:
    body = b"".join(block + b"\n\n" for block in got)
    with pytest.raises(AssertionError):
        check_events(CUT, Message(200, body=body), EVENTS, [])
    with pytest.raises(AssertionError):
        check_events(CUT, Message(200, body=EVENTS[0] + b"\n\n", whole=True), EVENTS, [])


def test_messages_are_read_to_their_end() -> None:
    counted = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    for raw in (counted, chunked):
        assert (read(raw, finished=False).body, read(raw, finished=False).whole) == (b"abc", True)
        for end in range(len(raw)):
            assert not read(raw[:end], finished=True).whole
    assert len(read_all(counted + chunked, finished=False)) == 2
    without = b"HTTP/1.1 200 OK\r\n\r\nabc"
    assert [read(without, finished=finished).whole for finished in (False, True)] == [False, True]
    upload = read_request(b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nab")
    assert (upload.line, upload.body, upload.whole) == (("POST", "/a"), b"ab", True)


def test_the_gateways_own_events_are_left_out() -> None:
    body = (
        b":\n\nid: 0\ndata: a\n\nid: 0\nevent: penstock-end\ndata: {}\n\n"
        b'event: error\ndata: {"error":{}}\n\nid: 1'
    )
    assert events(body) == EVENTS[:1]
