"""The `penstock` command.

Reads arguments, sets up logging and the event loop, and calls `penstock.web.server` or `penstock.demo`. Wrong
arguments are reported in one line with exit status 2; a failure at the start has exit status 1. Every default comes
from `penstock.config`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from aiohttp import web
from click.core import ParameterSource

from . import __version__, config
from .cache_command import cache, control_path
from .cli_options import (
    TIMEOUTS,
    address,
    address_for_browsers,
    errors_of_options,
    failure,
    listen_option,
    seconds,
    timeout_options,
)
from .engine import Engine
from .exceptions import PenstockError
from .origins import Origins
from .web import Gateway, settle_failures
from .web.app_import import FailedError, NotFoundError, load, parts_of
from .web.control import controlling
from .web.server import serve as serve_app
from .web.startup import log_to_stderr, loop_factory
from .workers.server import serve as serve_in_workers

__all__ = ["main"]

_LIMITS: Final = config.OriginLimits()
_WORKERS: Final = config.Workers(count=1)
_MEMORY: Final = next(field.default for field in fields(config.Pool) if field.name == "memory")
_WORKER_MEMORY: Final = next(field.default for field in fields(config.Workers) if field.name == "memory")
# Options of the command's own engine: with MODULE:APP alone they would have no effect.
_ENGINE_OPTIONS: Final = frozenset(
    ("memory", "threads", "connections", "ca", "cache", "cache_disk", "cache_disk_size", "control")
)
# An application makes its own gateways.
_GATEWAY_OPTIONS: Final = frozenset(
    (
        *("forwarded", "trust_forwarded", "preserve_host", "lane", "cache_stale"),
        *(f"{name}_timeout" for name in TIMEOUTS),
    )
)
_WORKER_OPTIONS: Final = frozenset(("worker_memory", "worker_start_timeout", "worker_hang"))


_uvloop_option: Final = click.option(
    "--uvloop/--no-uvloop",
    default=None,
    help="Use uvloop, or asyncio's own loop.  [default: uvloop if installed]",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="penstock")
def main() -> None:
    """An async media gateway: policy in Python, bytes in Rust."""


main.add_command(cache)


@main.command()
@click.argument("app", metavar="[MODULE:APP]", required=False)
@click.option(
    "--origin",
    metavar="URL",
    multiple=True,
    help="Relay every request to this origin, such as http://10.0.0.5:8080. With several origins: to each in turn, and "
    "to another one if one fails. The origin gets its own Host, unless --preserve-host is given, and a Location that "
    "names it becomes a path of this server.",
)
@listen_option(
    address,
    "Where to serve: HOST:PORT, a PORT or :PORT for all interfaces, or unix:PATH. Port 0 takes a free one.",
)
@click.option(
    "--drain",
    type=click.FloatRange(0, 86400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for requests to finish after SIGTERM or SIGINT.",
)
@click.option(
    "--status-listen",
    metavar="ADDRESS",
    help="Where to serve the status pages /penstock/health, /penstock/ready and /penstock/metrics, in the forms of "
    "--listen. By default nowhere; every client that can connect can read them.",
)
@click.option(
    "--memory",
    default=_MEMORY,
    show_default=True,
    metavar="SIZE",
    help="Memory budget of the pool, for payload bytes.",
)
@click.option(
    "--cache",
    metavar="SIZE",
    help="Memory for cached responses, at most half of --memory. By default nothing is cached.",
)
@click.option(
    "--cache-disk",
    metavar="DIR",
    help="Directory for responses that leave the cache's memory. One process at a time may use it.",
)
@click.option("--cache-disk-size", metavar="SIZE", help="Bytes that the files in --cache-disk may take.")
@click.option(
    "--cache-stale",
    type=click.FloatRange(0, 1e9),
    default=config.Caching().stale_if_error,
    show_default=True,
    metavar="SECONDS",
    help="How long a stale response is used if the origin cannot be reached or answers 500, 502, 503 or 504, unless the "
    "origin says otherwise; with --cache. 0: not at all.",
)
@click.option(
    "--control",
    type=control_path,
    metavar="unix:PATH",
    help="A socket for `penstock cache`, created for its owner alone; with --cache. By default there is no socket.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 256),
    help="Engine threads. By default one less than the usable cores, at least one.",
)
@click.option(
    "--connections",
    type=click.IntRange(1),
    default=_LIMITS.connections,
    show_default=True,
    help="Connections to the origin at a time, for each engine thread.",
)
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    metavar="FILE",
    help="Certificates, in PEM, of the only authorities that https origins are verified by. By default the system's.",
)
@click.option(
    "--client-connections",
    type=click.IntRange(1),
    metavar="N",
    help="Connections of one client address at a time; an IPv6 network of 64 bits is one address. Not for use "
    "behind a proxy. By default any number.",
)
@click.option(
    "--client-requests",
    type=click.IntRange(1),
    metavar="N",
    help="Requests of one client address at a time. By default any number.",
)
@timeout_options
@click.option("--forwarded", is_flag=True, help="Send Forwarded (RFC 7239) instead of X-Forwarded-*.")
@click.option(
    "--trust-forwarded",
    is_flag=True,
    help="Keep the clients' forwarding fields: only behind a proxy of your own.",
)
@click.option("--preserve-host", is_flag=True, help="Send the client's Host to the origin.")
@click.option(
    "--lane",
    type=click.Choice(("native", "app")),
    default="native",
    show_default=True,
    help="What relays to the origin: the engine alone, or an aiohttp application, for comparison.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Run the application in N worker processes, which SIGHUP replaces with newer code. By default it runs in this "
    "process.",
)
@click.option(
    "--worker-memory",
    default=_WORKER_MEMORY,
    show_default=True,
    metavar="SIZE",
    help="Memory budget of each worker, for bodies that pass through the application.",
)
@click.option(
    "--worker-start-timeout",
    type=click.FloatRange(0.1, 86400),
    default=_WORKERS.start_timeout,
    show_default=True,
    metavar="SECONDS",
    help="Time for a worker to import the application and be ready.",
)
@click.option(
    "--worker-hang",
    type=seconds,
    default=f"{_WORKERS.hang:g}",
    show_default=True,
    metavar="SECONDS",
    help="Kill a worker whose event loop is blocked for so long. 'none': never.",
)
@_uvloop_option
@click.option(
    "--access-log/--no-access-log", default=True, show_default=True, help="Log one line for each request."
)
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error"), case_sensitive=False),
    default="info",
    show_default=True,
    help="The lowest level that is logged, to stderr.",
)
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    app: str | None,
    origin: tuple[str, ...],
    listen: tuple[str, int] | str,
    uvloop: bool | None,
    log_level: str,
    **options: Any,
) -> None:
    """Serve a gateway to one origin, or an aiohttp application.

    \b
      penstock serve --origin http://10.0.0.5:8080 --listen 0.0.0.0:80
      penstock serve package.module:app

    APP is an aiohttp.web.Application, or a function or coroutine function that returns one; it is imported from
    the current directory too. A function may be called with literals, as in 'media:make(debug=True)'; one with a
    single parameter gets an empty list, as from python -m aiohttp.web. The application configures its own
    gateways, timeouts and memory. With --workers this process has the cache and the memory of relayed bodies, and
    the application configures the rest.

    The first SIGTERM or SIGINT stops accepting and lets requests finish for the time of --drain; then the
    remaining ones are aborted, in a way that no client takes for a whole response. A second signal ends the
    process at once. With --workers SIGHUP imports the application again, in new workers.

    \b
    Exit status: 0 after a signal, 1 if serving could not begin, 2 for wrong arguments.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    _check_options(ctx, app, origin, options)
    log_to_stderr(log_level)
    front = _front(listen, options)
    if app is not None and options["workers"] is not None:
        work = _in_workers(app, front, log_level, uvloop, options)
    else:
        make = _application(app) if app is not None else _gateway(origin, options)
        work = _in_this_process(make, front, options["drain"])
    pages = None if front.status is None else front.status.place()
    _run(work, uvloop, {"--listen": listen, "--status-listen": pages})


def _check_options(
    ctx: click.Context, app: str | None, origin: tuple[str, ...], options: Mapping[str, Any]
) -> None:
    """Refuse options that have no effect together."""
    workers = options["workers"]
    if (app is None) == (not origin):
        raise click.UsageError("give either --origin URL or MODULE:APP")
    if app is None and workers is not None:
        raise click.UsageError("--workers: only with MODULE:APP; they are for the code of an application")
    if workers is None:
        _refuse(ctx, _WORKER_OPTIONS, "only with --workers")
    if app is not None:
        if workers is None:
            _refuse(
                ctx, _ENGINE_OPTIONS, "only with --origin or --workers; an application makes its own engine"
            )
        _refuse(ctx, _GATEWAY_OPTIONS, "only with --origin; an application makes its own gateway")
    if options["cache"] is None:
        if options["control"] is not None:
            raise click.UsageError("--control: only with --cache; there is nothing else to control")
        _refuse(ctx, frozenset(("cache_stale",)), "only with --cache")


class _Front(NamedTuple):
    """What clients and operators see, wherever the application runs."""

    listen: tuple[str, int] | str
    edge: config.Edge
    status: config.Status | None
    control: Path | None
    access_log: bool


def _front(listen: tuple[str, int] | str, options: Mapping[str, Any]) -> _Front:
    place = options["status_listen"]
    with errors_of_options():
        edge = config.Edge(
            client_connections=options["client_connections"], client_requests=options["client_requests"]
        )
        status = None if place is None else config.Status(listen=place)
    return _Front(listen, edge, status, options["control"], options["access_log"])


def _in_workers(
    app: str, front: _Front, log_level: str, uvloop: bool | None, options: Mapping[str, Any]
) -> Coroutine[Any, Any, None]:
    """Serve what `app` names in worker processes. Settings are checked now."""
    make_engine, settings = _edge(app, options)

    async def run() -> None:
        engine = make_engine()
        async with _operated(engine, front.control):
            await serve_in_workers(
                app,
                front.listen,
                engine=engine,
                settings=settings,
                edge=front.edge,
                access_log=front.access_log,
                log_level=log_level,
                uvloop=uvloop,
                status=front.status,
                ready=_tell_where,
            )

    return run()


async def _in_this_process(
    make: Callable[[], Coroutine[Any, Any, "_Made"]], front: _Front, drain: float
) -> None:
    """Serve what `make` returns."""
    application, engine = await make()
    async with _operated(engine, front.control):
        await serve_app(
            application,
            front.listen,
            engine=engine,
            edge=front.edge,
            drain=drain,
            access_log=front.access_log,
            decode_requests=engine is None,
            status=front.status,
            ready=_tell_where,
        )


def _refuse(ctx: click.Context, names: frozenset[str], why: str) -> None:
    """Refuse the options `names`, which would have no effect."""
    given = sorted(name for name in names if ctx.get_parameter_source(name) != ParameterSource.DEFAULT)
    if given:
        flags = ", ".join("--" + name.replace("_", "-") for name in given)
        raise click.UsageError(f"{flags}: {why}")


@asynccontextmanager
async def _operated(engine: Engine | None, control: Path | None) -> AsyncIterator[None]:
    """Serve the cache of `engine` on the socket `control` within the block; close `engine` after it."""
    try:
        async with AsyncExitStack() as stack:
            if control is not None and engine is not None and engine.cache is not None:
                await stack.enter_async_context(controlling(engine.cache, control))
            yield
    finally:
        if engine is not None:
            await engine.aclose()


def _tell_where(url: str, pages: str | None) -> None:
    click.echo(f"listening on {url}", err=True)
    if pages is not None:
        click.echo(f"status on {pages}/penstock/", err=True)


@main.command()
@listen_option(address_for_browsers, "HOST:PORT, or a PORT for all interfaces. Port 0 takes a free one.")
@_uvloop_option
def demo(listen: tuple[str, int], uvloop: bool | None) -> None:
    """Show penstock at work: live video and a token stream through the gateway, in a browser."""
    from .demo import run  # noqa: PLC0415 (its media and pages are of no use to the other commands)

    _run(run(*listen), uvloop, {"--listen": listen})


def _cache(memory: str | None, disk: str | None, size: str | None) -> config.Cache | None:
    if (disk is None) != (size is None):
        raise click.UsageError("--cache-disk and --cache-disk-size go together")
    if memory is None:
        if disk is not None:
            raise click.UsageError("--cache-disk: only with --cache")
        return None
    return config.Cache(memory=memory, disk=disk, disk_budget=size)


_Made = tuple[web.Application, Engine | None]


def _engine(options: Mapping[str, Any], timeouts: config.Timeouts) -> Callable[[], Engine]:
    """What makes the engine; settings are checked now, memory is taken then."""
    limits = config.OriginLimits(connections=options["connections"])
    pool = config.Pool(memory=options["memory"])
    tls = config.Tls() if options["ca"] is None else config.Tls(roots=options["ca"])
    stored = _cache(options["cache"], options["cache_disk"], options["cache_disk_size"])
    if stored is not None and not stored.fits(pool):
        raise click.UsageError("--cache: at most half of --memory")

    def make() -> Engine:
        # What only the engine finds wrong with settings is in the file of certificates.
        with errors_of_options(others="--ca"):
            return Engine(
                pool=pool,
                threads=options["threads"],
                timeouts=timeouts,
                limits=limits,
                tls=tls,
                cache=stored,
            )

    return make


def _gateway(urls: tuple[str, ...], options: Mapping[str, Any]) -> Callable[[], Coroutine[Any, Any, _Made]]:
    """What makes the application of a gateway."""
    with errors_of_options(others="--origin"):
        origin = urls[0] if len(urls) == 1 else Origins(urls)
        timeouts = config.Timeouts(**{name: options[f"{name}_timeout"] for name in TIMEOUTS})
        make_engine = _engine(options, timeouts)
        forwarding = config.Forwarding(
            x_forwarded=not options["forwarded"],
            forwarded=options["forwarded"],
            trust_incoming=options["trust_forwarded"],
            preserve_host=options["preserve_host"],
        )
        Gateway(origin)
        caching = None if options["cache"] is None else config.Caching(stale_if_error=options["cache_stale"])

    async def make() -> _Made:
        engine = make_engine()
        gateway = Gateway(origin, engine=engine, forwarding=forwarding, caching=caching)
        app = web.Application(middlewares=[settle_failures])
        if options["lane"] == "native":
            app.add_routes([gateway.native("/")])
        else:
            app.router.add_route("*", "/{path:.*}", gateway.relay)
        return app, engine

    return make


def _edge(app: str, options: Mapping[str, Any]) -> tuple[Callable[[], Engine], config.Workers]:
    """What makes the engine before workers, and what they may take. What `app` names is not looked for here."""
    with _errors_of_names(), errors_of_options():
        parts_of(app)
        settings = config.Workers(
            count=options["workers"],
            start_timeout=options["worker_start_timeout"],
            stop_timeout=options["drain"],
            hang=options["worker_hang"],
            memory=options["worker_memory"],
        )
        return _engine(options, config.Timeouts()), settings


def _application(name: str) -> Callable[[], Coroutine[Any, Any, _Made]]:
    """What makes the application that `name`, MODULE:APP, stands for."""
    with _errors_of_names():
        load_app = load(name)

    async def make() -> _Made:
        return await load_app(), None

    return make


def _run(work: Coroutine[Any, Any, None], uvloop: bool | None, listens: Mapping[str, object]) -> None:
    with closing(work), _errors_of_names():
        factory = loop_factory(uvloop)
        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(work)
        except (OSError, PenstockError) as error:
            raise click.ClickException(failure(error, listens)) from error


@contextmanager
def _errors_of_names() -> Iterator[None]:
    """Say in a sentence what is not there, and with its traceback what has failed of the application's own code."""
    try:
        yield
    except NotFoundError as error:
        raise click.UsageError(str(error)) from None
    except FailedError as error:
        raise click.ClickException(str(error)) from None
