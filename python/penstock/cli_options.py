"""Types of the command's options, and the texts of failures at the start. `cli_config` has the settings of options."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final, TypeVar

import click

from . import config
from .config.checks import parse_address
from .config.listen import parse_listen
from .config.tls import CLIENTS, UNKNOWN_NAMES, VERSIONS
from .exceptions import PenstockError
from .serving.names import FailedError, NotFoundError

__all__ = [
    "SERVER",
    "TIMEOUTS",
    "address",
    "address_for_browsers",
    "address_text",
    "errors_of_names",
    "failure",
    "listen_option",
    "seconds",
    "timeout_options",
    "tls_options",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_LIMITS: Final = config.Timeouts()

SERVER: Final = {field.name: field.default for field in fields(config.Server)}
"""The defaults of a server's own settings."""

TIMEOUTS: Final = {
    "queue": "for a connection to the origin to become free",
    "resolve": "for the origin's name",
    "connect": "for a TCP connection",
    "tls": "for the TLS handshake",
    "first_byte": "from the request to the first byte of the response",
    "between_bytes": "between two reads of the response",
    "tunnel": "for a byte to pass a WebSocket, in either direction",
    "total": "for the whole exchange",
}

# The option that a failure at the start is about.
_FAILED: Final = {
    "CACHE_DIRECTORY_FAILED": "--cache-disk",
    "CACHE_DIRECTORY_TAKEN": "--cache-disk",
    "MAPPING_FAILED": "--memory",
}


@contextmanager
def errors_of_names() -> Iterator[None]:
    """Say in a sentence what is not there, and with its traceback what has failed of the application's own code."""
    try:
        yield
    except NotFoundError as error:
        raise click.UsageError(str(error)) from None
    except FailedError as error:
        raise click.ClickException(str(error)) from None


def failure(error: Exception, listens: Mapping[str, object]) -> str:
    """The message for a failure to start. `listens` has the options of addresses, with their values."""
    option = None
    if isinstance(error, PenstockError):
        option = _FAILED.get(error.name)
        if error.name == "LISTEN_FAILED":
            found = [
                name for name, place in listens.items() if place is not None and _shown(place) in error.detail
            ]
            option = found[0] if found else None
    return str(error) if option is None else f"{option}: {error}"


def _shown(place: object) -> str:
    return f":{place[1]}" if isinstance(place, tuple) else str(place)


def address(text: str) -> tuple[str, int] | str:
    """Host and port, or the path of a Unix socket; the host is empty for all interfaces."""
    try:
        return parse_address(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {error}") from None


def address_text(text: str) -> str:
    """An address, or sockets that are there already: checked, and as it was written."""
    try:
        parse_listen(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {error}") from None
    return text


def address_for_browsers(text: str) -> tuple[str, int]:
    """Host and port: a browser opens no Unix socket."""
    found = address(text)
    if isinstance(found, str):
        raise click.BadParameter(f"{text!r} must be HOST:PORT: a browser opens no Unix socket")
    return found


def seconds(text: str | float) -> float | None:
    """A number of seconds, or None for `none`."""
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a number of seconds nor 'none'") from None


def timeout_options(command: _Command) -> _Command:
    """Add an option for each limit on time."""
    for name in reversed(TIMEOUTS):
        default = getattr(_LIMITS, name)
        command = click.option(
            f"--{name.replace('_', '-')}-timeout",
            type=seconds,
            default="none" if default is None else f"{default:g}",
            show_default=True,
            metavar="SECONDS",
            help=f"Limit {TIMEOUTS[name]}, or 'none'.",
        )(command)
    return command


_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True)
_DEFAULTS: Final = {field.name: field.default for field in fields(config.TLS)}
_TLS_OPTIONS: Final = (
    click.option(
        "--tls-cert",
        type=_FILE,
        metavar="FILE",
        help="Speak TLS with this certificate, in PEM, with the intermediate certificates after it.",
    ),
    click.option(
        "--tls-key",
        type=_FILE,
        metavar="FILE",
        help="The private key of --tls-cert. By default it is in the same file.",
    ),
    click.option(
        "--tls-dir",
        type=click.Path(exists=True, file_okay=False, readable=True),
        metavar="DIR",
        help="Certificates for several names: NAME.pem and NAME.key, or NAME/fullchain.pem and NAME/privkey.pem as "
        "certbot has them.",
    ),
    click.option(
        "--tls-unknown-names",
        type=click.Choice(UNKNOWN_NAMES),
        default=_DEFAULTS["unknown_names"],
        show_default=True,
        help="Serve the default certificate to a client that asks for another name, or refuse it.",
    ),
    click.option(
        "--tls-min-version",
        type=click.Choice(VERSIONS),
        default=_DEFAULTS["min_version"],
        show_default=True,
        help="The lowest version of TLS.",
    ),
    click.option(
        "--tls-clients",
        type=click.Choice(CLIENTS),
        default=_DEFAULTS["clients"],
        show_default=True,
        help="Whether clients show a certificate; with --tls-client-ca.",
    ),
    click.option(
        "--tls-client-ca",
        type=_FILE,
        metavar="FILE",
        help="Certificates of the authorities of clients.",
    ),
    click.option(
        "--tls-crl",
        type=_FILE,
        metavar="FILE",
        help="Lists of certificates of clients that are revoked.",
    ),
    click.option(
        "--tls-ticket-keys",
        type=_FILE,
        metavar="FILE",
        help="Keys of session tickets that several nodes share: 48 or 80 bytes in base64 a line. By default random "
        "ones.",
    ),
    click.option(
        "--no-http2",
        is_flag=True,
        help="Speak HTTP/1.1 alone over TLS. By default clients that offer HTTP/2 get it.",
    ),
    click.option(
        "--http-redirect",
        metavar="[ADDRESS]",
        is_flag=False,
        flag_value="80",
        help="Answer plain HTTP on this address, or on port 80 of all interfaces, with a redirect to https. By default "
        "nowhere.",
    ),
    click.option(
        "--http-redirect-port",
        type=click.IntRange(1, 65535),
        metavar="PORT",
        help="The port of https that clients are sent to, if another program passes it on. By default that of --listen.",
    ),
    click.option(
        "--hsts",
        type=click.IntRange(0),
        metavar="SECONDS",
        help="Have browsers ask for this host by https alone for so long (Strict-Transport-Security). This cannot be "
        "taken back.",
    ),
    click.option("--hsts-subdomains", is_flag=True, help="With --hsts: and for all hosts below it."),
    click.option(
        "--hsts-preload", is_flag=True, help="With --hsts: and let browsers have the host in their lists."
    ),
)


def tls_options(command: _Command) -> _Command:
    """Add the options of `config.TLS`."""
    for option in reversed(_TLS_OPTIONS):
        command = option(command)
    return command


def listen_option(read: Callable[[str], object], help_text: str) -> Callable[[_Command], _Command]:
    """Add `--listen`."""
    return click.option(
        "--listen",
        type=read,
        default=SERVER["listen"],
        show_default=True,
        metavar="ADDRESS",
        help=help_text,
    )
