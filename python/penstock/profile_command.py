"""`penstock profile`: what the time and the memory of a running server go to."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from .status_client import OK, ask, at_status, place_of

__all__ = ["profile"]

_PAGE: Final = "/penstock/profile"
# The shortest profile, which tells the number of the process.
_SHORT: Final = 0.1
# What an answer may take beyond the profile, and py-spy beyond its sampling.
_PATIENCE: Final = 10.0
_ROWS: Final = 15
# Samples a second: what py-spy takes by default, and a hundredth of the time or less.
_RATE: Final = 100
_BUSY: Final = 429
_MEMBERS: Final = frozenset({"version", "pid", "seconds", "threads", "memory"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
# A line of py-spy's: frames, the outermost first, and how often they were seen.
_STACK: Final = re.compile(r"(?P<frames>.+) (?P<count>[0-9]+)")
_STEP: Final = 1024


@click.command()
@at_status
@click.option(
    "--seconds",
    type=click.FloatRange(_SHORT, 300),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to look.",
)
@click.option(
    "--python/--no-python",
    default=None,
    help="Sample the Python code too, by py-spy, which must be on this machine.  [default: if py-spy is installed]",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def profile(
    url: str | None,
    status_listen: tuple[str, int] | str | None,
    seconds: float,
    python: bool | None,
    as_json: bool,
) -> None:
    """Show what the time and the memory of a running server go to. It must have been started with --status-listen.

    \b
      penstock profile
      penstock profile --seconds 30 --status-listen unix:/run/penstock/status.sock
      penstock profile --json http://10.0.0.7:9145

    \b
    Exit status: 0, 1 if the server does not answer or py-spy fails, 2 for wrong arguments.
    """  # noqa: D301 (click keeps the lines after a backspace as they are)
    place = place_of(url, status_listen)
    is_here = isinstance(place, str) or place[0] in _LOOPBACK
    if python and not is_here:
        raise click.UsageError(
            "--python samples a process of this machine: ask at 127.0.0.1 or a Unix socket"
        )
    spy = _spy() if is_here and python is not False else None
    if python and spy is None:
        raise click.ClickException("py-spy is not installed: 'pip install py-spy'")
    if spy is None:
        found = _ask(place, seconds)
    else:
        with _sampling(spy, _ask(place, _SHORT)["pid"], seconds) as sampled:
            found = _ask(place, seconds)
        if sampled.failure is None:
            found["python"] = sampled.functions
        elif python:
            raise click.ClickException(sampled.failure)
        else:
            click.echo(f"Python is left out. {sampled.failure}", err=True)
    click.echo(json.dumps(found, indent=2) if as_json else _as_text(found))


def _spy() -> str | None:
    # `penstock serve` has this command too, and does without what this imports.
    from shutil import which  # noqa: PLC0415

    # Also where this package's environment has it, and is not on the path.
    return which("py-spy") or which("py-spy", path=str(Path(sys.executable).parent))


def _ask(place: tuple[str, int] | str, seconds: float) -> dict[str, Any]:
    status, body = ask(place, f"{_PAGE}?seconds={seconds}", seconds + _PATIENCE)
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if status == OK and isinstance(found, dict) and found.keys() >= _MEMBERS:
        return found
    detail = f"the answer has status {status}, and is no profile of an engine"
    if status == _BUSY:
        detail = body.decode(errors="replace").strip()
    raise click.ClickException(detail)


@dataclass
class _Sampled:
    """What py-spy has seen, or why it has not."""

    functions: list[dict[str, Any]]
    failure: str | None = None


@contextmanager
def _sampling(spy: str, pid: int, seconds: float) -> Iterator[_Sampled]:
    """Samples the process and its children meanwhile. What was seen is there after the block."""
    import subprocess  # noqa: PLC0415 (as above)
    import tempfile  # noqa: PLC0415

    sampled = _Sampled([])
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory, "stacks")
        duration = max(1, round(seconds))
        command = (
            *(spy, "record", "--pid", str(pid), "--subprocesses"),
            *("--duration", str(duration), "--rate", str(_RATE)),
            *("--format", "raw", "--output", str(output)),
        )
        process = subprocess.Popen(  # noqa: S603 (a program of the operator's)
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            yield sampled
            _, said = process.communicate(timeout=_PATIENCE + seconds)
        except subprocess.TimeoutExpired:
            said = "it does not end"
        finally:
            process.kill()
            process.communicate()
        if process.returncode == 0:
            stacks = output.read_text() if output.exists() else ""
            sampled.functions = _functions(stacks, duration * _RATE)
        else:
            rule = "it needs the right to trace processes: root, or CAP_SYS_PTRACE in a container"
            sampled.failure = f"py-spy: {said.strip() or process.returncode}: {rule}"


def _functions(stacks: str, samples: int) -> list[dict[str, Any]]:
    """The functions that ran most often, with the share of the time in which each ran: itself, and with its callees."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for line in stacks.splitlines():
        if found := _STACK.fullmatch(line):
            frames, count = found["frames"].split(";"), int(found["count"])
            own[frames[-1]] += count
            # Once, however often it has called itself.
            for frame in set(frames):
                total[frame] += count
    return [
        {"function": frame, "own": round(count / samples, 4), "total": round(total[frame] / samples, 4)}
        for frame, count in own.most_common(_ROWS)
    ]


def _as_text(found: Mapping[str, Any]) -> str:
    seconds = found["seconds"]
    lines = [f"penstock {found['version']}, process {found['pid']}, {seconds:.1f} s"]
    lines += ["", f"{'THREAD':26}{'RUNS':>7}{'WAITS':>7}  WORK"]
    for thread in found["threads"]:
        kinds = sorted(thread.get("work", {}).items(), key=lambda kind: kind[1], reverse=True)
        work = ", ".join(f"{name} {_share(spent / seconds)}" for name, spent in kinds if spent > 0)
        ran, waited = (_share(thread[key] / seconds) for key in ("ran", "waited"))
        lines.append(f"{thread['name'][:25]:26}{ran:>7}{waited:>7}  {work}".rstrip())
    lines += ["", f"{'MEMORY':32}{'HOLDS':>12}{'SLABS':>8}{'TAKES':>14}"]
    for row in found["memory"]:
        name = f"{row['lane']} {row['route']}" if row["route"] is not None else "no route"
        takes = _size(row["taken_bytes"] / seconds) + "/s"
        lines.append(f"{name[:31]:32}{_size(row['bytes']):>12}{row['slabs']:>8}{takes:>14}")
    if "python" in found:
        lines += ["", f"{'PYTHON':9}{'OWN':>5}{'ALL':>8}  FUNCTION"]
        for row in found["python"]:
            lines.append(f"{_share(row['own']):>14}{_share(row['total']):>8}  {row['function']}")
        if not found["python"]:
            lines.append("no function ran")
    return "\n".join(lines)


def _share(part: float) -> str:
    return f"{part * 100:.1f} %"


def _size(count: float) -> str:
    if count < _STEP:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB"):
        count /= _STEP
        if count < _STEP:
            return f"{count:.1f} {unit}"
    return f"{count / _STEP:.1f} GiB"
