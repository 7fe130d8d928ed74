"""Every setting of the engine and of the gateway: declared, explained and checked here and nowhere else.

The dataclasses are frozen and checked once, when they are made. Sizes may be written as numbers of bytes or
as text such as `"256MiB"`; after construction they are numbers. The engine receives what stands here and has
no defaults of its own. A bad setting raises `penstock.ConfigurationError`, a ValueError naming the field.
"""

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from .exceptions import make_error

__all__ = [
    "Access",
    "Cache",
    "Caching",
    "Drain",
    "Edge",
    "EventRelay",
    "Flow",
    "Forwarding",
    "History",
    "Inspection",
    "OriginLimits",
    "Overrides",
    "Pool",
    "Reads",
    "RedisLog",
    "RouteLimits",
    "Subscriptions",
    "TenantLimits",
    "Timeouts",
    "Tls",
    "parse_size",
]

Size = int | str
"""Bytes, as a number or as text such as `"64KiB"`."""

_UNITS: Final = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}
_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", re.ASCII)
_NO_EVENT_NAME: Final = re.compile(r"[\0\r\n]")  # HTML Living Standard 9.2.5
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)  # RFC 9110 §5.6.2

# The pool's unit of cutting, and the largest slab.
_REGION: Final = 256 * 1024
_PAGE: Final = 4 * 1024
# Longer than any exchange, and short enough for every clock that counts it.
_YEAR: Final = 365 * 24 * 3600.0


def parse_size(size: Size) -> int:
    """Read a size: a number of bytes, or text such as `"64KiB"`, `"1.5 GB"`, `"4096"`.

    KiB, MiB, GiB are powers of 1024; KB, MB, GB powers of 1000. Case does not matter.

    Raises:
        ConfigurationError: it is none of these, is negative, or is not a whole number of bytes.
    """
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise _no_size(size, "it is negative")
        return size
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    unit = None if match is None else _UNITS.get(match[2].upper())
    if match is None or unit is None:
        raise _no_size(size, "write bytes, or text such as '64KiB' or '256MiB'")
    whole, _, fraction = match[1].partition(".")
    numerator, denominator = int(whole + fraction) * unit, int("1" + "0" * len(fraction))
    if numerator % denominator:
        raise _no_size(size, "it is not a whole number of bytes")
    return numerator // denominator


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long each stage of a request may take, in seconds; None for no limit."""

    queue: float | None = 10.0
    """For a connection to become free. A client that has waited this long has mostly gone."""
    resolve: float | None = 5.0
    """For the origin's name. Resolvers ask again after 5 s; a second question fares no better."""
    connect: float | None = 5.0
    """For a TCP connection, over all addresses. Leaves room for two lost SYNs (after 1 s and 3 s)."""
    tls: float | None = 5.0
    """For the TLS handshake: two round trips and some arithmetic."""
    first_byte: float | None = 60.0
    """From the last byte of the request to the first of the response. Models think long."""
    between_bytes: float | None = 60.0
    """Between two reads of the body. Quiet event streams send a comment every 15 to 30 s."""
    total: float | None = None
    """For the whole exchange. None: live streams have no end."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            _seconds(self, limit.name, optional=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginLimits:
    """What one origin (scheme, host, port) may take of the engine, and what its responses may look like."""

    connections: int = 1024
    """Connections open at a time, per engine thread. Each carries one response, and an event stream for hours."""
    waiting: int = 1024
    """Requests that wait for a connection; one more is refused at once."""
    idle_timeout: float = 60.0
    """Seconds an unused connection is kept. Below the 75 s after which nginx closes it."""
    requests_per_connection: int = 10_000
    """Requests on one connection before it is replaced, so that load follows when the origin moves."""
    connection_age: float = 3600.0
    """Seconds before a connection is not used again, for the same reason where requests are few."""
    head_bytes: Size = "64KiB"
    """Bytes of a response head; origins limit the heads they accept to 8 to 64 KiB themselves."""
    head_fields: int = 128
    """Header fields of a response; what aiohttp allows a client."""
    interim_responses: int = 8
    """1xx responses before the final one; 100 and some 103 occur, an endless row is an attack."""
    chunk_extension_bytes: Size = "16KiB"
    """Bytes of chunk extensions in one body. Nobody sends any, so this many are an attack."""
    trailer_bytes: Size = "16KiB"
    """Bytes of the trailer section."""

    def __post_init__(self) -> None:
        _count(self, "connections", 1)
        _count(self, "waiting", 0)
        _seconds(self, "idle_timeout")
        _count(self, "requests_per_connection", 1)
        _seconds(self, "connection_age")
        # A head is parsed in one piece, and the largest slab is a region.
        _bytes(self, "head_bytes", _PAGE, _REGION)
        _count(self, "head_fields", 1, 4096)
        _count(self, "interim_responses", 0)
        _bytes(self, "chunk_extension_bytes", 0, _REGION)
        _bytes(self, "trailer_bytes", 0, _REGION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The one budget of memory that all bytes on their way live in."""

    memory: Size = "256MiB"
    """Bytes; rounded down to whole regions of 256 KiB. 256 MiB hold 1024 streams of 256 KiB each."""
    reserve: Size | None = None
    """Bytes that only response heads and joined frames may take, so that established streams can go on when
    the rest is taken. None: a thirty-second of `memory`."""
    pressed_percent: int = 75
    """From this use on windows shrink to their floor; a quarter is for what is under way."""
    full_percent: int = 95
    """From this use on new work is refused at once; the rest is for the established."""
    hysteresis_percent: int = 10
    """How far below a threshold the use must fall before the state relaxes, so that it does not flap."""
    prefault: Size = "4MiB"
    """Bytes kept present ahead of need by a background thread: faulting a fresh 64 KiB in takes 43 us."""
    huge_pages: bool = False
    """Ask for transparent huge pages. Off: they make an idle process look as large as its budget."""
    lock: bool = False
    """Ask for the pages to be locked into memory. Off: the usual limit (RLIMIT_MEMLOCK) is 8 MiB."""
    caches: int = 4
    """Caches of free slabs, shared by threads in turn: for the engine's, the event loop's, and spare ones."""

    def __post_init__(self) -> None:
        memory = _bytes(self, "memory", _REGION) // _REGION * _REGION
        _set(self, "memory", memory)
        if self.reserve is None:
            _set(self, "reserve", memory // 32)
        if _bytes(self, "reserve", 0) >= memory:
            raise _bad(self, "reserve", f"must be less than memory, {memory} bytes")
        _count(self, "pressed_percent", 1, 100)
        _count(self, "full_percent", 1, 100)
        _count(self, "hysteresis_percent", 0, 100)
        if self.full_percent < self.pressed_percent:
            raise _bad(self, "full_percent", f"must not be below pressed_percent, {self.pressed_percent}")
        if self.hysteresis_percent >= self.pressed_percent:
            raise _bad(self, "hysteresis_percent", f"must be below pressed_percent, {self.pressed_percent}")
        _bytes(self, "prefault", 0)
        _flag(self, "huge_pages")
        _flag(self, "lock")
        _count(self, "caches", 1, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The window of one stream: how much may be under way to a consumer that has not let go of it yet."""

    floor: Size = "64KiB"
    """Bytes at the start, and at least: one read of the largest size that saves CPU time."""
    ceiling: Size = "1MiB"
    """Bytes at most: a round trip of 40 ms at 200 Mbit/s. The pool shared by the streams is a limit too."""

    def __post_init__(self) -> None:
        floor = _bytes(self, "floor", _PAGE)
        _bytes(self, "ceiling", _PAGE)
        if parse_size(self.ceiling) < floor:
            raise _bad(self, "ceiling", f"must not be below floor, {floor} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """How much memory one read of a body is offered; it adapts to what arrives between `least` and `most`."""

    least: Size = "4KiB"
    """Bytes at least: the smallest slab, which is what an idle or slow stream costs."""
    unknown: Size = "16KiB"
    """Bytes at the start of a body of unknown length: an event stream, or anything."""
    known: Size = "64KiB"
    """Bytes at the start of a body whose length is known, unless that is shorter."""
    most: Size = "256KiB"
    """Bytes at most: the largest slab. A socket seldom has more at a time."""

    def __post_init__(self) -> None:
        least = _bytes(self, "least", _PAGE, _REGION)
        most = _bytes(self, "most", least, _REGION)
        _bytes(self, "unknown", least, most)
        _bytes(self, "known", least, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What a client may take of a server whose sockets the engine owns, `penstock.web.Site`.

    Times are seconds; None is no limit.
    """

    line_bytes: Size = "16KiB"
    """Bytes of a request line (414). Signed URLs and long queries need some; browsers send 2 to 8 KiB."""
    head_bytes: Size = "64KiB"
    """Bytes of a request head (431). Cookies may be many; nginx allows 40 KiB, HAProxy 15."""
    head_fields: int = 128
    """Header fields of a request; what aiohttp allows."""
    chunk_extension_bytes: Size = "16KiB"
    """Bytes of chunk extensions in one request body. Nobody sends any, so this many are an attack."""
    trailer_bytes: Size = "16KiB"
    """Bytes of a request's trailer section."""
    max_body: Size | None = None
    """Bytes of a request body (413), unless its route says otherwise. None: an application has limits of its own, and
    a body that is passed on takes no more memory than its window."""
    idle_timeout: float | None = 75.0
    """For the next request on a kept connection; nginx's default, above what most proxies and browsers use."""
    head_timeout: float | None = 10.0
    """For a request head, from its first byte to its last (408). It is one packet, mostly; whoever drips it attacks."""
    body_timeout: float | None = 60.0
    """Between two reads of a request body (408)."""
    write_timeout: float | None = 60.0
    """For a client to take a byte of what waits for it. A player that pauses longer comes back with a range."""
    stall_grace: int = 5
    """For a client that takes nothing while the pool is full: after so many whole seconds the one that has taken
    nothing for longest is cut off, one a second. Several round trips of a bad network."""
    linger: float = 2.0
    """For a client that was refused to stop sending, so that it can read why."""
    max_event: Size = "1MiB"
    """Bytes of the longest event of a text/event-stream that a native route relays."""
    event_backlog: Size | None = "64KiB"
    """Bytes of an event stream that the kernel may keep unsent for a client (TCP_NOTSENT_LOWAT): some hundred events.
    By itself it takes 4 MB, so that a slow client is minutes behind, out of memory that nobody counts. What is sent and
    not acknowledged is not limited, so no line is too long for it. None: what the system says."""
    app_waiting: int = 1024
    """Requests that wait for the application to look at them; one more is answered with 503 at once. The application
    looks at all of them in one turn of its loop, so that they only wait where Python is stalled or overloaded."""
    app_wait: float | None = 10.0
    """For the application to look at a request (503). A client that has waited this long has mostly gone."""
    app_ends: Size = "16MiB"
    """Bytes that what became of requests on native routes may take while it waits for an `on_complete` because Python
    is stalled: some 40,000 requests. What is beyond is dropped, and the log says how many: an engine thread waits for
    nobody."""
    backlog: int = 4096
    """Connections that wait to be accepted: a burst must not meet a full queue. The kernel caps it at somaxconn."""
    reuse_port: bool = False
    """Let other processes listen to the same address (SO_REUSEPORT)."""

    def __post_init__(self) -> None:
        # A head is parsed in one piece, and the largest slab is a region.
        _bytes(self, "head_bytes", 1024, _REGION)
        _bytes(self, "line_bytes", 64, parse_size(self.head_bytes))
        _count(self, "head_fields", 1, 4096)
        _bytes(self, "chunk_extension_bytes", 0, _REGION)
        _bytes(self, "trailer_bytes", 0, _REGION)
        if self.max_body is not None:
            _bytes(self, "max_body", 0)
        for name in ("idle_timeout", "head_timeout", "body_timeout", "write_timeout"):
            _seconds(self, name, optional=True)
        _count(self, "stall_grace", 1)
        _seconds(self, "linger")
        _bytes(self, "max_event", 1)
        if self.event_backlog is not None:
            _bytes(self, "event_backlog", 1, 1 << 30)
        _count(self, "app_waiting", 1)
        _seconds(self, "app_wait", optional=True)
        _bytes(self, "app_ends", _PAGE)
        _count(self, "backlog", 1)
        _flag(self, "reuse_port")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """How a response is read on when its client has left, so that the origin can finish what it has begun.

    Each limit that is reached cancels the origin's response.
    """

    bytes: Size = "16MiB"
    """Bytes of one response: far more than a model says in one answer, and not a film."""
    seconds: float = 300.0
    """For one response, from when the client left: long answers of slow models take some minutes."""
    concurrency: int = 64
    """Responses at a time, by route; beyond it the origin is cancelled at once, and counted. Clients that ask and leave
    could otherwise have an origin work for nobody without end."""

    def __post_init__(self) -> None:
        _bytes(self, "bytes", 0)
        _seconds(self, "seconds")
        _count(self, "concurrency", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRelay:
    """What is done with the event streams (text/event-stream) of a route, a gateway or a request besides relaying them.

    Times are seconds. Streams that the origin has compressed, or given a length, are relayed as they are.
    """

    heartbeat: float | None = 15.0
    """For how long nothing may be sent: then a comment is, between two events. Each pause is up to a quarter shorter,
    so that streams do not beat together. Proxies and load balancers cut what is quiet for 30 to 60 s. None: no
    comment."""
    idle: float | None = None
    """For how long the origin may send no event; comments of its own are none. With it `Timeouts.between_bytes` is not
    for the bodies of event streams. None: a feed may have nothing to say for hours, as long as bytes come."""
    unbuffered: bool = True
    """Send `X-Accel-Buffering: no`, by which nginx lets events pass at once, and `Cache-Control: no-cache`, where the
    origin says nothing else."""
    error_event: str | None = "error"
    """The name of the event that tells the client of a failure behind the head: its data is `{"error": {"code", "name",
    "message", "retryable"}}`, which clients of model servers raise. The stream is broken off all the same. None: it is
    broken off alone."""
    drain: Drain | None = None
    """How an event stream is read on when its client leaves. None: as the route says of all responses; by default the
    origin is cancelled at once."""

    def __post_init__(self) -> None:
        _seconds(self, "heartbeat", optional=True)
        _seconds(self, "idle", optional=True)
        _flag(self, "unbuffered")
        name = self.error_event
        if name is not None and (not isinstance(name, str) or not name or _NO_EVENT_NAME.search(name)):
            raise _bad(self, "error_event", "must be a text of one line, or None")
        if self.drain is not None and not isinstance(self.drain, Drain):
            raise _bad(self, "drain", "must be a Drain or None")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What an engine keeps of what it fetches, for routes and requests that have `Caching`."""

    memory: Size = "64MiB"
    """Bytes of the engine's pool at most, counted as the slabs that they lie in."""
    disk: str | os.PathLike[str] | None = None
    """A directory for what leaves memory, which one engine at a time may use; made if only it is missing. None: what
    leaves is gone. With a disk an eighth of `memory` is kept free for what is on its way there, and what is larger,
    whole or as a slice, never gets there."""
    disk_budget: Size | None = None
    """Bytes that the files there may take; to be given with `disk`, because nobody else knows how much is free."""
    disk_save: float = 10.0
    """Seconds that closing the engine may take to write what is in memory alone: 4 GB to a disk that takes 400 MB a
    second, and less than process managers wait. 0: that is lost."""
    disk_timeout: float = 5.0
    """Seconds for which anybody waits for the disk to give something back: what it has not begun to send is fetched
    from the origin then, what it has is broken off unless it is in parts, whose rest is fetched as well, and the disk
    is left alone until it answers. A disk that is merely busy takes tenths of a second, and a player has some seconds
    in its buffer."""

    def __post_init__(self) -> None:
        _bytes(self, "memory", _REGION)
        if (self.disk is None) != (self.disk_budget is None):
            raise _bad(self, "disk_budget", "goes with disk: give both or neither")
        if self.disk is not None:
            _set(self, "disk", Path(self.disk))
            _bytes(self, "disk_budget", _REGION)
        _seconds(self, "disk_save", zero=True)
        _seconds(self, "disk_timeout")

    def fits(self, pool: Pool) -> bool:
        """Whether it is at most half of `pool`: the other half is for bytes on their way."""
        return 2 * parse_size(self.memory) <= parse_size(pool.memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caching:
    """How a route, a gateway or a request uses its engine's cache. What is not said here is as RFC 9111 says.

    Times are seconds.
    """

    name: str = "penstock"
    """What the cache is called in Cache-Status (RFC 9211)."""
    targets: tuple[str, ...] = ("Penstock-Cache-Control", "CDN-Cache-Control")
    """Fields that are about this cache, in place of Cache-Control (RFC 9213); the first that is there is followed."""
    lifetime: float | None = None
    """For how long a response is fresh, whatever the origin says of one that it lets be stored. None: what it says."""
    heuristic_percent: int = 10
    """Where the origin says nothing: fresh for that share of the time since the last modification."""
    heuristic_max: float = 86400.0
    """The longest time that such a guess gives: a day."""
    negative: float = 1.0
    """For how long a 404, 405, 410, 414 or 501 is fresh where the origin says nothing. A live player asks for the next
    segment before it is there, and must not wait long for it."""
    stale_while_revalidate: float = 0.0
    """For how long a stale response is served while it is fetched anew, where the origin does not say (RFC 5861)."""
    stale_if_error: float = 0.0
    """For how long a stale response stands in for an error, where the origin does not say (RFC 5861)."""
    store_cookies: bool = True
    """Whether a response that sets cookies is stored where the origin says for how long."""
    clients_may_refresh: bool = True
    """Whether a client may have the origin asked though a fresh response is there (no-cache, max-age=0, Pragma)."""
    languages: Literal["ordered", "weighted", "preferred"] = "preferred"
    """How Accept-Language is compared where a response varies by it."""
    range_fill: Literal["whole", "asked", "slices"] = "whole"
    """What is fetched where a range is asked for and is not there: the whole object, the range, or `slice`s of it. With
    slices a response without a range is fetched, stored and served in slices too, so that it may be of any length."""
    slice: Size = "1MiB"
    """Bytes of a slice: some seconds of video. No larger than `max_object`."""
    max_ranges: int = 8
    """Ranges that one request gets; more are answered with the whole."""
    max_object: Size = "16MiB"
    """Bytes of the largest body that is stored: a segment of ten seconds at 12 Mbit/s. Each slice is one."""
    keep_parameters: tuple[str, ...] | None = None
    """Query parameters in the key; a name that ends in * stands for all that begin so. None: all of them."""
    drop_parameters: tuple[str, ...] = ("CMCD",)
    """Query parameters that are not: what tells who asks, and not what for."""
    sort_parameters: bool = False
    """Whether the order of query parameters makes no difference."""
    apart: float = 10.0
    """For how long requests for a key do not wait for each other once an answer has turned out not to be shared."""
    unread: int = 0
    """Per cent of a body that must have come for its fetch to go on when its last reader has left. 0: it always does;
    100: it never does."""
    tags: tuple[str, ...] = ()
    """What all that is stored can be purged by, besides the origin's Surrogate-Key and Cache-Tag."""

    def __post_init__(self) -> None:
        if self.lifetime is not None:
            _seconds(self, "lifetime", zero=True)
        for name in ("heuristic_max", "negative", "stale_while_revalidate", "stale_if_error", "apart"):
            _seconds(self, name, zero=True)
        _count(self, "heuristic_percent", 0, 100)
        _count(self, "max_ranges", 1)
        _count(self, "unread", 0, 100)
        _bytes(self, "slice", _PAGE)
        _bytes(self, "max_object", 1)
        for name in ("store_cookies", "clients_may_refresh", "sort_parameters"):
            _flag(self, name)
        for name in ("targets", "drop_parameters", "tags"):
            _texts(self, name)
        if self.keep_parameters is not None:
            _texts(self, "keep_parameters")
        for name, known in (
            ("languages", ("ordered", "weighted", "preferred")),
            ("range_fill", ("whole", "asked", "slices")),
        ):
            if getattr(self, name) not in known:
                raise _bad(self, name, f"must be one of {', '.join(known)}")
        if self.range_fill == "slices" and int(self.slice) > int(self.max_object):
            raise _bad(self, "slice", "must be no larger than max_object: no slice would be stored")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What is decided about one request before anything is looked up, in place of what its `Caching` says."""

    key: str | None = None
    """In place of path and query in the key, such as `"/vod/7"`. Scheme and authority of the origin stay, so that two
    origins never mix. None: what was asked for, as the route makes a key of it."""
    lifetime: float | None = None
    """In place of `Caching.lifetime`, for what this request brings: seconds for which it is fresh, 0 for stale at once.
    What the origin does not let be stored is not."""
    tags: tuple[str, ...] = ()
    """What this request brings can be purged by these too."""
    bypass: bool = False
    """Ask the origin as if there were no cache: what is stored is neither used nor changed."""

    def __post_init__(self) -> None:
        key = self.key
        if key is not None and not (
            isinstance(key, str) and key.startswith("/") and key.isascii() and key.isprintable()
        ):
            raise _bad(self, "key", "must be printable ASCII that begins with a slash, or None")
        if self.lifetime is not None:
            _seconds(self, "lifetime", zero=True)
        _texts(self, "tags")
        _flag(self, "bypass")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteLimits:
    """What one native route serves at most; None for no limit. What is beyond is answered with 429."""

    concurrency: int | None = None
    """Requests at a time."""
    rate: float | None = None
    """Requests a second, over time."""
    burst: int = 64
    """Requests that may come at once after a pause, where there is a rate: a player's first segments and playlists,
    a few times over."""
    body: Size | None = None
    """Bytes of a request body (413). None: what `Edge.max_body` says."""

    def __post_init__(self) -> None:
        if self.concurrency is not None:
            _count(self, "concurrency", 1)
        _rate(self, "rate")
        _count(self, "burst", 1)
        if self.body is not None:
            _bytes(self, "body", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """What one tenant may have at most, over all engine threads and all routes that share its decisions; None for no
    limit."""

    streams: int | None = None
    """Requests at a time; one more is answered with 429 (TENANT_LIMITED)."""
    rate: float | None = None
    """Requests a second, over time; the same."""
    burst: int = 64
    """Requests that may come at once after a pause, where there is a rate, as `RouteLimits.burst`."""
    bandwidth: Size | None = None
    """Bytes of bodies a second, over time: they are sent no faster, all of them in turn. After a pause a second's worth
    comes at once. Event streams are held to it as well, and wait behind bodies."""
    total: Size | None = None
    """Bytes of bodies in all, until `Decisions.renew`; then requests are answered with 403 (TENANT_EXHAUSTED), and what
    runs is cut: a stream without an end would know no total else."""

    def __post_init__(self) -> None:
        if self.streams is not None:
            _count(self, "streams", 1)
        _rate(self, "rate")
        _count(self, "burst", 1)
        if self.bandwidth is not None:
            _bytes(self, "bandwidth", 1)
        if self.total is not None:
            _bytes(self, "total", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How much is remembered of who may, and for how long; how a hook is asked. Times are seconds."""

    lifetime: float = 60.0
    """For which it is remembered that a request is let in, where the hook says nothing else. What is withdrawn
    elsewhere and not revoked here ends within a minute, and a player that asks twice a second costs the hook one
    question in 120."""
    denied_lifetime: float = 10.0
    """For which it is remembered that a request is refused. Who is let in after all, having paid, does not wait for
    long."""
    decisions: int = 100_000
    """Decisions to let in that are remembered, some 300 bytes each. Beyond it leaves who has not come back for longest,
    and is asked about again."""
    denials: int = 10_000
    """Decisions to refuse that are remembered, apart from the others: those who try at random push out nobody who
    may."""
    questions: int = 256
    """Questions that the hook has not answered, each about another key; one more is answered with 503 (ACCESS_BUSY). A
    hook that takes 50 ms answers 5,000 a second so, and a database has no more than that in flight."""
    timeout: float = 5.0
    """For an answer (503, ACCESS_TIMEOUT). Players give up on a segment after some seconds more."""
    tenant_limits: TenantLimits = field(default_factory=TenantLimits)
    """What each tenant may have, where an `Allow` says nothing else."""
    tenants: int = 10_000
    """Tenants of whom it is known what they had, some 300 bytes each. Beyond it one leaves about whom nothing is
    remembered, and its counters with it; where there is none, a new one is refused (503, TOO_MANY_TENANTS)."""

    def __post_init__(self) -> None:
        _seconds(self, "lifetime")
        _seconds(self, "denied_lifetime", zero=True)
        _count(self, "decisions", 1)
        _count(self, "denials", 1)
        _count(self, "questions", 1)
        _seconds(self, "timeout")
        _count(self, "tenants", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a hub keeps of its topics, for those who come later or come back. Times are seconds."""

    events: int = 1000
    """Events of a topic; the oldest leave. Ten minutes of a score that changes twice a second."""
    bytes: Size = "1MiB"
    """Bytes of a topic's events, as they stand on the wire. A larger event is refused (BAD_EVENT)."""
    age: float | None = 600.0
    """For how long an event stays: longer than a laptop is closed between two rooms. None: for ever; a topic then never
    goes, unless it is finished."""
    memory: Size | None = None
    """Bytes of the engine's pool that all topics take at most, whole slabs of 4 to 64 KiB. What is beyond costs the
    oldest events of the topic that is published to; then publishing is refused (POOL_FULL). None: a quarter of it."""
    topics: int = 10_000
    """Topics at a time; one more is refused (TOO_MANY_TOPICS). Each takes 4 KiB at least once it has an event."""
    finished_age: float = 600.0
    """For how long it is known of a topic that it has been finished; after that its name means a new one. As `age`: who
    comes back within that time is told, and not let wait for what never comes."""

    def __post_init__(self) -> None:
        _count(self, "events", 1)
        _bytes(self, "bytes", 1, 1 << 31)
        _seconds(self, "age", optional=True)
        if self.memory is not None:
            _bytes(self, "memory", _PAGE)
        _count(self, "topics", 1)
        _seconds(self, "finished_age", zero=True)


@dataclass(frozen=True, slots=True)
class RedisLog:
    """A Redis that hubs of several processes share: history and order are its. Times are seconds.

    Needs `pip install penstock[redis]`, and Redis 6.2 or newer, or Valkey.
    """

    url: str = field(repr=False)
    """`redis://user:password@host:6379/0`, `rediss://` for TLS, `unix://` for a socket's path. Not a cluster's."""
    _: KW_ONLY
    prefix: str = "penstock:"
    """What its keys begin with. Hubs of the same prefix share their topics."""
    timeout: float = 2.0
    """For each operation, and for how long Redis may say nothing before it counts as away. A failover of Redis takes
    longer; a client that waits for an answer should not."""
    away: Literal["refuse", "deliver"] = "refuse"
    """What becomes of what is published while Redis is away. `refuse`: publishing fails (HUB_UNAVAILABLE). `deliver`:
    it goes to the subscribers of this process alone, without an id, and they are told of a gap when Redis is back."""
    longest_wait: float = 5.0
    """Between two attempts to reach it: the first comes at once, each later one after twice the time, and chance takes
    up to half off."""
    idle: float = 86_400.0
    """After which time Redis forgets a topic that nothing is published to. Who still listens is told of a gap when
    something is. Longer than most pages stay open."""

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not self.url.startswith(("redis://", "rediss://", "unix://")):
            raise _bad(self, "url", "must begin with redis://, rediss:// or unix://")
        if not self.prefix:
            raise _bad(self, "prefix", "must not be empty")
        if self.away not in ("refuse", "deliver"):
            raise _bad(self, "away", "must be one of refuse, deliver")
        _seconds(self, "timeout")
        _seconds(self, "longest_wait")
        _seconds(self, "idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriptions:
    """How a hub serves those who subscribe. Times are seconds."""

    join: int | Literal["now", "start"] = "now"
    """Where one begins that had nothing before: with what is published from now on, with all that is there, or with
    that many of the newest events. Who had something before goes on behind that."""
    slow: Literal["disconnect", "drop-oldest", "newest-per-key"] = "disconnect"
    """What becomes of one who does not keep up, so that what it is to get next has left the history. `disconnect`: its
    response ends behind a whole event, and it comes back by its last id. `drop-oldest`: it goes on with the oldest
    event that is there, behind a `penstock-gap`. `newest-per-key`: as that, and of what waits for it, it gets the
    newest event of each key alone, and those without a key."""
    behind: Size | None = None
    """Bytes that may wait for one who had caught up, before it is disconnected. None: all that the history has."""
    retry: float | None = None
    """After which time a client that was disconnected is to come back (`retry:`), sent once at the beginning. None: as
    it likes; browsers wait for some seconds."""
    open: bool = True
    """Whether a topic that is not there begins with its first subscriber. If not, that is answered with 404."""
    heartbeat: float | None = 15.0
    """How long nothing may be sent before a comment is, which browsers pass over; up to a quarter less, by chance.
    Proxies and load balancers cut connections that are quiet for 60 s, some for 30 s. None: never."""
    max_age: float | None = None
    """How long a response goes on before it ends behind a whole event and the client comes back; up to a quarter less,
    by chance. It lets load move to other nodes. None: for ever."""
    per_topic: int | None = None
    """Subscribers that the topic may have for one more to be let in, which is answered with 429 else. None: any number;
    and so below."""
    per_tenant: int | None = None
    """Subscriptions of the same tenant to all topics of the hub, where `Hub.stream` is told the tenant."""
    per_address: int | None = None
    """Subscriptions from the same address to all topics of the hub. Clients behind one proxy have one address."""
    most: int | None = None
    """Subscribers of all topics of the hub."""

    def __post_init__(self) -> None:
        if isinstance(self.join, bool) or not (
            self.join in ("now", "start") or (isinstance(self.join, int) and 0 <= self.join <= 1 << 31)
        ):
            raise _bad(self, "join", "must be 'now', 'start' or a number of events")
        known = ("disconnect", "drop-oldest", "newest-per-key")
        if self.slow not in known:
            raise _bad(self, "slow", f"must be one of {', '.join(known)}")
        if self.behind is not None:
            _bytes(self, "behind", 1)
            if self.slow != "disconnect":
                raise _bad(self, "behind", "goes with slow='disconnect'")
        _seconds(self, "retry", optional=True, zero=True)
        _flag(self, "open")
        _seconds(self, "heartbeat", optional=True)
        _seconds(self, "max_age", optional=True)
        for name in ("per_topic", "per_tenant", "per_address", "most"):
            if getattr(self, name) is not None:
                _count(self, name, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What responses are looked at for on their way: events and tokens are counted and timed, a usage is found.

    The origin is asked for responses without a content coding. What is sent to the client is not changed. Usages are
    found by name, without parsing what carries none: by what OpenAI's and Anthropic's servers send if nothing else is
    said. A name is written there as it is here, without escapes.
    """

    usage: tuple[str, ...] = ("usage", "response.usage")
    """Where the JSON of an event, or of a whole response, has the object that says what the response has cost: names of
    members, from the outermost object on, with dots between them."""
    usage_start: tuple[str, ...] = ("message.usage",)
    """Where it has a beginning of it, which later ones add to: values of the same names replace those before. What says
    its usage so far with each event, as Gemini does, belongs here."""
    tokens: tuple[str, ...] = ("content_block_delta", "*.delta")
    """The types of the events that carry tokens, besides events without a type that are not `[DONE]`: first token and
    gaps are of these. One that begins with * stands for all that end so."""
    amend: Mapping[str, Any] | str | None = None
    """What is added to the JSON of a request, if that is an object with `"stream": true`, such as
    `{"stream_options": {"include_usage": True}}`: members that are missing, as deep as both have objects. All else
    stays as the client has written it. After construction it is JSON text."""
    insist: bool = False
    """Whether `amend` takes the place of what the client has said otherwise."""
    max_request: Size = "8MiB"
    """Bytes of a request that is amended, which is read whole for it. A larger one is refused (413): passed on
    unamended, it would go unmetered. Images are sent within the JSON, each some megabytes."""
    max_response: Size = "1MiB"
    """Bytes of JSON that is no stream and in which a usage is looked for: it is kept until its end. What is larger
    passes as well, and is said to be so."""

    def __post_init__(self) -> None:
        for name in ("usage", "usage_start", "tokens"):
            _texts(self, name)
        for name in ("usage", "usage_start"):
            for path in getattr(self, name):
                if not path.isascii() or set(path) & set('"\\/') or not all(path.split(".")):
                    raise _bad(self, name, "must be names with dots between them, without quotes and slashes")
        if not (self.usage or self.usage_start):
            raise _bad(self, "usage", "must name a place, or usage_start must")
        if self.amend is not None:
            _set(self, "amend", _object(self, "amend"))
        _flag(self, "insist")
        _bytes(self, "max_request", 1)
        _bytes(self, "max_response", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How https origins are verified. They always are: to trust a private one, name its certificate."""

    roots: str | os.PathLike[str] = "system"
    """`"system"` for the operating system's roots (what the machine's owner has decided), `"webpki"` for
    Mozilla's as compiled in (for images without any), or the path of a PEM file that then stands alone."""

    def __post_init__(self) -> None:
        roots = os.fspath(self.roots)
        if roots not in {"system", "webpki"} and not Path(roots).is_file():
            raise _bad(self, "roots", "must be 'system', 'webpki' or the path of a PEM file that exists")
        _set(self, "roots", roots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """What the gateway tells the origin about the client, and each side about itself."""

    x_forwarded: bool = True
    """Send X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host, which most applications read."""
    forwarded: bool = False
    """Send Forwarded (RFC 7239). Off: where both arrive, applications disagree on which one counts."""
    via: str | None = "penstock"
    """The pseudonym in Via (RFC 9110 §7.6.3), both ways; None sends none, and then nobody sees a loop."""
    trust_incoming: bool = False
    """Whether the client is a proxy of one's own. If so, what it says about its client is kept and added to;
    if not, X-Forwarded-* and Forwarded of the client are dropped, because anybody can send them."""
    preserve_host: bool = False
    """Send the client's Host to the origin, and not the origin's own: for origins with several sites."""

    def __post_init__(self) -> None:
        for name in ("x_forwarded", "forwarded", "trust_incoming", "preserve_host"):
            _flag(self, name)
        if self.via is not None and not (isinstance(self.via, str) and _TOKEN.fullmatch(self.via)):
            raise _bad(self, "via", "must be a token (letters, digits, !#$%&'*+-.^_`|~) or None")


def _no_size(size: object, rule: str) -> Exception:
    return make_error("BAD_CONFIGURATION", f"{size!r} is no size: {rule}")


def _bad(settings: object, name: str, rule: str) -> Exception:
    field = f"{type(settings).__name__}.{name}"
    return make_error("BAD_CONFIGURATION", f"{field} = {getattr(settings, name)!r}: {rule}")


def _set(settings: object, name: str, value: object) -> None:
    object.__setattr__(settings, name, value)


def _flag(settings: object, name: str) -> None:
    if not isinstance(getattr(settings, name), bool):
        raise _bad(settings, name, "must be True or False")


def _texts(settings: object, name: str) -> None:
    texts = getattr(settings, name)
    # A string is a sequence of strings too, and its letters are not what was meant.
    if isinstance(texts, str) or not all(
        isinstance(text, str) and text and text.isprintable() for text in texts
    ):
        raise _bad(settings, name, "must be a sequence of printable texts")
    _set(settings, name, tuple(texts))


def _object(settings: object, name: str) -> str:
    """A setting that is an object of JSON, as text."""
    value = getattr(settings, name)
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
        text = json.dumps(parsed, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise _bad(settings, name, f"must be an object of JSON, or text of one: {error}") from None
    if not isinstance(parsed, Mapping):
        raise _bad(settings, name, "must be an object of JSON, or text of one")
    return text


def _count(settings: object, name: str, least: int, most: int = 1 << 31) -> None:
    value = getattr(settings, name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _bad(settings, name, f"must be a whole number from {least} to {most}")


def _seconds(settings: object, name: str, *, optional: bool = False, zero: bool = False) -> None:
    value = getattr(settings, name)
    if value is None and optional:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 <= value <= _YEAR or (value == 0 and not zero):
        allowed = " or None" if optional else ""
        least = "from 0 on" if zero else "above 0"
        raise _bad(settings, name, f"must be seconds {least} and at most a year{allowed}")
    _set(settings, name, float(value))


def _rate(settings: object, name: str) -> None:
    rate = getattr(settings, name)
    if rate is None:
        return
    number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if not number or not 0 < rate <= 1e9:  # noqa: PLR2004 (beyond that it is no limit)
        raise _bad(settings, name, "must be requests a second above 0, or None")
    _set(settings, name, float(rate))


def _bytes(settings: object, name: str, least: int, most: int = 1 << 48) -> int:
    try:
        size = parse_size(getattr(settings, name))
    except ValueError as error:
        raise _bad(settings, name, getattr(error, "detail", str(error))) from None
    if not least <= size <= most:
        raise _bad(settings, name, f"must be from {least} to {most} bytes")
    _set(settings, name, size)
    return size
