"""How a process that serves starts: what MODULE:APP stands for, the loop that it runs on, and where it logs."""

import asyncio
import importlib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

__all__ = ["NotFoundError", "load", "log_to_stderr", "loop_factory", "parts_of"]


class NotFoundError(Exception):
    """What was named is not there, or is no application; the text says so to whoever has written the command."""


def parts_of(name: str) -> tuple[str, str]:
    """Module and attribute of `name`, which is MODULE:APP.

    Raises:
        NotFoundError: it is not.
    """
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise NotFoundError(f"{name!r} is not MODULE:APP")
    return module, attribute


def load(name: str) -> Callable[[], Awaitable[web.Application]]:
    """Import the module of MODULE:APP, which may stand in the current directory too; what is returned makes APP.

    Raises:
        NotFoundError: there is no such module or attribute; or, of what is returned, it gives no application.
        Exception: whatever the module raises.
    """
    module_name, attribute = parts_of(name)
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        raise NotFoundError(f"there is no module {error.name!r} here or on the path") from None
    try:
        found = getattr(module, attribute)
    except AttributeError:
        raise NotFoundError(f"module {module_name!r} has no {attribute!r}") from None

    async def make() -> web.Application:
        app: Any = found
        if callable(app) and not isinstance(app, web.Application):
            app = app()
            if inspect.isawaitable(app):
                app = await app
        if not isinstance(app, web.Application):
            raise NotFoundError(f"{name} is a {type(app).__name__}, and gives no aiohttp.web.Application")
        return app

    return make


def loop_factory(uvloop: bool | None) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop: uvloop, asyncio's own, or, for None, uvloop if it is installed.

    Raises:
        NotFoundError: uvloop is wanted, and not installed.
    """
    if uvloop is False:
        return None
    if importlib.util.find_spec("uvloop") is None:
        if uvloop:
            raise NotFoundError("uvloop is not installed")
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory


def log_to_stderr(level: str) -> None:
    """Log what is of `level` or above to standard error, in the form of `penstock serve`."""
    logging.basicConfig(
        stream=sys.stderr, level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
