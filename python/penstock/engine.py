"""The engine: threads that own sockets, and the memory that what they read lives in."""

import asyncio
import atexit
import logging
import os
from collections.abc import AsyncIterable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from yarl import URL

from . import _arguments, _native, _shared, config
from ._cores import engine_threads
from ._limited_log import LimitedLog
from ._upload import REPLAYABLE, Body, check_body, pump
from .cache import Cache
from .exceptions import PenstockError, make_error
from .framing import Framing, native_framing
from .origins import Origins
from .stats import EngineStats
from .stream import Response

__all__ = ["Engine", "default_engine"]

_log: Final = logging.getLogger("penstock")
_limited: Final = LimitedLog(_log)
_origins_log: Final = logging.getLogger("penstock.origins")

# Under which requests are counted that come by no route.
_NO_ROUTE: Final = "none"

MAKE_CACHE: Final = "give it engine=penstock.Engine(cache=penstock.config.Cache())"
"""What to do where there is caching and no cache."""

Headers = Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]


class Engine:
    """Fetches from origins and reads files and pipes, on threads of its own.

    An engine can be used from any event loop of the process that made it, and not from a fork of that process.
    Close it with `async with` or `aclose()`.

    Args:
        memory: the budget for data, such as `"256MiB"`: short for `pool=config.Pool(memory=...)`.
        threads: engine threads. Each keeps its own connections. By default as many as there are cores that this process
            may use (its affinity, and the quota of its control group), less one for the event loop, and at least one.
        pool: everything about memory.
        flow: how much may be under way to one consumer.
        reads: how much memory one read is offered.
        timeouts: limits on time, unless a request has its own.
        limits: limits on connections and responses.
        tls: how https origins are verified.
        cache: what is kept of what is fetched, for routes and requests that have `config.Caching`. None: nothing.

    Attributes:
        cache: what is stored; None without a cache.

    Raises:
        ConfigurationError: a setting is out of range, `memory` and `pool` were both given, or the cache is more than
            half of the pool.
        SystemFailureError: the operating system refused the memory, or the cache's directory cannot be used
            (`CACHE_DIRECTORY_FAILED`) or is in use (`CACHE_DIRECTORY_TAKEN`).
    """

    def __init__(
        self,
        memory: int | str | None = None,
        *,
        threads: int | None = None,
        pool: config.Pool | None = None,
        flow: config.Flow | None = None,
        reads: config.Reads | None = None,
        timeouts: config.Timeouts | None = None,
        limits: config.OriginLimits | None = None,
        tls: config.Tls | None = None,
        cache: config.Cache | None = None,
    ) -> None:
        if memory is not None and pool is not None:
            raise make_error("BAD_CONFIGURATION", "memory and pool were both given; memory is a part of pool")
        _arguments.whole("threads", threads, 1)
        for name, check, value in (
            ("pool", _arguments.POOL, pool),
            ("flow", _arguments.FLOW, flow),
            ("reads", _arguments.READS, reads),
            ("timeouts", _arguments.TIMEOUTS, timeouts),
            ("limits", _arguments.LIMITS, limits),
            ("tls", _arguments.TLS, tls),
            ("cache", _arguments.CACHE, cache),
        ):
            check(name, value)
        threads = engine_threads() if threads is None else threads
        self.pool_config = pool or (config.Pool() if memory is None else config.Pool(memory=memory))
        if cache is not None and not cache.fits(self.pool_config):
            raise make_error(
                "BAD_CONFIGURATION",
                f"a cache of {cache.memory} bytes is more than half of a pool of {self.pool_config.memory}",
            )
        parent = _shared.parent()
        if cache is not None and parent is not None and not parent.has_cache:
            raise make_error(
                "BAD_CONFIGURATION", "there is a cache, and that of a worker is its parent's, which has none"
            )
        self.timeouts = timeouts or config.Timeouts()
        self._timeouts = native_timeouts(self.timeouts)
        # A server of aiohttp's own has no settings of an edge, and its requests have tokens too.
        for name in config.Edge().secret_parameters:
            _native.hide(name)
        self.native = _native.Engine(
            threads,
            self.pool_config,
            flow or config.Flow(),
            reads or config.Reads(),
            limits or config.OriginLimits(),
            tls or config.Tls(),
        )
        try:
            self._stored = None if cache is None or parent is not None else _cache(self.native, cache)
        except PenstockError:
            self.native.close()
            raise
        has_cache = self._stored is not None or (parent is not None and parent.has_cache)
        self.cache: Final = Cache(self._stored) if has_cache else None
        self._disk_save = 0.0 if cache is None else cache.disk_save
        self._cachings: dict[tuple[config.Caching, str], _native.Caching] = {}
        self._endpoints: dict[tuple[str, str, int, str | None], _native.Endpoint] = {}
        self.native.tell_of_origins(_tell)
        for notice in self.native.notices():
            _log.warning("%s", notice)

    def get(
        self,
        url: str | URL,
        *,
        headers: Headers = (),
        body: Body | None = None,
        framing: Framing | None = None,
        timeouts: config.Timeouts | None = None,
        unix: str | os.PathLike[str] | None = None,
        origins: Origins | None = None,
        caching: config.Caching | None = None,
        overrides: config.Overrides | None = None,
    ) -> Response:
        """Short for `request("GET", url, ...)`, with the same arguments."""
        return self.request(
            "GET",
            url,
            headers=headers,
            body=body,
            framing=framing,
            timeouts=timeouts,
            unix=unix,
            origins=origins,
            caching=caching,
            overrides=overrides,
        )

    def request(
        self,
        method: str,
        url: str | URL,
        *,
        headers: Headers = (),
        body: Body | None = None,
        framing: Framing | None = None,
        timeouts: config.Timeouts | None = None,
        unix: str | os.PathLike[str] | None = None,
        origins: Origins | None = None,
        caching: config.Caching | None = None,
        overrides: config.Overrides | None = None,
    ) -> Response:
        """Send a request, and return its response at once; await it for the head.

        Nothing is followed, decoded or kept: redirects, content codings and cookies are the caller's business.

        Args:
            method: a token such as `GET`; case is kept.
            url: `http` or `https`, absolute.
            headers: names and values. `Host` replaces the authority of the URL; framing headers (Content-Length,
                Transfer-Encoding, Connection) are the engine's own.
            body: bytes or a buffer (sent with Content-Length), or an asynchronous iterable of them (sent chunked,
                unless the headers have a Content-Length, which it must then match).
            framing: how to cut the body; as it arrives by default. `Response.frames` can change it later.
            timeouts: in place of the engine's.
            unix: path of a Unix socket to connect to in place of the URL's host.
            origins: who is asked; `url` is then what they are asked for, a path with or without a query.
            caching: answer by way of the engine's cache, and how. By default the origin is asked. What is stored is read
                where it lies: frames are slices of the one copy.
            overrides: what is decided about this request alone, where there is `caching`.

        Raises:
            RequestError: URL, method or headers make no request.
            ConfigurationError: `caching` was given and the engine has no cache, or `overrides` without `caching`.
            RuntimeError: no event loop is running.
        """
        _arguments.text("method", method, "'GET'", optional=False)
        if not isinstance(url, str | URL):
            raise _arguments.bad("url", url, "a text or a yarl.URL", "BAD_REQUEST")
        _arguments.TIMEOUTS("timeouts", timeouts)
        _arguments.CACHING("caching", caching)
        _arguments.OVERRIDES("overrides", overrides)
        _arguments.path("unix", unix)
        _arguments.instance("origins", origins, Origins, "penstock.Origins([url, ...]) or None")
        # What is ASCII goes as it is: quoting it anew would turn %2F into a slash. The engine refuses what cannot.
        target = url if isinstance(url, URL) else URL(url, encoded=url.isascii())
        if origins is None:
            if target.scheme not in {"http", "https"} or not target.raw_host:
                hint = ": write 'http://...'" if "://" not in str(url) else ""
                raise make_error("BAD_REQUEST", f"{str(url)!r} is no absolute http or https URL{hint}")
            endpoint, base = self.endpoint(target.scheme, target.raw_host, target.port, unix), ""
        else:
            if target.absolute or not target.raw_path.startswith("/") or unix is not None:
                raise make_error(
                    "BAD_REQUEST", f"{str(url)!r} is no path, or there is a socket besides origins"
                )
            endpoint, base = origins.endpoint(self, None), origins.base
        fields, length = _fields(headers)
        response = self.fetch(
            endpoint,
            method,
            base + (target.raw_path_qs or "/"),
            fields,
            body=body,
            length=length,
            timeouts=self._timeouts if timeouts is None else native_timeouts(timeouts),
            framing=framing,
            caching=None if caching is None else self.caching(caching, _NO_ROUTE),
            overrides=overrides,
        )
        response.url = str(target)
        if origins is None:
            response.origin = str(target.origin())
        return response

    def endpoint(
        self, scheme: str, host: str, port: int | None, unix: str | os.PathLike[str] | None = None
    ) -> _native.Endpoint:
        """The handle of an origin, for `fetch`."""
        path = None if unix is None else os.fspath(unix)
        key = (scheme, host, port or (443 if scheme == "https" else 80), path)
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            if len(self._endpoints) >= 1024:  # noqa: PLR2004 (more origins than that are not a working set)
                self._endpoints.clear()
            endpoint = self._endpoints[key] = _native.Endpoint(*key)
        return endpoint

    def caching(self, caching: config.Caching, route: str) -> _native.Caching:
        """The handle of a way to use the cache, for `fetch`. What comes of it is counted under the name of the route.

        Raises:
            ConfigurationError: the engine has no cache.
        """
        if self.cache is None:
            raise make_error(
                "BAD_CONFIGURATION",
                "there is caching, and the engine has no cache: make it with cache=penstock.config.Cache()",
            )
        if self._stored is None:
            rule = "the cache is the parent's: a worker uses it by what it relays, and not for requests of its own"
            raise make_error("BAD_CONFIGURATION", rule)
        handle = self._cachings.get((caching, route))
        if handle is None:
            if len(self._cachings) >= 1024:  # noqa: PLR2004 (as above)
                self._cachings.clear()
            handle = _native.Caching(self._stored, caching, route)
            self._cachings[caching, route] = handle
        return handle

    def fetch(
        self,
        endpoint: _native.Endpoint,
        method: str,
        target: str,
        headers: _native.Fields,
        *,
        body: Body | None = None,
        length: int | None = None,
        timeouts: _native.Timeouts | None = None,
        framing: Framing | None = None,
        caching: _native.Caching | None = None,
        overrides: config.Overrides | None = None,
        near: _native.Transport | None = None,
        plan: tuple[bytes, config.Overrides | None, _native.Expected | None] | None = None,
        is_clients: bool = False,
        is_tunnel: bool = False,
    ) -> Response:
        """What `request` does, for callers that have the parts of the request already.

        `target` goes into the request line as it is. `near` is the transport of a client that the response is for: it is
        fetched on the engine thread of that client. With a `plan`, in a worker, the parent fetches it, as that
        describes and as was decided about this request, and says what it has seen; `is_clients` then if `body` is what
        the client sends, of which the parent sends on by itself what has not come here. With `is_tunnel` WebSocket is
        asked for, and `body` is what is sent once the origin has switched to it.
        """
        if overrides is not None and caching is None:
            raise make_error("BAD_CONFIGURATION", "there are overrides of a caching, and there is no caching")
        cached = None if caching is None else (caching, overrides)
        limits = timeouts or self._timeouts
        cut = None if framing is None else native_framing(framing)
        check_body(body)
        if body is None or (not isinstance(body, AsyncIterable) and memoryview(body).nbytes <= REPLAYABLE):
            data = None if body is None else bytes(body)
            response = Response(
                _native.fetch(
                    self.native, endpoint, method, target, headers, data, limits, cut, cached, near, plan
                )
            )
        else:
            if not isinstance(body, AsyncIterable):
                length = memoryview(body).nbytes
            source, upload = _native.fetch_upload(
                *(
                    self.native,
                    endpoint,
                    method,
                    target,
                    headers,
                    length,
                    limits,
                    cut,
                    cached,
                    near,
                    plan,
                    is_clients,
                    is_tunnel,
                )
            )
            response = Response(source)
            task = asyncio.get_running_loop().create_task(pump(upload, body))
            _uploads.add(task)
            task.add_done_callback(_upload_done)
        response.method = method
        response.url = target
        return response

    def stats(self) -> EngineStats:
        """A snapshot of the counters; see `penstock.stats`."""
        return self.native.stats()

    def pool_addresses(self) -> tuple[int, int]:
        """First address and length of the pool's mapping, for traces of system calls."""
        return self.native.address_range()

    def close(self) -> None:
        """Cancel everything and wait for the threads to end, which takes milliseconds. Idempotent.

        A cache with a disk writes what it has in memory alone before, for up to `config.Cache.disk_save`. A disk that
        hangs is waited for no longer than `config.Cache.disk_timeout` more.
        """
        self.native.close()
        self._save()

    async def aclose(self) -> None:
        """As `close`, without blocking the event loop.

        Streams that were not at their end raise ENGINE_CLOSED from then on. Frames that are held stay valid.
        """
        self.native.stop()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.native.join)
        await loop.run_in_executor(None, self._save)
        self.close()

    def _save(self) -> None:
        if self._stored is not None and not self._stored.close(self._disk_save):
            _log.warning(
                "the cache's disk hangs: its directory stays taken until it answers or this process ends"
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def _tell(notice: _native.OriginNotice) -> None:
    """Log what the engine has to say of an origin: it is called on the loop, no more often than `log_interval` says."""
    origin, address, left_out = notice.origin, notice.address, notice.left_out
    where = origin if address is None else f"{origin} ({address})"
    more = f"; {left_out} more since the line before" if left_out else ""
    _origins_log.log(
        logging.INFO if notice.is_good else logging.WARNING,
        *("%s: %s: %s%s", where, notice.event, notice.reason, more),
        extra={"code": notice.event, "origin": origin, "address": address, "left_out": left_out},
    )


# The event loop keeps only weak references to tasks.
_uploads: Final[set[asyncio.Task[None]]] = set()


def _upload_done(task: asyncio.Task[None]) -> None:
    _uploads.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        # The request has failed with UPLOAD_FAILED, which names the cause; this tells the caller's bug from it.
        cause = ("upload", type(error))
        _limited.log(logging.WARNING, cause, "a request body's source failed: %s", repr(error))


def _cache(engine: _native.Engine, settings: config.Cache) -> _native.Cache:
    disk = None
    if settings.disk is not None and settings.disk_budget is not None:
        disk = (Path(settings.disk), config.parse_size(settings.disk_budget), settings.disk_timeout)
    return _native.Cache(engine, config.parse_size(settings.memory), settings.max_variants, disk)


def native_timeouts(timeouts: config.Timeouts, *, lets_events_pause: bool = False) -> _native.Timeouts:
    """The engine's form of `timeouts`: make it once where many requests share it.

    `lets_events_pause`: the reader of the response has its own limit for the pauses of an event stream.
    """
    return _native.Timeouts(timeouts, lets_events_pause)


def _fields(headers: Headers) -> tuple[_native.Fields, int | None]:
    """The fields without Content-Length, and its value."""
    fields: list[tuple[bytes, bytes]] = []
    length = None
    for name, value in _arguments.pairs("headers", headers, raw=True, code="BAD_REQUEST"):
        key = name if isinstance(name, bytes) else name.encode("ascii", "replace")
        text = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
        if key.lower() == b"content-length":
            if not text.isdigit():
                raise make_error("BAD_REQUEST", f"Content-Length is {text!r}, which is no number")
            length = int(text)
        else:
            fields.append((key, text))
    return _native.Fields(fields), length


_default: tuple[int, Engine] | None = None


def make_default(engine: Engine) -> None:
    """Have `engine` be what the process shares, which has none yet; it is closed at exit."""
    global _default  # noqa: PLW0603 (one engine a process is what this is)
    assert _default is None or _default[0] != os.getpid(), "the process has one"  # noqa: S101
    _default = (os.getpid(), engine)
    atexit.register(engine.close)


def default_engine() -> Engine:
    """The engine that gateways and sources without one of their own share: made on first use, closed at exit.

    A forked child gets one of its own.
    """
    if _default is None or _default[0] != os.getpid():
        make_default(Engine())
    assert _default is not None  # noqa: S101 (says it to mypy)
    return _default[1]
