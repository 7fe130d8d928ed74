"""What runs beside a server that is operated from outside: the cache of its engine, over a Unix socket.

HTTP with JSON, served by aiohttp on the loop of the serving process. A user that may connect may purge, so the socket is
its owner's alone. `penstock cache` is its client.

    GET  /cache          how full it is
    GET  /cache/stored   what is stored; prefix, after, limit
    POST /cache/purge    {"url" | "prefix" | "tag": text, "soft": false} or {"all": true}; how many were meant
"""

import asyncio
import fcntl
import json
import os
import re
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from penstock.cache import Cache
from penstock.exceptions import PenstockError, make_error
from penstock.serving.shutdown import last_act

__all__ = ["controlling"]

_MODE = 0o600
_LIMIT: Final = re.compile(r"[0-9]{1,9}")


@asynccontextmanager
async def controlling(cache: Cache, path: Path) -> AsyncIterator[None]:
    """Have `cache` operated through a socket at `path` while the block lasts.

    Raises:
        ConfigurationError: another process serves at `path`, or something else than a socket is there.
        OSError: the socket cannot be made.
    """
    runner = web.AppRunner(_application(cache), access_log=None, shutdown_timeout=1.0)
    with _listening(path) as listener:
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            yield
        finally:
            await runner.cleanup()


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """A socket at `path`, which goes with it."""
    listener = _listen(path)
    own = path.stat().st_ino

    def remove() -> None:
        # A process that has replaced it keeps its own.
        with suppress(FileNotFoundError):
            if path.stat().st_ino == own:
                path.unlink()

    with last_act(remove):
        try:
            yield listener
        finally:
            listener.close()
            remove()


def _listen(path: Path) -> socket.socket:
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


def _application(cache: Cache) -> web.Application:
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

    app = web.Application(middlewares=[_failures])
    app.router.add_get("/cache", stats)
    app.router.add_get("/cache/stored", stored)
    app.router.add_post("/cache/purge", purge)
    return app


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
