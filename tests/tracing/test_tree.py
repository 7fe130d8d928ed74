"""Two penstocks and an application that OpenTelemetry's own instrumentation traces: the spans of all make one tree."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.collector import CLIENT, SERVER, Collector, Span
from support.command import serve
from support.waiting import in_time

from .conftest import say, sole

_ROOT: Final = Path(__file__).parent.parent.parent
_PYTHON: Final = _ROOT / ".venv-applications" / "bin" / "python"
OURS: Final = "penstock"


@asynccontextmanager
async def instrumented(collector: Collector, origin: str) -> AsyncIterator[int]:
    """The port of the application, which relays to `origin`."""
    if not _PYTHON.exists() and not os.environ.get("CI"):
        pytest.skip("make test-applications installs what it needs")
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    program = Path(__file__).parent / "instrumented.py"
    process = await asyncio.create_subprocess_exec(
        *(str(_PYTHON), "-W", "ignore", str(program), collector.url, origin),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        while True:
            line = await in_time(process.stdout.readline(), "the application listens")
            assert line, "the application has ended"
            if found := re.search(rb"http://127.0.0.1:(\d+)", line):
                break
        yield int(found[1])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_all_spans_make_one_tree(collector: Collector) -> None:
    options = ("--traces", collector.url, "--traces-ratio", "0", "--trust-trace-context")
    async with (
        ScriptedOrigin(say()) as origin,
        serve("--origin", origin.url, *options) as behind,
        instrumented(collector, behind.url) as port,
    ):
        client = await RawClient.connect(port)
        await client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        assert await client.body(await client.head()) == b"ok"
        client.abort()
        spans = await collector.wait(lambda spans: len(spans) >= 5, "two penstocks and an application")
        asked = sole(origin)

        def child(parent: str, kind: int, scope: str) -> Span:
            (found,) = [
                span
                for span in spans
                if span.parent == parent and span.kind == kind and (span.scope == OURS) == (scope == OURS)
            ]
            return found

        assert len({span.trace for span in spans}) == 1
        first = child("", SERVER, OURS)
        assert child(first.id, SERVER, "the SDK's").scope.endswith("aiohttp_server")
        attempt = child(first.id, CLIENT, OURS)
        second = child(attempt.id, SERVER, OURS)
        last = child(second.id, CLIENT, OURS)
        assert asked.get("traceparent") == f"00-{last.trace}-{last.id}-03"
