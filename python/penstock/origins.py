"""Several origins that stand in for one another: balanced, watched, changed while requests run."""

import re
import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Protocol

from yarl import URL

from . import _arguments, _native
from ._field_docs import document
from ._shared import Shared, shared
from .config import Check, Health, Origin, Retries
from .exceptions import make_error

__all__ = ["OriginState", "Origins", "OriginsStats", "Place", "parse_origin", "place_of"]

_AUTHORITY: Final = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?", re.ASCII)

Balance = Literal["round-robin", "least-loaded", "hash"]
"""How the origin of a request is chosen."""


@dataclass(frozen=True, slots=True)
class OriginState:
    """One of several origins, as it is now."""

    url: str
    """As it was given."""
    available: bool
    """Whether it is neither ejected nor found to be down by checks."""
    up: bool
    """Whether checks have found it to be well, or not found anything."""
    ejected: float | None
    """Seconds that it stays ejected by what clients' requests have met; None if it is not."""
    weight: float
    """Its weight now, which grows to its own while it comes back; 0 while it is not available."""
    active: int
    """Requests under way, up to the ends of their bodies."""
    requests: int
    """Requests sent to it, so far."""
    failures: int
    """Requests that failed."""


@dataclass(frozen=True, slots=True)
class OriginsStats:
    """Several origins, as they are now. Counts are since they were declared."""

    requests: int
    """Requests."""
    retries: int
    """Requests that were sent to another origin because one had failed."""
    hedges: int
    """Requests that were sent to a second origin because the first was slow."""
    resumed: int
    """Requests for the rest of a body that had broken off."""
    over_budget: int
    """Retries, hedges and resumptions that the budget did not allow."""
    ejections: int
    """Times that origins were ejected."""
    budget_left: int
    """Retries that may begin now."""
    origins: tuple[OriginState, ...]
    """Each of them, in the order in which they were given."""


class EngineHandles(Protocol):
    """The handles of a `penstock.Engine` that origins need."""

    native: _native.Engine

    def endpoint(self, scheme: str, host: str, port: int | None, unix: str | None) -> _native.Endpoint:
        """The handle of a single origin."""


class Place(NamedTuple):
    """The parts of an origin's URL."""

    scheme: str
    host: str
    port: int
    base: str
    """What stands in front of every path; no slash at its end."""

    def endpoint(self, engine: EngineHandles, unix: str | None) -> _native.Endpoint:
        """What `engine` sends requests to."""
        return engine.endpoint(self.scheme, self.host, self.port, unix)


class Origins(Shared):
    """Several origins of the same content, of which each request is sent to one, and to another if that fails.

    Wherever a gateway or a route takes an origin's URL it takes these as well. One object may be used by several routes,
    gateways and engines of a process, which then know the same of the origins.

    To the cache, and in errors that are no single origin's, they are what `name` says, whichever of them answers.

    Args:
        origins: URLs, or `config.Origin` for those with a weight of their own or the like. A path must be that of all.
        balance: `"round-robin"` takes turns by weight, `"least-loaded"` chooses the one with the fewest requests under
            way for its weight, `"hash"` the same one for the same key as long as it is there: each then caches a part,
            and when one leaves, its keys alone move.
        key: for `"hash"`: `"path"`, `"target"` (with the query), or `"field:NAME"` for a field of the request as the
            origin gets it; the path if there is no such field.
        health: when an origin is ejected, and how it comes back.
        check: how origins are asked whether they are well; by default they are not.
        retries: what is sent to another origin, and how often.
        name: by what they are known together, such as `"https://media.example"`; by default the first origin's.

    Raises:
        ConfigurationError: there is no origin, or none but backups; one is no URL, or is there twice; their paths
            differ; or `balance` or `key` is not one of these.
    """

    _KIND = "origins"

    def __init__(
        self,
        origins: Iterable[Origin | str],
        *,
        balance: Balance = "round-robin",
        key: str = "path",
        health: Health | None = None,
        check: Check | None = None,
        retries: Retries | None = None,
        name: str | None = None,
    ) -> None:
        _arguments.HEALTH("health", health)
        _arguments.CHECK("check", check)
        _arguments.RETRIES("retries", retries)
        _arguments.text("key", key, "'path'", optional=False)
        _arguments.text("name", name, "'https://media.example'")
        if balance not in ("round-robin", "least-loaded", "hash"):
            rule = "it must be 'round-robin', 'least-loaded' or 'hash'"
            raise make_error("BAD_CONFIGURATION", f"balance is {balance!r}; {rule}")
        kind, colon, field = key.partition(":")
        if not (key in {"path", "target"} or (kind == "field" and colon and field)):
            raise make_error(
                "BAD_CONFIGURATION", f"key is {key!r}; it must be 'path', 'target' or 'field:NAME'"
            )
        self._origins, parts = _checked(origins)
        self._said: Final = {
            "origins": self._origins,
            "balance": balance,
            "key": key,
            "health": health,
            "check": check,
            "retries": retries,
            "name": name,
        }
        # Of what is declared here and what the engine knows, which go by their order.
        self._lock = threading.Lock()
        # Among whose metrics they are. Weak: origins do not keep an engine.
        self._engines = weakref.WeakSet[EngineHandles]()
        self.identity: Final = parts[0] if name is None else parse_origin(name)
        if name is not None and self.identity.base:
            raise make_error("BAD_CONFIGURATION", f"name is {name!r}; it must not have a path")
        self.base: Final = parts[0].base
        identity = _native.Endpoint(self.identity.scheme, self.identity.host, self.identity.port, None)
        members = _members(self._origins, parts)
        self.native: Final = _native.Upstream(
            identity, members, balance, key, health or Health(), check, retries or Retries()
        )

    def _declaration(self) -> dict[str, Any]:
        return self._said

    def endpoint(self, engine: EngineHandles, unix: str | None) -> _native.Endpoint:  # noqa: ARG002 (as of a single origin)
        """What any engine sends requests to. From now on the metrics of `engine` have them."""
        if engine not in self._engines:
            engine.native.add_upstream(self.native)
            self._engines.add(engine)
        return self.native.endpoint

    @property
    @shared
    def origins(self) -> tuple[Origin, ...]:
        """What is chosen from."""
        return self._origins

    def set(self, origins: Iterable[Origin | str]) -> None:
        """Choose from these from now on.

        What is known of an origin that stays, by its URL and socket, is kept; a new one gets its share little by little
        (`config.Health.slow_start`). Requests that are under way at one that goes are left to end. Call it from any
        thread.

        Raises:
            ConfigurationError: they cannot be, as at the beginning; or their path is another. Nothing has changed then.
        """
        checked, _ = _checked(origins)
        self._choose(checked)
        if self._parent is not None:
            # For what this process fetches by itself.
            self._take(checked)

    @shared
    def _choose(self, origins: tuple[Origin, ...]) -> None:
        self._take(origins)

    def _take(self, origins: tuple[Origin, ...]) -> None:
        checked, parts = _checked(origins)
        if parts[0].base != self.base:
            raise make_error(
                "BAD_CONFIGURATION", f"the path of the origins is {parts[0].base!r}; it was {self.base!r}"
            )
        with self._lock:
            self.native.set(_members(checked, parts))
            self._origins = checked

    @shared
    def stats(self) -> OriginsStats:
        """What is known of the origins, and what has been done. Call it from any thread."""
        with self._lock:
            return self.native.stats([origin.url for origin in self._origins])


def place_of(origin: str | Origins) -> Place | Origins:
    """Where requests go that go to `origin`.

    Raises:
        ConfigurationError: it is no origin.
    """
    said: object = origin
    if isinstance(said, URL):
        return parse_origin(str(said))
    if not isinstance(said, str | Origins):
        rule = "a URL such as 'http://host:port', or penstock.Origins([...]) for several"
        raise _arguments.bad("origin", said, rule)
    return origin if isinstance(origin, Origins) else parse_origin(origin)


@lru_cache(maxsize=1024)
def parse_origin(origin: str) -> Place:
    """Take the URL of an origin apart.

    Raises:
        ConfigurationError: it is no absolute http or https URL, or has more than a host, a port and a path.
    """
    try:
        url = URL(origin)
        port = url.port
    except (TypeError, ValueError) as error:
        raise make_error("BAD_CONFIGURATION", f"{origin!r} is no URL: {error}") from None
    if url.scheme not in {"http", "https"} or not url.raw_host or port is None:
        # What is typed most often, and read as a scheme: a host with its port.
        rule = (
            f"write 'http://{origin}'"
            if _AUTHORITY.fullmatch(origin)
            else "it must be like 'http://host:port'"
        )
        raise make_error("BAD_CONFIGURATION", f"{origin!r} is no origin: {rule}")
    if url.raw_user or url.raw_password or url.raw_query_string or url.raw_fragment:
        rule = "it can have a host, a port and a path, and nothing else"
        raise make_error("BAD_CONFIGURATION", f"{origin!r} is no origin: {rule}")
    return Place(url.scheme, url.raw_host, port, url.raw_path.rstrip("/"))


def _checked(origins: Iterable[Origin | str]) -> tuple[tuple[Origin, ...], list[Place]]:
    rule = "a list of URLs, or of penstock.config.Origin"
    origins = _arguments.sequence(
        "origins", origins, f"{rule}: write [{origins!r}]" if isinstance(origins, str) else rule
    )
    for origin in origins:
        if not isinstance(origin, Origin | str):
            raise _arguments.bad("one of origins", origin, "a URL or a penstock.config.Origin")
    checked = tuple(origin if isinstance(origin, Origin) else Origin(origin) for origin in origins)
    if all(origin.backup for origin in checked):
        raise make_error("BAD_CONFIGURATION", "origins has none that is not a backup")
    parts = [parse_origin(origin.url) for origin in checked]
    known = {
        (part.scheme, part.host.lower(), part.port, origin.unix)
        for part, origin in zip(parts, checked, strict=True)
    }
    if len(known) < len(parts):
        raise make_error("BAD_CONFIGURATION", "origins has one of them twice")
    if len({part.base for part in parts}) > 1:
        raise make_error("BAD_CONFIGURATION", "the paths of the origins differ")
    return checked, parts


def _members(origins: tuple[Origin, ...], parts: list[Place]) -> list[tuple[_native.Endpoint, Origin]]:
    return [
        (
            _native.Endpoint(
                part.scheme, part.host, part.port, None if origin.unix is None else str(origin.unix)
            ),
            origin,
        )
        for origin, part in zip(origins, parts, strict=True)
    ]


document(globals()[name] for name in __all__)
