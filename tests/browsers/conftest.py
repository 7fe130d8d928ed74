"""Browsers in front of a Site over TLS, and packages of npm that its pages import."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

import penstock
from penstock.config import TLS, Cache, Edge
from penstock.web import Site
from support.browser import Page, open_browser
from support.certificates import written
from support.firefox import open_firefox
from support.leaks import engine_under_test
from support.programs import missing, require

_PACKAGES = Path(__file__).parent / "node_modules"


@dataclass
class Front:
    """A Site that browsers connect to."""

    engine: penstock.Engine
    url: str


def page(text: str) -> web.RouteDef:
    """The route of a page, at `/`."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=text, content_type="text/html")

    return web.get("/", answer)


Serve = Callable[[web.Application, penstock.Engine], Awaitable[Front]]


@pytest.fixture
def engine_options() -> dict[str, Any]:
    """More options of the engine, which a file of tests may have."""
    return {}


@pytest.fixture
async def engine(
    request: pytest.FixtureRequest, engine_options: dict[str, Any]
) -> AsyncIterator[penstock.Engine]:
    cache = Cache(memory="32MiB")
    async with engine_under_test(request, memory="64MiB", cache=cache, **engine_options) as engine:
        yield engine


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Serve an application over TLS and HTTP/2 until the test ends."""

    async def serve(app: web.Application, engine: penstock.Engine) -> Front:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        tls = TLS(*written(trustme.CA(), tmp_path, "localhost"))
        site = Site(runner, "127.0.0.1", 0, engine=engine, edge=Edge(linger=0.2), ssl_context=tls)
        await site.start()
        return Front(engine, f"https://localhost:{site.port}")

    async with AsyncExitStack() as stack:
        yield serve


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Page]:
    """A tab of a Chromium that trusts every certificate."""
    program = require("chromium", package="chromium")
    async with open_browser(program, tmp_path / "profile", "--ignore-certificate-errors") as page:
        yield page


@pytest.fixture
async def firefox_tab(tmp_path: Path) -> AsyncIterator[Page]:
    """The same of a Firefox."""
    async with open_firefox(require("firefox-esr", package="firefox-esr"), tmp_path / "firefox") as page:
        yield page


@pytest.fixture(params=["tab", "firefox_tab"], ids=["chromium", "firefox"])
def any_tab(request: pytest.FixtureRequest) -> Page:
    """The same of each."""
    page: Page = request.getfixturevalue(request.param)
    return page


@pytest.fixture(scope="session")
def packages() -> Path:
    """The directory of the packages of `package.json`."""
    if not _PACKAGES.is_dir():
        missing("the packages that pages import are not there: run 'make browser-packages', which takes npm")
    return _PACKAGES


@pytest.fixture(scope="session")
def import_map(packages: Path) -> str:
    """The element of a page that tells where the packages are: below `/packages/`."""
    imports = {}
    for path in sorted(packages.glob("**/package.json")):
        package = json.loads(path.read_text())
        name = str(path.parent.relative_to(packages))
        exported = package.get("exports") or {".": {"import": package.get("module", "")}}
        for export, ways in exported.items():
            if isinstance(ways, dict) and isinstance(ways.get("import"), str):
                target = ways["import"].removeprefix("./")
                imports[name + export.removeprefix(".")] = f"/packages/{name}/{target}"
    return f'<script type="importmap">{json.dumps({"imports": imports})}</script>'
