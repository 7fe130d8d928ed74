"""What options, the environment and a configuration file say together, as one `config.Server`.

Each option of `penstock serve` stands for a setting (`SETTINGS`) and can be given as a variable of the environment. The
command line goes before the environment, that before the file, and that before defaults. `Configuration` has the options
once and for all, and reads the file as often as it is asked.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import click
from click.core import ParameterSource

from . import config
from .cli_options import TIMEOUTS
from .configuration import Document, Faults, FaultyConfigurationError, read_server

__all__ = ["SETTINGS", "Configuration", "ConfiguredCommand", "Said", "variable_of"]

# The setting of each option. What it is in the file is the same with dots: cache.memory.
SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "app": ("app",),
    "origin": ("origins", "default", "urls"),
    **{
        name: (name,)
        for name in (
            "listen",
            "drain",
            "upgrade_timeout",
            "threads",
            "control",
            "lane",
            "uvloop",
            "log_level",
        )
    },
    "status_listen": ("status", "listen"),
    "traces": ("tracing", "endpoint"),
    "traces_ratio": ("tracing", "ratio"),
    "trust_trace_context": ("edge", "trust_trace_context"),
    "memory": ("pool", "memory"),
    "cache": ("cache", "memory"),
    "cache_disk": ("cache", "disk"),
    "cache_disk_size": ("cache", "disk_budget"),
    "cache_stale": ("caching", "stale_if_error"),
    "connections": ("limits", "connections"),
    "ca": ("origin_tls", "roots"),
    "origin_cert": ("origins", "default", "certificate", "cert"),
    "origin_key": ("origins", "default", "certificate", "key"),
    "origin_http2": ("origins", "default", "http2"),
    "client_connections": ("edge", "client_connections"),
    "client_requests": ("edge", "client_requests"),
    **{
        f"tls_{name}": ("tls", name)
        for name in (
            "cert",
            "key",
            "unknown_names",
            "min_version",
            "clients",
            "client_ca",
            "crl",
            "ticket_keys",
        )
    },
    "tls_dir": ("tls", "directory"),
    "no_http2": ("http2",),
    "http_redirect": ("tls", "http_redirect"),
    "http_redirect_port": ("tls", "redirect_port"),
    "hsts": ("tls", "hsts", "max_age"),
    "hsts_subdomains": ("tls", "hsts", "subdomains"),
    "hsts_preload": ("tls", "hsts", "preload"),
    "acme_dir": ("edge", "acme_dir"),
    "grpc_health": ("edge", "grpc_health"),
    **{f"{name}_timeout": ("timeouts", name) for name in TIMEOUTS},
    "forwarded": ("forwarding", "forwarded"),
    "trust_forwarded": ("forwarding", "trust_incoming"),
    "preserve_host": ("forwarding", "preserve_host"),
    "workers": ("workers", "count"),
    "worker_memory": ("workers", "memory"),
    "worker_start_timeout": ("workers", "start_timeout"),
    "worker_hang": ("workers", "hang"),
    "access_log": ("access_log",),
    "access_log_file": ("access_log", "path"),
    "access_log_format": ("access_log", "format"),
}

_GIVEN: Final = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def variable_of(option: str) -> str:
    """The variable of the environment that says an option."""
    return f"PENSTOCK_{option.upper()}"


class Said(NamedTuple):
    """What an option or a variable of the environment says."""

    name: str
    value: Any
    label: str
    """How it was given: `--cache`, or `PENSTOCK_CACHE`."""


class ConfiguredCommand(click.Command):
    """A command with the options of `penstock serve`: the environment can say them, and errors name the variable."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for parameter in self.params:
            if parameter.name in SETTINGS or parameter.name == "config":
                parameter.envvar = variable_of(parameter.name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options, and have errors name where a value comes from."""
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            name = None if error.param is None else error.param.name
            if name is not None and ctx.get_parameter_source(name) == ParameterSource.ENVIRONMENT:
                error.param_hint = f"'{variable_of(name)}'"
            raise


class _FaultyFile(click.ClickException):
    """The faults of a file, a line each."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print them, to standard error."""
        click.echo(self.message, file=file, err=file is None)


class Configuration:
    """What was said, wherever.

    Raises:
        click.ClickException: the file has faults.
    """

    def __init__(self, path: Path | str | None, said: Sequence[Said] = ()) -> None:
        self.path: Final = path
        self.said: Final = {each.name: each for each in said}
        try:
            self.document = self._read()
        except FaultyConfigurationError as error:
            refuse(error)

    @classmethod
    def of_context(cls, ctx: click.Context) -> "Configuration":
        """That of the options of a running command."""
        said = []
        for parameter in ctx.command.params:
            name = parameter.name
            source = None if name is None else ctx.get_parameter_source(name)
            if name in SETTINGS and source in _GIVEN:
                value = ctx.params[name]
                by_variable = source == ParameterSource.ENVIRONMENT
                said.append(Said(name, value, variable_of(name) if by_variable else _label(parameter, value)))
        return cls(ctx.params["config"], said)

    def _read(self) -> Document:
        document = Document.empty() if self.path is None else Document.read(self.path)
        for each in self.said.values():
            _SAY.get(each.name, _say)(document, each)
        return document

    def has(self, *path: str) -> bool:
        """Whether a setting is said."""
        return self.document.find(path) is not None

    @property
    def needs_no_ssl(self) -> bool:
        """Whether the engine relays alone on asyncio's loop, as far as that is seen before anything is checked."""
        lane, uvloop = (self.document.find((name,)) for name in ("lane", "uvloop"))
        is_native = not self.has("app") and (lane is None or lane.value != "app")
        return is_native and not self.has("control") and (uvloop is None or uvloop.value is not True)

    def server(self) -> config.Server:
        """What is said.

        Raises:
            click.ClickException: it has faults.
        """
        try:
            return _server_of(self.document)
        except FaultyConfigurationError as error:
            refuse(error)

    def read_again(self) -> tuple[config.Server, Document]:
        """What the file says now, with the options of before.

        Raises:
            FaultyConfigurationError: it has faults.
        """
        document = self._read()
        return _server_of(document), document


def _server_of(document: Document) -> config.Server:
    """What a document says.

    Raises:
        FaultyConfigurationError: it has faults.
    """
    faults = Faults()
    server = read_server(document, faults)
    faults.check()
    assert server is not None  # noqa: S101 (there was no fault)
    return server


def refuse(error: FaultyConfigurationError) -> NoReturn:
    """End the command with what is wrong.

    Raises:
        click.ClickException: in any case.
    """
    faults = error.faults
    if any(fault.place.file for fault in faults):
        raise _FaultyFile(str(error)) from None
    fault = faults[0]
    if fault.is_combination:
        raise click.UsageError(f"{fault.place}: {fault.text}") from None
    raise click.BadParameter(fault.text, param_hint=f"'{fault.place}'") from None


def _label(parameter: click.Parameter, value: object) -> str:
    """How an option was written; of two flags the one that says `value`."""
    if isinstance(parameter, click.Argument):
        return "MODULE:APP"
    flags = parameter.secondary_opts if value is False and parameter.secondary_opts else parameter.opts
    return flags[-1]


def _say(document: Document, each: Said) -> None:
    value = each.value
    if isinstance(value, tuple):
        value = list(value)
    elif isinstance(value, Path):
        value = str(value)
    # What is no limit for an option is false in a file.
    document.say(SETTINGS[each.name], False if value is None else value, each.label)


def _say_origin(document: Document, each: Said) -> None:
    _say(document, each)
    # What the file says of the origins that these replace is not about them.
    known = document.find(("origins", "default"))
    assert known is not None  # noqa: S101 (said above)
    known.value.pop("name", None)


def _say_control(document: Document, each: Said) -> None:
    _say(document, each._replace(value=f"unix:{each.value}"))


def _switch(document: Document, name: str, is_on: bool, label: str) -> None:
    """Switch the table `name` off, or on again where the file has `false` in its place."""
    node = document.find((name,))
    if not is_on:
        document.say((name,), False, label)
    elif node is not None and node.value is False:
        document.forget((name,))


def _say_no_http2(document: Document, each: Said) -> None:
    _switch(document, "http2", not each.value, each.label)


def _say_forwarded(document: Document, each: Said) -> None:
    _say(document, each)
    document.say(("forwarding", "x_forwarded"), not each.value, each.label)


def _say_access_log(document: Document, each: Said) -> None:
    _switch(document, "access_log", each.value, each.label)


_SAY: Final[Mapping[str, Callable[[Document, Said], None]]] = {
    "origin": _say_origin,
    "control": _say_control,
    "no_http2": _say_no_http2,
    "forwarded": _say_forwarded,
    "access_log": _say_access_log,
}
