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
    """The store of an engine, for routes and requests with `Caching`."""

    memory: Size = "64MiB"
    """Bytes of the engine's pool at most, counted in the slabs that bodies lie in."""
    max_variants: int = 256
    """Responses that are stored for one URL at most, each for other values of the fields that the origin's `Vary`
    names. The oldest leaves for a new one, so that a client that sends ever new values costs others no time. More
    than an origin has encodings and languages; one that varies by `Origin` may need more."""
    disk: str | os.PathLike[str] | None = None
    """A directory for responses that leave memory, which one engine at a time may use; created if it is missing
    and its parent exists. None: responses that leave memory are gone. With a disk an eighth of `memory` is kept
    free for responses on their way there; a larger response, or slice, is never written."""
    disk_budget: Size | None = None
    """Bytes that the files there may take; required with `disk`, because only the operator knows how much is
    free."""
    disk_save: float = 10.0
    """Seconds that closing the engine may take to write what is in memory alone: 4 GB to a disk that takes 400 MB
    a second, and less than process managers wait. 0: nothing is written then."""
    disk_timeout: float = 5.0
    """Seconds that a request waits for the disk. Then a response that has not begun is fetched from the origin,
    one that has is aborted unless it is in parts, whose rest is fetched as well, and the disk is not read until it
    answers. A busy disk takes tenths of a second, and a player has some seconds in its buffer."""

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
    """How a route, a gateway or a request uses its engine's cache. Everything else is as RFC 9111 says.

    Times are seconds.
    """

    name: str = "penstock"
    """The cache's name in Cache-Status (RFC 9211)."""
    targets: tuple[str, ...] = ("Penstock-Cache-Control", "CDN-Cache-Control")
    """Fields for this cache, used instead of Cache-Control (RFC 9213); the first one in the response counts."""
    lifetime: float | None = None
    """Seconds for which a response is fresh, whatever the origin says, if it allows the response to be stored.
    None: as the origin says."""
    heuristic_percent: int = 10
    """If the origin gives no lifetime: fresh for this share of the time since the last modification."""
    heuristic_max: float = 86400.0
    """Seconds that this heuristic gives at most: a day."""
    negative: float = 1.0
    """Seconds for which a 404, 405, 410, 414 or 501 is fresh if the origin gives no lifetime. A live player
    requests the next segment before it exists, and must not wait long for it."""
    stale_while_revalidate: float = 0.0
    """Seconds for which a stale response is served while it is revalidated, if the origin does not say (RFC
    5861)."""
    stale_if_error: float = 300.0
    """Seconds for which a stale response is used if the origin cannot be reached, or answers 500, 502, 503 or 504,
    and the response does not say (RFC 9111, section 4.2.4; RFC 5861). Not one with `must-revalidate`,
    `proxy-revalidate`, `no-cache` or `s-maxage`. Five minutes: an origin restarts within that, and players of a
    live playlist that no longer grows must not be kept from another origin for longer. 0: never."""
    store_cookies: bool = False
    """Whether a response with Set-Cookie is stored if the origin gives it a lifetime: then all clients get the
    cookie of the first one. RFC 9111 (section 7.3) allows a cache to store it; nginx and Varnish do not either."""
    clients_may_refresh: bool = True
    """Whether a client can force a request to the origin although a fresh response is stored (no-cache, max-age=0,
    Pragma)."""
    languages: Literal["ordered", "weighted", "preferred"] = "preferred"
    """How Accept-Language is compared if a response varies by it."""
    range_fill: Literal["auto", "whole", "asked", "slices"] = "auto"
    """What is fetched for a range that is not stored: `slice`s of the object, the whole object, or the range.
    `"auto"` and `"slices"` both fetch slices; `"slices"` for each response, `"auto"` for ranges and for objects
    larger than `max_object`, so that a response may be of any length. A client's range is followed in any case: if
    an object turns out too large to be stored, or is not stored, the client's own range is requested."""
    slice: Size = "1MiB"
    """Bytes of a slice: some seconds of video. At most `max_object`, which limits it with `"auto"`."""
    max_ranges: int = 8
    """Ranges in one request; a request with more gets the whole."""
    max_object: Size = "16MiB"
    """Bytes of the largest body that is stored in one piece: a segment of ten seconds at 12 Mbit/s. A slice is one
    piece."""
    keep_parameters: tuple[str, ...] | None = None
    """Query parameters in the key; a name that ends in * matches all names that begin so. None: all of them. Other
    parameters are not sent to the origin with requests whose response may be stored."""
    drop_parameters: tuple[str, ...] = ("CMCD",)
    """Query parameters that are not in the key: they identify the client, not the object. They are not sent to the
    origin with GET, HEAD and POST: an origin that repeats its query would let one client choose what others get.
    Requests that bypass the cache (other methods, `Overrides(bypass=True)`) carry all of them."""
    sort_parameters: bool = False
    """Whether the order of query parameters makes no difference. The origin gets them sorted."""
    keep_fields: tuple[str, ...] | None = None
    """Fields of clients' requests that are sent to the origin with requests whose response may be stored, and no
    others, except the fields that the cache itself acts on, such as Authorization. A name that ends in * matches
    all names that begin so. None: all but `drop_fields`."""
    drop_fields: tuple[str, ...] = DROPPED_FIELDS
    """Fields of clients' requests that are not sent: fields known to shape responses that do not name them in
    Vary, so that one client would choose what others get. `_` and `.` count as `-`. The gateway's own fields about
    the client are among them. Fields that `headers=` sets are sent in any case. Not used with `keep_fields`."""
    apart: float = 10.0
    """Seconds for which a key is marked as hit-for-miss after a response that turned out not to be shared: its
    requests do not wait for each other."""
    unread: int = 0
    """Per cent of a body that must have arrived for its fetch to go on when its last reader has disconnected. 0:
    it always goes on; 100: never."""
    tags: tuple[str, ...] = ()
    """Tags to purge all stored responses by, besides the origin's Surrogate-Key and Cache-Tag."""

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
            checks.word(self, name, known)
        if self.range_fill == "slices" and int(self.slice) > int(self.max_object):
            raise checks.bad(self, "slice", "must be no larger than max_object: no slice would be stored")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Decisions about one request, before the lookup; they replace its `Caching`."""

    key: str | None = None
    """Replaces path and query in the key, such as `"/vod/7"`. Scheme and authority of the origin stay, so that two
    origins never mix. None: the key that the route makes of the request."""
    lifetime: float | None = None
    """Replaces `Caching.lifetime` for the response to this request: seconds for which it is fresh, 0 for stale at
    once. A response that the origin does not allow to be stored is not stored."""
    tags: tuple[str, ...] = ()
    """More tags to purge this response by."""
    bypass: bool = False
    """Send the request to the origin as if there were no cache: a stored response is neither used nor changed."""

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
