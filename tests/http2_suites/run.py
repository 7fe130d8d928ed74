"""Runs h2spec and httpwg against HTTP/2 towards clients: `make test-http2`.

They are not part of this repository: the run builds h2spec with Go (`sudo apt-get install golang`), and httpwg with
Cargo. They ask a native route, an application, and a route whose responses are in the cache. All cases of h2spec must
pass, as its authors count them, and all of httpwg but those of `EXCEPTIONS`.
"""

import asyncio
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trustme
from aiohttp import web

import penstock
from penstock.config import Cache, Caching
from penstock.web import TLS, Gateway, Site

HTTPWG: Final = "0.2.5"
VERSION: Final = "v2.2.1+incompatible"
# The longest a response may take, in seconds: some cases wait for one that must not come.
_PATIENCE: Final = "5"
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_PASSED: Final = re.compile(r"Passed (\d+)/(\d+) tests")
_FAILED: Final = re.compile(r"Test failed: (.*)")
_SUMMARY: Final = re.compile(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed")
# Less than a window: httpwg waits for ends of responses, and opens none.
BODY: Final = bytes(4096)

EXCEPTIONS: Final[dict[str, str]] = {}
"""Cases of httpwg that fail, and why that stays."""


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


def httpwg() -> str:
    """The program, built if it is not there."""
    cached = Path.home() / ".cache" / "penstock-suites"
    if not (cached / "bin" / "httpwg").exists():
        command = ["cargo", "install", "--locked", "--root", str(cached), f"httpwg-cli@{HTTPWG}"]
        subprocess.run(command, check=True)
    return str(cached / "bin" / "httpwg")


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def _plain(port: int) -> AsyncIterator[str]:
    """Where the server can be reached without TLS, which httpwg has not."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    tasks: set[asyncio.Task[None]] = set()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("localhost", port, ssl=context)
        for way in (_pass(reader, there[1]), _pass(there[0], writer)):
            tasks.add(task := asyncio.create_task(way))
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0, backlog=1024)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for task in tasks:
            task.cancel()


async def _run_httpwg(program: str, port: int) -> list[str]:
    """What fails, but for the exceptions."""
    async with _plain(port) as address:
        options = ["-a", address, "--connect-timeout", "5000", "--frame-timeout", "2000"]
        ended = await asyncio.create_subprocess_exec(
            program, *options, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output = _COLOUR.sub("", (await ended.communicate())[0].decode())
    passed = _PASSED.search(output)
    if passed is None:
        return [f"httpwg was not whole: {output[-500:]}"]
    print(f"  httpwg: {passed[0]}", flush=True)
    failed = [name.rpartition(" :: ")[2].strip() for name in _FAILED.findall(output)]
    return [f"httpwg: {name}" for name in failed if name not in EXCEPTIONS]


async def _answer(_request: web.Request) -> web.Response:
    return web.Response(body=BODY, headers={"Cache-Control": "max-age=3600"})


async def _run_h2spec(program: str, port: int) -> list[str]:
    """What fails, and nothing else."""
    options = ["-h", "localhost", "-p", str(port), "-t", "-k", "-o", _PATIENCE]
    ended = await asyncio.create_subprocess_exec(program, *options, stdout=asyncio.subprocess.PIPE)
    output = (await ended.communicate())[0].decode()
    summary = _SUMMARY.search(output)
    if summary is None:
        return [f"h2spec was not whole: {output[-500:]}"]
    total, passed, _, failed = map(int, summary.groups())
    print(f"  h2spec: {summary[0]}", flush=True)
    if total == passed and not failed:
        return []
    _, _, failures = output.partition("Failures:")
    return [line.strip() for line in failures.splitlines() if "×" in line] or [summary[0]]


async def main() -> int:
    program, other = h2spec(), httpwg()
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
            # httpwg always asks for this path.
            ways = {
                "native route": gateway.native("/"),
                "application": web.route("*", "/", _answer),
                "cache hit": gateway.native("/", caching=Caching()),
            }
            for name, route in ways.items():
                print(name, flush=True)
                app = web.Application()
                app.add_routes([route])
                front = web.AppRunner(app, access_log=None)
                await front.setup()
                site = Site(front, "127.0.0.1", 0, engine=engine, ssl_context=TLS(pair))
                await site.start()
                failures = [*await _run_h2spec(program, site.port), *await _run_httpwg(other, site.port)]
                wrong += [f"{name}: {failure}" for failure in failures]
                await front.cleanup()
    await runner.cleanup()
    for failure in wrong:
        print(failure)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
