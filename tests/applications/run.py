"""Runs one program on aiohttp's own server or on a Site, and prints as JSON what it has answered.

`python -m applications.run NAME aiohttp`, or `site`, by an interpreter that has the
distributions of the dependency group `applications`.
"""

import asyncio
import inspect
import json
import re
import sys
from typing import Any

import aiohttp
from aiohttp import web

import penstock
from penstock.web import Site

from . import demos, extensions, protocols, services  # noqa: F401 (their programs)
from .steps import PROGRAMS, Program


async def transcript(program: Program, site: type[web.BaseSite], **options: Any) -> list[dict[str, Any]]:
    """What the program answers on `site`."""
    app = program.make()
    if inspect.isawaitable(app):
        app = await app
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        served = site(runner, "127.0.0.1", 0, **options)  # type: ignore[call-arg]
        await served.start()
        port = runner.addresses[0][1]
        # One connection, as a browser keeps it: what one answer leaves on it the next one meets.
        connector = aiohttp.TCPConnector(limit=1)
        jar = aiohttp.CookieJar(unsafe=True)
        base = f"http://127.0.0.1:{port}"
        timeout = aiohttp.ClientTimeout(total=15)
        async with aiohttp.ClientSession(
            base, connector=connector, cookie_jar=jar, timeout=timeout
        ) as client:
            said = [await ask.carry_out(client, varies=program.varies) for ask in program.asks]
    finally:
        await runner.cleanup()
    if program.expects is not None:
        assert any(re.search(program.expects, str(one.get("body"))) for one in said), said
    return json.loads(json.dumps(said).replace(f":{port}", ":PORT"))


async def main(name: str, server: str) -> None:
    """Run it."""
    if server == "aiohttp":
        said = await transcript(PROGRAMS[name], web.TCPSite)
    else:
        async with penstock.Engine(memory="16MiB") as engine:
            said = await transcript(PROGRAMS[name], Site, engine=engine)
            assert engine.stats().pool.live_bytes == 0
    print(json.dumps(said))  # noqa: T201 (the test reads it)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
