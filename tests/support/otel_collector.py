"""OpenTelemetry's own collector, which tests/collector_suites/collector has the parts of, as a process."""

import asyncio
import hashlib
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from .command import free_port

SOURCE: Final = Path(__file__).resolve().parents[1] / "collector_suites" / "collector"
# Seconds for the collector to start, and for spans to be written. Arbitrary; far above what a busy machine needs.
_PATIENCE: Final = 60.0
_CONFIG: Final = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{file: {{path: {file}, flush_interval: 100ms}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [file]}}}}
"""


def built() -> Path:
    """The program, which Go builds once for each state of its parts: minutes.

    Raises:
        LookupError: There is no Go.
    """
    parts = b"".join((SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    folder = Path.home() / ".cache" / "penstock-suites"
    program = folder / f"collector-{hashlib.sha256(parts).hexdigest()[:12]}"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            raise LookupError("there is no Go, which builds the collector: sudo apt-get install golang")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([go, "build", "-trimpath", "-o", program, "."], cwd=SOURCE, check=True)
    return program


class OtelCollector:
    """One that runs. `url` is where it takes traces."""

    def __init__(self, url: str, file: Path) -> None:
        self.url = url
        self._file = file

    def spans(self) -> list[dict[str, Any]]:
        """What it has written: a line of JSON for each message that it got."""
        text = self._file.read_text() if self._file.exists() else ""
        # The last line may not be whole yet.
        messages = [json.loads(line) for line in text.split("\n")[:-1] if line]
        return [
            span | {"service": attributes(resource["resource"]).get("service.name", "")}
            for message in messages
            for resource in message["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    async def count(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many spans."""
        async with asyncio.timeout(_PATIENCE):
            while len(found := self.spans()) < count:
                await asyncio.sleep(0.1)
        return found


def attributes(of: dict[str, Any]) -> dict[str, str]:
    """Their values as text, whatever their types."""
    return {one["key"]: str(next(iter(one["value"].values()))) for one in of.get("attributes", [])}


def check_relay(found: list[dict[str, Any]], path: str) -> None:
    """Whether these are the span of a request for `path`, and that of its attempt at the origin within it."""
    assert len(found) == 2
    kinds = {span["kind"]: span for span in found}
    server, client = kinds[2], kinds[3]
    assert client["traceId"] == server["traceId"]
    assert client["parentSpanId"] == server["spanId"]
    assert server["service"] == client["service"] == "penstock"
    assert attributes(server)["url.path"] == path
    assert attributes(server)["http.response.status_code"] == "200"
    assert attributes(server)["penstock.lane"] == "native"
    for span in (server, client):
        assert int(span["startTimeUnixNano"]) < int(span["endTimeUnixNano"])


@asynccontextmanager
async def collecting(program: Path, folder: Path) -> AsyncIterator[OtelCollector]:
    """The collector, until the block ends; it has its files in `folder`."""
    port, file = free_port(), folder / "spans.json"
    (folder / "config.yaml").write_text(_CONFIG.format(port=port, file=file))
    process = await asyncio.create_subprocess_exec(program, "--config", folder / "config.yaml")
    try:
        await _listens(port, process)
        yield OtelCollector(f"http://127.0.0.1:{port}/v1/traces", file)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _listens(port: int, process: asyncio.subprocess.Process) -> None:
    """Wait until the collector takes connections."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                assert process.returncode is None, "the collector has ended; it says why above"
                await asyncio.sleep(0.1)
            else:
                writer.close()
                await writer.wait_closed()
                return
