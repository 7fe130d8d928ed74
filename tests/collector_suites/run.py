"""Sends traces of `penstock serve` to an OpenTelemetry Collector, and reads what it has written: `make test-collector`.

The collector is assembled of its own project's parts: `collector/` names them, and the run builds it with Go
(`sudo apt-get install golang`), which takes minutes once.

python run.py            send, and check what has come
python run.py --build    build it, and print its path
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from penstock.testing import ScriptedOrigin, respond

TESTS: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from support.client import RawClient, answer  # noqa: E402
from support.command import serve  # noqa: E402
from support.otel_collector import built, check_relay, collecting  # noqa: E402


async def main(program: Path) -> None:
    """Run it once."""
    origin = respond(answer("Content-Length: 2", body=b"ok"))
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        async with ScriptedOrigin(origin) as server, collecting(program, Path(folder)) as collector:
            options = ("--traces", collector.url, "--traces-ratio", "1")
            async with serve("--origin", server.url, *options) as running:
                client = await RawClient.connect(running.port)
                await client.ask("/segment")
                client.abort()
                found = await collector.count(2)
    check_relay(found, "/segment")
    print(f"collector_suites: the collector has written {len(found)} spans, as the request was")


if __name__ == "__main__":
    try:
        path = built()
    except LookupError as error:
        sys.exit(f"collector_suites: {error}")
    if sys.argv[1:] == ["--build"]:
        print(path)
    else:
        asyncio.run(main(path))
