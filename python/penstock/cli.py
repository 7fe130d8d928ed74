"""The `penstock` command.

Reads arguments, and has `cli_serving`, `cli_application` or `penstock.demo` do the work. A command imports only what
it needs, because a process keeps all of it in memory. Wrong arguments are reported in one line with exit status 2; a
failure at the start has exit status 1. Every default comes from `penstock.config`.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import click
from click.core import ParameterSource

from . import __version__, _no_tls, config
from .cache_command import cache, control_path
from .cli_options import (
    TIMEOUTS,
    address_for_browsers,
    address_or_inherited,
    listen_option,
    seconds,
    timeout_options,
    tls_options,
)
from .health_command import health
from .serving.inherited import Listen

__all__ = ["main"]

_LIMITS: Final = config.OriginLimits()
_TRACES_RATIO: Final = config.Tracing().ratio
_WORKERS: Final = config.Workers(count=1)
_MEMORY: Final = next(field.default for field in fields(config.Pool) if field.name == "memory")
_WORKER_MEMORY: Final = next(field.default for field in fields(config.Workers) if field.name == "memory")
# Options of the command's own engine: with MODULE:APP alone they would have no effect.
_ENGINE_OPTIONS: Final = frozenset(
    ("memory", "threads", "connections", "ca", "cache", "cache_disk", "cache_disk_size", "control")
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


@main.command()
@click.argument("app", metavar="[MODULE:APP]", required=False)
@click.option(
    "--origin",
    metavar="URL",
    multiple=True,
    help="Relay every request to this origin, such as http://10.0.0.5:8080. With several origins: to each in turn, and "
    "to another one if one fails. The origin gets its own Host, unless --preserve-host is given, and a Location that "
    "names it becomes a path of this server.",
)
@listen_option(
    address_or_inherited,
    "Where to serve: HOST:PORT, a PORT or :PORT for all interfaces, or unix:PATH; port 0 takes a free one. fd:NAME or "
    "fd:NUMBER takes a socket that the process was started with, such as systemd's.",
)
@click.option(
    "--drain",
    type=click.FloatRange(0, 86400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for requests to finish after SIGTERM or SIGINT.",
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
    help="A socket for `penstock cache`, created for its owner alone; with --cache. By default there is no socket.",
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
    default="native",
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
    default="info",
    show_default=True,
    help="The lowest level that is logged, to stderr.",
)
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    app: str | None,
    origin: tuple[str, ...],
    listen: Listen,
    uvloop: bool | None,
    log_level: str,
    **options: Any,
) -> None:
    """Serve a gateway to one origin, or an aiohttp application.

    \b
      penstock serve --origin http://10.0.0.5:8080 --listen 0.0.0.0:80
      penstock serve package.module:app

    APP is an aiohttp.web.Application, or a function or coroutine function that returns one; it is imported from
    the current directory too. A function may be called with literals, as in 'media:make(debug=True)'; one with a
    single parameter gets an empty list, as from python -m aiohttp.web. The application configures its own
    gateways, timeouts and memory. With --workers this process has the cache and the memory of relayed bodies, and
    the application configures the rest.

    The first SIGTERM or SIGINT stops accepting and lets requests finish for the time of --drain; then the
    remaining ones are aborted, in a way that no client takes for a whole response. A second signal ends the
    process at once. With --workers SIGHUP imports the application again, in new workers.

    \b
    Exit status: 0 after a signal, 1 if serving could not begin, 2 for wrong arguments.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    _check_options(ctx, app, origin, options)
    is_native = app is None and options["lane"] == "native"
    if is_native and not uvloop and options["control"] is None:
        _no_tls.import_asyncio()
    from . import cli_serving as serving  # noqa: PLC0415 (the library, with asyncio)

    serving.log_to_stderr(log_level)
    front = serving.front_of(listen, options)
    with serving.announcing(listen) as announcer:
        if is_native:
            work = serving.relaying(origin, front, options, announcer)
            # The loop has signals to wait for, and no request: uvloop would cost 2 MB for nothing.
            uvloop = bool(uvloop)
        else:
            from . import cli_application as application  # noqa: PLC0415 (aiohttp, which takes 15 MB)

            if app is not None and options["workers"] is not None:
                work = application.in_workers(app, front, log_level, uvloop, options, announcer)
            else:
                make = application.of_name(app) if app is not None else application.of_origin(origin, options)
                work = application.in_this_process(make, front, options["drain"], announcer)
        pages = None if front.status is None else front.status.place()
        plain = None if front.edge.tls is None else front.edge.tls.redirects_at()
        serving.run(work, uvloop, {"--listen": listen, "--status-listen": pages, "--http-redirect": plain})


def _doctor(app: str | None, origin: tuple[str, ...], listen: Listen, **options: Any) -> None:
    """Check whether this machine is fit for `penstock serve` with the same options.

    It reads, and changes nothing: limits of descriptors, memory and processor time, settings of the kernel, the clock,
    certificates, directories and addresses. Each finding says what was seen, what is wanted, why, and how to change it.

    \b
    Exit status: 0; 1 with warnings; 2 if something will fail.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    from .doctor.command import diagnose  # noqa: PLC0415 (the library, with asyncio)

    clients, probe, as_object = (options.pop(name) for name in ("clients", "probe", "as_json"))
    if probe and not origin:
        raise click.UsageError("--probe: only with --origin")
    raise SystemExit(
        diagnose(app, origin, listen, options, clients=clients, probe=probe, as_object=as_object)
    )


main.add_command(
    click.Command(
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


def _check_options(
    ctx: click.Context, app: str | None, origin: tuple[str, ...], options: Mapping[str, Any]
) -> None:
    """Refuse options that have no effect together."""
    workers = options["workers"]
    if (app is None) == (not origin):
        raise click.UsageError("give either --origin URL or MODULE:APP")
    if app is None and workers is not None:
        raise click.UsageError("--workers: only with MODULE:APP; they are for the code of an application")
    if workers is None:
        _refuse(ctx, _WORKER_OPTIONS, "only with --workers")
    if app is not None:
        if workers is None:
            _refuse(
                ctx, _ENGINE_OPTIONS, "only with --origin or --workers; an application makes its own engine"
            )
        _refuse(ctx, _GATEWAY_OPTIONS, "only with --origin; an application makes its own gateway")
    if options["tls_cert"] is None and options["tls_dir"] is None:
        _refuse(ctx, _CERTIFIED_OPTIONS, "only with --tls-cert or --tls-dir")
    if options["origin_cert"] is None:
        _refuse(ctx, frozenset(("origin_key",)), "only with --origin-cert")
    if options["cache"] is None:
        if options["control"] is not None:
            raise click.UsageError("--control: only with --cache; there is nothing else to control")
        _refuse(ctx, frozenset(("cache_stale",)), "only with --cache")


def _refuse(ctx: click.Context, names: frozenset[str], why: str) -> None:
    """Refuse the options `names`, which would have no effect."""
    given = sorted(name for name in names if ctx.get_parameter_source(name) != ParameterSource.DEFAULT)
    if given:
        flags = ", ".join("--" + name.replace("_", "-") for name in given)
        raise click.UsageError(f"{flags}: {why}")


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
