"""The pages about a running engine, asked by commands: where they are, and what they say."""

import socket
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import click

from . import config
from .cli_options import address

__all__ = ["OK", "ask", "at_status", "place_of"]

OK: Final = 200
_ADDRESS: Final = config.Status().listen
_HTTP_PORT: Final = 80


def at_status(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives `command` the URL and the option by which pages are named; `place_of` takes both."""
    option = click.option(
        "--status-listen",
        type=address,
        metavar="ADDRESS",
        help=f"Where the pages are, in the form that `penstock serve` was given.  [default: {_ADDRESS}]",
    )
    return click.argument("url", required=False)(option(command))


def place_of(url: str | None, status_listen: tuple[str, int] | str | None) -> tuple[str, int] | str:
    """Where the pages are: host and port, or the path of a Unix socket.

    Raises:
        UsageError: both are given, or the URL does not name pages.
    """
    if url is None:
        return _reachable(address(_ADDRESS) if status_listen is None else status_listen)
    if status_listen is not None:
        raise click.UsageError("give either URL or --status-listen")
    return _place_of(url)


def _place_of(url: str) -> tuple[str, int]:
    """Host and port of a URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or _HTTP_PORT
    except ValueError as error:
        raise click.BadParameter(f"{url!r}: {error}", param_hint="'URL'") from None
    if parts.scheme != "http" or not parts.hostname:
        rule = "must be http://HOST:PORT; --status-listen takes addresses and Unix sockets"
        raise click.BadParameter(f"{url!r} {rule}", param_hint="'URL'")
    return parts.hostname, port


def _reachable(place: tuple[str, int] | str) -> tuple[str, int] | str:
    """Where one connects to what listens at `place`: all interfaces are no address."""
    if isinstance(place, str):
        return place
    host, port = place
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port


def ask(place: tuple[str, int] | str, path: str, patience: float) -> tuple[int, bytes]:
    """Status and body of the page.

    Raises:
        ClickException: nothing answers.
    """
    # `penstock serve` has this command too, and does without what this imports.
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415

    try:
        with _connected(place, patience) as found:
            connection = HTTPConnection("localhost")
            connection.sock = found
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            return response.status, response.read()
    except (OSError, HTTPException) as error:
        where = f"unix:{place}" if isinstance(place, str) else f"{place[0]}:{place[1]}"
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        rule = "is there a 'penstock serve' with this --status-listen?"
        raise click.ClickException(f"nothing answers at {where}: {why}: {rule}") from None


def _connected(place: tuple[str, int] | str, patience: float) -> socket.socket:
    if not isinstance(place, str):
        return socket.create_connection(place, patience)
    found = socket.socket(socket.AF_UNIX)
    try:
        found.settimeout(patience)
        found.connect(place)
    except BaseException:
        found.close()
        raise
    return found
