"""`penstock load`: runs a scenario of sessions against an HTTP server, and shows what was found."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import click

__all__ = ["FAILED", "VOID", "load"]

VOID: Final = 3
"""The exit status of a run that says nothing about its target."""
FAILED: Final = 4
"""The exit status of a run of which an assertion failed."""
_MOST_PARTS: Final = 10_000
_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group()
def load() -> None:
    """Put a server under the load of many viewers, and report what they experienced.

    Sessions arrive in an open loop, at times that do not depend on how fast the server answers, and latencies count
    from when a request was due. The same seed gives the same arrivals, titles and viewers.
    """


def _target(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_fine = False
    if not is_fine or parts.path.strip("/") or parts.query:
        raise click.BadParameter(f"{value!r}: must be like http://host:port or https://host:port")
    return value.rstrip("/")


def _part(_: click.Context, __: click.Parameter, value: str) -> tuple[int, int]:
    """Which part of how many, from 0 on."""
    part, _slash, parts = value.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts) <= _MOST_PARTS):
        raise click.BadParameter(f"{value!r}: must be like 1/3, the first of three parts")
    return int(part) - 1, int(parts)


def _assertions(command: _Command) -> _Command:
    return click.option(
        "--fail-if",
        "assertions",
        multiple=True,
        metavar="ASSERTION",
        help="The run fails if this is so, such as 'startup.p95 > 1.5s', 'rebuffer > 0.5%' or 'errors > 0'. Figures "
        "have the names of summary.json. May be given several times.",
    )(command)


_out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Directory for summary.json, records.json, sessions.ndjson, latencies.hlog and report.html. It is made.",
)


@load.command("run")
@click.argument("scenario", type=click.Path(exists=True, dir_okay=False), metavar="SCENARIO.toml")
@click.option("--target", callback=_target, metavar="URL", help="The server, such as http://10.0.0.5:8080.")
@click.option(
    "--embedded-origin",
    is_flag=True,
    help="Instead: an origin within this process, to try a scenario out, or to see what the generator can do.",
)
@click.option(
    "--duration",
    type=click.FloatRange(0.1, 7 * 86400),
    required=True,
    metavar="SECONDS",
    help="How long sessions arrive. Sessions that are left then are cut.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, (1 << 63) - 1),
    default=0,
    show_default=True,
    help="Decides all that is random.",
)
@click.option(
    "--roots",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Certificates by which that of an https target is verified, as PEM. Without: those of this machine.",
)
@_out
@_assertions
@click.option(
    "--part",
    callback=_part,
    default="1/1",
    metavar="I/N",
    help="This machine is the I-th of N that share the sessions. `penstock load merge` adds what they found.",
)
@click.option(
    "--start-at",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Begin at this time, in seconds since 1970, so that several machines begin together.",
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
def run(
    scenario: str,
    target: str | None,
    embedded_origin: bool,
    duration: float,
    seed: int,
    roots: str | None,
    out: Path,
    assertions: tuple[str, ...],
    part: tuple[int, int],
    start_at: float | None,
    quiet: bool,
) -> None:
    """Run a scenario against a server.

    \b
      penstock load run examples/load/vod.toml --embedded-origin --duration 30 --out run/
      penstock load run examples/load/vod.toml --target http://10.0.0.5:8080 --duration 300 --seed 7 --out run/

    The verdict is void if the generator was the bottleneck: then the figures say nothing about the server.

    \b
    Exit status: 0; 1 if the run could not be made; 2 for wrong arguments; 3 if it is void; 4 if an
    assertion failed.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    if (target is None) != embedded_origin:
        raise click.UsageError("one of --target and --embedded-origin is needed")
    from penstock.configuration import FaultyConfigurationError  # noqa: PLC0415 (a command imports what it needs)

    from .assertion import FaultyAssertionError, parsed  # noqa: PLC0415
    from .plan import Arguments  # noqa: PLC0415
    from .running import read_scenario  # noqa: PLC0415
    from .running import run as run_scenario  # noqa: PLC0415

    def against(url: str) -> Arguments:
        return Arguments(target=url, duration=duration, seed=seed, roots=roots, part=part[0], parts=part[1])

    def tell(line: str) -> None:
        if not quiet:
            click.echo(line, err=True)

    try:
        checked = [parsed(text) for text in assertions]
        found = read_scenario(scenario)
        arguments = against if target is None else against(target)
        _wait(start_at)
        summary = run_scenario(found, arguments, Path(scenario).stem, out, tell, checked)
    except (FaultyConfigurationError, FaultyAssertionError) as error:
        raise click.UsageError(str(error)) from None
    except (OSError, RuntimeError) as error:
        raise click.ClickException(str(error)) from None
    _end(summary, out)


def _wait(start_at: float | None) -> None:
    if start_at is None:
        return
    left = start_at - time.time()
    if left < 0:
        raise click.UsageError(f"--start-at {start_at:g}: is {-left:.1f} s ago")
    time.sleep(left)


def _end(summary: dict[str, Any], out: Path) -> None:
    """Show what was found, and end with the status that says the verdict."""
    _print(summary)
    click.echo(f"report: {out / 'report.html'}")
    if summary["verdict"] == "void":
        raise SystemExit(VOID)
    if summary["verdict"] == "fail":
        raise SystemExit(FAILED)


@load.command("merge")
@click.argument(
    "directories",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR...",
    nargs=-1,
    required=True,
)
@_out
@_assertions
def merge(directories: tuple[Path, ...], out: Path, assertions: tuple[str, ...]) -> None:
    """Add what several machines found in their parts of one run.

    \b
      penstock load run big.toml --target http://10.0.0.5:8080 --duration 300 --seed 7 --part 1/2 --out a/
      penstock load run big.toml --target http://10.0.0.5:8080 --duration 300 --seed 7 --part 2/2 --out b/
      penstock load merge a/ b/ --out run/

    The second line is for another machine. Histograms and sessions add up without loss: the figures are those of one
    run. DIR are the directories of all parts, each once. The exit status is that of `penstock load run`.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    from .assertion import FaultyAssertionError, parsed  # noqa: PLC0415 (a command imports what it needs)
    from .kept import Kept, UnmergeableError, merged  # noqa: PLC0415
    from .running import write  # noqa: PLC0415

    try:
        checked = [parsed(text) for text in assertions]
        kept = merged([Kept.read(directory) for directory in directories])
        out.mkdir(parents=True, exist_ok=True)
        summary = write(kept, out, checked)
    except (FaultyAssertionError, UnmergeableError) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(str(error)) from None
    _end(summary, out)


@load.command("show")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json as it is.")
def show(directory: Path, as_json: bool) -> None:
    """Show the summary of a run.

    DIR is the directory that `penstock load run` was given as --out.
    """
    path = directory / "summary.json"
    try:
        text = path.read_text()
        summary = json.loads(text)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from None
    if as_json:
        click.echo(text, nl=False)
        return
    _print(summary)


def _print(summary: dict[str, Any]) -> None:
    from .text import lines  # noqa: PLC0415 (a command imports what it needs)

    click.echo("\n".join(lines(summary)))
