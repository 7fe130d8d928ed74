"""`penstock health`: asks the pages about a running engine whether it is well, for probes that have no HTTP client."""

import json
import socket
from typing import Final
from urllib.parse import urlsplit

import click

from . import config
from .cli_options import address

__all__ = ["health"]

_ADDRESS: Final = config.Status().listen
_HTTP_PORT: Final = 80
_OK: Final = 200


@click.command()
@click.argument("url", required=False)
@click.option(
    "--status-listen",
    type=address,
    metavar="ADDRESS",
    help=f"Where the pages are, in the form that `penstock serve` was given.  [default: {_ADDRESS}]",
)
@click.option(
    "--ready", is_flag=True, help="Ask whether it takes new work, and not only whether it is alive."
)
@click.option(
    "--timeout",
    "patience",
    type=click.FloatRange(0.01, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long an answer may take.",
)
def health(
    url: str | None, status_listen: tuple[str, int] | str | None, ready: bool, patience: float
) -> None:
    """Ask whether a running server is healthy. It must have been started with --status-listen.

    \b
      penstock health
      penstock health --status-listen unix:/run/penstock/status.sock --ready
      penstock health http://10.0.0.7:9145

    \b
    Exit status: 0 if it is, 1 if it is not or does not answer, 2 for wrong arguments.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    if url is not None and status_listen is not None:
        raise click.UsageError("give either URL or --status-listen")
    place = _reachable(address(_ADDRESS) if status_listen is None else status_listen)
    if url is not None:
        place = _place_of(url)
    status, body = _ask(place, "/penstock/ready" if ready else "/penstock/health", patience)
    if status != _OK:
        raise click.ClickException(_reason(status, body))
    click.echo("ready" if ready else "healthy")


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


def _ask(place: tuple[str, int] | str, path: str, patience: float) -> tuple[int, bytes]:
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


def _reason(status: int, body: bytes) -> str:
    """Why the page is not good: the checks that have failed."""
    try:
        failed = [check for check in json.loads(body)["checks"] if not check["ok"]]
        return "; ".join(f"{check['check']}: {check['seen']}" for check in failed)
    except (ValueError, KeyError, TypeError):
        return f"the answer has status {status}, and is no page about an engine"
