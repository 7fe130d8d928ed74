"""The engine: threads that own sockets, and the memory that what they read lives in."""

import asyncio
import atexit
import logging
import os
from collections.abc import AsyncIterable, Iterable, Mapping
from dataclasses import dataclass
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

__all__ = ["Engine", "OriginRequest", "default_engine"]

_log: Final = logging.getLogger("penstock")
_limited: Final = LimitedLog(_log)
_origins_log: Final = logging.getLogger("penstock.origins")

# For the answers of a collector of traces.
_TRACES: Final = config.Pool(memory="1MiB", prefault=0, caches=1)

# Under which requests are counted that come by no route.
_NO_ROUTE: Final = "none"

MAKE_CACHE: Final = "give it engine=penstock.Engine(cache=penstock.config.Cache())"
"""What to do where there is caching and no cache."""

Headers = Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]

# The one empty tuple, which is the default of arguments.
_NO_HEADERS: Final[Headers] = ()
_NO_FIELDS: Final = _native.Fields([])


# Not frozen, and made by position where it counts: a frozen one takes three times as long to make, keywords twice.
@dataclass(slots=True, eq=False)
class OriginRequest:
    """A request to an origin, in the engine's forms."""

    endpoint: _native.Endpoint
    method: str
    target: str
    """The target of the request line; not quoted again."""
    headers: _native.Fields
    timeouts: _native.Timeouts
    body: Body | None = None
    length: int | None = None
    """Bytes of a body that is an iterable; None: it is sent chunked."""
    caching: _native.Caching | None = None
    overrides: config.Overrides | None = None
    near: _native.Transport | None = None
    """The transport of the client that the response is for: its engine thread fetches."""
    plan: bytes | None = None
    """In a worker process: the description by which the parent fetches."""
    expected: _native.Expected | None = None
    """With a plan: receives the parent's inspection of the response."""
    is_clients: bool = False
    """With a plan: `body` is the client's. The parent itself sends on the part that it has not passed here."""
    is_tunnel: bool = False
    """A request for WebSocket: `body` is sent after the origin has switched protocols."""
    framing: _native.Framing | None = None
    """How the body of the response is cut."""


@dataclass(frozen=True, slots=True)
class _Base:
    """What stands before the path of a URL, parsed."""

    endpoint: _native.Endpoint
    origin: str
    text: str


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
        http2: the origins that are asked by HTTP/2. None: all are asked by HTTP/1.1.
        cache: what is kept of what is fetched, for routes and requests that have `config.Caching`. None: nothing.
        tracing: which requests of clients are traced, and where their spans are sent. None: none.

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
        tls: config.OriginTls | None = None,
        http2: config.OriginHttp2 | None = None,
        cache: config.Cache | None = None,
        tracing: config.Tracing | None = None,
    ) -> None:
        if memory is not None and pool is not None:
            raise make_error("BAD_CONFIGURATION", "memory and pool were both given; memory is a part of pool")
        _arguments.whole("threads", threads, 1)
        _arguments.POOL("pool", pool)
        _arguments.FLOW("flow", flow)
        _arguments.READS("reads", reads)
        _arguments.TIMEOUTS("timeouts", timeouts)
        _arguments.LIMITS("limits", limits)
        _arguments.ORIGIN_TLS("tls", tls)
        _arguments.ORIGIN_HTTP2("http2", http2)
        _arguments.CACHE("cache", cache)
        _arguments.TRACING("tracing", tracing)
        threads = engine_threads() if threads is None else threads
        self.pool_config = pool or (config.Pool() if memory is None else config.Pool(memory=memory))
        parent = _shared.parent()
        if cache is not None:
            _check_cache(cache, self.pool_config, parent)
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
            (limits or config.OriginLimits(), tls or config.OriginTls(), http2 or config.OriginHttp2()),
            None if tracing is None else (tracing, _TRACES),
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
        # By what stands before the path in the URLs of requests.
        self._bases: dict[str, _Base] = {}
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
        # What is not given is not checked: of a short response, the checks were a tenth of the work.
        if type(method) is not str:
            _arguments.text("method", method, "'GET'", optional=False)
        limits, cut = self._timeouts, None
        if timeouts is not None:
            _arguments.TIMEOUTS("timeouts", timeouts)
            limits = native_timeouts(timeouts)
        if framing is not None:
            cut = native_framing(framing)
        endpoint, origin, target, shown = self._destination(url, origins, unix)
        fields, length = (_NO_FIELDS, None) if headers is _NO_HEADERS else _fields(headers)
        if body is None and caching is None and overrides is None:
            response = Response(_native.ask(self.native, endpoint, method, target, fields, limits, cut))
            response.method = method
        else:
            cached = self._checked_caching(caching, overrides)
            response = self.fetch(
                OriginRequest(
                    *(endpoint, method, target, fields, limits, body, length, cached, overrides), framing=cut
                )
            )
        response.url = shown
        if origin is not None:
            response.origin = origin
        return response

    def _checked_caching(
        self, caching: config.Caching | None, overrides: config.Overrides | None
    ) -> _native.Caching | None:
        _arguments.CACHING("caching", caching)
        _arguments.OVERRIDES("overrides", overrides)
        if caching is not None:
            return self.caching(caching, _NO_ROUTE)
        if overrides is not None:
            raise make_error("BAD_CONFIGURATION", "there are overrides of a caching, and there is no caching")
        return None

    def _destination(
        self, url: str | URL, origins: Origins | None, unix: str | os.PathLike[str] | None
    ) -> tuple[_native.Endpoint, str | None, str, str]:
        """Of the checked URL: what it is requested of, the origin if there is one, the target, and its text."""
        if type(url) is str and unix is None and origins is None:
            # Behind the scheme of a URL with a host the first slash begins the path.
            at = url.find("/", 8)
            base = self._bases.get(url[:at])
            if base is not None and _is_plain(target := url[at:]):
                return base.endpoint, base.origin, target, base.text + target
        return self._parsed(url, origins, unix)

    def _parsed(
        self, url: str | URL, origins: Origins | None, unix: str | os.PathLike[str] | None
    ) -> tuple[_native.Endpoint, str | None, str, str]:
        """As `_destination`."""
        if not isinstance(url, str | URL):
            raise _arguments.bad("url", url, "a text or a yarl.URL", "BAD_REQUEST")
        _arguments.path("unix", unix)
        _arguments.instance("origins", origins, Origins, "penstock.Origins([url, ...]) or None")
        # ASCII is sent as it is: quoting it again would turn %2F into a slash. The engine refuses what is not allowed.
        target = url if isinstance(url, URL) else URL(url, encoded=url.isascii())
        if origins is None:
            if target.scheme not in {"http", "https"} or not target.raw_host:
                hint = ": write 'http://...'" if "://" not in str(url) else ""
                raise make_error("BAD_REQUEST", f"{str(url)!r} is no absolute http or https URL{hint}")
            endpoint = self.endpoint(target.scheme, target.raw_host, target.port, unix)
            path, shown, origin = target.raw_path_qs or "/", str(target), str(target.origin())
            if unix is None and isinstance(url, str):
                self._note_base(url, path, _Base(endpoint, origin, shown.removesuffix(path)))
            return endpoint, origin, path, shown
        if target.absolute or not target.raw_path.startswith("/") or unix is not None:
            rule = f"{str(url)!r} is no path, or there is a socket besides origins"
            raise make_error("BAD_REQUEST", rule)
        return origins.endpoint(self, None), None, origins.base + (target.raw_path_qs or "/"), str(target)

    def _note_base(self, url: str, path: str, base: _Base) -> None:
        """Have other URLs that begin as `url` does not be parsed; `path` is what it requests."""
        before = url.removesuffix(path)
        is_base = before.isascii() and before.count("/") == 2 and not {"?", "#"} & set(before)  # noqa: PLR2004
        if before == url or not is_base or not _is_plain(path):
            return
        if len(self._bases) >= 1024:  # noqa: PLR2004 (as of the endpoints)
            self._bases.clear()
        self._bases[before] = base

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

    def fetch(self, request: OriginRequest) -> Response:
        """As `request`, for callers that have the parts of the request in the engine's forms already."""
        response = Response(
            _native.fetch(self.native, request, None)
            if request.body is None
            else self._send(request, request.body)
        )
        response.method = request.method
        response.url = request.target
        return response

    def _send(self, request: OriginRequest, body: Body) -> _native.Source:
        check_body(body)
        length = request.length
        if not isinstance(body, AsyncIterable):
            length = memoryview(body).nbytes
            if length <= REPLAYABLE:
                return _native.fetch(self.native, request, bytes(body))
        source, upload = _native.fetch_upload(self.native, request, length)
        task = asyncio.get_running_loop().create_task(pump(upload, body))
        _uploads.add(task)
        task.add_done_callback(_upload_done)
        return source

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

    def release_disk(self) -> None:
        """Have another process use the directory of the cache's disk. Blocks as `close` does.

        Responses that are in memory alone are written to it before. Responses are read from it after that, and none are
        written.
        """
        if self._stored is not None and not self._stored.release_directory(self._disk_save):
            _log.warning("the cache's disk hangs: its directory stays taken until this process ends")

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


def _is_plain(path: str) -> bool:
    """Whether a URL ends with `path`, and it is requested as it stands."""
    return path.isascii() and path.isprintable() and path[:1] == "/" and "#" not in path and path[-1:] != "?"


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


def _check_cache(cache: config.Cache, pool: config.Pool, parent: _shared.Parent | None) -> None:
    if not cache.fits(pool):
        rule = f"a cache of {cache.memory} bytes is more than half of a pool of {pool.memory}"
        raise make_error("BAD_CONFIGURATION", rule)
    if parent is not None and not parent.has_cache:
        rule = "there is a cache, and that of a worker is its parent's, which has none"
        raise make_error("BAD_CONFIGURATION", rule)


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
    if (usual := _native.usual_fields(headers)) is not None:
        return usual
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
