"""Requests without a body, as aiohttp's parser gives them: made of heads that the engine has parsed and written anew.

Its own parser would take 5 of the 55 μs of a small request to find what is known already. It still gets the heads that
ask more of it than to name the fields (`plain_request` says which). `tests/lane/test_request_heads.py` compares the two.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from aiohttp import HttpVersion10, HttpVersion11, hdrs
from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy, istr
from yarl import URL

from .target import target_url

__all__ = ["MOST_BYTES", "MOST_FIELDS", "plain_request"]

MOST_BYTES: Final = 4096
"""Bytes of the longest head that is read here (arbitrary): what is cached of it stays small."""
MOST_FIELDS: Final = 64
"""Fields of the longest such head. Arbitrary."""

_METHODS: Final = {
    name.encode(): name for name in ("GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT", "PATCH")
}
_VERSIONS: Final = {b"HTTP/1.1": HttpVersion11, b"HTTP/1.0": HttpVersion10}
# For these the parser does more than name them: it decompresses, switches protocols, or refuses.
_NOT_PLAIN: Final = frozenset(
    (
        b"content-encoding",
        b"content-length",
        b"proxy-connection",
        b"sec-websocket-key1",
        b"transfer-encoding",
        b"upgrade",
    )
)
# The parser refuses a request that has one of these twice.
_SINGLE: Final = frozenset(
    (
        b"connection",
        b"content-location",
        b"content-range",
        b"content-type",
        b"etag",
        b"host",
        b"max-forwards",
        b"server",
        b"user-agent",
    )
)
# A field has the name that aiohttp knows it by, in whatever case the client wrote it.
_NAMES: Final = {name.lower().encode(): name for name in vars(hdrs).values() if isinstance(name, istr)}


class _Fields(NamedTuple):
    headers: CIMultiDictProxy[str]
    raw_headers: tuple[tuple[bytes, bytes], ...]
    keeps_alive: bool | None
    """What the field Connection says; None without one."""


def plain_request(head: bytes) -> RawRequestMessage | None:
    """The request whose head, as the engine has written it, is `head`; None if aiohttp's parser must read it.

    It must read what is long, has bytes beyond ASCII, a method that is not common, a target that is not a path, or
    fields that say more than a value: of a body, of another protocol, of an unusual Connection, or twice what may stand
    once.
    """
    if len(head) > MOST_BYTES or not head.isascii():
        return None
    line, _, fields = head.partition(b"\r\n")
    method, target, version = line.split(b" ")
    known, read, path = _METHODS.get(method), _read_fields(fields), target.decode("ascii")
    url = _url(path)
    if known is None or read is None or url is None:
        return None
    is_newer = version == b"HTTP/1.1"
    keeps_alive = is_newer if read.keeps_alive is None else read.keeps_alive
    return RawRequestMessage(
        known,
        path,
        _VERSIONS[version],
        read.headers,
        read.raw_headers,
        not keeps_alive,
        None,
        False,
        False,
        url,
    )


# A client sends the same fields again and again, and many clients ask for the same paths. Neither can be changed.
@lru_cache(maxsize=256)
def _read_fields(section: bytes) -> _Fields | None:
    lines = section.split(b"\r\n")[:-2]
    if len(lines) > MOST_FIELDS:
        return None
    raw: list[tuple[bytes, bytes]] = []
    named: list[tuple[str, str]] = []
    seen = set()
    keeps_alive = None
    for line in lines:
        name, _, value = line.partition(b":")
        value = value.strip(b" \t")
        lower = name.lower()
        if lower in _NOT_PLAIN or (lower in _SINGLE and lower in seen):
            return None
        seen.add(lower)
        if lower == b"connection":
            option = value.lower()
            if option not in {b"close", b"keep-alive"}:
                return None
            keeps_alive = option == b"keep-alive"
        raw.append((name, value))
        named.append((_NAMES.get(lower) or istr(name.decode("ascii")), value.decode("ascii")))
    return _Fields(CIMultiDictProxy(CIMultiDict(named)), tuple(raw), keeps_alive)


@lru_cache(maxsize=256)
def _url(target: str) -> URL | None:
    if not target.startswith("/") or "#" in target:
        return None
    return target_url(target)
