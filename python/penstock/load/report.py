"""The report of a run: one file of HTML, which needs no other file and no network."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from .plots import bitrates, buffers, curves, heat, sessions, startups, throughput
from .text import bits, habits, share, size, time

__all__ = ["written"]

_FORMS: Final = ("p50", "p90", "p95", "p99", "p999", "max")
_FORM_NAMES: Final = ("p50", "p90", "p95", "p99", "p99.9", "max")


def written(summary: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> str:
    """The report as HTML."""
    return "".join(_page(summary, records))


def _page(summary: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    style = files(__package__).joinpath("report.css").read_text()
    name = escape(summary["scenario"])
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name} – penstock load</title>'
    yield f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head><body>'
    yield f"<h1>{name}</h1>"
    yield (
        f'<p class="soft">{escape(summary["target"])} · {summary["duration"]:g} s · seed {summary["seed"]} · '
        f"penstock {escape(summary['penstock'])}</p>"
    )
    yield from _verdict(summary)
    yield from _tiles(summary)
    yield '<h2>Over time</h2><div class="plots">'
    yield sessions(records)
    yield throughput(records)
    yield "</div>"
    yield '<h2>Latencies</h2><div class="plots">'
    yield curves(records)
    yield heat(records)
    yield "</div>"
    yield from _requests(summary)
    if summary["workloads"]:
        yield '<h2>Viewers</h2><div class="plots">'
        yield startups(records)
        yield bitrates(records)
        yield "</div>"
        yield from _workloads(summary)
        yield from _buffers(records)
    yield from _events(summary)
    yield from _errors(summary)
    yield from _generator(summary)
    yield "</body></html>\n"


def _verdict(summary: Mapping[str, Any]) -> Iterator[str]:
    verdict = summary["verdict"]
    words = {
        "pass": "the generator was not the bottleneck, and no assertion failed.",
        "void": "the generator was the bottleneck: the figures say nothing about the server.",
        "fail": "an assertion failed.",
    }
    yield f'<div class="verdict {verdict}"><b>{verdict}</b> – {words[verdict]}'
    for reason in summary["reasons"]:
        yield f"<p>{escape(reason)}</p>"
    yield "</div>"


def _tiles(summary: Mapping[str, Any]) -> Iterator[str]:
    counts, qoe = summary["sessions"], summary["qoe"]
    asked = sum(each["count"] for each in summary["requests"].values())
    failed = sum(error["count"] for error in summary["errors"])
    tiles = [
        (f"{counts['started']}", f"sessions, {counts['most_active']} at a time at most"),
        (f"{asked}", f"responses, {failed} failures"),
        (size(sum(each["bytes"] for each in summary["requests"].values())), "of bodies"),
    ]
    if summary["workloads"]:
        tiles += [
            (time(qoe["startup"]["p50"]), f"startup at the median, {time(qoe['startup']['p95'])} at p95"),
            (share(qoe["rebuffer"]), f"of the time rebuffering, in {qoe['stalled_sessions']} sessions"),
            (bits(qoe["bitrate"]), f"of media; {qoe['up']} switches up, {qoe['down']} down"),
            (f"{qoe['failed_to_start']}", "sessions failed to start"),
        ]
        if counts["gave_up"]:
            tiles.append((f"{counts['gave_up']}", "viewers gave up before the first frame"))
        if qoe["latency"] is not None:
            tiles.append((time(qoe["latency"]), "to the end of live playlists, at the mean"))
    yield '<div class="tiles">'
    for figure, about in tiles:
        yield f'<div class="tile"><b>{escape(figure)}</b><span>{escape(about)}</span></div>'
    yield "</div>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield '<div class="scroll"><table><tr>'
    yield "".join(f"<th>{escape(head)}</th>" for head in heads)
    yield "</tr>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</table></div>"


def _requests(summary: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    names = {"due": "from due", "sent": "from sent", "first": "to the head"}
    for kind, each in summary["requests"].items():
        for form, name in names.items():
            latencies = [time(each[form][percentile]) for percentile in _FORMS]
            rows.append([f"{kind}, {name}", f"{each['count']}", size(each["bytes"]), *latencies])
    yield "<p class='soft'>From due: from when a request was to be made to the end of its response; what a viewer sees. "
    yield "From sent: from when it was; what hides a queue in the client. To the head: from sent to the first byte.</p>"
    yield from _table(["requests", "count", "bytes", *_FORM_NAMES], rows)


def _workloads(summary: Mapping[str, Any]) -> Iterator[str]:
    yield "<p class='soft'>Startup: from the arrival to the first frame. Rebuffering: time in stalls as a share of the "
    yield "time since the first frame (CTA-2066). Bitrate: the mean over the media that arrived, by its length.</p>"
    heads = [
        "workload",
        "played",
        "failed to start",
        "startup p50",
        "p95",
        "rebuffering",
        "stalls",
        "bitrate",
        "up",
        "down",
    ]
    rows = []
    for name, qoe in _by_network(summary["workloads"]):
        startup = qoe["startup"]
        figures = [time(startup["p50"]), time(startup["p95"]), share(qoe["rebuffer"]), str(qoe["stalls"])]
        counts = [str(qoe["played"]), str(qoe["failed_to_start"])]
        rows.append([name, *counts, *figures, bits(qoe["bitrate"]), str(qoe["up"]), str(qoe["down"])])
    yield from _table(heads, rows)
    qoe = summary["qoe"]
    if qoe["seeks"] or qoe["pauses"] or qoe["abandoned"]:
        yield f"<p>{escape(habits(qoe))}.</p>"


def _by_network(workloads: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The figures of each workload, and after it of its networks."""
    for name, qoe in workloads.items():
        yield name, qoe
        for network, of_it in qoe.get("networks", {}).items():
            yield f"{name} on {network}", of_it


def _buffers(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    drawn = buffers(records)
    if drawn:
        yield "<h2>Buffers of sampled sessions</h2>"
        yield "<p class='soft'>The height is the media ahead of the player, the shade its rendition.</p>"
        yield f'<div class="plots">{drawn}</div>'


def _events(summary: Mapping[str, Any]) -> Iterator[str]:
    events = summary.get("events")
    if events is None:
        return
    yield "<h2>Events and tokens</h2>"
    yield "<p class='soft'>A gap is a run of numbers that were left out and not announced; missing are the numbers."
    yield " An event out of order closes the gap that it fills.</p>"
    yield from _table(list(events), [[str(count) for count in events.values()]])


def _errors(summary: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Failures</h2>"
    if not summary["errors"]:
        yield "<p>No request failed.</p>"
        return
    rows = [[error["cause"], error["class"], str(error["count"])] for error in summary["errors"]]
    yield from _table(["cause", "class", "count"], rows)


def _generator(summary: Mapping[str, Any]) -> Iterator[str]:
    generator = summary["generator"]
    cores = ", ".join(f"{each:.0%}" for each in generator["cpu"])
    late = generator["lateness"]
    yield "<h2>The generator</h2>"
    yield f"<p>{generator['threads']} threads, with {cores} of a core. Timers were {time(late.get('p50'))} late at "
    yield f"the median, {time(late.get('p99'))} at p99 and {time(late.get('max'))} at most.</p>"
