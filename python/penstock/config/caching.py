"""What an engine stores, and how routes and requests use it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from . import checks
from .checks import PAGE, REGION, Size, parse_size
from .engine import Pool

DROPPED_FIELDS: Final = (
    # What a proxy says of its client: the origin builds links from it, or picks a site or a tenant by it.
    *("Forwarded", "Front-End-Https", "Via", "X-Forwarded*", "X-Forwarder-For", "X-Real-IP", "X-Scheme"),
    *("Client-IP", "True-Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "X-Originating-IP", "X-Remote-*"),
    # What stands for the host, the path or the method of the request to some frameworks and servers.
    *(
        "X-Host",
        "X-HTTP-*",
        "X-Method-Override",
        "X-Original-*",
        "X-Override-*",
        "X-Proxy-*",
        "X-ProxyUser-*",
    ),
    *("Base-URL", "Proxy", "Request-URI", "X-Request-URI", "X-Rewrite-*", "X-URL-Scheme", "X-Envoy-*"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What an engine keeps of what it fetches, for routes and requests that have `Caching`."""

    memory: Size = "64MiB"
    """Bytes of the engine's pool at most, counted as the slabs that they lie in."""
    max_variants: int = 256
    """The most responses that are stored for one URL, each for other values of the fields that the origin's `Vary`
    names. The oldest leaves for one more, so that a client that sends ever new values costs others no time. More than
    an origin has of encodings and languages; one that varies by `Origin` may want more."""
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
    """Seconds for which anybody waits for the disk to give something back: what it has not begun to send is fetched from
    the origin then, what it has is broken off unless it is in parts, whose rest is fetched as well, and the disk is left
    alone until it answers. A disk that is merely busy takes tenths of a second, and a player has some seconds in its
    buffer."""

    def __post_init__(self) -> None:
        checks.size(self, "memory", REGION)
        checks.count(self, "max_variants", 1)
        if (self.disk is None) != (self.disk_budget is None):
            raise checks.bad(self, "disk_budget", "goes with disk: give both or neither")
        if self.disk is not None:
            checks.path(self, "disk")
            checks.put(self, "disk", Path(self.disk))
            checks.size(self, "disk_budget", REGION)
        checks.seconds(self, "disk_save", zero=True)
        checks.seconds(self, "disk_timeout")

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
    """Seconds for which a response is fresh, whatever the origin says of one that it lets be stored. None: what it
    says."""
    heuristic_percent: int = 10
    """Where the origin says nothing: fresh for that share of the time since the last modification."""
    heuristic_max: float = 86400.0
    """Seconds that such a guess gives at most: a day."""
    negative: float = 1.0
    """Seconds for which a 404, 405, 410, 414 or 501 is fresh where the origin says nothing. A live player asks for the
    next segment before it is there, and must not wait long for it."""
    stale_while_revalidate: float = 0.0
    """Seconds for which a stale response is served while it is fetched anew, where the origin does not say (RFC
    5861)."""
    stale_if_error: float = 300.0
    """Seconds for which a stale response stands in where the origin cannot be reached, or answers 500, 502, 503 or
    504, and the response does not say (RFC 9111, section 4.2.4; RFC 5861). One with `must-revalidate`,
    `proxy-revalidate`, `no-cache` or `s-maxage` never does. Five minutes: an origin restarts within that, and players
    of a live playlist that no longer grows must not be kept from another origin for longer. 0: none does."""
    store_cookies: bool = False
    """Whether a response with Set-Cookie is stored, where the origin says for how long: then all clients get the cookie
    of the one that it was fetched for. RFC 9111 (section 7.3) lets a cache store it; nginx and Varnish do not either."""
    clients_may_refresh: bool = True
    """Whether a client may have the origin asked though a fresh response is there (no-cache, max-age=0, Pragma)."""
    languages: Literal["ordered", "weighted", "preferred"] = "preferred"
    """How Accept-Language is compared where a response varies by it."""
    range_fill: Literal["auto", "whole", "asked", "slices"] = "auto"
    """What is fetched where a range is asked for and is not there: `slice`s of the object, the whole object, or the
    range. `"auto"` and `"slices"` both fetch slices; `"slices"` does so for each response, `"auto"` for ranges and for
    what is larger than `max_object`, so that a response may be of any length. Whatever is fetched or stored, a client's
    range is followed: an object that turns out too large to be stored, or is not stored, is asked for again by the
    client's own range."""
    slice: Size = "1MiB"
    """Bytes of a slice: some seconds of video. No larger than `max_object`, which bounds it with `"auto"`."""
    max_ranges: int = 8
    """Ranges that one request gets; more are answered with the whole."""
    max_object: Size = "16MiB"
    """Bytes of the largest body that is stored in one piece: a segment of ten seconds at 12 Mbit/s. Each slice is
    one."""
    keep_parameters: tuple[str, ...] | None = None
    """Query parameters in the key; a name that ends in * stands for all that begin so. None: all of them. The origin is
    not sent the others with what may be stored."""
    drop_parameters: tuple[str, ...] = ("CMCD",)
    """Query parameters that are not in the key: what tells who asks, and not what for. The origin is not sent them with
    GET, HEAD and POST: an origin that repeats its query would let one client choose what others get. What passes the
    cache (other methods, `Overrides(bypass=True)`) is sent all of them."""
    sort_parameters: bool = False
    """Whether the order of query parameters makes no difference. The origin gets them sorted."""
    keep_fields: tuple[str, ...] | None = None
    """Fields of clients' requests that the origin is sent for what may be stored, and no others; besides them those that
    the cache itself acts on, such as Authorization. A name that ends in * stands for all that begin so. None: all but
    `drop_fields`."""
    drop_fields: tuple[str, ...] = DROPPED_FIELDS
    """Fields of clients' requests that it is not sent: known to shape answers that do not name them in Vary, so that one
    client would choose what others get. `_` and `.` are as `-`. What the gateway itself says of the client is among
    them. Fields that `headers=` sets are sent in any case. Not used with `keep_fields`."""
    apart: float = 10.0
    """Seconds for which requests for a key do not wait for each other once an answer has turned out not to be
    shared."""
    unread: int = 0
    """Per cent of a body that must have come for its fetch to go on when its last reader has left. 0: it always does;
    100: it never does."""
    tags: tuple[str, ...] = ()
    """What all that is stored can be purged by, besides the origin's Surrogate-Key and Cache-Tag."""

    def __post_init__(self) -> None:
        if self.lifetime is not None:
            checks.seconds(self, "lifetime", zero=True)
        for name in ("heuristic_max", "negative", "stale_while_revalidate", "stale_if_error", "apart"):
            checks.seconds(self, name, zero=True)
        checks.text(self, "name")
        checks.count(self, "heuristic_percent", 0, 100)
        checks.count(self, "max_ranges", 1)
        checks.count(self, "unread", 0, 100)
        checks.size(self, "slice", PAGE)
        checks.size(self, "max_object", 1)
        for name in ("store_cookies", "clients_may_refresh", "sort_parameters"):
            checks.flag(self, name)
        for name in ("targets", "drop_parameters", "drop_fields", "tags"):
            checks.texts(self, name)
        for name in ("keep_parameters", "keep_fields"):
            if getattr(self, name) is not None:
                checks.texts(self, name)
        for name, known in (
            ("languages", ("ordered", "weighted", "preferred")),
            ("range_fill", ("auto", "whole", "asked", "slices")),
        ):
            if getattr(self, name) not in known:
                raise checks.bad(self, name, f"must be one of {', '.join(known)}")
        if self.range_fill == "slices" and int(self.slice) > int(self.max_object):
            raise checks.bad(self, "slice", "must be no larger than max_object: no slice would be stored")


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
            raise checks.bad(self, "key", "must be printable ASCII that begins with a slash, or None")
        if self.lifetime is not None:
            checks.seconds(self, "lifetime", zero=True)
        checks.texts(self, "tags")
        checks.flag(self, "bypass")
