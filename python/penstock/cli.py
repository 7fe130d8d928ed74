"""The `penstock` command.

Reads arguments, and has `cli_serving`, `cli_application` or `penstock.demo` do the work. A command imports only what
it needs, because a process keeps all of it in memory. Wrong arguments are reported in one line with exit status 2; a
failure at the start has exit status 1. Every default comes from `penstock.config`.
"""

from collections.abc import Collection
from dataclasses import fields
from typing import Any, Final

import click

from . import __version__, _no_tls, config
from .cache_command import cache
from .cli_config import Configuration, ConfiguredCommand
from .cli_options import (
    SERVER,
    TIMEOUTS,
    address_for_browsers,
    address_text,
    listen_option,
    seconds,
    timeout_options,
    tls_options,
)
from .control_client import control_path
from .health_command import health
from .load.command import load
from .profile_command import profile
from .upgrade_command import upgrade

__all__ = ["main"]

_LIMITS: Final = config.OriginLimits()
_TRACES_RATIO: Final = config.Tracing().ratio
_WORKERS: Final = config.Workers(count=1)
_MEMORY: Final = next(field.default for field in fields(config.Pool) if field.name == "memory")
_WORKER_MEMORY: Final = next(field.default for field in fields(config.Workers) if field.name == "memory")
# Options of the command's own engine: with MODULE:APP alone they would have no effect.
_ENGINE_OPTIONS: Final = frozenset(
    ("memory", "threads", "connections", "ca", "cache", "cache_disk", "cache_disk_size")
)
# An application makes its own gateways.
_GATEWAY_OPTIONS: Final = frozenset(
    (
        *("forwarded", "trust_forwarded", "preserve_host", "lane", "cache_stale"),
        *("origin_cert", "origin_http2", "origin_key"),
        *(f"{name}_timeout" for name in TIMEOUTS),
    )
)
_WORKER_OPTIONS: Final = frozenset(("worker_memory", "worker_start_timeout", "worker_hang"))
_CERTIFIED_OPTIONS: Final = frozenset(
    f"tls_{name}"
    for name in ("key", "unknown_names", "min_version", "clients", "client_ca", "crl", "ticket_keys")
) | frozenset(("http_redirect", "http_redirect_port", "hsts", "hsts_subdomains", "hsts_preload"))


_uvloop_option: Final = click.option(
    "--uvloop/--no-uvloop",
    default=None,
    help="Use uvloop, or asyncio's own loop.  [default: uvloop, if it is installed and there is an application]",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="penstock")
def main() -> None:
    """An async media gateway: policy in Python, bytes in Rust."""


main.add_command(cache)
main.add_command(health)
main.add_command(load)
main.add_command(profile)
main.add_command(upgrade)


@main.command(cls=ConfiguredCommand)
@click.argument("app", metavar="[MODULE:APP]", required=False)
@click.option(
    "--config",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Read the configuration from this file, in TOML. Options go before what it says. SIGHUP has it read again.",
)
@click.option(
    "--origin",
    metavar="URL",
    multiple=True,
    help="Relay every request to this origin, such as http://10.0.0.5:8080. With several origins: to each in turn, and "
    "to another one if one fails. The origin gets its own Host, unless --preserve-host is given, and a Location that "
    "names it becomes a path of this server.",
)
@listen_option(
    address_text,
    "Where to serve: HOST:PORT, a PORT or :PORT for all interfaces, or unix:PATH; port 0 takes a free one. fd:NAME or "
    "fd:NUMBER takes a socket that the process was started with, such as systemd's.",
)
@click.option(
    "--drain",
    type=click.FloatRange(0, 86400),
    default=SERVER["drain"],
    show_default=True,
    metavar="SECONDS",
    help="Time for requests to finish after SIGTERM or SIGINT.",
)
@click.option(
    "--upgrade-timeout",
    type=click.FloatRange(0.1, 86400),
    default=SERVER["upgrade_timeout"],
    show_default=True,
    metavar="SECONDS",
    help="Time for a process that is to take the place of this one, after SIGUSR2 or `penstock upgrade`, to be ready.",
)
@click.option(
    "--status-listen",
    metavar="ADDRESS",
    help="Where to serve the status pages /penstock/health, /penstock/ready and /penstock/metrics, in the forms of "
    "--listen. By default nowhere; every client that can connect can read them.",
)
@click.option(
    "--traces",
    metavar="URL",
    help="Send traces of requests to this collector of OpenTelemetry (OTLP over HTTP), such as "
    "http://localhost:4318/v1/traces. By default nowhere.",
)
@click.option(
    "--traces-ratio",
    type=float,
    metavar="SHARE",
    help="With --traces: the share of requests that is traced, from 0 to 1, besides failures and the slowest. By "
    f"default {_TRACES_RATIO:g}.",
)
@click.option(
    "--trust-trace-context",
    is_flag=True,
    help="Let clients say of which trace a request is a part (traceparent): only where they are servers of your own.",
)
@click.option(
    "--memory",
    default=_MEMORY,
    show_default=True,
    metavar="SIZE",
    help="Memory budget of the pool, for payload bytes.",
)
@click.option(
    "--cache",
    metavar="SIZE",
    help="Memory for cached responses, at most half of --memory. By default nothing is cached.",
)
@click.option(
    "--cache-disk",
    metavar="DIR",
    help="Directory for responses that leave the cache's memory. One process at a time may use it.",
)
@click.option("--cache-disk-size", metavar="SIZE", help="Bytes that the files in --cache-disk may take.")
@click.option(
    "--cache-stale",
    type=click.FloatRange(0, 1e9),
    default=config.Caching().stale_if_error,
    show_default=True,
    metavar="SECONDS",
    help="How long a stale response is used if the origin cannot be reached or answers 500, 502, 503 or 504, unless the "
    "origin says otherwise; with --cache. 0: not at all.",
)
@click.option(
    "--control",
    type=control_path,
    metavar="unix:PATH",
    help="A socket for `penstock cache` and `penstock upgrade`, for its owner alone. By default there is no socket.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 256),
    help="Engine threads. By default one less than the usable cores, at least one.",
)
@click.option(
    "--connections",
    type=click.IntRange(1),
    default=_LIMITS.connections,
    show_default=True,
    help="Connections to the origin at a time, for each engine thread.",
)
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    metavar="FILE",
    help="Certificates, in PEM, of the only authorities that https origins are verified by. By default the system's.",
)
@click.option(
    "--origin-cert",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    metavar="FILE",
    help="The certificate, in PEM, that https origins of --origin are shown if they ask for one.",
)
@click.option(
    "--origin-key",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    metavar="FILE",
    help="The private key of --origin-cert. By default it is in the same file.",
)
@click.option(
    "--origin-http2",
    is_flag=True,
    help="Ask the origins of --origin by HTTP/2, as gRPC needs it. An origin at https may settle on HTTP/1.1 instead.",
)
@click.option(
    "--client-connections",
    type=click.IntRange(1),
    metavar="N",
    help="Connections of one client address at a time; an IPv6 network of 64 bits is one address. Not for use "
    "behind a proxy. By default any number.",
)
@click.option(
    "--client-requests",
    type=click.IntRange(1),
    metavar="N",
    help="Requests of one client address at a time. By default any number.",
)
@tls_options
@click.option(
    "--acme-dir",
    type=click.Path(exists=True, file_okay=False, readable=True),
    metavar="DIR",
    help="The web root into which an ACME client such as certbot or lego writes its answers to http-01 challenges.",
)
@click.option(
    "--grpc-health",
    is_flag=True,
    help="Answer calls of grpc.health.v1.Health/Check, as the page /ready of --status-listen has it.",
)
@timeout_options
@click.option("--forwarded", is_flag=True, help="Send Forwarded (RFC 7239) instead of X-Forwarded-*.")
@click.option(
    "--trust-forwarded",
    is_flag=True,
    help="Keep the clients' forwarding fields: only behind a proxy of your own.",
)
@click.option("--preserve-host", is_flag=True, help="Send the client's Host to the origin.")
@click.option(
    "--lane",
    type=click.Choice(("native", "app")),
    default=SERVER["lane"],
    show_default=True,
    help="What relays to the origin: the engine alone, or an aiohttp application, for comparison.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Run the application in N worker processes, which SIGHUP replaces with newer code. By default it runs in this "
    "process.",
)
@click.option(
    "--worker-memory",
    default=_WORKER_MEMORY,
    show_default=True,
    metavar="SIZE",
    help="Memory budget of each worker, for bodies that pass through the application.",
)
@click.option(
    "--worker-start-timeout",
    type=click.FloatRange(0.1, 86400),
    default=_WORKERS.start_timeout,
    show_default=True,
    metavar="SECONDS",
    help="Time for a worker to import the application and be ready.",
)
@click.option(
    "--worker-hang",
    type=seconds,
    default=f"{_WORKERS.hang:g}",
    show_default=True,
    metavar="SECONDS",
    help="Kill a worker whose event loop is blocked for so long. 'none': never.",
)
@_uvloop_option
@click.option(
    "--access-log/--no-access-log", default=True, show_default=True, help="Log one line for each request."
)
@click.option(
    "--access-log-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The file for these lines, opened anew when it was moved away and at SIGUSR1. By default standard error.",
)
@click.option(
    "--access-log-format",
    metavar="FORMAT",
    help="What they look like: plain, combined (Apache's and nginx's), json, or a text with fields in braces, such as "
    "'{client} {status} {origin_seconds}'. By default plain.",
)
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error"), case_sensitive=False),
    default=SERVER["log_level"],
    show_default=True,
    help="The lowest level that is logged, to stderr.",
)
@click.pass_context
def serve(ctx: click.Context, /, **_: Any) -> None:
    """Serve a gateway to one origin, what a configuration file says, or an aiohttp application.

    \b
      penstock serve --origin http://10.0.0.5:8080 --listen 0.0.0.0:80
      penstock serve --config penstock.toml
      penstock serve package.module:app

    APP is an aiohttp.web.Application, or a function or coroutine function that returns one; it is imported from
    the current directory too. A function may be called with literals, as in 'media:make(debug=True)'; one with a
    single parameter gets an empty list, as from python -m aiohttp.web. The application configures its own
    gateways, timeouts and memory. With --workers this process has the cache and the memory of relayed bodies, and
    the application configures the rest.

    The first SIGTERM or SIGINT stops accepting and lets requests finish for the time of --drain; then the
    remaining ones are aborted, in a way that no client takes for a whole response. A second signal ends the
    process at once. With --workers SIGHUP imports the application again, in new workers. With --config it has
    the file read again, and its routes put in place. SIGUSR2 has a new process with the same command line take
    the place of this one, which then stops: see `penstock upgrade`.

    Each option can also be given as a variable of the environment, PENSTOCK_ and its name: PENSTOCK_CACHE for
    --cache, PENSTOCK_APP for MODULE:APP. The command line goes before the environment, and that before the file.

    \b
    Exit status: 0 after a signal, 1 if serving could not begin, 2 for wrong arguments.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    configuration = _configured(ctx)
    if configuration.needs_no_ssl:
        _no_tls.import_asyncio()
    from . import cli_serving as serving  # noqa: PLC0415 (the library, with asyncio)

    plan = serving.planned(configuration)
    server = plan.server
    serving.log_to_stderr(server.log_level)
    uvloop = server.uvloop
    with serving.announcing(plan) as announcer:
        if server.app is None and server.lane == "native":
            work = serving.relaying(configuration, plan, announcer)
            # The loop has signals to wait for, and no request: uvloop would cost 2 MB for nothing.
            uvloop = bool(uvloop)
        else:
            from . import cli_application as application  # noqa: PLC0415 (aiohttp, which takes 15 MB)

            if server.app is not None and server.workers is not None:
                work = application.in_workers(server.app, server.workers, configuration, plan, announcer)
            else:
                make = (
                    application.of_origin(configuration, plan)
                    if server.app is None
                    else application.of_name(server.app)
                )
                work = application.in_this_process(make, plan, announcer)
        serving.run(work, uvloop, serving.listens_of(configuration, plan))


def _configured(ctx: click.Context) -> Configuration:
    """What was said. Options that have no effect together are refused."""
    configuration = Configuration.of_context(ctx)
    _check_options(configuration)
    return configuration


@click.pass_context
def _doctor(ctx: click.Context, /, clients: int, probe: bool, as_json: bool, **_: Any) -> None:
    """Check whether this machine is fit for `penstock serve` with the same options.

    It reads, and changes nothing: limits of descriptors, memory and processor time, settings of the kernel, the clock,
    certificates, directories and addresses. Each finding says what was seen, what is wanted, why, and how to change it.

    \b
    Exit status: 0; 1 with warnings; 2 if something will fail.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    from .doctor.command import diagnose  # noqa: PLC0415 (the library, with asyncio)

    configuration = _configured(ctx)
    if probe and not (configuration.has("origins") or configuration.has("routes")):
        raise click.UsageError("--probe: only with --origin")
    raise SystemExit(diagnose(configuration, clients=clients, probe=probe, as_object=as_json))


main.add_command(
    ConfiguredCommand(
        "doctor",
        params=[
            *serve.params,
            click.Option(
                ["--clients"],
                type=click.IntRange(1),
                default=1000,
                show_default=True,
                metavar="N",
                help="How many clients are expected at a time.",
            ),
            click.Option(["--probe"], is_flag=True, help="Ask each origin of --origin for an answer."),
            click.Option(["--json", "as_json"], is_flag=True, help="Print an object of JSON."),
        ],
        callback=_doctor,
        help=_doctor.__doc__,
    )
)


def _check_options(configuration: Configuration) -> None:
    """Refuse options that have no effect together. What a file says is checked where it is read."""
    has, given = configuration.has, configuration.said
    has_app, has_workers = has("app"), has("workers")
    if configuration.path is None and has_app == has("origins", "default", "urls"):
        raise click.UsageError("give either --origin URL or MODULE:APP")
    if has_app and "origin" in given:
        raise click.UsageError("give either --origin URL or MODULE:APP")
    if not has_app and "workers" in given:
        _refuse(configuration, {"workers"}, "only with MODULE:APP; they are for the code of an application")
    if not has("workers", "count"):
        _refuse(configuration, _WORKER_OPTIONS, "only with --workers")
    if has_app:
        if not has_workers:
            why = "only with --origin or --workers; an application makes its own engine"
            _refuse(configuration, _ENGINE_OPTIONS, why)
        _refuse(configuration, _GATEWAY_OPTIONS, "only with --origin; an application makes its own gateway")
    if not (has("tls", "cert") or has("tls", "directory")):
        _refuse(configuration, _CERTIFIED_OPTIONS, "only with --tls-cert or --tls-dir")
    if not has("origins", "default", "certificate", "cert"):
        _refuse(configuration, {"origin_key"}, "only with --origin-cert")
    if not has("origins", "default", "urls"):
        _refuse(configuration, {"origin_cert", "origin_http2"}, "only with --origin")
    if not has("tls", "hsts", "max_age"):
        _refuse(configuration, {"hsts_subdomains", "hsts_preload"}, "only with --hsts")
    if not has("tracing", "endpoint"):
        _refuse(configuration, {"traces_ratio"}, "only with --traces")
    log = configuration.document.find(("access_log",))
    is_off = "access_log" in given and not given["access_log"].value
    if is_off or (log is not None and log.value is False):
        _refuse(configuration, {"access_log_file", "access_log_format"}, "not with --no-access-log")
    _check_cache(configuration)


def _check_cache(configuration: Configuration) -> None:
    has = configuration.has
    if not has("cache", "memory") and configuration.path is None:
        _refuse(configuration, {"cache_stale"}, "only with --cache")
        if not has("cache", "disk") and has("cache", "disk_budget"):
            raise click.UsageError("--cache-disk and --cache-disk-size go together")
        _refuse(configuration, {"cache_disk"}, "only with --cache")
    if has("cache", "disk") != has("cache", "disk_budget") and (
        {"cache_disk", "cache_disk_size"} & set(configuration.said)
    ):
        raise click.UsageError("--cache-disk and --cache-disk-size go together")


def _refuse(configuration: Configuration, names: Collection[str], why: str) -> None:
    """Refuse the options `names`, which would have no effect."""
    given = sorted(name for name in names if name in configuration.said)
    if given:
        labels = ", ".join(configuration.said[name].label for name in given)
        raise click.UsageError(f"{labels}: {why}")


@main.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print an object of JSON.")
def check(file: str, as_json: bool) -> None:
    """Check a configuration file, and print what `penstock serve --config FILE` would serve.

    Every fault has a line: file, line, column, setting, and what is wrong. No socket is opened, and options and
    the environment are not looked at, except for values that the file takes from it.

    \b
    Exit status: 0, 2 if the file has faults.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    from .cli_check import check_file  # noqa: PLC0415 (the library, with asyncio)

    check_file(file, as_json=as_json)


@main.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print what has a shell complete the commands, options and files of penstock.

    \b
      penstock completion bash > ~/.local/share/bash-completion/completions/penstock
      penstock completion zsh > ~/.zfunc/_penstock
      penstock completion fish > ~/.config/fish/completions/penstock.fish

    For bash that takes version 4.4 or later, and for zsh that ~/.zfunc is in fpath before compinit is called.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    from click.shell_completion import get_completion_class  # noqa: PLC0415 (no other command needs it)

    made = get_completion_class(shell)
    assert made is not None  # noqa: S101 (click has these three)
    # Not `source()`, which runs bash to ask for its version: the script is mostly for another machine or image.
    script = made(main, {}, "penstock", "_PENSTOCK_COMPLETE")
    click.echo(script.source_template % script.source_vars())


@main.command()
@listen_option(address_for_browsers, "HOST:PORT, or a PORT for all interfaces. Port 0 takes a free one.")
@click.option("--tls", is_flag=True, help="Serve it by https, with a certificate that is made on the spot.")
@_uvloop_option
def demo(listen: tuple[str, int], tls: bool, uvloop: bool | None) -> None:
    """Show penstock at work: live video and a token stream through the gateway, in a browser."""
    # The library, and media and pages that are of no use to the other commands.
    from . import cli_serving as serving  # noqa: PLC0415
    from .demo import run  # noqa: PLC0415

    serving.run(run(*listen, tls=tls), uvloop, {"--listen": listen})
