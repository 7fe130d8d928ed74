"""The figures of a run: one object, which `summary.json` has and the report shows."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from penstock import __version__

from .histogram import Counts, added, mean, percentile, percentiles
from .kept import Kept, Workload

__all__ = ["SCHEMA", "class_histogram", "seconds_of", "summarised"]

SCHEMA: Final = 1
"""Rises when a figure changes its meaning or its place."""

_SECOND: Final = 1e-6
# Counts of a second that only rise.
_SO_FAR: Final = ("started", "requests", "bytes", "errors")
# Sessions end in one of these ways.
_ENDS: Final = ("completed", "left", "gave_up", "failed", "cut")

Records = Sequence[Mapping[str, Any]]
"""What each thread of the generator recorded."""


def summarised(kept: Kept) -> dict[str, Any]:
    """The figures, without a verdict. Times are seconds, rates are by the second."""
    records = kept.records
    sessions = [session for thread in records for session in thread["sessions"]]
    return {
        "schema": SCHEMA,
        "penstock": __version__,
        "scenario": kept.scenario,
        **asdict(kept.arguments),
        "sessions": _sessions(records, sessions, seconds_of(records)),
        "workloads": {
            workload.name: _viewers([each for each in sessions if each["workload"] == at], workload)
            for at, workload in enumerate(kept.workloads)
            if workload.plays
        },
        "qoe": _qoe(sessions),
        **_events(sessions),
        "requests": {kind: _requests(records, kind) for kind in _classes(records)},
        "errors": _errors(records),
        "generator": {**_generator(records), "python": sys.version.split()[0], "others": kept.others},
    }


def _sessions(
    records: Records, sessions: Sequence[Mapping[str, Any]], seconds: Sequence[Mapping[str, int]]
) -> dict[str, int]:
    ends = Counter(session["ended"] for session in sessions)
    return {
        "started": seconds[-1]["started"] if seconds else 0,
        **{end: ends[end] for end in _ENDS},
        "dropped": sum(thread["dropped"] for thread in records),
        "most_active": max((second["active"] for second in seconds), default=0),
    }


def _qoe(sessions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What viewers experienced, in the terms of CTA-2066: of sessions that played, and of how many did not."""
    figures = [session["qoe"] for session in sessions]
    startups = sorted(figure["startup"] for figure in figures if figure["startup"] is not None)
    played, stalled = (sum(figure[name] for figure in figures) for name in ("played", "stalled"))
    media = sum(figure["media"] for figure in figures)
    whole = played + stalled
    counted = [(round(startup * 1e6), 1) for startup in startups]
    return {
        "played": len(startups),
        "failed_to_start": sum(
            session["ended"] == "failed" and session["qoe"]["startup"] is None for session in sessions
        ),
        "startup": percentiles(added([counted]), _SECOND),
        "rebuffer": stalled / whole if whole else None,
        "stalls": sum(figure["stalls"] for figure in figures),
        "stalled_sessions": sum(figure["stalls"] > 0 for figure in figures),
        "bitrate": sum(figure["bits"] for figure in figures) / media if media else None,
        "latency": _ratio(
            sum(figure["behind"] for figure in figures), sum(figure["live"] for figure in figures)
        ),
        **{
            name: sum(figure[name] for figure in figures)
            for name in ("up", "down", "seeks", "seeking", "pauses", "paused", "abandoned")
        },
    }


def _viewers(sessions: Sequence[Mapping[str, Any]], workload: Workload) -> dict[str, Any]:
    """Of a workload, and of each of its networks."""
    by_network = {
        network: _qoe([each for each in sessions if each["network"] == at])
        for at, network in enumerate(workload.networks)
    }
    return _qoe(sessions) | ({"networks": by_network} if by_network else {})


def _ratio(whole: float, count: float) -> float | None:
    return whole / count if count else None


def _events(sessions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was found in the events of all sessions that read some."""
    found = [session["events"] for session in sessions if session["events"] is not None]
    return {"events": {name: sum(each[name] for each in found) for name in found[0]}} if found else {}


def _classes(records: Records) -> list[str]:
    return list(dict.fromkeys(each["class"] for thread in records for each in thread["classes"]))


def class_histogram(records: Records, kind: str, form: str) -> list[tuple[int, int]]:
    """The requests of a class over all threads, in microseconds; `form` is `due`, `sent` or `first`."""
    return added(each[form] for thread in records for each in thread["classes"] if each["class"] == kind)


def _requests(records: Records, kind: str) -> dict[str, Any]:
    due = class_histogram(records, kind, "due")
    return {
        "count": sum(count for _, count in due),
        "bytes": sum(
            each["bytes"] for thread in records for each in thread["classes"] if each["class"] == kind
        ),
        "due": _latencies(due),
        "sent": _latencies(class_histogram(records, kind, "sent")),
        "first": _latencies(class_histogram(records, kind, "first")),
    }


def _latencies(counts: Counts) -> dict[str, float | None]:
    average = mean(counts)
    return {**percentiles(counts, _SECOND), "mean": None if average is None else average * _SECOND}


def _errors(records: Records) -> list[dict[str, Any]]:
    total: Counter[tuple[str, str]] = Counter()
    for thread in records:
        for kind, cause, count in thread["errors"]:
            total[kind, cause] += count
    return [{"class": kind, "cause": cause, "count": count} for (kind, cause), count in total.most_common()]


def _generator(records: Records) -> dict[str, Any]:
    lateness = added(thread["lateness"] for thread in records)
    return {
        "threads": len(records),
        "cpu": [thread["cpu"] / thread["wall"] for thread in records],
        "lateness": {
            name: value * _SECOND
            for name in ("p50", "p99", "max")
            if (value := percentile(lateness, {"p50": 50.0, "p99": 99.0, "max": 100.0}[name])) is not None
        },
    }


def seconds_of(records: Records) -> list[dict[str, int]]:
    """Counts at the ends of seconds, over all threads. Those of a machine share all but the active sessions."""
    machines: dict[int, dict[int, dict[str, int]]] = {}
    for thread in records:
        by_second = machines.setdefault(thread["machine"], {})
        # A thread that is late may have two rows of a second: the later one counts.
        rows = {row["at"]: row for row in thread["seconds"]}
        for at, row in rows.items():
            known = by_second.setdefault(at, {**row, "active": 0})
            known["active"] += row["active"]
            for name in _SO_FAR:
                known[name] = max(known[name], row[name])
    return _together(list(machines.values()))


def _together(machines: Sequence[Mapping[int, Mapping[str, int]]]) -> list[dict[str, int]]:
    """The seconds of several machines as one. One that has ended keeps what it had counted."""
    found = []
    last: list[Mapping[str, int]] = [dict.fromkeys(_SO_FAR, 0) for _ in machines]
    for at in sorted({at for machine in machines for at in machine}):
        last = [machine.get(at, before) for machine, before in zip(machines, last, strict=True)]
        counts = {name: sum(each[name] for each in last) for name in _SO_FAR}
        active = sum(machine[at]["active"] for machine in machines if at in machine)
        found.append({"at": at, "active": active, **counts})
    return found
