"""The messages of an upgrade: as they have been written since protocol 1, and what is refused."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serving import upgrade_messages as messages

GOLDEN = Path(__file__).parent / "messages"
KNOWN: dict[str, messages.Message] = {
    "hello": messages.Hello((1, 1), "0.2.0", 4711),
    "offer": messages.Offer(
        1,
        "0.1.0",
        ("127.0.0.1:8080", "[::1]:8443", "unix:/run/penstock/web.sock"),
        (messages.InheritedPlace(3, "web", "127.0.0.1:8080"), messages.InheritedPlace(4, "", "[::1]:8443")),
        more=False,
    ),
    "keys": messages.Keys((messages.TicketKey(3600.0, "00ff" * 24, 1_764_000_000.5, 1_764_010_800.5),)),
    "secret": messages.Secret("00ff" * 32),
    "hub": messages.Hub("chat"),
    "ready": messages.Ready(),
    "counters": messages.Counters(12),
    "take": messages.Take(),
    "taken": messages.Taken(),
    "done": messages.Done(),
    "decided": messages.Decided(("example.org live", "vod"), ("header:Authorization", "address"), 12, 2),
    "records": messages.Records(12),
    "room": messages.Room(is_left=True),
    "stream": messages.Stream(
        7,
        "GET /live HTTP/1.1\r\nHost: example.org\r\nX-Name: \xe9\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
        1234,
        1200,
        3600.5,
        0.25,
    ),
    "subscriber": messages.Subscriber(
        9,
        "GET /topics/a HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "1764000000000-3",
        True,
        1234,
        1200,
        3600.5,
        0.25,
    ),
    "have": messages.Have(7),
    "refuse": messages.Refuse(7, "no route relays its request"),
    "go": messages.Go((7, 8)),
    "begun": messages.Begun((7, 8)),
    "clients": messages.Clients(2),
    "revoke": messages.Revoke(("example.org live", "vod"), ("Bearer \xe9", None), None, cut=True),
    "abort": messages.Abort("it was not ready within 120 s"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_message_is_what_it_has_always_been(name: str) -> None:
    """A process of an older version reads it: change the protocol's number with one of these files."""
    golden = (GOLDEN / f"{name}.json").read_bytes()
    assert messages.dump(KNOWN[name]) == golden
    assert messages.load(golden) == KNOWN[name]


def test_each_message_has_a_file() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(KNOWN) == set(messages._CLASSES)


_WRONG: list[tuple[bytes, str]] = [
    (b"", "no JSON"),
    (b"[" * 60_000, "no JSON"),
    (b"9" * 5000, "no JSON"),
    (b"[]", "its name is not known"),
    (b'{"message":"fork"}', "its name is not known"),
    (b'{"message":["hello"]}', "its name is not known"),
    (b'{"message":"ready","now":true}', "its fields are"),
    (b'{"message":"hello","protocols":[1,1],"version":"1"}', "its fields are"),
    (b'{"message":"hello","protocols":[1,"1"],"version":"1","process":1}', "protocols"),
    (b'{"message":"hello","protocols":[1],"version":"1","process":1}', "protocols"),
    (b'{"message":"hello","protocols":[1,1],"version":"1","process":true}', "process"),
    (b'{"message":"abort","reason":{"a":1}}', "reason"),
    (b'{"message":"go","numbers":[1,"2"]}', "numbers"),
    (b'{"message":"keys","keys":[{"period":1.0}]}', "ticketkey: its fields are"),
    (b'{"message":"keys","keys":["a"]}', "keys"),
    (b'{"message":"revoke","routes":"live","key":null,"tenant":null,"cut":true}', "routes"),
    (b'{"message":"revoke","routes":[],"key":[1],"tenant":null,"cut":true}', "key"),
    (b'{"message":"go","numbers":[1.0]}', "numbers"),
    (
        (
            b'{"message":"stream","number":1,"request":"","response":"","sent":0,"payload":0,'
            b'"elapsed":NaN,"first_byte":0.0}'
        ),
        "not finite",
    ),
    (b" " * 70_000, "more than 65536 bytes"),
]


@pytest.mark.parametrize(("data", "says"), _WRONG)
def test_what_is_no_message_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(messages.UnreadableError, match=says):
        messages.load(data)


def test_an_offer_has_no_more_places_than_descriptors() -> None:
    offer = messages.Offer(1, "1", tuple("127.0.0.1:1" for _ in range(65)), (), more=False)
    with pytest.raises(messages.UnreadableError, match="more than 64 places"):
        messages.load(messages.dump(offer))


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    st.one_of(
        st.binary(),
        json_values.map(lambda value: json.dumps(value).encode()),
        st.tuples(
            st.sampled_from([json.loads(messages.dump(each)) for each in KNOWN.values()]),
            st.dictionaries(
                st.sampled_from(
                    [
                        *("protocols", "version", "places", "inherited", "more", "reason", "x"),
                        *("number", "numbers", "request", "keys", "elapsed", "sent"),
                    ]
                ),
                json_values,
            ),
        ).map(lambda pair: json.dumps({**pair[0], **pair[1]}).encode()),
    )
)
def test_any_bytes_are_a_message_or_are_refused(data: bytes) -> None:
    try:
        found = messages.load(data)
    except messages.UnreadableError:
        return
    assert messages.load(messages.dump(found)) == found


@pytest.fixture
def link() -> Any:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for each in ends:
        each.settimeout(5)
    yield ends
    for each in ends:
        each.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("count", "message"),
    [(1, messages.Ready()), (0, KNOWN["offer"]), (4, KNOWN["offer"]), (70, KNOWN["offer"])],
)
def test_descriptors_that_do_not_belong_to_a_message_are_closed(
    link: Any, count: int, message: messages.Message
) -> None:
    ours, theirs = link
    messages.send(theirs, message, tuple([ours.fileno()] * count))
    before = descriptors()
    with pytest.raises(messages.UnreadableError):
        messages.receive(ours)
    assert descriptors() == before


def test_a_message_that_is_too_long_is_no_message(link: Any) -> None:
    ours, theirs = link
    theirs.send(b"x" * (messages.LENGTH + 100))
    with pytest.raises(messages.UnreadableError):
        messages.receive(ours)


def test_the_end_of_the_other_process_is_no_message(link: Any) -> None:
    ours, theirs = link
    theirs.close()
    with pytest.raises(EOFError):
        messages.receive(ours)
