"""How a server is operated from outside: the cache of its engine, and upgrades, over a Unix socket.

HTTP with JSON, served by aiohttp on the loop of the serving process. A user that may connect may purge, so the socket is
its owner's alone. `penstock cache` and `penstock upgrade` are its clients.

    GET  /cache          how full it is
    GET  /cache/stored   what is stored; prefix, after, limit
    POST /cache/purge    {"url" | "prefix" | "tag": text, "soft": false} or {"all": true}; how many were meant
    POST /upgrade        have another process serve in place of this one; its number
"""

import asyncio
import fcntl
import json
import os
import re
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from aiohttp import web

from penstock import _native
from penstock.cache import Cache
from penstock.exceptions import PenstockError, make_error
from penstock.serving.shutdown import last_act
from penstock.serving.upgrade import Upgrades

__all__ = ["controlling"]

_MODE = 0o600
_LIMIT: Final = re.compile(r"[0-9]{1,9}")


@asynccontextmanager
async def controlling(cache: Cache | None, path: Path, upgrades: Upgrades) -> AsyncIterator[None]:
    """Have `cache`, if there is one, and `upgrades` operated through a socket at `path` while the block lasts.

    Raises:
        ConfigurationError: another process serves at `path`, or something else than a socket is there.
        OSError: the socket cannot be made.
    """
    runner = web.AppRunner(_application(cache, upgrades), access_log=None, shutdown_timeout=1.0)
    with _Socket(path) as own:
        await runner.setup()
        site = web.SockSite(runner, own.listener)

        async def end() -> None:
            own.is_handed_on = True
            await site.stop()

        try:
            await upgrades.during(own.listener, site.start, end)
            yield
        finally:
            await runner.cleanup()


class _Socket:
    """A socket at `path`, which goes with it, unless another process was given it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.listener: Final = _listen(path)
        self._file = path.stat().st_ino
        self.is_handed_on = False
        self._last = ExitStack()

    def __enter__(self) -> Self:
        self._last.callback(self._remove)
        self._last.callback(self.listener.close)
        self._last.enter_context(last_act(self._remove))
        return self

    def __exit__(self, *_: object) -> None:
        self._last.close()

    def _remove(self) -> None:
        # A process that has replaced it keeps its own.
        with suppress(FileNotFoundError):
            if not self.is_handed_on and self._path.stat().st_ino == self._file:
                self._path.unlink()


def _listen(path: Path) -> socket.socket:
    given = _native.claim_listener(f"unix:{path}")
    if given is not None:
        listener = socket.socket(fileno=given)
        listener.setblocking(False)
        return listener
    with _alone(path.parent):
        _clear(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Before the bind: a client could connect between it and a chmod.
            os.fchmod(listener.fileno(), _MODE)
            listener.bind(os.fspath(path))
            listener.listen()
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
    return listener


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keeps two that start at once from each taking the other's socket for a dead one."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _clear(path: Path) -> None:
    """Remove a socket on which no process listens any more."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise make_error("BAD_CONFIGURATION", f"{path} is there, and no socket")
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            # Its queue is full: a process listens on it.
            pass
    raise make_error("BAD_CONFIGURATION", f"another process serves at {path}")


def _application(cache: Cache | None, upgrades: Upgrades) -> web.Application:
    async def upgrade(_request: web.Request) -> web.Response:
        return web.json_response({"process": await upgrades.upgrade()})

    app = web.Application(middlewares=[_failures])
    app.router.add_post("/upgrade", upgrade)
    if cache is not None:
        _add_cache(app, cache)
    return app


def _add_cache(app: web.Application, cache: Cache) -> None:
    async def stats(_request: web.Request) -> web.Response:
        return web.json_response(asdict(cache.stats()))

    async def stored(request: web.Request) -> web.Response:
        query = request.query
        limit = _limit(query.get("limit", "1000"))
        # Beside the loop, which has clients to serve: all that is stored is looked at.
        rows = await asyncio.to_thread(
            cache.list, prefix=_text(query.get("prefix")), after=_text(query.get("after")), limit=limit
        )
        return web.json_response({"stored": [asdict(row) for row in rows]})

    async def purge(request: web.Request) -> web.Response:
        wanted = await _json(request)
        soft = wanted.pop("soft", False)
        if wanted == {"all": True} and soft is False:
            return web.json_response({"purged": await asyncio.to_thread(cache.clear)})
        if not wanted.keys() <= {"url", "prefix", "tag"} or not all(
            isinstance(it, str) for it in wanted.values()
        ):
            raise make_error("BAD_REQUEST", "a purge has one of url, prefix, tag (a text), and soft; or all")
        for value in wanted.values():
            _text(value)
        if not isinstance(soft, bool):
            raise make_error("BAD_REQUEST", "soft is neither true nor false")
        return web.json_response({"purged": await asyncio.to_thread(cache.purge, **wanted, soft=soft)})

    app.router.add_get("/cache", stats)
    app.router.add_get("/cache/stored", stored)
    app.router.add_post("/cache/purge", purge)


def _limit(text: str) -> int:
    if not _LIMIT.fullmatch(text):
        raise make_error("BAD_REQUEST", f"limit is {text[:20]!r}: write a number from 1 to 999999999")
    return int(text)


def _text(value: str | None) -> str | None:
    """`value`, which the engine can read.

    Raises:
        RequestError: it has half a surrogate pair, which no URL and no tag has.
    """
    try:
        (value or "").encode()
    except UnicodeEncodeError:
        raise make_error("BAD_REQUEST", "a text is no Unicode: it has half a surrogate pair") from None
    return value


async def _json(request: web.Request) -> dict[str, Any]:
    try:
        # Whatever it calls its charset (RFC 8259, section 8.1).
        found = json.loads(await request.read())
    except (ValueError, RecursionError):
        # It is no JSON; or it has an int of over 4,300 digits, or some thousand levels.
        found = None
    if not isinstance(found, dict):
        raise make_error("BAD_REQUEST", "the body is no JSON object")
    return found


@web.middleware
async def _failures(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        return await handler(request)  # type: ignore[no-any-return]
    except PenstockError as error:
        # A process that may connect may know the error.
        body = json.dumps({"name": error.name, "detail": error.detail})
        return web.Response(status=400, text=body, content_type="application/problem+json")
