"""Checks of this Python, of which an application's handlers have as much to do as the engine has to relay."""

import os
import platform
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

from .finding import OK, WARNING, Finding
from .plan import Plan

__all__ = ["check_interpreter"]


def check_interpreter(plan: Plan) -> Iterator[Finding]:
    """What Python runs the application with, and what makes it slow."""
    version = platform.python_version()
    if not plan.has_application:
        yield Finding("Python", OK, f"{version}; the engine relays without it")
        return
    if plan.uvloop is not False and find_spec("uvloop") is not None:
        yield Finding("Python", OK, f"{version} with uvloop")
    else:
        loop = "asyncio's own loop; `pip install 'penstock[uvloop]'` has a faster one"
        yield Finding("Python", OK, f"{version} with {loop}")
    yield _modes()
    yield _parser()


def _modes() -> Finding:
    """Modes for developers, which an image or a unit may have inherited."""
    modes = ["development mode (-X dev, PYTHONDEVMODE)"] if sys.flags.dev_mode else []
    if not sys.flags.ignore_environment:
        variables = ("PYTHONASYNCIODEBUG", "PYTHONTRACEMALLOC")
        modes += [f"{name}={value}" for name in variables if (value := os.environ.get(name))]
        # `malloc`, and the allocators with `_debug`, are the others.
        if (value := os.environ.get("PYTHONMALLOC", "")).endswith("debug"):
            modes.append(f"PYTHONMALLOC={value}")
    if not modes:
        return Finding("Python's modes", OK, "none for debugging")
    return Finding(
        "Python's modes",
        WARNING,
        ", ".join(modes),
        "none for debugging",
        "each task and each allocation is traced or checked: handlers take a multiple of the time",
        "take the option or the variable from the unit or the image",
    )


def _parser() -> Finding:
    parsers = import_module("aiohttp.http_parser")
    if parsers.HttpRequestParser is not parsers.HttpRequestParserPy:
        return Finding("aiohttp", OK, "with its parser in C")
    return Finding(
        "aiohttp",
        WARNING,
        "with its parser in Python",
        "its parser in C",
        "the head of each request to the application takes a multiple of the time",
        "unset AIOHTTP_NO_EXTENSIONS, and install aiohttp from a wheel: pip install --only-binary :all: aiohttp",
    )
