"""Requests as an application sees them, and what clients get back."""

import asyncio
import socket
from pathlib import Path

import pytest
from aiohttp import web

import penstock
from penstock.web import Site
from support.client import RawClient
from support.waiting import until

from .conftest import Connect, Serve


async def ok(request: web.Request) -> web.Response:
    return web.Response(text=f"{request.method} {request.path_qs}")


async def test_a_connection_serves_one_request_after_the_other(serve: Serve, connect: Connect) -> None:
    client = await connect(await serve(ok))
    for number in range(3):
        reply = await client.ask(f"/{number}?q=a%20b")
        assert (reply.head.status, reply.body) == (200, f"GET /{number}?q=a%20b".encode())
    assert (await client.ask("/", method="HEAD")).head.one("Content-Length") == "6"
    assert (await client.ask("/")).body == b"GET /"


async def test_pipelined_requests_are_answered_in_their_order(serve: Serve, connect: Connect) -> None:
    async def slow_first(request: web.Request) -> web.Response:
        if request.path == "/0":
            await asyncio.sleep(0.05)
        return web.Response(text=request.path)

    client = await connect(await serve(slow_first))
    await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(20)))
    for number in range(20):
        assert await client.body(await client.head()) == f"/{number}".encode()


async def test_a_handler_is_used_again_and_knows_each_client(serve: Serve, connect: Connect) -> None:
    protocols = set()

    async def who(request: web.Request) -> web.Response:
        protocols.add(request.protocol)
        transport = request.transport
        assert transport is not None
        peer, name = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        assert request.protocol.peername == peer
        assert request.remote == peer[0]
        return web.json_response([peer, name])

    served = await serve(who)
    for _ in range(3):
        client = await connect(served)
        ours = client.writer.get_extra_info("sockname")
        theirs = client.writer.get_extra_info("peername")
        assert (
            await client.ask()
        ).body.decode() == f'[["{ours[0]}", {ours[1]}], ["{theirs[0]}", {theirs[1]}]]'
    assert len(protocols) == 1
    assert served.counts() == (0, 1, 0)


async def test_a_client_gets_the_handler_that_it_had_last(serve: Serve, connect: Connect) -> None:
    together = asyncio.Barrier(2)

    async def which(request: web.Request) -> web.Response:
        if request.path == "/together":
            await together.wait()
        return web.Response(text=str(id(request.protocol)))

    served = await serve(which)
    clients = [await connect(served) for _ in range(2)]
    first = await asyncio.gather(*(client.ask("/together") for client in clients))
    assert first[0].body != first[1].body
    for number in (0, 1, 1, 0, 0, 1):
        assert (await clients[number].ask()).body == first[number].body
    stranger = await connect(served)
    assert (await stranger.ask()).body == first[1].body, "the latest, so that others can grow old"


async def test_clients_that_are_idle_cost_python_nothing(
    engine: penstock.Engine, serve: Serve, connect: Connect
) -> None:
    served = await serve(ok)
    clients = [await connect(served) for _ in range(50)]
    for client in clients:
        await client.ask()
    assert served.counts()[1] == 1
    assert len(served.runner.server.connections) == 1
    before = engine.stats().wakeups
    for client in clients[::2]:
        client.abort()
    await until(lambda: served.connections() == 25, "the engine has seen them leave")
    assert engine.stats().wakeups == before, "the loop was not woken for it"


async def test_as_many_handlers_as_requests_at_a_time(serve: Serve, connect: Connect) -> None:
    go_on = asyncio.Event()
    running = 0

    async def wait(_: web.Request) -> web.Response:
        nonlocal running
        running += 1
        await go_on.wait()
        return web.Response()

    served = await serve(wait)
    clients = [await connect(served) for _ in range(5)]
    for client in clients:
        await client.get()
    await until(lambda: running == 5, "all handlers run")
    assert served.counts() == (0, 0, 0)
    go_on.set()
    for client in clients:
        assert (await client.head()).status == 200
    assert served.counts() == (0, 5, 0)


@pytest.mark.parametrize(
    ("fields", "version", "closes"),
    [
        ((), "1.1", False),
        (("Connection: close",), "1.1", True),
        ((), "1.0", True),
        (("Connection: keep-alive",), "1.0", False),
    ],
)
async def test_connections_end_where_client_and_application_agree(
    serve: Serve, connect: Connect, fields: tuple[str, ...], version: str, closes: bool
) -> None:
    client = await connect(await serve(ok))
    reply = await client.ask("/", *fields, version=version)
    assert reply.body == b"GET /"
    if closes:
        assert await client.rest() == b""
    else:
        assert (await client.ask("/again")).body == b"GET /again"


async def test_an_application_can_close(serve: Serve, connect: Connect) -> None:
    async def close(_: web.Request) -> web.Response:
        response = web.Response(text="bye")
        response.force_close()
        return response

    client = await connect(await serve(close))
    reply = await client.ask()
    assert (reply.body, reply.head.one("Connection")) == (b"bye", "close")
    assert await client.rest() == b""


async def test_the_head_is_written_anew(serve: Serve, connect: Connect) -> None:
    """What the engine has understood is what the application reads."""

    async def raw(request: web.Request) -> web.Response:
        assert (await request.read()) == b"hello"
        return web.json_response([request.path, request.host, request.headers.getall("Content-Length")])

    client = await connect(await serve(raw))
    await client.send(
        b"POST http://real.test/x HTTP/1.1\r\nContent-Length: 5, 5\r\nHost: other.test\r\n"
        b"content-length: 5\r\n\r\nhello"
    )
    head = await client.head()
    assert await client.body(head) == b'["/x", "real.test", ["5"]]'


async def test_a_request_that_is_none_never_reaches_the_application(serve: Serve, connect: Connect) -> None:
    served = await serve(ok)
    client = await connect(served)
    await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n")
    head = await client.head()
    assert head.status == 400
    assert head.one("Content-Type") == "application/problem+json"
    assert served.counts() == (0, 0, 0)
    assert not served.runner.server.requests_count


async def test_a_unix_socket(serve: Serve, tmp_path: Path) -> None:
    async def who(request: web.Request) -> web.Response:
        transport = request.transport
        assert transport is not None
        assert transport.get_extra_info("socket").family is socket.AF_UNIX
        return web.json_response([transport.get_extra_info("sockname"), transport.get_extra_info("peername")])

    path = str(tmp_path / "socket")
    served = await serve(who, path=path)
    assert (served.site.name, served.runner.addresses) == (f"http://unix:{path}:", [path])
    client = RawClient(*await asyncio.open_unix_connection(path))
    assert (await client.ask()).body.decode() == f'["{path}", ""]'
    client.abort()


async def test_a_socket_that_is_passed_in(serve: Serve, connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        served = await serve(ok, sock=listening)
        assert served.port == listening.getsockname()[1]
        assert (await (await connect(served)).ask()).body == b"GET /"
        await served.runner.cleanup()
        assert listening.fileno() == -1, "it was closed with the site, as aiohttp's SockSite does"


async def test_names_and_addresses(engine: penstock.Engine, serve: Serve) -> None:
    served = await serve(ok, host="localhost", port=0)
    assert served.site.name.startswith("http://localhost:")
    assert all(address[1] for address in served.runner.addresses)
    with pytest.raises(penstock.PenstockError, match="LISTEN_FAILED"):
        await Site(served.runner, "127.0.0.1", served.port, engine=engine).start()
