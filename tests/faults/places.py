"""Where faults happen: twelve places for each way through the gateway. A seed chooses the byte where one has several."""

import re
from dataclasses import replace

from support.fault_relay import Place

HEAD = rb"\r\n\r\n"
EURO = "€".encode()


def response(rest: bytes, ahead: bytes = b"") -> Place:
    """A place in the first response whose head has `ahead`."""
    return Place(rb"HTTP/1\.1 (?=\d{3} [^\0]{0,400}?" + ahead + rb")" + rest)


def middle(of: bytes, count: int) -> bytes:
    """One byte of `of`, after so many bytes of a body."""
    return rb"[\s\S]*?\r\n\r\n[\s\S]{%d}[\s\S]*?" % count + of


def heads(ahead: bytes = b"") -> dict[str, Place]:
    """In the head of a response."""
    return {
        "in the status line": Place(rb"(?=HTTP/1\.1 \d{3} [^\0]{0,400}?" + ahead + rb")(HTTP/1\.1 \d{3})"),
        "in a field's name": response(rb"[\s\S]*?\r\n(Content-Length|Transfer-Encoding):", ahead),
        "in a field's value": response(rb"[\s\S]*?\r\n(?:Content-Length: |Transfer-Encoding: )(\w+)", ahead),
        "in another field's name": response(rb"[\s\S]*?\r\n(Cache-Control|Content-Type):", ahead),
        "in the blank line": response(rb"[\s\S]*?\r\n(\r\n)", ahead),
    }


def counted(size: int, ahead: bytes = b"") -> dict[str, Place]:
    """In a body of so many bytes, whose length the head gives."""
    return {
        "at the first byte of the body": response(rb"[\s\S]*?\r\n\r\n([\s\S])", ahead),
        "in the body": response(middle(rb"([\s\S])", size // 2), ahead),
        "inside a character": response(middle(EURO[:1] + b"(" + EURO[1:] + b")", size // 3), ahead),
        "before the last byte": response(middle(rb"([\s\S])", size - 1), ahead),
    }


def chunks(size: int) -> dict[str, Place]:
    """In the framing of a chunked body."""
    return {
        "in a chunk's size": response(middle(rb"\r\n([0-9a-f]+)\r\n", size // 2)),
        "after a chunk": response(middle(rb"(\r\n)[0-9a-f]+\r\n", size // 2)),
        "in the last chunk": response(rb"[\s\S]*?\r\n(0\r\n)\r\n"),
    }


def segment(size: int) -> dict[str, Place]:
    """Of a response that is relayed or fills the cache; what is counted and what is in chunks."""
    return {**heads(), **counted(size), **chunks(size)}


def part(begins: int, size: int) -> dict[str, Place]:
    """Of one slice, which is asked for once the one before is here."""
    ahead = rb"Content-Range: bytes %d-" % begins
    known = {
        **heads(ahead),
        **counted(size, ahead),
        "in the range's unit": response(rb"[\s\S]*?\r\nContent-Range: (bytes )", ahead),
        "in the range": response(rb"[\s\S]*?\r\nContent-Range: bytes (\d+-\d+)", ahead),
        "in the size of the whole": response(rb"[\s\S]*?\r\nContent-Range: bytes \d+-\d+/(\d+)", ahead),
    }
    last = rb"\d{4}%09d" % (begins // 16 - 1) + EURO
    return {name: replace(place, after=last) for name, place in known.items()}


EVENTS = {
    "between two events": response(rb"[\s\S]*?\n\n(?=\r\n[0-9a-f]+\r\nid: |id: )([\s\S])"),
    "in an event's id": response(rb"[\s\S]*?id: \d+-7\d?[\s\S]*?id: (\d+-\d+)"),
    "in an event's field": response(rb"[\s\S]*?id: \d+-5\n(data: )"),
    "in the end of an event": response(rb"[\s\S]*?id: \d+-8\n[\s\S]*?(\n\n)"),
    "inside a character": response(rb"[\s\S]*?id: \d+-11\n[\s\S]*?" + EURO[:1] + b"(" + EURO[1:] + b")"),
}
STREAM = {
    **heads(),
    **EVENTS,
    "in a chunk's size": response(rb"[\s\S]*?id: \d+-9\n[\s\S]*?\r\n([0-9a-f]+)\r\n"),
    "in the last chunk": response(rb"[\s\S]*?\r\n(0\r\n)\r\n"),
}


REQUEST_LINE = {
    "up, in the method": Place(rb"(\w+) /"),
    "up, in the target": Place(rb"\w+ (/\S+) "),
    "up, in the version": Place(rb"(HTTP/1\.1)\r\n"),
}


def asking(field: bytes) -> dict[str, Place]:
    """In a request that has `field`; before each name stands that it goes up."""
    name, _, value = field.partition(b": ")
    return {
        **REQUEST_LINE,
        "up, in a field's name": Place(rb"\r\n(" + re.escape(name) + rb"):"),
        "up, in a field's value": Place(re.escape(name) + rb": (" + re.escape(value) + rb")"),
        "up, in the blank line": Place(rb"\r\n(\r\n)"),
    }


def hit(size: int, field: bytes) -> dict[str, Place]:
    """Between a client and the edge, where the response is in the cache."""
    known = {**heads(), **counted(size)}
    down = ("in the status line", "in a field's value", "in the blank line", "in the body")
    return {
        **asking(field),
        **{name: known[name] for name in (*down, "inside a character", "before the last byte")},
    }


def subscription(field: bytes) -> dict[str, Place]:
    """Between a subscriber and the edge."""
    down = ("in the status line", "between two events", "in an event's id", "in the end of an event")
    return {
        **asking(field),
        **{name: STREAM[name] for name in (*down, "inside a character", "in the last chunk")},
    }


def upload(size: int) -> dict[str, Place]:
    """In a request with a body of so many bytes."""
    return {
        **REQUEST_LINE,
        "up, in a field's name": Place(rb"\r\n(Content-Length|Transfer-Encoding):"),
        "up, in a field's value": Place(rb"\r\n(?:Content-Length|Transfer-Encoding): (\w+)"),
        "up, in the blank line": Place(rb"\r\n(\r\n)"),
        "up, at the first byte of the body": Place(rb"\r\n\r\n([\s\S])"),
        "up, inside a character": Place(middle(EURO[:1] + b"(" + EURO[1:] + b")", size // 3)),
        "up, before the last byte": Place(middle(rb"([\s\S])", size - 1)),
        "up, in a chunk's size": Place(middle(rb"\r\n([0-9a-f]+)\r\n", size // 2)),
        "up, after a chunk": Place(middle(rb"(\r\n)[0-9a-f]+\r\n", size // 2)),
        "up, in the last chunk": Place(rb"\r\n(0\r\n)\r\n"),
    }


def channel(size: int) -> dict[str, Place]:
    """Between the edge and a worker process: messages, each after its length."""
    return {
        "up, in a message's length": Place(rb"([\s\S]{4})[\s\S]GET /"),
        "up, in the target": Place(rb"GET (/\S+) "),
        "up, in a field's name": Place(rb"\r\n(Host):"),
        "in a message's length": Place(rb"([\s\S]{4})[\s\S]HTTP/1\.1 200"),
        **{name: place for name, place in heads().items() if name != "in another field's name"},
        **counted(size),
    }


CHUNKED = frozenset({"in a chunk's size", "after a chunk", "in the last chunk"})


def is_chunked(place: str) -> bool:
    """Whether what passes has to be in chunks for the place to exist."""
    return place.removeprefix("up, ") in CHUNKED
