"""What `penstock serve` makes of its options, whatever it serves, its loop, and its work where the engine relays alone.

That needs no aiohttp, which would double the memory of the process. `cli_application` has what does.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from . import __version__
from .cli_config import Configuration, refuse
from .cli_options import errors_of_names, failure
from .config.listen import Inherited
from .configuration import Fault, Faults, FaultyConfigurationError
from .engine import Engine
from .exceptions import ConfigurationError, PenstockError
from .serving import routes as native
from .serving.announcer import Announcer
from .serving.inherited import take_passed
from .serving.plan import Plan, plan_of
from .serving.predecessor import Predecessor
from .serving.startup import log_to_stderr, loop_factory
from .serving.upgrade import Upgrades

__all__ = [
    "announcing",
    "control_of",
    "engine_of",
    "listens_of",
    "log_to_stderr",
    "operated",
    "planned",
    "relaying",
    "rereading",
    "run",
]

_log: Final = logging.getLogger("penstock.serve")


def planned(configuration: Configuration) -> Plan:
    """What is to be served.

    Raises:
        click.ClickException: the configuration has faults.
    """
    server = configuration.server()
    faults = Faults()
    plan = plan_of(server, configuration.document, faults)
    try:
        faults.check()
    except FaultyConfigurationError as error:
        refuse(error)
    assert plan is not None  # noqa: S101 (there was no fault)
    return plan


def engine_of(configuration: Configuration, plan: Plan) -> Callable[[], Engine]:
    """What makes the engine. Memory is taken then."""
    server = plan.server

    def make() -> Engine:
        try:
            return Engine(
                pool=server.pool,
                flow=server.flow,
                reads=server.reads,
                threads=server.threads,
                timeouts=server.timeouts,
                limits=server.limits,
                tls=plan.origin_tls,
                http2=plan.origin_http2,
                cache=server.cache,
                tracing=server.tracing,
            )
        except ConfigurationError as error:
            # What only the engine finds wrong with settings is in the files of certificates.
            document = configuration.document
            path = ("origin_tls", "roots")
            if plan.origin_tls.certificates or document.find(path) is None:
                raise click.UsageError(error.detail) from None
            fault = Fault(document.place(path), ".".join(path), error.detail)
            refuse(FaultyConfigurationError([fault]))

    return make


def control_of(plan: Plan) -> Path | None:
    """The path of the control socket."""
    control = plan.server.control
    return None if control is None else Path(control.removeprefix("unix:"))


def listens_of(configuration: Configuration, plan: Plan) -> Mapping[str, object]:
    """Where something listens, by what has said so."""
    server = plan.server
    found: dict[str, object] = {_said(configuration, "--listen", "listen"): server.place}
    if server.status is not None:
        found[_said(configuration, "--status-listen", "status", "listen")] = server.status.place()
    if server.tls is not None:
        found[_said(configuration, "--http-redirect", "tls", "http_redirect")] = server.tls.redirects_at()
    for number, site in enumerate(plan.sites[1:]):
        found[_said(configuration, "", "sites", number, "listen")] = site.place
    return found


def _said(configuration: Configuration, option: str, *path: str | int) -> str:
    place = configuration.document.place(path)
    return f"{place}: {path[-1]}" if place.file else option


def rereading(configuration: Configuration) -> native.Reload | None:
    """What reads the file again; None without one."""
    if configuration.path is None:
        return None

    def read(before: Plan) -> Plan:
        faults = Faults()
        server, document = configuration.read_again()
        plan = plan_of(server, document, faults, before)
        if server.app != before.server.app:
            faults.append(Fault(document.place(("app",)), "app", "to change it takes a restart"))
        faults.check()
        assert plan is not None  # noqa: S101 (there was no fault)
        return plan

    return read


def relaying(configuration: Configuration, plan: Plan, announcer: Announcer) -> Coroutine[Any, Any, None]:
    """Have the engine alone relay by the routes."""
    make_engine = engine_of(configuration, plan)

    async def serve() -> None:
        engine = make_engine()
        async with operated(engine, control_of(plan), announcer.upgrades):
            await native.serve(
                plan,
                engine=engine,
                access_log=plan.server.access_log,
                status=plan.server.status,
                announcer=announcer,
                read=rereading(configuration),
            )

    return serve()


def _hand_over(engine: Engine, upgrades: Upgrades) -> None:
    """Leave the cache of `engine` to the next process. This one drains, and has little use for what it had in memory."""
    engine.release_disk()
    upgrades.wait_for_clients()
    if engine.cache is not None and engine.cache.native is not None:
        given = engine.cache.native.release_memory()
        _log.info("upgrade: %d MiB of memory are given back", given >> 20)


@asynccontextmanager
async def operated(engine: Engine | None, control: Path | None, upgrades: Upgrades) -> AsyncIterator[None]:
    """Have the cache of `engine` and upgrades operated on the socket `control` within the block, and close `engine`."""
    if engine is not None and engine.cache is not None:
        upgrades.at_end(partial(asyncio.to_thread, _hand_over, engine, upgrades))
        if engine.cache.native is not None:
            upgrades.keep(engine.cache.native)
    try:
        async with AsyncExitStack() as stack:
            if control is not None:
                from .web.control import controlling  # noqa: PLC0415 (it is an application of aiohttp's)

                cache = None if engine is None else engine.cache
                await stack.enter_async_context(controlling(cache, control, upgrades))
            yield
    finally:
        if engine is not None:
            await engine.aclose()


@contextmanager
def announcing(plan: Plan) -> Iterator[Announcer]:
    """What the state of this process is announced by within the block.

    What systemd has passed, or another process that this one takes the place of, is taken over before.

    Raises:
        click.ClickException: that process does not hand over.
    """
    try:
        predecessor = Predecessor.of_environment(__version__)
    except PenstockError as error:
        raise click.ClickException(error.detail) from None
    passed = take_passed()
    used = {site.place.name for site in plan.sites if isinstance(site.place, Inherited)}
    unused = [name for number, name in passed.items() if used.isdisjoint((name, str(number)))]
    if unused:
        _log.warning(
            "the service manager has passed sockets that nothing listens to: %s. Name one: --listen fd:%s",
            ", ".join(unused),
            unused[0],
        )
    say, timeout = partial(click.echo, err=True), plan.server.upgrade_timeout
    with closing(Announcer.of_environment(say, timeout, predecessor)) as announcer:
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
