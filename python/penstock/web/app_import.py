"""MODULE:APP: which application it names, and what is wrong where it names none.

What a module or a factory raises is the application's own failure, and is shown with its traceback (`FailedError`). What
names no application is said in a sentence (`NotFoundError`): an application of another kind, a module without it.
"""

import ast
import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from aiohttp import web

from penstock.serving.names import FailedError, NotFoundError

__all__ = ["Target", "foreign", "load", "parts_of"]


class Target(NamedTuple):
    """What MODULE:APP consists of."""

    module: str
    path: tuple[str, ...]
    """Names, each an attribute of the one before."""
    call: tuple[list[Any], dict[str, Any]] | None
    """Arguments, where APP is a call."""


def parts_of(name: str) -> Target:
    """Take MODULE:APP apart. APP is a name, names with dots between them, or a call with literals: `make(debug=True)`.

    Raises:
        NotFoundError: there is no such object.
    """
    module, colon, text = name.partition(":")
    if text.startswith("//"):
        raise NotFoundError(f"{name!r} is not MODULE:APP: write --origin {name}, if it is an origin")
    as_module = module.removesuffix(".py").strip("./").replace("/", ".")
    if module != as_module and as_module and ("/" in module or module.endswith(".py")):
        raise NotFoundError(
            f"{name!r} is not MODULE:APP: write {as_module}:{text or 'app'}, as Python would import it"
        )
    if not colon or not module or not text:
        rule = f"write {as_module or 'module'}:app, where app is the name of the application in the module"
        raise NotFoundError(f"{name!r} is not MODULE:APP: {rule}")
    try:
        node = ast.parse(text, mode="eval").body
        call = None
        if isinstance(node, ast.Call):
            keywords = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
            call, node = ([ast.literal_eval(one) for one in node.args], keywords), node.func
        return Target(module, tuple(_names(node)), call)
    except (SyntaxError, ValueError):
        raise NotFoundError(
            f"{name!r} is not MODULE:APP: {text!r} is no name, and no call with literals"
        ) from None


def _names(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        yield from _names(node.value)
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id
    else:
        raise ValueError  # noqa: TRY004 (as of `literal_eval`: it is text that is wrong)


def load(name: str) -> Callable[[], Awaitable[web.Application]]:
    """Import the module of MODULE:APP, which may stand in the current directory too; what is returned makes APP.

    Raises:
        NotFoundError: there is no such module or attribute; or, of what is returned, it gives no application.
        FailedError: the module fails; or, of what is returned, the function that makes the application does.
    """
    target = parts_of(name)
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(target.module)
    except ModuleNotFoundError as error:
        if error.name is None or not (target.module + ".").startswith(error.name + "."):
            raise FailedError(f"{target.module} cannot be imported", error) from error
        raise NotFoundError(f"there is no module {error.name!r} here or on the path") from None
    except Exception as error:
        raise FailedError(f"{target.module} cannot be imported", error) from error
    found: Any = module
    for part in target.path:
        if not hasattr(found, part):
            owner = f"module {target.module!r}" if found is module else f"{name!r}"
            raise NotFoundError(f"{owner} has no {part!r}{_instead(module, target)}")
        found = getattr(found, part)

    async def make() -> web.Application:
        app = found
        if target.call is not None or (callable(app) and not isinstance(app, web.Application)):
            if said := foreign(app, name):
                raise NotFoundError(said)
            arguments, named = _arguments(app, name) if target.call is None else target.call
            try:
                app = app(*arguments, **named)
                if inspect.isawaitable(app):
                    app = await app
            except Exception as error:
                raise FailedError(f"{name} has failed", error) from error
        if not isinstance(app, web.Application):
            raise NotFoundError(foreign(app, name) or _no_application(app, name))
        return app

    return make


def _instead(module: ModuleType, target: Target) -> str:
    """What the module has that could be meant."""
    if len(target.path) > 1:
        return ""
    apps = [name for name, value in vars(module).items() if isinstance(value, web.Application)]
    makers = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and "app" in name.lower()
    ]
    found = [f"{module.__name__}:{name}" for name in (*apps, *makers) if not name.startswith("_")]
    return f"; it has {', '.join(found)}" if found else ""


def _no_application(app: object, name: str) -> str:
    kind = type(app).__name__
    return f"{name} is a {kind}, and no aiohttp.web.Application nor a function that returns one"


def _arguments(function: Callable[..., Any], name: str) -> tuple[list[Any], dict[str, Any]]:
    """What a function is called with that makes an application: nothing, or an `argv`, as by `python -m aiohttp.web`.

    Raises:
        NotFoundError: it wants more.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [], {}
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    wanted = [one.name for one in parameters if one.default is one.empty and one.kind not in kinds]
    if len(wanted) > 1 or wanted == ["request"]:
        rule = f"write '{name}(...)' with literals for them, or name a function without"
        raise NotFoundError(f"{name} wants the arguments {', '.join(wanted)}: {rule}")
    return [[]] if wanted else [], {}


def foreign(app: object, name: str) -> str | None:
    """What to do with an application of another kind, ASGI's or WSGI's; None if it is neither."""
    called = app if inspect.isroutine(app) else inspect.getattr_static(type(app), "__call__", None)
    try:
        parameters = [] if called is None else list(inspect.signature(called).parameters)
    except (TypeError, ValueError):
        return None
    is_wsgi = "start_response" in parameters
    if not is_wsgi and not {"receive", "send"} <= set(parameters):
        return None
    kind, command = ("a WSGI", "gunicorn") if is_wsgi else ("an ASGI", "uvicorn")
    of = "" if inspect.isroutine(app) else f" ({type(app).__name__})"
    bind = "--bind 127.0.0.1:8000" if is_wsgi else "--port 8000"
    return (
        f"{name} is {kind} application{of}, and penstock serves those of aiohttp: run it with a server of its own, "
        f"such as '{command} {name} {bind}', and put penstock in front: 'penstock serve --origin http://127.0.0.1:8000'"
    )
