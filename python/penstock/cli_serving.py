"""What `penstock serve` makes of its options, whatever it serves, its loop, and its work where the engine relays alone.

That needs no aiohttp, which would double the memory of the process. `cli_application` has what does.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from . import config
from .cli_options import TIMEOUTS, errors_of_names, errors_of_options, failure, tls_of
from .engine import Engine
from .exceptions import PenstockError
from .origins import Origins, parse_origin
from .serving import origin as native
from .serving.announcer import Announcer
from .serving.inherited import Inherited, Listen, take_passed
from .serving.startup import log_to_stderr, loop_factory

__all__ = [
    "Front",
    "announcing",
    "engine_of",
    "front_of",
    "log_to_stderr",
    "operated",
    "origins_of",
    "relaying",
    "run",
]

_log: Final = logging.getLogger("penstock.serve")


class Front(NamedTuple):
    """What clients and operators see, wherever the application runs."""

    listen: Listen
    edge: config.Edge
    status: config.Status | None
    control: Path | None
    access_log: config.AccessLog | None


def front_of(listen: Listen, options: Mapping[str, Any]) -> Front:
    """What the options say of it."""
    place = options["status_listen"]
    with errors_of_options():
        edge = config.Edge(
            client_connections=options["client_connections"],
            client_requests=options["client_requests"],
            tls=tls_of(options),
            http2=None if options["no_http2"] else config.Http2(),
            acme_dir=options["acme_dir"],
            grpc_health=options["grpc_health"],
            trust_trace_context=options["trust_trace_context"],
        )
        status = None if place is None else config.Status(listen=place)
        log = _access_log(options["access_log"], options["access_log_file"], options["access_log_format"])
    return Front(listen, edge, status, options["control"], log)


def _access_log(is_wanted: bool, path: str | None, form: str | None) -> config.AccessLog | None:
    if not is_wanted:
        if path is not None or form is not None:
            raise click.UsageError("--access-log-file, --access-log-format: not with --no-access-log")
        return None
    return config.AccessLog(path=path or "-", format=form or "plain")


def engine_of(
    options: Mapping[str, Any], timeouts: config.Timeouts, urls: tuple[str, ...] = ()
) -> Callable[[], Engine]:
    """What makes the engine, for origins at `urls`; settings are checked now, memory is taken then."""
    limits = config.OriginLimits(connections=options["connections"])
    pool = config.Pool(memory=options["memory"])
    with errors_of_options(others="--origin"):
        tls = _origin_tls(urls, options)
        http2 = config.OriginHttp2(origins=_bases(urls) if options["origin_http2"] else ())
    tracing = _tracing(options["traces"], options["traces_ratio"])
    stored = _cache(options["cache"], options["cache_disk"], options["cache_disk_size"])
    if stored is not None and not stored.fits(pool):
        raise click.UsageError("--cache: at most half of --memory")

    def make() -> Engine:
        # What only the engine finds wrong with settings is in the files of certificates.
        with errors_of_options(others="--ca" if options["origin_cert"] is None else None):
            return Engine(
                pool=pool,
                threads=options["threads"],
                timeouts=timeouts,
                limits=limits,
                tls=tls,
                http2=http2,
                cache=stored,
                tracing=tracing,
            )

    return make


def _origin_tls(urls: tuple[str, ...], options: Mapping[str, Any]) -> config.OriginTls:
    """The authorities, and what each https origin is shown."""
    roots = "system" if options["ca"] is None else options["ca"]
    cert = options["origin_cert"]
    if cert is None:
        return config.OriginTls(roots=roots)
    certificate = config.ClientCertificate(cert, options["origin_key"])
    shown = {url: certificate for url in _bases(urls) if url.startswith("https://")}
    if not shown:
        raise click.UsageError("--origin-cert: only with an https origin")
    return config.OriginTls(roots=roots, certificates=shown)


def _tracing(endpoint: str | None, ratio: float | None) -> config.Tracing | None:
    if endpoint is None:
        if ratio is not None:
            raise click.UsageError("--traces-ratio: only with --traces")
        return None
    with errors_of_options():
        if ratio is None:
            return config.Tracing(endpoint=endpoint)
        return config.Tracing(endpoint=endpoint, ratio=ratio)


def _bases(urls: tuple[str, ...]) -> list[str]:
    """The origins, without paths."""
    places = [parse_origin(url) for url in urls]
    hosts = [f"[{place.host}]" if ":" in place.host else place.host for place in places]
    return [f"{place.scheme}://{host}:{place.port}" for place, host in zip(places, hosts, strict=True)]


def _cache(memory: str | None, disk: str | None, size: str | None) -> config.Cache | None:
    if (disk is None) != (size is None):
        raise click.UsageError("--cache-disk and --cache-disk-size go together")
    if memory is None:
        if disk is not None:
            raise click.UsageError("--cache-disk: only with --cache")
        return None
    return config.Cache(memory=memory, disk=disk, disk_budget=size)


class Relaying(NamedTuple):
    """How requests are relayed to the origin, on either lane."""

    origin: str | Origins
    make_engine: Callable[[], Engine]
    forwarding: config.Forwarding
    caching: config.Caching | None


def origins_of(urls: tuple[str, ...], options: Mapping[str, Any]) -> Relaying:
    """What the options say of it; `urls` are those of the origin."""
    with errors_of_options(others="--origin"):
        origin = urls[0] if len(urls) == 1 else Origins(urls)
        timeouts = config.Timeouts(**{name: options[f"{name}_timeout"] for name in TIMEOUTS})
        make_engine = engine_of(options, timeouts, urls)
        forwarding = config.Forwarding(
            x_forwarded=not options["forwarded"],
            forwarded=options["forwarded"],
            trust_incoming=options["trust_forwarded"],
            preserve_host=options["preserve_host"],
        )
        caching = None if options["cache"] is None else config.Caching(stale_if_error=options["cache_stale"])
        return Relaying(origin, make_engine, forwarding, caching)


def relaying(
    urls: tuple[str, ...], front: Front, options: Mapping[str, Any], announcer: Announcer
) -> Coroutine[Any, Any, None]:
    """Have the engine alone relay to the origin. Settings are checked now."""
    origin, make_engine, forwarding, caching = origins_of(urls, options)
    with errors_of_options(others="--origin"):
        spec = native.relay_of_all(origin, forwarding, caching)

    async def serve() -> None:
        engine = make_engine()
        async with operated(engine, front.control):
            await native.serve(
                spec,
                front.listen,
                engine=engine,
                edge=front.edge,
                drain=options["drain"],
                access_log=front.access_log,
                status=front.status,
                announcer=announcer,
            )

    return serve()


@asynccontextmanager
async def operated(engine: Engine | None, control: Path | None) -> AsyncIterator[None]:
    """Serve the cache of `engine` on the socket `control` within the block; close `engine` after it."""
    try:
        async with AsyncExitStack() as stack:
            if control is not None and engine is not None and engine.cache is not None:
                from .web.control import controlling  # noqa: PLC0415 (it is an application of aiohttp's)

                await stack.enter_async_context(controlling(engine.cache, control))
            yield
    finally:
        if engine is not None:
            await engine.aclose()


@contextmanager
def announcing(listen: Listen) -> Iterator[Announcer]:
    """What the state of this process is announced by within the block. What systemd has passed is taken over before."""
    names = take_passed()
    if names and not isinstance(listen, Inherited):
        _log.warning(
            "the service manager has passed sockets that nothing listens to: %s. Name one: --listen fd:%s",
            ", ".join(names),
            names[0],
        )
    with closing(Announcer.of_environment(partial(click.echo, err=True))) as announcer:
        yield announcer


def run(work: Coroutine[Any, Any, None], uvloop: bool | None, listens: Mapping[str, object]) -> None:
    """Run `work` to its end on a loop of its own. `listens` has the options of addresses, with their values."""
    with closing(work), errors_of_names():
        factory = loop_factory(uvloop)
        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(work)
        except (OSError, PenstockError) as error:
            raise click.ClickException(failure(error, listens)) from error
