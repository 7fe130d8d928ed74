"""The work of `penstock serve` where aiohttp has a part in it: MODULE:APP, with worker processes and without.

And `--origin` with `--lane app`, where an application relays.
"""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from aiohttp import web

from .cli_config import Configuration
from .cli_options import errors_of_names
from .cli_serving import control_of, engine_of, operated, rereading
from .config import Workers
from .config.server import DEFAULT_ORIGIN
from .configuration import FaultyConfigurationError
from .engine import Engine
from .serving.announcer import Announcer
from .serving.plan import Plan
from .serving.routes import Reload, tell_applied, tell_failed
from .web import Gateway, settle_failures
from .web.app_import import load, parts_of
from .web.server import serve

__all__ = ["in_this_process", "in_workers", "of_name", "of_origin"]

_Made = tuple[web.Application, Engine | None]


def in_workers(
    app: str, settings: Workers, configuration: Configuration, plan: Plan, announcer: Announcer
) -> Coroutine[Any, Any, None]:
    """Serve what `app` names in worker processes. It is not looked for here."""
    from .workers.server import serve as serve_in_workers  # noqa: PLC0415 (an application alone does without)

    with errors_of_names():
        parts_of(app)
    make_engine, read = engine_of(configuration, plan), rereading(configuration)
    server = plan.server

    async def run() -> None:
        engine = make_engine()
        async with operated(engine, control_of(plan), announcer.upgrades):
            await serve_in_workers(
                app,
                server.place,
                engine=engine,
                settings=replace(settings, stop_timeout=server.drain),
                edge=plan.sites[0].edge,
                access_log=server.access_log,
                log_level=server.log_level,
                uvloop=server.uvloop,
                status=server.status,
                announcer=announcer,
                reread=None if read is None else partial(_reread, read, plan, engine),
            )

    return run()


def _reread(read: Reload, plan: Plan, engine: Engine) -> str | None:
    """Have the faults of the file told, and what in it takes a restart: with workers that is all of it.

    Returns its faults in a line; None if it has none.
    """
    try:
        found = read(plan)
    except FaultyConfigurationError as error:
        return tell_failed(engine, [str(fault) for fault in error.faults])
    tell_applied(plan, found, engine)
    return None


async def in_this_process(
    make: Callable[[], Coroutine[Any, Any, _Made]], plan: Plan, announcer: Announcer
) -> None:
    """Serve what `make` returns."""
    application, engine = await make()
    server = plan.server
    async with operated(engine, control_of(plan), announcer.upgrades):
        await serve(
            application,
            server.place,
            engine=engine,
            edge=plan.sites[0].edge,
            drain=server.drain,
            access_log=server.access_log,
            decode_requests=engine is None,
            status=server.status,
            announcer=announcer,
        )


def of_name(name: str) -> Callable[[], Coroutine[Any, Any, _Made]]:
    """What makes the application that `name`, MODULE:APP, stands for."""
    with errors_of_names():
        load_app = load(name)

    async def make() -> _Made:
        return await load_app(), None

    return make


def of_origin(configuration: Configuration, plan: Plan) -> Callable[[], Coroutine[Any, Any, _Made]]:
    """What makes an application that relays to the origin."""
    server, make_engine = plan.server, engine_of(configuration, plan)
    origin = plan.origins[DEFAULT_ORIGIN].made
    caching = None if server.cache is None else server.caching

    async def make() -> _Made:
        engine = make_engine()
        gateway = Gateway(origin, engine=engine, forwarding=server.forwarding, caching=caching)
        app = web.Application(middlewares=[settle_failures])
        app.router.add_route("*", "/{path:.*}", gateway.relay)
        return app, engine

    return make
