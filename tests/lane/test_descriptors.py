"""A process that has no descriptor left: who is connected is served, who comes has to wait, and the log says so once."""

import asyncio
import re
import sys
from pathlib import Path

from support.client import RawClient
from support.command import Running

PROGRAM = """
import logging, os, resource, sys
from aiohttp import web
import penstock.web

SOFT, HARD = resource.getrlimit(resource.RLIMIT_NOFILE)

async def handler(request):
    if request.path == "/short":
        # Room for eight clients more than there are.
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, HARD))
    if request.path == "/enough":
        resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, HARD))
    return web.Response(text="ok")

app = web.Application()
app.router.add_get("/{path:.*}", handler)
logging.basicConfig(format="%(levelname)s %(message)s")
penstock.web.run_app(
    app, host="127.0.0.1", port=0, access_log=None, print=lambda text: print(text, file=sys.stderr)
)
"""
WAITS = re.compile(r"ERROR connections to 127\.0\.0\.1:\d+ have to wait: .*os error 24.* \(ACCEPT_FAILED\)")


async def test_connections_wait_for_descriptors(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, tmp_path / "program.py"), stderr=asyncio.subprocess.PIPE
    )
    running = Running(process)
    clients: list[RawClient] = []
    try:
        running.url = (await running.wait_for(re.compile(r"Running on (\S+)")))[1]
        established = await RawClient.connect(running.port)
        clients.append(established)
        assert (await established.ask("/short")).body == b"ok"
        # The kernel connects them all; not all are accepted.
        clients += [await RawClient.connect(running.port) for _ in range(32)]
        await running.wait_for(WAITS)
        for _ in range(100):
            assert (await established.ask()).body == b"ok"

        # One that leaves makes room for one that waits, who then makes none: it is short all the same, and said already.
        for client in clients[1:17]:
            client.abort()
        assert (await established.ask("/enough")).body == b"ok"
        for client in clients[17:]:
            assert (await client.ask()).body == b"ok"
        fresh = await RawClient.connect(running.port)
        clients.append(fresh)
        assert (await fresh.ask()).body == b"ok"
        process.terminate()
        assert await running.ended() == 0
    finally:
        for client in clients:
            client.abort()
        if process.returncode is None:
            process.kill()
            await running.ended()
    assert len(WAITS.findall(running.log())) == 1
