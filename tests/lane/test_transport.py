"""The transport as a duck of asyncio's."""

import asyncio
import gc
import socket
import threading

import pytest
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

import penstock
import penstock.web
from penstock import _native
from penstock.testing import ScriptedOrigin
from support.origins import Recorder
from support.waiting import until

from .conftest import Connect, Serve


async def test_it_looks_like_asyncios(serve: Serve, connect: Connect) -> None:
    async def handler(request: web.Request) -> web.Response:
        transport = request.transport
        # asyncio.Transport is no abstract base class: a native one can only have all that it has.
        assert {name for name in dir(asyncio.Transport) if name[0] != "_"} <= set(dir(transport))
        assert transport.get_protocol() is request.protocol
        assert (transport.is_closing(), transport.is_reading()) == (False, True)
        assert transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
        transport.set_write_buffer_limits(high=100)
        assert transport.get_write_buffer_limits() == (25, 100)
        transport.set_write_buffer_limits(low=10)
        assert transport.get_write_buffer_limits() == (10, 40)
        with pytest.raises(ValueError, match="must be >="):
            transport.set_write_buffer_limits(high=1, low=2)
        transport.set_write_buffer_limits()
        assert transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
        assert (transport.can_write_eof(), transport.get_extra_info("nothing", 7)) == (False, 7)
        assert transport.get_extra_info("sslcontext") is None
        with pytest.raises(TypeError):
            transport.write("text")
        with pytest.raises(TypeError):
            transport.writelines([b"", 7])
        transport.pause_reading()
        assert not transport.is_reading()
        transport.resume_reading()
        return web.Response(text="well")

    assert (await (await connect(await serve(handler))).ask()).body == b"well"


async def test_other_threads_are_refused(serve: Serve, connect: Connect) -> None:
    raised: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        transport = request.transport

        def elsewhere() -> None:
            for call in (
                lambda: transport.write(b"x"),
                transport.close,
                transport.abort,
                transport.pause_reading,
            ):
                try:
                    call()
                except RuntimeError as error:
                    raised.append(str(error))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return web.Response(text="well")

    assert (await (await connect(await serve(handler))).ask()).body == b"well"
    assert len(raised) == 4
    assert all("Non-thread-safe" in text for text in raised)


async def test_a_full_buffer_pauses_and_an_empty_one_resumes(serve: Serve, connect: Connect) -> None:
    sizes: list[tuple[int, bool]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "30000000"})
        await response.prepare(request)
        transport = request.transport
        transport.write(bytes(30_000_000))
        sizes.append((transport.get_write_buffer_size(), request.protocol.writing_paused))
        await response._payload_writer.drain()
        sizes.append((transport.get_write_buffer_size(), request.protocol.writing_paused))
        return response

    client = await connect(await serve(handler), 4096)
    await client.get()
    assert len(await client.body(await client.head())) == 30_000_000
    await until(lambda: len(sizes) == 2, "the handler goes on")
    (full, paused), (empty, resumed) = sizes
    assert (full > 1_000_000, paused) == (True, True)
    assert (empty <= 16 * 1024, resumed) == (True, False)


async def test_what_is_written_to_a_transport_that_is_free_goes_nowhere(
    serve: Serve, connect: Connect
) -> None:
    kept: list[asyncio.Transport] = []

    async def handler(request: web.Request) -> web.Response:
        kept.append(request.transport)
        return web.Response(text="ok")

    served = await serve(handler)
    client = await connect(served)
    await client.ask()
    kept[0].write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    assert (await client.ask()).body == b"ok"
    assert (await (await connect(served)).ask()).body == b"ok"
    assert len(served.runner.server.connections) == 1, "one handler has served them all"


async def test_a_transport_kept_past_its_response_reaches_no_client(serve: Serve, connect: Connect) -> None:
    """The handler of one client's request is that of another's afterwards, and its transport must not be."""
    kept: list[web.Request] = []
    transports: list[asyncio.Transport] = []
    writers: list[AbstractStreamWriter] = []
    sockets: list[socket.socket] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        response = web.StreamResponse()
        await response.prepare(request)
        kept.append(request)
        transports.append(request.transport)
        writers.append(request.writer)
        sockets.append(request.transport.get_extra_info("socket"))
        await response.write(b"one")
        if len(kept) > 1:
            old = transports[0]
            assert old is not request.transport
            assert old.get_extra_info("peername") != request.transport.get_extra_info("peername")
            assert (old.is_closing(), old.is_reading(), old.get_write_buffer_size()) == (True, False, 0)
            old.write(b"intruder")
            old.writelines([b"intruder", bytes(100_000)])
            old.pause_reading()
            old.set_write_buffer_limits(0)
            old.set_protocol(asyncio.Protocol())
            with pytest.raises(OSError, match="Bad file descriptor"):
                sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
            with open(__file__, "rb") as file, pytest.raises(RuntimeError, match="closing"):
                await asyncio.get_running_loop().sendfile(old, file)
            old.close()
            old.abort()
            assert kept[0].transport is None
            with pytest.raises(ConnectionResetError):
                await writers[0].write(b"intruder")
            assert request.transport.is_reading()
            assert not request.transport.is_closing()
            assert request.transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
        await response.write(b"two")
        return response

    served = await serve(handler)
    for _ in range(5):
        client = await connect(served)
        assert (await client.ask()).body == b"onetwo"
        await until(lambda: served.counts()[1] == 1, "the handler is free")
        # And while no handler uses it.
        for transport in transports:
            transport.abort()
    assert len({id(transport) for transport in transports}) == 5
    assert len({transport.get_extra_info("peername") for transport in transports}) == 5
    assert len(served.runner.server.connections) == 1, "all were served by one handler"


async def test_write_buffer_limits_of_one_request_are_not_those_of_the_next(
    serve: Serve, connect: Connect
) -> None:
    limits: list[tuple[int, int]] = []

    async def handler(request: web.Request) -> web.Response:
        limits.append(request.transport.get_write_buffer_limits())
        request.transport.set_write_buffer_limits(high=100)
        return web.Response(text="ok")

    client = await connect(await serve(handler))
    for _ in range(2):
        await client.get()
        assert await client.body(await client.head()) == b"ok"
    assert limits == [(16 * 1024, 64 * 1024)] * 2


async def test_the_collector_may_run_while_a_transport_is_made(serve: Serve, connect: Connect) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="well")

    served = await serve(handler)
    thresholds = gc.get_threshold()
    try:
        for objects in range(1, 9):
            gc.set_threshold(objects, 1_000_000, 1_000_000)
            clients = [await connect(served) for _ in range(20)]
            for _ in range(2):
                assert {
                    answer.body for answer in await asyncio.gather(*(client.ask() for client in clients))
                } == {b"well"}
    finally:
        gc.set_threshold(*thresholds)


async def test_the_collector_may_run_while_anything_of_the_boundary_is_made(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    """Each object of a class that the collector looks into is made while it runs at every allocation."""

    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="well")

    async def decide(query: penstock.web.NativeRequest) -> penstock.web.Allow:
        return penstock.web.Allow()

    async with ScriptedOrigin(Recorder()) as origin:
        thresholds = gc.get_threshold()
        gc.set_threshold(1, 1, 1)
        try:
            gateway = penstock.web.Gateway(origin.url, engine=engine)
            async with penstock.Hub(engine=engine) as hub:
                app = web.Application()
                app.router.add_get("/", handler)
                app.add_routes(
                    [
                        gateway.native("/native/", authorise=decide, decision_key=["header:Host"]),
                        hub.native("/events/"),
                    ]
                )
                served = [await serve(app) for _ in range(3)]
                for one in served:
                    client = await connect(one)
                    answers = {(await client.ask(target)).body for target in ("/", "/native/")}
                    assert answers == {b"well", b"ok"}
                for one in served:
                    await one.runner.cleanup()
        finally:
            gc.set_threshold(*thresholds)


def test_no_object_of_the_boundary_has_a_dictionary() -> None:
    """CPython 3.11 and 3.12 make it while the object is known to the collector and not filled in yet."""
    classes = [value for value in vars(_native).values() if isinstance(value, type)]
    assert len(classes) > 30
    assert [cls for cls in classes if cls.__dictoffset__ != 0] == []
