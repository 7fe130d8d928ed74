"""`get_extra_info("socket")`: what applications and their extensions ask of the client's socket."""

import asyncio
import errno
import gc
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.client import RawClient
from support.waiting import until

from .conftest import Connect, Serve

TIMEOUT = (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
LINGER = (socket.SOL_SOCKET, socket.SO_LINGER)


def shown(request: web.Request) -> Any:
    return request.transport.get_extra_info("socket")


async def test_it_has_all_that_asyncios_has(serve: Serve, connect: Connect) -> None:
    async def handler(request: web.Request) -> web.Response:
        ours = shown(request)
        theirs = {name for name in dir(asyncio.trsock.TransportSocket) if name[0] != "_"}
        assert theirs <= set(dir(ours))
        assert not {"send", "sendall", "recv", "detach", "close"} & set(dir(ours))
        assert (ours.family, ours.type, ours.proto) == (
            socket.AF_INET,
            socket.SOCK_STREAM,
            socket.IPPROTO_TCP,
        )
        assert ours.getpeername() == request.transport.get_extra_info("peername")
        assert ours.getsockname() == request.transport.get_extra_info("sockname")
        assert (ours.gettimeout(), ours.get_inheritable()) == (0, False)
        ours.settimeout(0)
        ours.setblocking(False)
        with pytest.raises(ValueError, match="only 0 timeout"):
            ours.settimeout(1)
        with pytest.raises(ValueError, match="cannot be blocking"):
            ours.setblocking(True)
        return web.Response(text="well")

    assert (await (await connect(await serve(handler))).ask()).body == b"well"


async def test_options_are_those_of_the_real_socket(serve: Serve, connect: Connect) -> None:
    async def handler(request: web.Request) -> web.Response:
        ours = shown(request)
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        before = ours.getsockopt(*TIMEOUT)
        assert before > 0, "the engine has set a limit of its own"
        ours.setsockopt(*TIMEOUT, 12_345)
        assert shown(request).getsockopt(*TIMEOUT) == 12_345
        assert ours.getsockopt(*TIMEOUT, 4) == struct.pack("i", 12_345)
        ours.setsockopt(*TIMEOUT, struct.pack("i", before))
        assert ours.getsockopt(*TIMEOUT) == before
        # Of an established connection, which no stand-in is.
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[0] == 1
        with pytest.raises(OSError) as raised:  # noqa: PT011 (the number says which)
            ours.getsockopt(socket.IPPROTO_TCP, 9999)
        assert raised.value.errno == errno.ENOPROTOOPT
        with pytest.raises(OSError) as raised:  # noqa: PT011
            ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, -1)
        assert raised.value.errno == errno.EINVAL
        return web.Response(text="well")

    assert (await (await connect(await serve(handler))).ask()).body == b"well"


async def test_what_could_do_harm_is_refused(serve: Serve, connect: Connect) -> None:
    async def handler(request: web.Request) -> web.Response:
        ours = shown(request)
        for level, option, value in (
            (*LINGER, struct.pack("ii", 1, 0)),
            (*LINGER, 1),
            (socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1_000_000),
            (socket.IPPROTO_TCP, socket.TCP_CORK, 1),
            (*TIMEOUT, struct.pack("q", 1)),
        ):
            with pytest.raises(PermissionError, match="engine"):
                ours.setsockopt(level, option, value)
        assert ours.getsockopt(*LINGER, 8) == struct.pack("ii", 0, 0)
        # It would be taken from the engine by being read.
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        # TCP_ZEROCOPY_RECEIVE writes what was received to an address in its value.
        with pytest.raises(OSError) as raised:  # noqa: PT011
            ours.getsockopt(socket.IPPROTO_TCP, 35, 64)
        assert raised.value.errno == errno.EOPNOTSUPP
        return web.Response(text="well")

    client = await connect(await serve(handler))
    for _ in range(2):
        assert (await client.ask()).body == b"well"


async def test_its_descriptor_can_do_no_harm(serve: Serve, connect: Connect) -> None:
    async def handler(request: web.Request) -> web.Response:
        ours = shown(request)
        number = ours.fileno()
        assert number == ours.fileno() >= 0
        with ours.dup() as duplicate:
            for harm in (
                lambda: os.write(number, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"),
                lambda: os.read(number, 1),
                lambda: duplicate.send(b"evil"),
                lambda: duplicate.shutdown(socket.SHUT_RDWR),
            ):
                with pytest.raises(OSError):  # noqa: PT011
                    harm()
        return web.Response(text="well")

    client = await connect(await serve(handler))
    for _ in range(2):
        assert (await client.ask()).body == b"well"
    gc.collect()


async def test_after_its_response_it_is_a_closed_socket(serve: Serve, connect: Connect) -> None:
    kept: list[Any] = []

    async def handler(request: web.Request) -> web.Response:
        kept.append(shown(request))
        assert kept[-1].fileno() >= 0
        return web.Response(text="well")

    served = await serve(handler)
    client = await connect(served)
    await client.ask()
    await until(lambda: served.counts()[1] == 1, "the response has ended")
    (ours,) = kept
    assert ours.fileno() == -1
    for call in (lambda: ours.getsockopt(*TIMEOUT), lambda: ours.setsockopt(*TIMEOUT, 1)):
        with pytest.raises(OSError) as raised:  # noqa: PT011
            call()
        assert raised.value.errno == errno.EBADF
    assert ours.getpeername()[0] == "127.0.0.1"
    kept.clear()


@pytest.mark.parametrize("how", [socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR])
async def test_a_shutdown_ends_the_connection(serve: Serve, connect: Connect, how: int) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "10"})
        await response.prepare(request)
        await response.write(b"0123456789")
        if how == socket.SHUT_RD:
            with pytest.raises(OSError, match="pause_reading"):
                shown(request).shutdown(how)
        else:
            shown(request).shutdown(how)
        return response

    client = await connect(await serve(handler))
    if how == socket.SHUT_RDWR:
        await client.get()
        with suppress(ConnectionError):
            assert (await client.rest()).endswith((b"", b"0123456789"))
        return
    assert (await client.ask()).body == b"0123456789"
    if how == socket.SHUT_WR:
        assert await client.rest() == b""
    else:
        assert (await client.ask()).body == b"0123456789"


async def test_who_is_at_the_other_end_of_a_unix_socket(serve: Serve, tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.Response:
        ours = shown(request)
        assert (ours.family, ours.proto) == (socket.AF_UNIX, 0)
        process, user, _ = struct.unpack("3i", ours.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        assert (process, user) == (os.getpid(), os.getuid())
        assert ours.fileno() >= 0
        return web.Response(text="well")

    path = tmp_path / "socket"
    await serve(handler, path=path)
    client = RawClient(*await asyncio.open_unix_connection(path))
    assert (await client.ask()).body == b"well"
    client.abort()
