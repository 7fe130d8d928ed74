"""What the log says of origins that fail: why, which, and where it is, once for each cause and not for each request."""

import asyncio
import contextlib
import logging
import re
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable

import pytest
import trustme

import penstock
from penstock.config import Cache, Caching, Check, OriginLimits, Timeouts
from penstock.testing import Peer, ScriptedOrigin, respond
from penstock.web import Gateway
from support.client import answer
from support.edges import Edges
from support.origins import says
from support.waiting import until

LOGGER = "penstock.origins"
LENGTH = answer("Content-Length: 10")
STOCK = """
import asyncio, logging, sys
import aiohttp
from aiohttp import web
import penstock
from penstock.web import Gateway

async def main(origin, way):
    logging.basicConfig()
    async with penstock.Engine(memory="16MiB") as engine:
        gateway = Gateway(origin, engine=engine)
        app = web.Application()
        if way == "native":
            app.add_routes([gateway.native("/")])
        else:
            app.router.add_get("/{path:.*}", gateway.relay)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/a?sig=s3cret"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            print(response.status, await response.text())
        await runner.cleanup()

asyncio.run(main(*sys.argv[1:]))
"""
SHORT = Timeouts(connect=0.2, tls=0.2, first_byte=0.2, between_bytes=0.2)
WHOLE = answer("Content-Length: 2", body=b"ok")

# What the origin does, the code, and how the reason reads.
FAILURES = {
    "a close": (says(b""), "ORIGIN_CLOSED", "before the response"),
    "a reset": (says(b"", then="reset"), "ORIGIN_RESET", ""),
    "silence": (says(b"", then="stall"), "FIRST_BYTE_TIMEOUT", "took longer than|sent"),
    "no HTTP": (says(b"SSH-2.0\r\n\r\n", then="stall"), "BAD_HEAD", ""),
    "two lengths": (
        says(answer("Content-Length: 1", "Content-Length: 2"), then="stall"),
        "CONFLICTING_LENGTH",
        "Content-Length is both",
    ),
    "a truncated body": (says(LENGTH + b"half"), "BODY_TRUNCATED", "6 of 10 bytes missing"),
    "silence in the body": (says(LENGTH + b"half", then="stall"), "IO_TIMEOUT", ""),
    "stray bytes": (respond(WHOLE + b"\r\n"), "EXCESS_BYTES", "followed the end"),
}


@pytest.fixture
async def edges() -> AsyncIterator[Callable[..., Edges]]:
    """Sites whose engine writes a line for each failure, or as it is told."""
    made: list[tuple[penstock.Engine, Edges]] = []

    def make(log_interval: float = 3600, **settings: object) -> Edges:
        limits = OriginLimits(log_interval=log_interval, idle_timeout=30)
        engine = penstock.Engine(memory="16MiB", limits=limits, **settings)  # type: ignore[arg-type]
        made.append((engine, Edges(engine)))
        return made[-1][1]

    yield make
    for engine, edges in made:
        await edges.close()
        await engine.aclose()


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == LOGGER]


async def line(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    """The only one."""
    await until(lambda: lines(caplog), "the log has a line")
    (record,) = lines(caplog)
    return record


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_native_route_says_why_its_origin_failed_and_where(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture, failure: str
) -> None:
    script, code, reason = FAILURES[failure]
    edge = edges()
    async with ScriptedOrigin(script) as origin:
        served = await edge.relay(origin.url, timeouts=SHORT)
        for _ in range(5):
            client = await edge.connect(served)
            with contextlib.suppress(EOFError, ConnectionError):
                await client.ask("/secret?token=s3cret")
        record = await line(caplog)
        address = f"127.0.0.1:{origin.port}"
        assert (record.levelname, record.code, record.origin) == ("WARNING", code, origin.url)  # type: ignore[attr-defined]
        assert (record.address, record.left_out) == (address, 0)  # type: ignore[attr-defined]
        text = record.getMessage()
        assert text.startswith(f"{origin.url} ({address}): {code}: ")
        assert re.search(reason, text), text
        assert "s3cret" not in text


async def test_a_refused_connection_names_the_addresses(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        edge = edges()
        served = await edge.relay(f"http://localhost:{port}")
        assert (await (await edge.connect(served)).ask("/")).head.status == 502
        text = (await line(caplog)).getMessage()
        assert text.startswith(f"http://localhost:{port}: CONNECT_FAILED: ")
        assert f"127.0.0.1:{port}: Connection refused" in text


async def test_a_listener_that_never_accepts_is_named_with_its_address(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for connection in waiting:
            connection.setblocking(False)
            connection.connect_ex(listener.getsockname())
        port = listener.getsockname()[1]
        edge = edges()
        served = await edge.relay(f"http://127.0.0.1:{port}", timeouts=SHORT)
        assert (await (await edge.connect(served)).ask("/")).head.status == 504
        text = (await line(caplog)).getMessage()
        assert re.search(rf"CONNECT_TIMEOUT: 127.0.0.1:{port}: connecting took longer than 200ms", text)
        for connection in waiting:
            connection.close()


async def test_an_origin_whose_certificate_is_not_trusted_is_told_with_the_reason(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    edge = edges()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with ScriptedOrigin(respond(WHOLE), tls=context) as origin:
        served = await edge.relay(origin.url)
        assert (await (await edge.connect(served)).ask("/")).head.status == 502
        text = (await line(caplog)).getMessage()
        assert f"TLS_FAILED: 127.0.0.1:{origin.port}: invalid peer certificate: UnknownIssuer" in text


async def test_an_origin_that_does_not_speak_tls_is_told_so(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture
) -> None:
    edge = edges()

    async def refuse(peer: Peer) -> None:
        await peer.send(answer("Content-Length: 0", status="400 Bad Request"))

    async with ScriptedOrigin(refuse) as origin:
        served = await edge.relay(origin.url.replace("http:", "https:"), timeouts=SHORT)
        assert (await (await edge.connect(served)).ask("/")).head.status == 502
        text = (await line(caplog)).getMessage()
        assert f"the origin did not speak TLS: should its URL be {origin.url}?" in text


@pytest.mark.parametrize("alert", [b"\x15\x03\x01\x00\x02\x02\x46", b"\x15\x03\x03\x00\x02\x02\x0a"])
async def test_an_origin_that_speaks_tls_alone_is_told_so(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture, alert: bytes
) -> None:
    edge = edges()
    async with ScriptedOrigin(says(alert)) as origin:
        served = await edge.relay(origin.url, timeouts=SHORT)
        assert (await (await edge.connect(served)).ask("/")).head.status == 502
        record = await line(caplog)
        assert (record.code, "speaks TLS" in record.getMessage()) == ("BAD_HEAD", True)  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["native", "relay"])
async def test_a_stock_server_hides_the_tokens_by_default(way: str) -> None:
    """In a process of its own: names are hidden for the whole of one."""
    async with ScriptedOrigin(says(b"GET /a?sig=s3cret\r\n\r\n", then="stall")) as origin:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", STOCK, origin.url, way),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 30)
    assert b"BAD_HEAD" in output, output
    assert b"sig=***" in output
    assert b"s3cret" not in output


async def test_a_flood_of_failures_has_a_line_in_each_interval_that_counts_the_others(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture
) -> None:
    edge = edges(log_interval=0.5)
    async with ScriptedOrigin(says(b"")) as origin:
        served = await edge.relay(origin.url)
        wakeups = edge.engine.stats().wakeups
        begin = time.monotonic()

        def counts() -> list[int]:
            return [record.left_out for record in lines(caplog)]  # type: ignore[attr-defined]

        for _ in range(50):
            assert (await (await edge.connect(served)).ask("/")).head.status == 502
        await until(lambda: sum(counts()) + len(counts()) == 50, "those in between are told of")
        left_out = counts()
        assert left_out[0] == 0
        assert len(left_out) >= 2
        # At most one in an interval, however long a busy machine takes for all of them.
        assert len(left_out) <= 2 + (time.monotonic() - begin) / 0.5
        assert "more since the line before" in lines(caplog)[-1].getMessage()
        # Python is woken for lines, and not for requests.
        assert edge.engine.stats().wakeups - wakeups <= len(left_out) + 2


async def test_without_an_interval_each_failure_has_its_line(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture
) -> None:
    edge = edges(log_interval=0)
    async with ScriptedOrigin(says(b"")) as origin:
        served = await edge.relay(origin.url)
        for _ in range(10):
            assert (await (await edge.connect(served)).ask("/")).head.status == 502
        await until(lambda: len(lines(caplog)) == 10, "each has its line")


async def test_a_fill_that_fails_without_a_waiter_is_logged(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture
) -> None:
    stale = answer("Content-Length: 2", "Cache-Control: max-age=0, stale-while-revalidate=60", body=b"ok")
    edge = edges(cache=Cache(memory="4MiB"))
    async with ScriptedOrigin(says(stale), says(b"", then="reset")) as origin:
        served = await edge.relay(origin.url, caching=Caching())
        client = await edge.connect(served)
        for _ in range(2):
            assert (await client.ask("/")).body == b"ok"
        record = await line(caplog)
        assert (record.code, record.origin) == ("ORIGIN_RESET", origin.url)  # type: ignore[attr-defined]
        assert edge.engine.cache is not None
        edge.engine.cache.clear()


async def test_checks_tell_when_an_origin_is_down_and_up_again(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    edge = edges()
    healthy = True

    async def script(peer: object) -> None:
        await peer.request()  # type: ignore[attr-defined]
        status = "200 OK" if healthy else "500 Internal Server Error"
        await peer.send(answer("Content-Length: 2", status=status, body=b"ok"))  # type: ignore[attr-defined]

    async with ScriptedOrigin(script) as origin:
        check = Check(path="/up", interval=0.05, fall=2, rise=2)
        origins = penstock.Origins([origin.url], check=check)
        served = await edge.serve([Gateway(origins, engine=edge.engine).native("/")])
        assert (await (await edge.connect(served)).ask("/")).body == b"ok"
        healthy = False
        await until(lambda: lines(caplog), "it is found to be down")
        healthy = True
        await until(lambda: len(lines(caplog)) >= 2, "it is found to be up again")
    down, up = [record.getMessage() for record in lines(caplog)][:2]
    assert (
        down
        == f"{origin.url}: ORIGIN_DOWN: it has failed 2 checks in a row, the last because it answered 500"
    )
    assert up == f"{origin.url}: ORIGIN_UP: it has passed 2 checks in a row"


async def test_a_topic_whose_origin_fails_is_told(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture
) -> None:
    engine = edges().engine
    events = answer("Content-Type: text/event-stream", "Transfer-Encoding: chunked")
    async with (
        ScriptedOrigin(says(events + b"9\r\ndata: x\n\n\r\n")) as origin,
        penstock.Hub(engine=engine) as hub,
    ):
        await hub.feed("chat", await engine.get(origin.url))
        record = await line(caplog)
        assert (record.code, record.origin) == ("BODY_TRUNCATED", origin.url)  # type: ignore[attr-defined]


async def test_a_request_of_the_library_is_told_by_its_error_alone(
    edges: Callable[..., Edges], caplog: pytest.LogCaptureFixture
) -> None:
    engine = edges().engine
    async with ScriptedOrigin(says(b"")) as origin:
        with pytest.raises(penstock.PenstockError):
            await engine.get(origin.url)
    assert not lines(caplog)
