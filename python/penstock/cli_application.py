"""The work of `penstock serve` where aiohttp has a part in it: MODULE:APP, with worker processes and without.

And `--origin` with `--lane app`, where an application relays.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from aiohttp import web

from . import config
from .cli_options import errors_of_names, errors_of_options
from .cli_serving import Front, engine_of, operated, origins_of
from .engine import Engine
from .serving.announcer import Announcer
from .web import Gateway, settle_failures
from .web.app_import import load, parts_of
from .web.server import serve

__all__ = ["in_this_process", "in_workers", "of_name", "of_origin"]

_Made = tuple[web.Application, Engine | None]


def in_workers(
    app: str,
    front: Front,
    log_level: str,
    uvloop: bool | None,
    options: Mapping[str, Any],
    announcer: Announcer,
) -> Coroutine[Any, Any, None]:
    """Serve what `app` names in worker processes. Settings are checked now."""
    from .workers.server import serve as serve_in_workers  # noqa: PLC0415 (an application alone does without)

    make_engine, settings = _edge(app, options)

    async def run() -> None:
        engine = make_engine()
        async with operated(engine, front.control):
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
                announcer=announcer,
            )

    return run()


def _edge(app: str, options: Mapping[str, Any]) -> tuple[Callable[[], Engine], config.Workers]:
    """What makes the engine before workers, and what they may take. What `app` names is not looked for here."""
    with errors_of_names(), errors_of_options():
        parts_of(app)
        settings = config.Workers(
            count=options["workers"],
            start_timeout=options["worker_start_timeout"],
            stop_timeout=options["drain"],
            hang=options["worker_hang"],
            memory=options["worker_memory"],
        )
        return engine_of(options, config.Timeouts()), settings


async def in_this_process(
    make: Callable[[], Coroutine[Any, Any, _Made]], front: Front, drain: float, announcer: Announcer
) -> None:
    """Serve what `make` returns."""
    application, engine = await make()
    async with operated(engine, front.control):
        await serve(
            application,
            front.listen,
            engine=engine,
            edge=front.edge,
            drain=drain,
            access_log=front.access_log,
            decode_requests=engine is None,
            status=front.status,
            announcer=announcer,
        )


def of_name(name: str) -> Callable[[], Coroutine[Any, Any, _Made]]:
    """What makes the application that `name`, MODULE:APP, stands for."""
    with errors_of_names():
        load_app = load(name)

    async def make() -> _Made:
        return await load_app(), None

    return make


def of_origin(urls: tuple[str, ...], options: Mapping[str, Any]) -> Callable[[], Coroutine[Any, Any, _Made]]:
    """What makes an application that relays to the origin."""
    origin, make_engine, forwarding, caching = origins_of(urls, options)
    with errors_of_options(others="--origin"):
        Gateway(origin)

    async def make() -> _Made:
        engine = make_engine()
        gateway = Gateway(origin, engine=engine, forwarding=forwarding, caching=caching)
        app = web.Application(middlewares=[settle_failures])
        app.router.add_route("*", "/{path:.*}", gateway.relay)
        return app, engine

    return make
