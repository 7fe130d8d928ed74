"""Which header fields pass through the gateway, and what it adds (RFC 9110 section 7.6).

Pure functions of a request and a policy; `gateway` is the only caller. Requests stay bytes from the client's
wire to the origin's, so that what aiohttp could not decode passes unharmed. The invariant: no field that
describes one hop, and none that frames a message, crosses to the next.
"""

import codecs
import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Final

from aiohttp import web
from multidict import istr

from penstock.config import Forwarding
from penstock.exceptions import make_error

Fields = list[tuple[bytes, bytes]]
"""Header fields in the order of the wire."""

# RFC 9110 section 7.6.1, what RFC 2616 section 13.5.1 had besides, and Proxy-Connection, which nobody
# specified. Trailer goes because trailers do: nothing above aiohttp can send one.
_HOP_BY_HOP: Final = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    ),
)

# The engine frames and addresses the message itself. Expect has been met: aiohttp says 100 before a handler
# runs.
_REQUEST_ONLY: Final = frozenset((b"content-length", b"expect", b"host"))

# What a client that is not trusted could claim about itself.
_CLAIMS: Final = frozenset(
    (
        b"forwarded",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-prefix",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-forwarded-ssl",
        b"x-real-ip",
    ),
)

# The fields of a response that need a look.
_SPECIAL: Final = _HOP_BY_HOP | {b"content-length"}

# The options of Connection that nominate no field.
_PLAIN_OPTIONS: Final = frozenset(("", "close", "keep-alive"))
_PLAIN_CONNECTION: Final = frozenset(("close", "keep-alive", "Close", "Keep-Alive"))

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_CONNECTION: Final = istr("Connection")


def _as_iso_8859_1(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("iso-8859-1"), error.end


codecs.register_error("penstock.iso-8859-1", _as_iso_8859_1)


class RequestFields:
    """Builds the header fields that go to the origin, by one policy."""

    def __init__(self, forwarding: Forwarding) -> None:
        self._forwarding = forwarding
        self._dropped = _HOP_BY_HOP | _REQUEST_ONLY | (frozenset() if forwarding.trust_incoming else _CLAIMS)
        self._via = None if forwarding.via is None else forwarding.via.encode()

    def build(self, request: web.BaseRequest, headers: Mapping[str, str | None] | None) -> Fields:
        """The end-to-end fields of `request`, those of the policy, and `headers`.

        `headers` stand in place of the client's fields of the same names. None as a value only keeps the
        client's field back.
        """
        dropped = self._dropped
        connection = request.headers.get(_CONNECTION)
        if connection is not None and connection not in _PLAIN_CONNECTION:
            nominated = _nominated(_bytes(value) for value in request.headers.getall(_CONNECTION))
            dropped |= {name.encode("latin-1") for name in nominated}
        if headers is not None:
            dropped |= {_bytes(name.lower()) for name in headers}
        fields = [field for field in request.raw_headers if field[0].lower() not in dropped]
        policy = self._forwarding
        if policy.x_forwarded:
            self._add_x_forwarded(request, fields)
        if policy.forwarded:
            self._add_forwarded(request, fields)
        if policy.preserve_host:
            fields.append((b"Host", _bytes(request.host)))
        if self._via is not None:
            # A further line of a list field continues the list (RFC 9110 section 5.3).
            version = request.version
            fields.append((b"Via", b"%d.%d %s" % (version.major, version.minor, self._via)))
        if headers is not None:
            fields.extend(
                (_bytes(name), _bytes(value)) for name, value in headers.items() if value is not None
            )
        return fields

    def _add_x_forwarded(self, request: web.BaseRequest, fields: Fields) -> None:
        # A client on a Unix socket has no address; an empty element would be taken for one.
        address = _bytes((request.remote or "unknown").partition("%")[0])
        proto = (b"X-Forwarded-Proto", request.scheme.encode())
        host = (b"X-Forwarded-Host", _bytes(request.host))
        if not self._forwarding.trust_incoming:
            fields += ((b"X-Forwarded-For", address), proto, host)
            return
        _append_to_list(fields, b"X-Forwarded-For", address)
        known = {name.lower() for name, _ in fields}
        fields += (field for field in (proto, host) if field[0].lower() not in known)

    def _add_forwarded(self, request: web.BaseRequest, fields: Fields) -> None:
        element = f"for={_node(request.remote)};host={_quoted(request.host)};proto={request.scheme}"
        _append_to_list(fields, b"Forwarded", _bytes(element))


def response_fields(received: Fields, via: str | None) -> list[tuple[str, str]]:
    """The end-to-end fields of an origin's response, as text for aiohttp, and a Via field of value `via`."""
    fields: list[tuple[str, str]] = []
    nominating: list[bytes] = []
    length = False
    for name, value in received:
        lowered = name.lower()
        if lowered in _SPECIAL:
            if lowered == b"connection":
                nominating.append(value)
            elif lowered == b"content-length" and not length:
                # Equal values pass the engine, on lines of their own or on one (RFC 9110 section 8.6);
                # aiohttp reads a number.
                length = True
                fields.append(("Content-Length", value.partition(b",")[0].strip().decode()))
            continue
        # What is not UTF-8 is read as ISO 8859-1 (RFC 9110 section 5.5): aiohttp writes UTF-8, and drops
        # surrogates.
        fields.append((name.decode(), value.decode("utf-8", "penstock.iso-8859-1")))
    nominated = _nominated(nominating)
    if nominated:
        fields = [field for field in fields if field[0].lower() not in nominated]
    if via is not None:
        fields.append(("Via", via))
    return fields


def _nominated(connection: Iterable[bytes]) -> frozenset[str]:
    """The names that the values of Connection say are of this hop."""
    options = {
        option.strip().lower().decode("latin-1") for value in connection for option in value.split(b",")
    }
    return frozenset(options) - _PLAIN_OPTIONS


def _bytes(text: str) -> bytes:
    """`text` as it stood on the wire: aiohttp decodes header fields so."""
    return text.encode("utf-8", "surrogateescape")


def _append_to_list(fields: Fields, name: bytes, element: bytes) -> None:
    """Add `element` to the list field `name`, on one line: many applications read the first line only."""
    lowered = name.lower()
    known = [value for other, value in fields if other.lower() == lowered and value]
    fields[:] = [field for field in fields if field[0].lower() != lowered]
    fields.append((name, b", ".join((*known, element))))


def _node(remote: str | None) -> str:
    """An address as a node of Forwarded (RFC 7239 section 6)."""
    if remote is None:
        return "unknown"
    try:
        address = ipaddress.ip_address(remote.partition("%")[0])
    except ValueError:
        # The path of a Unix socket, mostly empty: nobody else's business.
        return "unknown"
    return f'"[{address}]"' if isinstance(address, ipaddress.IPv6Address) else str(address)


def _quoted(value: str) -> str:
    """`value` as a token if it is one, else as a quoted-string (RFC 7239 section 4)."""
    if _TOKEN.fullmatch(value):
        return value
    if any(character < " " and character != "\t" for character in value):
        raise make_error("BAD_REQUEST", "the Host field contains a control character")
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
