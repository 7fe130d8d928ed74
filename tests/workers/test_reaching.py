"""A worker that is there, and cannot take what is for it at once."""

import asyncio
import socket
from pathlib import Path

from aiohttp import web

import penstock
from support.client import RawClient
from support.waiting import until
from support.worker_ends import EdgeEnd, Worker


async def hello(_request: web.Request) -> web.Response:
    return web.Response(text="hello")


async def test_one_that_has_not_accepted_what_waits_is_not_given_up(
    engine: penstock.Engine, tmp_path: Path
) -> None:
    app = web.Application()
    app.router.add_get("/", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    path = str(tmp_path / "worker")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    # The edge's own connection is as many as may wait.
    listener.listen(0)
    edge = EdgeEnd(engine)
    await edge.workers.add(1, 0, path)
    clients = [await RawClient.connect(edge.port) for _ in range(3)]
    asked = [asyncio.create_task(client.ask()) for client in clients]
    await until(lambda: edge.workers.busy(1) == 3, "all are for it")
    worker = Worker(runner, engine, listener)
    assert [(await each).body for each in asked] == [b"hello"] * 3
    for client in clients:
        client.abort()
    await edge.close()
    await runner.cleanup()
    worker.directory.cleanup()
