"""The plots of a report, of what the generator recorded."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from .histogram import Counts
from .summary import class_histogram, seconds_of
from .svg import Axis, Line, Plot
from .text import bits, time

__all__ = ["bitrates", "buffers", "curves", "heat", "sessions", "startups", "throughput"]

Records = Sequence[Mapping[str, Any]]

_MOST_RIBBONS: Final = 10
_BINS_A_DECADE: Final = 6
_SHADES: Final = 4
# The percentiles of a curve: so many parts of a decade of what is left.
_STEPS: Final = 10


def _whole(value: float) -> str:
    return f"{value:g}" if value < 10_000 else f"{value / 1000:g} k"  # noqa: PLR2004 (five digits)


def _seconds(value: float) -> str:
    return f"{value:g} s"


def _times(records: Records) -> Axis:
    rows = seconds_of(records)
    return Axis(0, max(1, rows[-1]["at"] if rows else 1), _seconds)


def sessions(records: Records) -> str:
    """Sessions at a time."""
    rows = seconds_of(records)
    most = max((row["active"] for row in rows), default=0)
    plot = Plot("Sessions at a time", _times(records), Axis(0, max(1, most) * 1.08, _whole))
    plot.line(Line("sessions", [(row["at"], row["active"]) for row in rows], 0, is_area=True))
    return plot.drawn()


def throughput(records: Records) -> str:
    """Bits of bodies by the second."""
    rows = seconds_of(records)
    rates = []
    before = {"at": 0, "bytes": 0}
    for row in rows:
        if row["at"] > before["at"]:
            rates.append((row["at"], (row["bytes"] - before["bytes"]) * 8 / (row["at"] - before["at"])))
            before = row
    most = max((rate for _, rate in rates), default=0)
    plot = Plot("Throughput", _times(records), Axis(0, max(1, most) * 1.08, bits))
    plot.line(Line("throughput", rates, 2, is_area=True))
    return plot.drawn()


def _classes(records: Records) -> list[str]:
    return list(dict.fromkeys(each["class"] for thread in records for each in thread["classes"]))


def _curve(counts: Counts) -> list[tuple[float, float]]:
    """The share of requests that took longer, and how long they took: what is left, from 1 down to one request."""
    total = sum(count for _, count in counts)
    points, seen, next_left = [], 0, 1.0
    for value, count in counts:
        seen += count
        left = max(1 - seen / total, 1 / total)
        if left <= next_left or seen == total:
            points.append((1 / left, value * 1e-6))
            next_left = left * 10 ** (-1 / _STEPS)
    return points


def curves(records: Records) -> str:
    """Latency by percentile, from when requests were due and from when they were sent."""
    lines = []
    for colour, kind in enumerate(_classes(records)):
        for form, is_dashed in (("due", False), ("sent", True)):
            points = _curve(class_histogram(records, kind, form))
            lines.append(Line(f"{kind}, from {form}", points, colour % _SHADES, is_dashed))
    values = [y for line in lines for _, y in line.points] or [0.001]
    rarest = max((x for line in lines for x, _ in line.points), default=10)
    x = Axis(1, max(10, rarest), lambda value: f"{100 - 100 / value:.10g} %", logarithmic=True)
    plot = Plot("Latency by percentile", x, _latency(min(values), max(values)))
    for line in lines:
        plot.line(line)
    return plot.drawn()


def _latency(low: float, high: float) -> Axis:
    """Decades around what is shown."""
    first, last = math.floor(math.log10(max(low, 1e-6))), math.ceil(math.log10(max(high, 1e-6)))
    return Axis(10.0**first, 10.0 ** max(last, first + 1), time, logarithmic=True)


def heat(records: Records) -> str:
    """How many requests of each second took how long."""
    cells: dict[tuple[int, int], int] = {}
    for thread in records:
        for each in thread["classes"]:
            for second, counts in each["seconds"]:
                for value, count in counts:
                    cell = second, math.floor(math.log10(max(value, 1)) * _BINS_A_DECADE)
                    cells[cell] = cells.get(cell, 0) + count
    bins = [at for _, at in cells] or [0]
    most = max(cells.values(), default=1)

    def edge(at: int) -> float:
        return float(10.0 ** (at / _BINS_A_DECADE) * 1e-6)

    plot = Plot(
        "All requests: latency by second", _times(records), _latency(edge(min(bins)), edge(max(bins) + 1))
    )
    for (second, at), count in sorted(cells.items()):
        # One request of thousands has to be seen: the shade is logarithmic.
        shade = 0.15 + 0.85 * math.log1p(count) / math.log1p(most)
        about = f"second {second}: {count} requests of {time(edge(at))} to {time(edge(at + 1))}"
        plot.box((second, second + 1), (edge(at), edge(at + 1)), "heat", about, opacity=shade)
    return plot.drawn()


def startups(records: Records) -> str:
    """The share of sessions that had started to play after a time."""
    found = (session["qoe"]["startup"] for thread in records for session in thread["sessions"])
    times = [startup for startup in found if startup is not None]
    return _shares("Startup: share of sessions that play", "started", times, time, 0)


def bitrates(records: Records) -> str:
    """The share of sessions with a mean bitrate of at most a value."""
    figures = [session["qoe"] for thread in records for session in thread["sessions"]]
    rates = [figure["bits"] / figure["media"] for figure in figures if figure["media"]]
    return _shares("Bitrate: share of sessions with less", "bitrate", rates, bits, 2)


def _shares(title: str, name: str, values: Sequence[float], show: Callable[[float], str], colour: int) -> str:
    """The share of values that are not above each."""
    ranked = sorted(values)
    points = [(value, (at + 1) / len(ranked)) for at, value in enumerate(ranked)]
    # A plot has fewer pixels than a run may have sessions.
    points = points[:: max(1, len(points) // 500)] + points[-1:]
    high = ranked[-1] if ranked else 0.0
    plot = Plot(title, Axis(0, max(high, 1e-3), show), Axis(0, 1, lambda part: f"{part:.0%}"))
    plot.line(Line(name, [(0, 0), *points], colour, is_area=True))
    return plot.drawn()


def buffers(records: Records) -> str:
    """What sampled sessions had ahead of them, over time."""
    sampled = sorted(
        (session for thread in records for session in thread["sessions"] if session["ribbon"]),
        key=lambda session: (session["workload"], session["index"]),
    )[:_MOST_RIBBONS]
    return "".join(_ribbons(sampled))


def _ribbons(sampled: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    levels = max((point[2] for session in sampled for point in session["ribbon"]), default=0) + 1
    for session in sampled:
        qoe, rows = session["qoe"], session["ribbon"]
        most = max(buffer for _, buffer, _ in rows)
        stalled = f", {qoe['stalls']} stalls" if qoe["stalls"] else ""
        title = f"Session {session['index']}, title {session['title']}: {session['ended']}{stalled}"
        x, y = Axis(0, max(session["lasted"], 1), _seconds), Axis(0, max(most, 1) * 1.05, _seconds)
        plot = Plot(title, x, y, height=130)
        ends = [row[0] for row in rows[1:]] + [session["lasted"]]
        for (begin, buffer, level), end in zip(rows, ends, strict=True):
            shade = min(_SHADES - 1, level * _SHADES // levels)
            _ribbon(plot, begin, end, buffer, f"r{shade}", level)
        yield plot.drawn()


def _ribbon(plot: Plot, begin: float, end: float, buffer: float, shade: str, level: int) -> None:
    """From one segment to the next: the buffer is played, and then there is a stall."""
    about = f"at {begin:.1f} s: {buffer:.1f} s ahead, rendition {level}"
    played = min(end, begin + buffer)
    if played > begin:
        plot.box((begin, played), (0, max(buffer - (played - begin) / 2, 0)), shade, about)
    if end > played:
        plot.box((played, end), (0, 0.4), "stall", f"at {played:.1f} s: stalled for {end - played:.1f} s")
