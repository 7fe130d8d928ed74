"""Server-sent events as bytes, for handlers that put some of their own into a stream."""

import re
from typing import Final

from .exceptions import make_error

__all__ = ["encode_event"]

_LINE_END: Final = re.compile("\r\n|\n|\r")


def encode_event(
    data: str | bytes | None = None,
    *,
    event: str | None = None,
    id: str | None = None,  # noqa: A002 (the name of the field)
    retry: int | None = None,
    comment: str | None = None,
) -> bytes:
    """One block of server-sent events (HTML Living Standard 9.2), with the blank line that ends it.

    Args:
        data: the payload. Each of its lines becomes a line of its own, so that the client gets all of them joined with
            LF; None sends no event, but what else is given still counts.
        event: its type; clients take `message` without it.
        id: what clients give back in Last-Event-ID. The empty text makes them forget it.
        retry: after how many milliseconds clients connect anew.
        comment: a line that clients pass over, in front of the fields. Each of its lines becomes one.

    Raises:
        ArgumentError: nothing was given; `event` or `id` has a line end, or `id` a NUL; or `retry` is negative.
    """
    if data is not None and not isinstance(data, str | bytes):
        raise make_error(
            "BAD_REQUEST", f"data is {data!r}; it must be a text or bytes: write json.dumps(data)"
        )
    for name, value in (("event", event), ("id", id), ("comment", comment)):
        if value is not None and not isinstance(value, str):
            raise make_error("BAD_REQUEST", f"{name} is {value!r}; it must be a text: write {str(value)!r}")
    if retry is not None and (not isinstance(retry, int) or isinstance(retry, bool)):
        raise make_error("BAD_REQUEST", f"retry is {retry!r}; it must be whole milliseconds")
    lines: list[bytes] = []
    if comment is not None:
        lines += (b": " + line.encode() for line in _LINE_END.split(comment))
    if event is not None:
        lines.append(b"event: " + _one_line("event", event))
    if id is not None:
        if "\0" in id:
            raise make_error("BAD_REQUEST", f"id is {id!r}: clients pass over one with a NUL")
        lines.append(b"id: " + _one_line("id", id))
    if retry is not None:
        if retry < 0:
            raise make_error("BAD_REQUEST", f"retry is {retry}; it must be milliseconds from 0 on")
        lines.append(b"retry: %d" % retry)
    if data is not None:
        payload = data if isinstance(data, bytes) else data.encode()
        lines += (b"data: " + line for line in re.split(rb"\r\n|\n|\r", payload))
    if not lines:
        raise make_error("BAD_REQUEST", "an event of nothing")
    return b"\n".join(lines) + b"\n\n"


def _one_line(name: str, value: str) -> bytes:
    if _LINE_END.search(value):
        raise make_error("BAD_REQUEST", f"{name} is {value!r}: it must be one line")
    return value.encode()
