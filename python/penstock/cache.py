"""What an engine has stored, to look at and to purge: `Engine.cache`."""

from dataclasses import dataclass
from typing import Any

from yarl import URL

from . import _arguments, _native
from ._field_docs import document
from ._shared import Shared, shared
from .exceptions import make_error
from .stats import DiskStats

__all__ = ["Cache", "CacheStats", "StoredResponse"]


@dataclass(frozen=True, slots=True)
class CacheStats:
    """How full a cache is, and how requests went since the engine was made.

    Each request is counted once, when it is known what it gets, with the words of Cache-Status (RFC 9211); one whose
    client left before that is not counted.
    """

    keys: int
    """URLs under which something is stored or being fetched."""
    objects: int
    """Responses in memory that have come whole; variants of one URL count each, and so do the parts of what is stored in
    parts."""
    disk_objects: int
    """Responses on disk, and parts. What is in memory as well counts there, too."""
    used: int
    """Bytes that are taken, whole slabs: what is stored, what is being fetched, and what has left and is still read."""
    limit: int
    """Bytes that may be."""
    hits: int
    """Requests answered with a fresh stored response, without the origin and without a wait."""
    stale: int
    """Requests answered with a stale one: while it was fetched anew, in place of an error, or because the client does
    not mind."""
    revalidated: int
    """Requests answered with a stored one that the origin had just confirmed."""
    collapsed: int
    """Requests that waited for what another one had fetched."""
    misses: int
    """Requests answered with what the origin sent, where that was stored."""
    passed: int
    """Requests answered with what the origin sent, where that was not stored: other methods, what goes past the cache,
    what may not be kept or has no room."""
    errors: int
    """Requests that the gateway answered with an error: the origin failed, or was not to be asked (only-if-cached)."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A stored response as `Cache.list` shows it."""

    url: str
    """The key that it is found by: a URL of the origin, without the parameters that its route drops."""
    status: int
    """Its status."""
    size: int
    """Bytes of the body that are stored; of a fill, the bytes that have come."""
    age: int
    """Seconds since the origin made it."""
    ttl: int
    """Seconds for which it is fresh still; below zero, for which it has not been."""
    hits: int
    """Requests that it has answered since its body was fetched."""
    tags: tuple[str, ...]
    """What it can be purged by."""


class Cache(Shared):
    """What an engine has stored. Made by the engine; its methods can be called from any thread."""

    _KIND = "cache"

    def __init__(self, native: _native.Cache | None) -> None:
        """Without `native` it is the parent's."""
        self._native = native

    @property
    def _here(self) -> _native.Cache:
        assert self._native is not None  # noqa: S101 (where it is the parent's, nothing is done here)
        return self._native

    @property
    def native(self) -> _native.Cache | None:
        """The engine's own, for penstock itself; None where it is another process's."""
        return self._native

    def _declaration(self) -> dict[str, Any]:
        return {}

    @shared
    def stats(self) -> CacheStats:
        """How full it is, and how requests went."""
        return self._here.stats()

    @shared
    def disk_stats(self) -> DiskStats | None:
        """The counts of the disk, and how full it is; None without a disk."""
        return self._here.disk_stats()

    def purge(
        self,
        *,
        url: str | URL | None = None,
        prefix: str | URL | None = None,
        tag: str | None = None,
        soft: bool = False,
    ) -> int:
        """Purge by URL, by prefix or by tag. Give one of the three.

        Once this has returned, no request on any engine thread is answered with what an origin was asked for before.
        A response that was asked for before and comes after is for those alone who had asked by then, and is not
        stored. A client that is reading a purged body reads it to its end.

        It looks at all that is stored, but for `url`.

        Args:
            url: absolute, of the origin. Every variant is meant, under every key that a route makes of this URL,
                whatever parameters it drops or sorts.
            prefix: how the URLs begin; `http://origin` alone means all of that origin.
            tag: one of the origin's Surrogate-Key or Cache-Tag, or of `Caching.tags` or `Overrides.tags`. By the letter.
            soft: they stay, and are stale from now on: they are validated before they are used again, and may be served
                stale where `stale-while-revalidate` and `stale-if-error` let them.

        Returns:
            How many stored responses were meant.

        Raises:
            RequestError: it is no absolute http or https URL, or an empty tag.
            ConfigurationError: none of the three was given, or several.
        """
        _arguments.flag("soft", soft)
        _arguments.instance("url", url, (str, URL), "a URL or None")
        _arguments.instance("prefix", prefix, (str, URL), "a URL or None")
        _arguments.text("tag", tag)
        given = {
            what: value
            for what, value in (
                ("url", None if url is None else _text(url)),
                ("prefix", None if prefix is None else _text(prefix)),
                ("tag", tag),
            )
            if value is not None
        }
        if len(given) != 1:
            raise make_error("BAD_CONFIGURATION", "purge: give one of url, prefix and tag")
        ((what, value),) = given.items()
        return self._purge(what, value, soft)

    @shared
    def _purge(self, what: str, value: str, soft: bool) -> int:
        return self._here.purge(what, value, soft)

    def clear(self) -> int:
        """Purge everything, and return how many responses that was."""
        return self._purge("all", "", False)

    def list(
        self, *, prefix: str | URL | None = None, after: str | None = None, limit: int = 1000
    ) -> tuple[StoredResponse, ...]:
        """What is stored, in the order of the URLs. It looks at all that is stored.

        Args:
            prefix: how the URLs begin; `http://origin` alone means all of that origin.
            after: only URLs after this one. The last of a page brings the next page.
            limit: URLs at most; a URL's variants come together.

        Raises:
            RequestError: the prefix does not begin with scheme and authority.
            ConfigurationError: `limit` is less than 1.
        """
        _arguments.instance("prefix", prefix, (str, URL), "a URL or None")
        _arguments.text("after", after)
        _arguments.whole("limit", limit, 1, optional=False)
        return self._list(None if prefix is None else _text(prefix), after, limit)

    @shared
    def _list(self, prefix: str | None, after: str | None, limit: int) -> tuple[StoredResponse, ...]:
        return self._here.list(prefix, after, limit)


def _text(url: str | URL) -> str:
    """As requests for it are sent: what is ASCII goes as it is."""
    return str(url) if isinstance(url, URL) or url.isascii() else str(URL(url))


document(globals()[name] for name in __all__)
