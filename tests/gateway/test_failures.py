"""What a client is told when the origin fails before its head: a problem with a stable code, and nothing of where
the origin is."""

import json
import logging
import os
import socket

import pytest
from aiohttp import web, web_log

import penstock
from penstock.config import OriginLimits, Pool, Timeouts
from penstock.framing import Fixed
from penstock.testing import Peer, ScriptedOrigin, respond
from penstock.web import FAILURE, TENANT, Gateway, settle_failures
from support.client import Reply, answer
from support.origins import says
from support.waiting import until

from .conftest import Connect
from .server import Serving

SHORT = Timeouts(first_byte=0.2, between_bytes=0.2, connect=2, queue=0.2)


def fields(*names: str) -> bytes:
    return answer("Content-Length: 0", *names)


BEFORE_THE_HEAD = {
    "closes at once": (says(b""), 502, "ORIGIN_CLOSED"),
    "closes within the head": (says(b"HTTP/1.1 200 OK\r\nContent-"), 502, "ORIGIN_CLOSED"),
    "resets": (says(b"", then="reset"), 502, "ORIGIN_RESET"),
    "stalls before the head": (says(b"", then="stall"), 504, "FIRST_BYTE_TIMEOUT"),
    "stalls within the head": (says(b"HTTP/1.1 200 OK\r\nCon", then="stall"), 504, "IO_TIMEOUT"),
    "is no HTTP": (says(b"SSH-2.0-OpenSSH\r\n\r\n"), 502, "BAD_HEAD"),
    "has a bare LF": (says(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"), 502, "BARE_LINE_FEED"),
    "folds a field": (says(fields("X: a\r\n b")), 502, "FOLDED_HEADER"),
    "has a length of letters": (says(answer("Content-Length: ten")), 502, "BAD_LENGTH"),
    "contradicts its length": (
        says(answer("Content-Length: 1", "Content-Length: 2")),
        502,
        "CONFLICTING_LENGTH",
    ),
    "has a length and chunks": (says(fields("Transfer-Encoding: chunked")), 502, "LENGTH_AND_CHUNKED"),
    "has another coding": (says(answer("Transfer-Encoding: gzip")), 502, "BAD_TRANSFER_ENCODING"),
    "switches protocols": (says(answer("Upgrade: x", status="101 Switching")), 502, "UNEXPECTED_UPGRADE"),
    "has an endless head": (says(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000), 502, "HEAD_TOO_LARGE"),
    "has endless interim responses": (says(answer(status="103 Hints") * 20), 502, "TOO_MANY_INTERIM"),
}


@pytest.mark.parametrize("case", BEFORE_THE_HEAD)
async def test_a_failure_before_the_head_is_a_problem(serving: Serving, connect: Connect, case: str) -> None:
    script, status, name = BEFORE_THE_HEAD[case]
    async with ScriptedOrigin(script) as origin:
        client = await connect(await serving.gateway(origin.url, timeouts=SHORT))
        for _ in range(2):
            await client.get("/secret")
            while (head := await client.head()).status == 103:
                pass
            reply = Reply(head, await client.body(head))
            assert_problem(reply, status, name)
            assert str(origin.port).encode() not in reply.body
            assert b"127.0.0.1" not in reply.body


def assert_problem(reply, status: int, name: str) -> None:
    row = next(row for row in penstock.error_codes() if row.name == name)
    problem = json.loads(reply.body)
    assert (problem["name"], reply.head.status) == (name, status)
    assert reply.head.one("Content-Type") == "application/problem+json"
    assert reply.head.one("Cache-Control") == "no-store"
    assert reply.head.all("Retry-After") == (["1"] if status == 503 else [])
    assert problem == {
        "type": "about:blank",
        "title": reply.head.reason,
        "status": status,
        "detail": row.meaning,
        "code": f"0x{row.number:03X}",
        "name": name,
        "retryable": row.retryable,
    }


async def test_a_refused_connection(serving: Serving, connect: Connect) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # bound and not listening: no other program can take the port
        client = await connect(await serving.gateway(f"http://127.0.0.1:{unheard.getsockname()[1]}"))
        assert_problem(await client.ask(), 502, "CONNECT_FAILED")


async def test_a_name_without_an_address(serving: Serving, connect: Connect) -> None:
    client = await connect(await serving.gateway("http://does-not-exist.invalid"))
    assert_problem(await client.ask(), 502, "RESOLVE_FAILED")


async def test_an_origin_without_tls(serving: Serving, connect: Connect) -> None:
    async def plain(peer: Peer) -> None:
        await peer.read(1)
        await peer.send(answer(status="400 Bad Request"))

    async with ScriptedOrigin(plain) as origin:
        client = await connect(await serving.gateway(origin.url.replace("http:", "https:")))
        reply = await client.ask()
        assert_problem(reply, 502, "TLS_FAILED")


@pytest.mark.parametrize(("waiting", "name"), [(8, "QUEUE_TIMEOUT"), (0, "QUEUE_FULL")])
async def test_no_connection_is_free(connect: Connect, waiting: int, name: str) -> None:
    async def hold(peer: Peer) -> None:
        await peer.request()
        await peer.stall()

    limits = OriginLimits(connections=1, waiting=waiting)
    async with penstock.Engine(memory="4MiB", limits=limits) as engine, ScriptedOrigin(hold) as origin:
        serving = Serving(engine)
        served = await serving.gateway(origin.url, timeouts=Timeouts(queue=0.2))
        first, second = await connect(served), await connect(served)
        await first.get()
        await origin.connection()
        assert_problem(await second.ask(), 503, name)
        first.abort()
        await serving.close()


async def test_the_pool_is_full(connect: Connect) -> None:
    pool = Pool(memory="1MiB", pressed_percent=25, full_percent=25)
    async with penstock.Engine(pool=pool) as engine, ScriptedOrigin(respond(fields())) as origin:
        serving = Serving(engine)
        client = await connect(await serving.gateway(origin.url))
        quarter = os.open("/dev/zero", os.O_RDONLY)
        async with penstock.open_fd(quarter, framing=Fixed(256 * 1024), engine=engine) as zeros:
            frame = await anext(zeros)
            assert_problem(await client.ask(), 503, "POOL_FULL")
            assert not origin.connections, "what is refused reaches no origin"
        del frame
        await until(lambda: engine.stats().pool.live_bytes == 0, "the frame is given back")
        assert (await client.ask()).head.status == 200
        await serving.close()


async def test_a_closed_engine_is_unavailable(connect: Connect) -> None:
    engine = penstock.Engine(memory="4MiB")
    serving = Serving(engine)
    client = await connect(await serving.gateway("http://127.0.0.1:1"))
    await engine.aclose()
    assert_problem(await client.ask(), 503, "ENGINE_CLOSED")
    await serving.close()


async def test_head_requests_get_the_status_alone(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(says(b"")) as origin:
        client = await connect(await serving.gateway(origin.url))
        for _ in range(2):
            reply = await client.ask(method="HEAD")
            assert (reply.head.status, reply.body) == (502, b"")


async def test_the_log_says_what_the_client_is_not_told(
    serving: Serving, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedOrigin(says(b"")) as origin:
        client = await connect(await serving.gateway(origin.url))
        await client.ask("/path?q")
        lines = [record.getMessage() for record in caplog.records if record.name == "penstock.web"]
        assert len(lines) == 1
        assert lines[0].startswith("GET /path?q: 0x10C ORIGIN_CLOSED: ")
        assert origin.url in lines[0]


async def test_a_limit_of_one_relay_replaces_the_gateways(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(says(b"", then="stall")) as origin:
        gateway = Gateway(origin.url, engine=serving.engine)
        served = await serving.handler(lambda request: gateway.relay(request, timeouts=Timeouts(total=0.2)))
        assert_problem(await (await connect(served)).ask(), 504, "TOTAL_TIMEOUT")


async def test_settled_failures_reach_the_access_log(
    serving: Serving, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """`settle_failures` gives a relay that was cut off an access log line in place of a traceback."""

    class Mine(web_log.AccessLogger):
        def log(self, request: web.BaseRequest, response: web.StreamResponse, _: float) -> None:
            failure = request.get(FAILURE)
            said = "" if failure is None else failure.error.name
            self.logger.info("%s %d %s %s", request.path, response.status, request.get(TENANT), said)

    caplog.set_level("INFO")
    # A site writes the lines itself; the worker's are its parent's to write.
    told = {"access_log_class": Mine} if serving.transport == "stock" else {}
    log = logging.getLogger("penstock.access")
    async with ScriptedOrigin(says(answer("Content-Length: 10", body=b"half"), then="stall")) as origin:
        gateway = Gateway(origin.url, engine=serving.engine, timeouts=SHORT)

        async def handler(request: web.Request) -> web.StreamResponse:
            return await gateway.relay(request, tenant="t")

        app = web.Application(middlewares=[settle_failures])
        app.router.add_get("/{path:.*}", handler)
        served = await serving.app(app, server={"access_log": log, **told})
        client = await connect(served)
        await client.get("/a%20b")
        with pytest.raises(EOFError):
            await client.body(await client.head())
        await serving.close()
    lines = [record.getMessage() for record in caplog.records if record.name == "penstock.access"]
    if serving.transport == "stock":
        assert lines == ["/a b 200 t IO_TIMEOUT"]
    elif serving.transport == "site":
        assert len(lines) == 1
        assert '127.0.0.1 "GET /a%20b HTTP/1.1" 200 4 ' in lines[0]
        assert lines[0].endswith(' tenant="t" failed=0x102/IO_TIMEOUT')
    assert not [record for record in caplog.records if record.name == "aiohttp.server"]
