"""Networks of sessions: the figures of the presets, and traces in the forms in which others record them."""

import json
import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

__all__ = ["PRESETS", "FaultyTraceError", "Step", "steps_of"]

PRESETS: Final[dict[str, dict[str, float]]] = {
    # Fitted by hand to what is published of such networks, and to no measurement.
    "3g": {
        "median": 1.5e6,
        "sigma": 0.6,
        "changes": 0.5,
        "outages": 0.005,
        "outage": 4.0,
        "round_trip": 0.1,
    },
    "4g": {
        "median": 20e6,
        "sigma": 0.7,
        "changes": 0.5,
        "outages": 0.002,
        "outage": 2.0,
        "round_trip": 0.05,
    },
    "cable": {
        "median": 50e6,
        "sigma": 0.15,
        "changes": 0.1,
        "outages": 0.0,
        "outage": 0.0,
        "round_trip": 0.02,
    },
    "bad-wifi": {
        "median": 4e6,
        "sigma": 0.9,
        "changes": 0.8,
        "outages": 0.05,
        "outage": 1.0,
        "round_trip": 0.03,
    },
}
"""Of each: the median rate in bits a second, the deviation of its logarithm, the probability that it changes within a
second and that an outage begins, the mean seconds of an outage, and the seconds of a round trip."""

# Of Mahimahi: each line is a millisecond in which a packet of so many bytes may be sent.
_PACKET: Final = 1500
# Packets of so many milliseconds are one step.
_BIN: Final = 100
# Rows of two columns that a rate may be held for.
_LEAST_ROWS: Final = 2


class FaultyTraceError(ValueError):
    """A file is no trace; the message says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a trace."""

    seconds: float
    rate: float
    """Bits a second."""
    round_trip: float
    """Seconds."""


def steps_of(path: str, round_trip: float) -> list[Step]:
    """The steps of a trace: JSON of Sabre, deliveries of Mahimahi, or seconds and Mbit/s in two columns.

    Args:
        path: the file.
        round_trip: seconds, where the trace has none.

    Raises:
        FaultyTraceError: it is no trace.
    """
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise FaultyTraceError(f"cannot be read: {error}") from None
    if text.lstrip().startswith("["):
        steps = _sabre(text)
    else:
        rows = [line.replace(",", " ").split() for line in text.splitlines() if _is_row(line)]
        widths = {len(row) for row in rows}
        if widths == {1}:
            steps = _deliveries([_number(row[0]) for row in rows], round_trip)
        elif widths == {2}:
            steps = _columns([(_number(row[0]), _number(row[1])) for row in rows], round_trip)
        else:
            raise FaultyTraceError("is neither JSON nor rows of one or of two numbers")
    if any(step.seconds <= 0 or step.rate < 0 or step.round_trip < 0 for step in steps):
        raise FaultyTraceError("has a step that takes no time, or a negative rate")
    if not any(step.rate for step in steps):
        raise FaultyTraceError("carries nothing")
    return steps


def _is_row(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _number(text: object) -> float:
    try:
        value = float(str(text))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FaultyTraceError(f"{text!r} is no number")
    return value


def _sabre(text: str) -> list[Step]:
    """Of Sabre: an array of objects with a duration in ms, a bandwidth in kbit/s and a latency in ms."""
    try:
        rows: list[dict[str, Any]] = json.loads(text)
        named = [(row["duration_ms"], row["bandwidth_kbps"], row["latency_ms"]) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise FaultyTraceError(
            f"is not as Sabre has it, objects with duration_ms, bandwidth_kbps and latency_ms: {error}"
        ) from None
    return [
        Step(_number(duration) / 1e3, _number(rate) * 1e3, _number(latency) / 1e3)
        for duration, rate, latency in named
    ]


def _deliveries(times: list[float], round_trip: float) -> list[Step]:
    """Of Mahimahi: the trace is as long as its last millisecond says."""
    if any(time != int(time) or time < 0 for time in times) or times != sorted(times):
        raise FaultyTraceError("has milliseconds that do not rise, or are no whole numbers")
    end = int(times[-1])
    # What is delivered in the last millisecond is within the trace.
    packets = Counter(min(int(time), end - 1) // _BIN for time in times)
    steps = []
    for first in range(0, end, _BIN):
        length = min(_BIN, end - first) / 1e3
        steps.append(Step(length, packets[first // _BIN] * _PACKET * 8 / length, round_trip))
    return steps


def _columns(rows: list[tuple[float, float]], round_trip: float) -> list[Step]:
    """A rate holds until the next row; the last as long as the one before it."""
    if len(rows) < _LEAST_ROWS:
        raise FaultyTraceError("has one row, and so no length")
    lengths = [after[0] - before[0] for before, after in pairwise(rows)]
    lengths.append(lengths[-1])
    return [Step(length, rate * 1e6, round_trip) for length, (_, rate) in zip(lengths, rows, strict=True)]
