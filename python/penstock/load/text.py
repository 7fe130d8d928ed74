"""The summary of a run as lines for a terminal, and numbers as people read them."""

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["bits", "habits", "lines", "share", "size", "time"]

_STEP = 1000


def time(seconds: float | None) -> str:
    """A time in the unit that suits it."""
    if seconds is None:
        return "–"
    if seconds < 0.001:  # noqa: PLR2004 (a millisecond)
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _scaled(value: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        if abs(value) < _STEP:
            return f"{value:.3g} {unit}"
        value /= _STEP
    return f"{value:.4g} {units[-1]}"


def bits(rate: float | None) -> str:
    """Bits a second."""
    return "–" if rate is None else _scaled(rate, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"))


def size(count: float) -> str:
    """Bytes."""
    return _scaled(count, ("B", "kB", "MB", "GB", "TB"))


def share(part: float | None) -> str:
    """A share in percent."""
    return "–" if part is None else f"{part * 100:.2f} %"


def _live(qoe: Mapping[str, Any]) -> str:
    return "" if qoe["latency"] is None else f"{time(qoe['latency'])} to live, "


def habits(qoe: Mapping[str, Any]) -> str:
    """What viewers did besides watching, and what players gave up."""
    sought = qoe["seeking"] / qoe["seeks"] if qoe["seeks"] else None
    return (
        f"{qoe['seeks']} seeks, {time(sought)} each until something was shown, {qoe['pauses']} pauses, "
        f"{qoe['abandoned']} segments given up for a lower rendition"
    )


def lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """The summary, line by line."""
    sessions, qoe, generator = summary["sessions"], summary["qoe"], summary["generator"]
    yield f"verdict: {summary['verdict']}"
    for reason in summary["reasons"]:
        yield f"  {reason}"
    yield f"{summary['scenario']}: {summary['target']}, {summary['duration']:g} s, seed {summary['seed']}"
    yield (
        f"sessions: {sessions['started']} started, {sessions['most_active']} at a time at most; "
        f"{sessions['completed']} completed, {sessions['left']} left, "
        f"{sessions['gave_up']} gave up, {sessions['cut']} cut, "
        f"{sessions['failed']} failed, {sessions['dropped']} dropped"
    )
    if summary["workloads"]:
        yield (
            f"viewers: startup {time(qoe['startup']['p50'])} (p95 {time(qoe['startup']['p95'])}), rebuffering "
            f"{share(qoe['rebuffer'])}, {bits(qoe['bitrate'])}, {_live(qoe)}{qoe['up']} switches up, {qoe['down']} "
            f"down, {qoe['failed_to_start']} failed to start"
        )
        if qoe["seeks"] or qoe["pauses"] or qoe["abandoned"]:
            yield f"habits: {habits(qoe)}"
    if events := summary.get("events"):
        yield (
            f"events: {events['received']} received, {events['gaps']} gaps of {events['missing']}, "
            f"{events['repeats']} repeats, {events['reordered']} out of order, {events['announced']} gaps announced, "
            f"{events['unnumbered']} without a number, {events['reconnects']} reconnections"
        )
    yield f"{'CLASS':12}{'REQUESTS':>10}{'BYTES':>10}{'P50':>10}{'P95':>10}{'P99':>10}{'MAX':>10}{'P99 SENT':>10}"
    for name, each in summary["requests"].items():
        due = [time(each["due"][form]) for form in ("p50", "p95", "p99", "max")]
        cells = [str(each["count"]), size(each["bytes"]), *due, time(each["sent"]["p99"])]
        yield f"{name:12}" + "".join(f"{cell:>10}" for cell in cells)
    for error in summary["errors"]:
        yield f"error: {error['count']} × {error['class']}: {error['cause']}"
    cores = ", ".join(f"{each:.0%}" for each in generator["cpu"])
    yield f"generator: {cores} of a core, timers {time(generator['lateness'].get('p99'))} late at p99"
