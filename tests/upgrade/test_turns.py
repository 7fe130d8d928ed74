"""Connections leave for the next process in turns; the ones that wait for theirs are served."""

import subprocess
import sys

import pytest

CONNECTIONS = 100
AT_ONCE = 64
"""Connections that leave at the same time."""

# Of its own: a process that has begun to give connections away does so for good.
PROGRAM = f"""
import asyncio, socket
from aiohttp import web
from penstock import _native
from penstock.web import Site

async def answer(_):
    return web.Response(text="here")

async def ask(reader, writer):
    writer.write(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    head = await reader.readuntil(b"\\r\\n\\r\\n")
    assert b"connection: close" not in head.lower(), head
    assert await reader.readexactly(4) == b"here"

async def main():
    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, shutdown_timeout=30)
    await runner.setup()
    site = Site(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    clients = [await asyncio.open_connection(host, port) for _ in range({CONNECTIONS})]
    for client in clients:
        await ask(*client)
    _native.give_clients_away()
    stopping = asyncio.create_task(ENDING)
    # Nothing takes the ones that leave.
    asked = [asyncio.create_task(ask(*client)) for client in clients]
    for _, task in zip(range({CONNECTIONS - AT_ONCE}), asyncio.as_completed(asked)):
        await task
    given = []
    while len(given) < {CONNECTIONS}:
        given += await asyncio.to_thread(_native.clients_given_away, {AT_ONCE}, 1.0)
    await stopping
    await runner.cleanup()
    for each in given:
        socket.close(each)
    for done in await asyncio.gather(*asked, return_exceptions=True):
        assert done is None or isinstance(done, (asyncio.IncompleteReadError, ConnectionResetError)), done

asyncio.run(asyncio.wait_for(main(), 30))
"""


@pytest.mark.parametrize("ending", ["site.stop()", "runner.cleanup()"])
def test_a_connection_that_waits_for_its_turn_is_served(ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("ENDING", ending)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
