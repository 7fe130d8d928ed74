"""The demo: an embedded origin, the gateway in front of it, and a page that shows both at work.

`run` is what `penstock demo` calls. The application here is what a user of penstock would write: its routes
are `Gateway.relay`, beside a page and a handler of its own.
"""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web
from yarl import URL

from penstock import Engine, _native
from penstock.web import TLS, Gateway, Site

from .completion import ANSWERS
from .figures import figures
from .latency import LatencyProbe
from .origin import make_origin

STATIC = Path(__file__).with_name("static")

_ENGINE = web.AppKey("engine", Engine)
_PROBE = web.AppKey("probe", LatencyProbe)

# Live video runs for ever and an answer for a quarter of a minute; who presses Ctrl-C in a demo waits for
# neither.
_SHUTDOWN_SECONDS = 1.0

# blob: is how Media Source Extensions hand a stream to the video element; all else comes from this very
# server.
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; media-src 'self' blob:",
    "Cache-Control": "no-cache",
}


def make_app(gateway: Gateway, engine: Engine, probe: LatencyProbe) -> web.Application:
    """The gateway's application: `/live` and `/v1` are relayed, the page and its figures are its own."""
    app = web.Application()
    app[_ENGINE] = engine
    app[_PROBE] = probe
    app.router.add_get("/live/{path:.*}", gateway.relay)
    app.router.add_get("/v1/{path:.*}", gateway.relay)
    app.router.add_post("/v1/{path:.*}", gateway.relay)
    app.router.add_get("/probe", gateway.relay)
    app.router.add_get("/", _page)
    app.router.add_get("/demo/figures", _figures)
    app.router.add_get("/demo/questions", _questions)
    app.router.add_static("/static/", STATIC)
    return app


async def run(host: str, port: int, *, tls: bool = False) -> None:
    """Serve the demo until SIGINT or SIGTERM, and print where to look.

    Args:
        host: where the page is served; empty for all interfaces of IPv4.
        port: 0 takes a free one.
        tls: whether browsers reach it by https, with a certificate that is made for this run.

    Raises:
        OSError: the address cannot be listened on.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop.set)
    try:
        async with AsyncExitStack() as stack:
            origin = await stack.enter_async_context(_serving(make_origin(), "127.0.0.1", 0))
            engine = await stack.enter_async_context(Engine(memory="64MiB"))
            probe = LatencyProbe()
            app = make_app(Gateway(str(origin), engine=engine), engine, probe)
            host = host or "0.0.0.0"
            cert = None
            if tls:
                cert, key = _certificate(stack, host)
                server = _secured(app, host, port, engine, TLS(cert, key))
            else:
                server = _serving(app, host, port)
            url = await stack.enter_async_context(server)
            through = str(_reachable(url) / "probe")
            await stack.enter_async_context(_running(probe, str(origin / "probe"), through, cert))
            print(_welcome(url, origin, cert), flush=True)  # noqa: T201 (the user who started it reads this)
            await stop.wait()
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)


@asynccontextmanager
async def _serving(app: web.Application, host: str, port: int) -> AsyncIterator[URL]:
    """Serve `app` for the length of the block; yields the URL with the port that was bound."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield URL.build(scheme="http", host=host, port=runner.addresses[0][1], path="/")
    finally:
        await runner.cleanup()


def _certificate(stack: AsyncExitStack, host: str) -> tuple[Path, Path]:
    """A certificate for this machine and its key, as files that `stack` removes."""
    directory = Path(stack.enter_context(TemporaryDirectory(prefix="penstock-demo-")))
    own = {"localhost": None, "127.0.0.1": None, "::1": None, socket.gethostname(): None, host: None}
    wildcards = ("0.0.0.0", "::")
    certificate, key = _native.self_signed([name for name in own if name not in wildcards])
    cert_file, key_file = directory / "cert.pem", directory / "key.pem"
    cert_file.write_text(certificate)
    # The directory is for its owner alone.
    key_file.write_text(key)
    return cert_file, key_file


@asynccontextmanager
async def _secured(
    app: web.Application, host: str, port: int, engine: Engine, tls: TLS
) -> AsyncIterator[URL]:
    """As `_serving`, on a socket of the engine's, which speaks TLS."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = Site(runner, host, port, engine=engine, ssl_context=tls)
        await site.start()
        yield URL.build(scheme="https", host=host, port=site.port, path="/")
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _running(probe: LatencyProbe, direct: str, through: str, cert: Path | None) -> AsyncIterator[None]:
    task = asyncio.create_task(probe.run(direct, through, cert))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _reachable(url: URL) -> URL:
    """Where this process reaches what listens on `url`: a wildcard address is no address to connect to."""
    return url.with_host({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(url.host or "", url.host or ""))


def _welcome(url: URL, origin: URL, cert: Path | None) -> str:
    trust, made = "", []
    if cert is not None:
        trust = f"--cacert {cert} "
        made = [f"  trust    {cert}  (made for this run; a browser that does not trust it warns)"]
    return "\n".join(
        (
            "penstock demo: live video and a token stream, through the gateway",
            "",
            f"  open     {url}",
            f"  video    ffplay {url / 'live/stream.m3u8'}  (or any other HLS player)",
            f"  tokens   curl -N {trust}{url / 'v1/chat/completions'}",
            f"  figures  {url / 'demo/figures'}",
            f"  origin   {origin}  (embedded; everything above is fetched from it)",
            *made,
            "",
            "Ctrl-C ends it.",
        )
    )


async def _page(_request: web.Request) -> web.FileResponse:
    return web.FileResponse(STATIC / "index.html", headers=_PAGE_HEADERS)


async def _figures(request: web.Request) -> web.Response:
    answer = figures(request.app[_ENGINE].stats(), request.app[_PROBE].latest())
    return web.json_response(answer, headers={"Cache-Control": "no-store"})


async def _questions(_request: web.Request) -> web.Response:
    return web.json_response(list(ANSWERS))
