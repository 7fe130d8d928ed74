"""Sends traces of `penstock serve` to an OpenTelemetry Collector, and reads what it has written: `make test-collector`.

The collector is assembled of its own project's parts: `collector/` names them, and the run builds it with Go
(`sudo apt-get install golang`), which takes minutes once.
"""

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from penstock.testing import ScriptedOrigin, respond

TESTS: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = Path(__file__).resolve().parent / "collector"
sys.path.insert(0, str(TESTS))

from support.client import RawClient, answer  # noqa: E402
from support.command import free_port, serve  # noqa: E402

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
    """The program, which is built once for each state of its parts."""
    parts = b"".join((SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    folder = Path.home() / ".cache" / "penstock-suites"
    program = folder / f"collector-{hashlib.sha256(parts).hexdigest()[:12]}"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            sys.exit("collector_suites: there is no Go: sudo apt-get install golang")
        folder.mkdir(parents=True, exist_ok=True)
        print("collector_suites: builds the collector", flush=True)
        subprocess.run([go, "build", "-trimpath", "-o", program, "."], cwd=SOURCE, check=True)
    return program


def spans(file: Path) -> list[dict[str, Any]]:
    """What the collector has written: a line of JSON for each message that it got."""
    text = file.read_text() if file.exists() else ""
    # The last line may not be whole yet.
    messages = [json.loads(line) for line in text.split("\n")[:-1] if line]
    return [
        span | {"service": service(resource)}
        for message in messages
        for resource in message["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def attributes(of: dict[str, Any]) -> dict[str, str]:
    """Their values as text, whatever their types."""
    return {one["key"]: str(next(iter(one["value"].values()))) for one in of.get("attributes", [])}


def service(resource: dict[str, Any]) -> str:
    """Who has sent them."""
    return attributes(resource["resource"]).get("service.name", "")


async def listens(port: int, collector: asyncio.subprocess.Process) -> None:
    """Wait until the collector takes connections."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                if collector.returncode is not None:
                    sys.exit(
                        f"collector_suites: the collector ended with {collector.returncode}; it says why above"
                    )
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


async def traced(port: int, file: Path) -> list[dict[str, Any]]:
    """One request through `penstock serve`, and the spans that the collector got of it."""
    origin = respond(answer("Content-Length: 2", body=b"ok"))
    options = ("--traces", f"http://127.0.0.1:{port}/v1/traces", "--traces-ratio", "1")
    async with ScriptedOrigin(origin) as server, serve("--origin", server.url, *options) as running:
        client = await RawClient.connect(running.port)
        await client.ask("/segment")
        client.abort()
        async with asyncio.timeout(_PATIENCE):
            while len(found := spans(file)) < 2:
                await asyncio.sleep(0.1)
    return found


def check(found: list[dict[str, Any]]) -> None:
    """The request's span, and that of its attempt at the origin within it."""
    kinds = {span["kind"]: span for span in found}
    server, client = kinds[2], kinds[3]
    assert client["traceId"] == server["traceId"]
    assert client["parentSpanId"] == server["spanId"]
    assert server["service"] == client["service"] == "penstock"
    assert attributes(server)["url.path"] == "/segment"
    assert attributes(server)["http.response.status_code"] == "200"
    assert attributes(server)["penstock.lane"] == "native"
    for span in (server, client):
        assert int(span["startTimeUnixNano"]) < int(span["endTimeUnixNano"])


async def main() -> None:
    """Run it once."""
    program, port = built(), free_port()
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        folder = Path(name)
        (folder / "config.yaml").write_text(_CONFIG.format(port=port, file=folder / "spans.json"))
        collector = await asyncio.create_subprocess_exec(program, "--config", folder / "config.yaml")
        try:
            await listens(port, collector)
            found = await traced(port, folder / "spans.json")
        finally:
            if collector.returncode is None:
                collector.terminate()
            await collector.wait()
    check(found)
    print(f"collector_suites: the collector has written {len(found)} spans, as the request was")


if __name__ == "__main__":
    asyncio.run(main())
