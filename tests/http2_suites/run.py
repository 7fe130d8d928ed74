"""Runs h2spec against HTTP/2 towards clients: `make test-http2`.

h2spec is not part of this repository: the run builds it with Go (`sudo apt-get install golang`). It asks a native
route, an application, and a route whose responses are in the cache. All cases must pass, as its authors count them.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import trustme
from aiohttp import web

import penstock
from penstock.config import Cache, Caching
from penstock.web import TLS, Gateway, Site

VERSION: Final = "v2.2.1+incompatible"
WAYS: Final = {"native route": "/native/", "application": "/application", "cache hit": "/cached/"}
# The longest a response may take, in seconds: some cases wait for one that must not come.
_PATIENCE: Final = "5"
_SUMMARY: Final = re.compile(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed")
BODY: Final = bytes(64 * 1024)


def h2spec() -> str:
    """The program, built if it is not there."""
    cached = Path.home() / ".cache" / "penstock-suites"
    program = cached / "h2spec"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            sys.exit("http2_suites: there is no Go: sudo apt-get install golang")
        source = f"github.com/summerwind/h2spec/cmd/h2spec@{VERSION}"
        subprocess.run([go, "install", source], check=True, env={**os.environ, "GOBIN": str(cached)})
    return str(program)


async def _answer(_request: web.Request) -> web.Response:
    return web.Response(body=BODY, headers={"Cache-Control": "max-age=3600"})


async def _run(program: str, port: int, path: str) -> list[str]:
    """What fails, and nothing else."""
    options = ["-h", "localhost", "-p", str(port), "-t", "-k", "-P", path, "-o", _PATIENCE]
    ended = await asyncio.create_subprocess_exec(program, *options, stdout=asyncio.subprocess.PIPE)
    output = (await ended.communicate())[0].decode()
    summary = _SUMMARY.search(output)
    if summary is None:
        return [f"h2spec was not whole: {output[-500:]}"]
    total, passed, _, failed = map(int, summary.groups())
    print(f"{path}: {summary[0]}", flush=True)
    if total == passed and not failed:
        return []
    _, _, failures = output.partition("Failures:")
    return [line.strip() for line in failures.splitlines() if "×" in line] or [summary[0]]


async def main() -> int:
    program = h2spec()
    origin = web.Application()
    origin.router.add_route("*", "/{path:.*}", _answer)
    runner = web.AppRunner(origin, access_log=None)
    await runner.setup()
    behind = web.TCPSite(runner, "127.0.0.1", 0)
    await behind.start()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as root:
        leaf = trustme.CA().issue_cert("localhost")
        pair = Path(root) / "pair.pem"
        leaf.private_key_and_cert_chain_pem.write_to_path(str(pair))
        async with penstock.Engine(memory="64MiB", cache=Cache(memory="16MiB")) as engine:
            gateway = Gateway(f"http://127.0.0.1:{runner.addresses[0][1]}", engine=engine)
            app = web.Application()
            app.add_routes([gateway.native("/native/"), gateway.native("/cached/", caching=Caching())])
            app.router.add_route("*", "/application", _answer)
            front = web.AppRunner(app, access_log=None)
            await front.setup()
            site = Site(front, "127.0.0.1", 0, engine=engine, ssl_context=TLS(pair))
            await site.start()
            for name, path in WAYS.items():
                wrong += [f"{name}: {failure}" for failure in await _run(program, site.port, path)]
            await front.cleanup()
    await runner.cleanup()
    for failure in wrong:
        print(failure)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
