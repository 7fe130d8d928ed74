"""`run_app` in a process of its own: what signals do to it and to whom it serves."""

import asyncio
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, answer
from support.command import Running, refused
from support.origins import says
from support.waiting import until

BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])

PROGRAM = """
import asyncio, logging, signal, sys
from aiohttp import web
import penstock.web

async def slow(request):
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half")
    try:
        await request.app["go on"].wait()
    except asyncio.CancelledError:
        print("cancelled", file=sys.stderr)
        raise
    await response.write(b"whole")
    return response

async def echo(request):
    return web.Response(text=await request.text())

async def quick(request):
    return web.Response(text="ok")

async def ended(app):
    print("cleaned up", file=sys.stderr)

async def starts(app):
    app["go on"] = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, app["go on"].set)

def make():
    app = web.Application()
    app.on_startup.append(starts)
    app.router.add_get("/slow", slow)
    app.router.add_get("/quick", quick)
    app.router.add_post("/echo", echo)
    app.router.add_get("/relay", penstock.web.Gateway({origin!r}).relay)
    app.on_cleanup.append(ended)
    return app

logging.basicConfig(format="%(name)s %(levelname)s %(message)s")
penstock.web.run_app(
    make(), host="127.0.0.1", port=0, shutdown_timeout={timeout}, access_log=None,
    print=lambda text: print(text, file=sys.stderr),
)
print("returned", file=sys.stderr)
"""

ENDS = ["cancelled", "cleaned up", "returned"]


@asynccontextmanager
async def run_app(
    directory: Path, *, origin: str = "http://127.0.0.1:1", timeout: float = 10
) -> AsyncIterator[Running]:
    """The program, until the block ends."""
    path = directory / "program.py"
    path.write_text(PROGRAM.replace("{origin!r}", repr(origin)).replace("{timeout}", str(timeout)))
    process = await asyncio.create_subprocess_exec(sys.executable, path, stderr=asyncio.subprocess.PIPE)
    running = Running(process)
    try:
        running.url = (await running.wait_for(re.compile(r"Running on (\S+)")))[1]
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await running.ended()


async def begun(running: Running) -> RawClient:
    """A client that has the first half of its response."""
    client = await RawClient.connect(running.port)
    await client.get("/slow")
    assert (await client.head()).status == 200
    assert await client.chunk() == b"half"
    return client


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        # The listener was closed while this one stood in its queue.
        return False
    return False


@BOTH
async def test_a_signal_lets_requests_finish(tmp_path: Path, number: signal.Signals) -> None:
    async with run_app(tmp_path) as running:
        idle, busy = await RawClient.connect(running.port), await begun(running)
        assert (await idle.ask("/quick")).body == b"ok"
        running.process.send_signal(number)
        assert await idle.rest() == b"", "one that waits for nothing is let go"
        await refused(running)
        running.process.send_signal(signal.SIGUSR1)
        assert [await busy.chunk(), await busy.chunk()] == [b"whole", b""]
        assert await busy.rest() == b""
        assert await running.ended() == 0
        for client in (idle, busy):
            client.abort()
    assert [line for line in running.lines if line in ENDS] == ["cleaned up", "returned"]
    assert "Traceback" not in running.log()


@BOTH
async def test_a_signal_lets_requests_come_to_their_end(tmp_path: Path, number: signal.Signals) -> None:
    """aiohttp takes nothing from a client any more once it stops."""
    async with run_app(tmp_path) as running:
        busy = await begun(running)
        client = await RawClient.connect(running.port)
        await client.get("/echo", "Content-Length: 9", "Expect: 100-continue", method="POST")
        assert (await client.head()).status == 100, "its handler has begun"
        await client.send(b"one")
        running.process.send_signal(number)
        await refused(running)
        await client.send(b"twothree"[:6])
        head = await client.head()
        assert (head.status, await client.body(head)) == (200, b"onetwothr")
        running.process.send_signal(signal.SIGUSR1)
        assert [await busy.chunk(), await busy.chunk()] == [b"whole", b""]
        assert await running.ended() == 0
        for each in (client, busy):
            each.abort()


@BOTH
async def test_what_has_not_finished_by_the_deadline_is_cut_off(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with run_app(tmp_path, timeout=0.2) as running:
        busy = await begun(running)
        running.process.send_signal(number)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await busy.chunk()
        assert await running.ended() == 0
        busy.abort()
    assert [line for line in running.lines if line in ENDS] == ENDS
    assert "Traceback" not in running.log()


@BOTH
async def test_events_end_whole_at_the_deadline(tmp_path: Path, number: signal.Signals) -> None:
    events = answer("Content-Type: text/event-stream", "Transfer-Encoding: chunked")
    events += b"d\r\ndata: whole\n\n\r\n" + b"9\r\ndata: hal\r\n"
    async with (
        ScriptedOrigin(says(events, then="stall")) as origin,
        run_app(tmp_path, origin=origin.url, timeout=0.2) as running,
    ):
        client = await RawClient.connect(running.port)
        await client.get("/relay")
        assert (await client.head()).status == 200
        assert await client.chunk() == b"data: whole\n\n"
        running.process.send_signal(number)
        assert re.fullmatch(rb"retry: \d+\n\n", await client.chunk()), "when to come back"
        assert await client.chunk() == b"", "it ends well, behind a whole event"
        assert await client.rest() == b""
        assert await running.ended() == 0
        client.abort()
    assert "Traceback" not in running.log()


@BOTH
async def test_a_second_signal_does_not_wait(tmp_path: Path, number: signal.Signals) -> None:
    """What was cut off is not taken for whole, also where the end of the connection would be the end of the body."""

    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(body=b"half"))
        await peer.stall()

    async with (
        ScriptedOrigin(endless) as origin,
        run_app(tmp_path, origin=origin.url, timeout=60) as running,
    ):
        busy, relayed = await begun(running), await RawClient.connect(running.port)
        await relayed.get("/relay", version="1.0")
        await relayed.reader.readuntil(b"half")
        running.process.send_signal(number)
        await until(lambda: refuses(running.port), "it has begun to stop")
        running.process.send_signal(number)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await busy.chunk()
        with pytest.raises(ConnectionResetError):
            await relayed.rest()
        assert await running.ended() == 1
        for client in (busy, relayed):
            client.abort()
    # Nothing but that is promised of the log: aiohttp's own handlers do not like to be cancelled twice.
    assert "cleaned up" not in running.lines
