"""What a client saw, and what bytes mean: a reader of HTTP/1.1 messages that shares no code with the engine."""

import asyncio
import re
from dataclasses import dataclass

from support.client import RawClient

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: .*)?")
_REQUEST = re.compile(rb"(\S+) (\S+) HTTP/1\.[01]")
_NO_BODY = {204, 304}
_OWN = re.compile(rb'^event: (?:error\ndata: \{"error":|penstock-)', re.MULTILINE)


@dataclass(frozen=True)
class Message:
    """A response or a request, as far as it is here."""

    status: int | None
    """None where there is no whole head of a response."""
    fields: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    """As far as it has come."""
    whole: bool = False
    """Whether the message says that this is all of it."""
    line: tuple[str, ...] = ()
    """The method and the target of a request."""

    def field(self, name: str) -> str | None:
        return next((value for known, value in self.fields if known == name), None)


NOTHING = Message(None)


def read_all(raw: bytes | bytearray, *, finished: bool) -> list[Message]:
    """All responses of a connection. `finished` is whether it ended cleanly."""
    found, rest = [], bytes(raw)
    while rest:
        message, left = _response(rest, finished)
        found.append(message)
        if not message.whole:
            break
        rest = left
    return found


def read(raw: bytes | bytearray, *, finished: bool) -> Message:
    """The first response of a connection."""
    return (read_all(raw, finished=finished) or [NOTHING])[0]


def _response(rest: bytes, finished: bool) -> tuple[Message, bytes]:
    while True:
        head, found, rest = rest.partition(b"\r\n\r\n")
        if not found:
            return NOTHING, b""
        line, *lines = head.split(b"\r\n")
        if (match := _STATUS.fullmatch(line)) is None:
            return NOTHING, b""
        status = int(match[1])
        if not 100 <= status < 200:
            break
    fields = _fields(lines)
    if status in _NO_BODY:
        return Message(status, fields, whole=True), rest
    body, whole, rest = _body(dict(fields), rest, without=finished)
    return Message(status, fields, body, whole), rest


def read_request(raw: bytes | bytearray) -> Message:
    """The first request of a connection."""
    head, found, rest = bytes(raw).partition(b"\r\n\r\n")
    line, *lines = head.split(b"\r\n")
    if not found or (match := _REQUEST.fullmatch(line)) is None:
        return NOTHING
    fields = _fields(lines)
    known = dict(fields)
    if not {"transfer-encoding", "content-length"} & set(known):
        return Message(None, fields, whole=True, line=(match[1].decode(), match[2].decode("latin-1")))
    body, whole, _ = _body(known, rest, without=False)
    return Message(None, fields, body, whole, (match[1].decode(), match[2].decode("latin-1")))


def _fields(lines: list[bytes]) -> tuple[tuple[str, str], ...]:
    pairs = (line.decode("latin-1").partition(":") for line in lines)
    return tuple((name.lower(), value.strip()) for name, _, value in pairs)


def _body(fields: dict[str, str], rest: bytes, *, without: bool) -> tuple[bytes, bool, bytes]:
    """The body, whether it is whole, and what follows. `without` is whether one without a length is whole."""
    if fields.get("transfer-encoding", "").lower() == "chunked":
        return _dechunked(rest)
    length = fields.get("content-length")
    if length is None:
        return rest, without, b""
    if not re.fullmatch("[0-9]+", length):
        return b"", False, b""
    return rest[: int(length)], len(rest) >= int(length), rest[int(length) :]


def _dechunked(rest: bytes) -> tuple[bytes, bool, bytes]:
    parts: list[bytes] = []
    while (match := re.match(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[^\r\n]*)?\r\n", rest)) is not None:
        size, rest = int(match[1], 16), rest[match.end() :]
        if size == 0:
            trailers = re.match(rb"(?:[^\r\n]+\r\n)*\r\n", rest)
            return b"".join(parts), trailers is not None, rest[trailers.end() :] if trailers else b""
        parts.append(rest[:size])
        if rest[size : size + 2] != b"\r\n":
            break
        rest = rest[size + 2 :]
    return b"".join(parts), False, b""


async def see(client: RawClient, *, within: float) -> Message:
    """Read a response to its end, to the connection's, or for so long."""
    raw = bytearray()
    try:
        async with asyncio.timeout(within):
            while not (seen := read(raw, finished=False)).whole:
                data = await client.reader.read(65536)
                if not data:
                    return read(raw, finished=True)
                raw += data
            return seen
    except (ConnectionError, TimeoutError):
        return read(raw, finished=False)


def events(body: bytes) -> list[bytes]:
    """The whole events of a stream, without comments and the gateway's own errors."""
    blocks = body.split(b"\n\n")[:-1]
    return [block for block in blocks if not block.startswith((b":", b"retry: ")) and not _OWN.search(block)]
