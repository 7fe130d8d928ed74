"""Runs a scenario, shows its progress, and writes what was recorded."""

import json
import resource
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from penstock import _native
from penstock.configuration import Document, Faults, read_table

from .assertion import Assertion, FaultyAssertionError, figures
from .hlog import log_lines
from .kept import Kept, described
from .machine import Others
from .plan import Arguments, origin_of, plan_of
from .report import written
from .scenario import Scenario
from .summary import summarised
from .verdict import void_reasons

__all__ = ["read_scenario", "run", "write"]

# Between two looks at a run: a signal is noticed after that time at most.
_LOOK: Final = 0.2


def read_scenario(path: str) -> Scenario:
    """The scenario in a file.

    Raises:
        FaultyConfigurationError: it has faults.
    """
    faults = Faults()
    scenario = read_table(Scenario, Document.read(path), faults)
    faults.check()
    assert scenario is not None  # noqa: S101 (there was no fault)
    return scenario


def run(
    scenario: Scenario,
    arguments: Arguments | Callable[[str], Arguments],
    name: str,
    out: Path,
    tell: Callable[[str], None],
    assertions: Sequence[Assertion] = (),
) -> dict[str, Any]:
    """Run a scenario, and write what was found into the directory `out`, which is made. Returns the summary.

    Args:
        scenario: what is run.
        arguments: of the command line; a function makes them of the address of the embedded origin.
        name: what the report calls the scenario.
        out: the directory.
        tell: is called with a line of progress once a second.
        assertions: what the run must not be.

    Raises:
        OSError: the directory cannot be written.
        RuntimeError: the target has no address, or a thread of the generator failed.
        FaultyAssertionError: an assertion names no figure. All files have been written.
    """
    out.mkdir(parents=True, exist_ok=True)
    _raise_descriptors()
    if not callable(arguments):
        kept = _run(scenario, arguments, name, tell)
    else:
        with closing(_native.LoadOrigin(origin_of(scenario))) as origin:
            kept = _run(scenario, arguments(f"http://127.0.0.1:{origin.port}"), name, tell)
    return write(kept, out, assertions)


def _run(scenario: Scenario, arguments: Arguments, name: str, tell: Callable[[str], None]) -> Kept:
    begun, others = time.time(), Others(arguments.target)
    threads = _records(plan_of(scenario, arguments), arguments.duration, tell)
    return Kept(
        scenario=name,
        arguments=arguments,
        begun=begun,
        others=others.share(),
        workloads=described(scenario),
        void=scenario.void,
        records=[{**thread, "machine": arguments.part} for thread in threads],
    )


def _raise_descriptors() -> None:
    """Let this process have as many connections as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _records(plan: str, duration: float, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    begun = time.monotonic()
    running = _native.LoadRun(plan)
    told, before = begun, (0, 0)
    try:
        while not running.wait(_LOOK):
            now = time.monotonic()
            if now - told < 1:
                continue
            started, ended, dropped, requests, size, errors = running.progress()
            rate = (requests - before[0]) / (now - told)
            bits = (size - before[1]) * 8 / (now - told)
            tell(
                f"{now - begun:5.0f} s of {duration:g}: {started - ended} sessions, {started} so far, "
                f"{rate:.0f} requests/s, {bits / 1e6:.1f} Mbit/s, {errors} errors"
                + (f", {dropped} arrivals dropped" if dropped else "")
            )
            told, before = now, (requests, size)
    except KeyboardInterrupt:
        tell("stopped: the report is about what was done so far")
        running.stop()
    found: list[dict[str, Any]] = json.loads(running.records())
    return found


def write(kept: Kept, out: Path, assertions: Sequence[Assertion] = ()) -> dict[str, Any]:
    """Write what was found into the directory `out`, which is there. Returns the summary.

    Raises:
        OSError: it cannot be written.
        FaultyAssertionError: an assertion names no figure. All files have been written.
    """
    summary = summarised(kept)
    reasons, fault = void_reasons(summary, kept.void), None
    verdict = "void" if reasons else "pass"
    try:
        failed = [reason for each in assertions if (reason := each.holds(figures(summary)))]
    except FaultyAssertionError as error:
        failed, fault = [str(error)], error
    if failed and not reasons:
        verdict = "fail"
    # Figures of a void run say nothing, so neither do assertions about them.
    summary = {"verdict": verdict, "reasons": [*reasons, *failed], **summary}
    (out / "summary.json").write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n")
    kept.write(out)
    (out / "latencies.hlog").write_text("\n".join(log_lines(kept.records, kept.begun)) + "\n")
    (out / "report.html").write_text(written(summary, kept.records))
    if fault is not None:
        raise fault
    return summary
