"""What a worker process asks of an origin is a part of the trace of its client's request, which the parent sends."""

from pathlib import Path

import pytest

from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.collector import CLIENT, SERVER, Collector, Span
from support.command import serve

from .conftest import one, say, sole

APP = """
import os
from aiohttp import web
from penstock.web import Gateway

def app():
    gateway = Gateway(os.environ["ORIGIN"])
    app = web.Application()

    async def written(request):
        own = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}
        return await gateway.relay(request, headers=own)

    app.router.add_get("/written", written)
    app.router.add_get("/{path:.*}", gateway.relay)
    return app
"""


async def relayed(directory: Path, collector: Collector, target: str, *fields: str, spans: int) -> list[Span]:
    """The spans of a request that a worker has relayed."""
    (directory / "mine.py").write_text(APP)
    options = ("--workers", "1", "--traces", collector.url, "--traces-ratio", "1")
    async with serve("mine:app", *options, directory=directory) as running:
        client = await RawClient.connect(running.port)
        assert (await client.ask(target, *fields)).body == b"ok"
        client.abort()
        return await collector.count(spans)


async def test_a_relay_of_a_worker_is_a_part_of_the_clients_trace(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedOrigin(say()) as origin:
        monkeypatch.setenv("ORIGIN", origin.url)
        spans = await relayed(tmp_path, collector, "/film", "tracestate: a=1", spans=2)
        server, attempt = one(spans, SERVER), one(spans, CLIENT)
        assert (server.name, server.attributes["penstock.lane"]) == ("GET", "app")
        assert (attempt.trace, attempt.parent) == (server.trace, server.id)
        assert attempt.attributes["server.port"] == int(origin.url.rpartition(":")[2])
        asked = sole(origin)
        assert asked.get_all("traceparent") == [f"00-{attempt.trace}-{attempt.id}-03"]
        assert asked.get("tracestate") is None, "a stranger's, which means nothing in a trace of our own"


async def test_a_trace_that_a_worker_writes_itself_stands(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedOrigin(say()) as origin:
        monkeypatch.setenv("ORIGIN", origin.url)
        await relayed(tmp_path, collector, "/written", spans=1)
        own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
        assert sole(origin).get_all("traceparent") == [own]
