"""Tables: a detailed one for the terminal, and the README's, in Markdown, between two markers."""

from __future__ import annotations

from harness.gateways import GATEWAYS
from harness.measurement import EVENTS, HANDLER, SEGMENTS, WIDE, WORKLOADS, Cell, Workload
from harness.results import DEVIATION, DISTURBED, Result

BEGIN = "<!-- benchmarks:begin -->"
END = "<!-- benchmarks:end -->"
REFERENCE = "aiohttp"
REFERENCE_LINES = "aiohttp-lines"
TITLES = {gateway.name: gateway.title for gateway in GATEWAYS} | {"direct": "no gateway"}
# What the same gateway is called where its configuration for event streams matters.
EVENT_TITLES = TITLES | {
    "nginx": "nginx, proxy_buffering off",
    "haproxy": "HAProxy, http-no-delay",
    "go": "Go ReverseProxy, FlushInterval -1",
    REFERENCE: "aiohttp + uvloop, by chunk",
    "aiofastnet": "the same + aiofastnet, by chunk",
}

# In front of a handler, what differs is whose transport aiohttp is on.
HANDLER_TITLES = TITLES | {
    REFERENCE: "aiohttp on uvloop's transport",
    "penstock": "aiohttp on **penstock**'s transport",
}


def unsteady(result: Result) -> list[Workload]:
    """The workloads of which a cell is left out of the tables in Markdown."""
    wide = {cell.workload for cell in result.cells if cell.is_wide}
    return [workload for workload in WORKLOADS if workload.name in wide]


def ratio(result: Result, cell: Cell, reference: str = REFERENCE) -> float | None:
    """Return a cell's CPU time as a share of the reference's in the same run; None where either has none."""
    base = result.cell(reference, cell.workload)
    if cell.cpu_us is None or base is None or base.cpu_us is None:
        return None
    return cell.cpu_us / base.cpu_us


def _number(value: float | None, form: str, scale: float = 1.0) -> str:
    return "-" if value is None else format(value * scale, form)


def _share(value: float | None) -> str:
    return _number(value, ".2f")


def _significant(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _cells(result: Result, workload: Workload) -> list[Cell]:
    return [cell for cell in result.cells if cell.workload == workload.name]


def _terminal_block(result: Result, workload: Workload) -> list[str]:
    events = workload is EVENTS
    name = f"{workload.title}, CPU μs per {workload.unit}"
    header = (
        f"{name:42}{'CPU μs':>9}{'ratio':>8}{'by line' if events else '':>8}{'CPU s/GB':>10}{'p50 ms':>9}"
    )
    lines = [header + f"{'p99 ms':>9}{'per s':>9}{'spread':>8}{'other':>7}"]
    for cell in _cells(result, workload):
        title = (EVENT_TITLES if events else TITLES)[cell.gateway].replace("*", "")
        if cell.void is not None:
            lines.append(f"  {title:40}void: {cell.void}")
            continue
        other = max(round_.other_cpu for round_ in cell.rounds)
        by_line = _share(ratio(result, cell, REFERENCE_LINES)) if events else ""
        lines.append(
            f"  {title:40}{_number(cell.cpu_us, '.1f'):>9}{_share(ratio(result, cell)):>8}{by_line:>8}"
            f"{_number(cell.cpu_s_per_gb, '.3f'):>10}{_number(cell.p50_us, '.2f', 1e-3):>9}"
            f"{_number(cell.p99_us, '.2f', 1e-3):>9}{_number(cell.rate, '.0f'):>9}"
            f"{_number(cell.spread, '.0%'):>8}{other:>7.0%}"
        )
    return lines


def notes(result: Result) -> list[str]:
    """Return what a reader of the figures must know besides them."""
    lines = [f"absent: {name}: {reason}" for name, reason in result.absent.items()]
    disturbed = sum(round_.other_cpu > DISTURBED for cell in result.cells for round_ in cell.rounds)
    if disturbed:
        total = sum(len(cell.rounds) for cell in result.cells)
        busy = f"over {DISTURBED:.0%} of the cores were in other programs' use"
        lines.append(f"disturbed: {busy} in {disturbed} of {total} rounds")
    lines.append(f"check: {result.comparison} (limit {DEVIATION:.0%})")
    lines.extend(f"VOID RUN: {reason}" for reason in result.void)
    return lines


def terminal(result: Result) -> str:
    """Return the detailed tables: ratios are to aiohttp + uvloop of the same run."""
    lines: list[str] = []
    for workload in WORKLOADS:
        if _cells(result, workload):
            lines += [*_terminal_block(result, workload), ""]
    return "\n".join(lines + notes(result))


def _markdown_row(columns: list[str]) -> str:
    return "| " + " | ".join(columns) + " |"


def markdown_table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table whose first column is text."""
    rule = ["---", *["--:"] * (len(header) - 1)]
    return [_markdown_row(columns) for columns in (header, rule, *rows)]


def _cost(result: Result, gateway: str, workload: Workload) -> str:
    cell = result.cell(gateway, workload.name)
    if cell is None:
        return "absent" if gateway in result.absent else "-"
    if cell.cpu_us is None:
        return "void"
    if cell.is_wide:
        return "unsteady"
    return f"{_significant(cell.cpu_us)} ({_share(_steady_ratio(result, cell))})"


def _steady_ratio(result: Result, cell: Cell, reference: str = REFERENCE) -> float | None:
    """The ratio, unless the reference is left out."""
    base = result.cell(reference, cell.workload)
    return None if base is None or base.is_wide else ratio(result, cell, reference)


def _segment_rows(result: Result) -> list[list[str]]:
    rows = []
    for gateway in GATEWAYS:
        if "segments" not in gateway.kinds:
            continue
        largest = result.cell(gateway.name, SEGMENTS[-1].name)
        per_gb = _number(largest.cpu_s_per_gb if largest and not largest.is_wide else None, ".2f")
        rows.append(
            [gateway.title, *(_cost(result, gateway.name, workload) for workload in SEGMENTS), per_gb]
        )
    return rows


def _event_rows(result: Result) -> list[list[str]]:
    rows = []
    for name in (*(gateway.name for gateway in GATEWAYS if "events" in gateway.kinds), "direct"):
        cell = result.cell(name, EVENTS.name)
        if cell is None or cell.void is not None:
            state = "absent" if name in result.absent else "void" if cell else "-"
            rows.append([EVENT_TITLES[name], state, "-", "-", "-"])
            continue
        cost = "-" if cell.cpu_us is None else "unsteady" if cell.is_wide else _significant(cell.cpu_us)
        ratios = [
            "-" if cell.is_wide else _share(_steady_ratio(result, cell, reference))
            for reference in (REFERENCE, REFERENCE_LINES)
        ]
        rows.append([EVENT_TITLES[name], cost, *ratios, _number(cell.p99_us, ".1f", 1e-3)])
    return rows


def _handler_rows(result: Result) -> list[list[str]]:
    return [
        [HANDLER_TITLES[gateway.name], _cost(result, gateway.name, HANDLER)]
        for gateway in GATEWAYS
        if HANDLER.kind in gateway.kinds
    ]


def _circumstances(result: Result) -> str:
    settings, machine = result.settings, result.machine
    spreads = [cell.spread for cell in result.cells if cell.spread is not None and not cell.is_wide]
    versions = {"Python": machine["python"]} | result.versions
    sentences = (
        f"Measured {result.date[:10]} at {result.revision}",
        f"on {machine['cpu']} ({machine['cores']} cores), kernel {machine['kernel']}, over loopback:",
        "the gateway has one core, origin and client share another;",
        f"CPU time of the best of {settings.rounds} to {settings.rounds + settings.again} interleaved rounds",
        f"of {settings.seconds:g} s, p99 their median,",
        f"{settings.connections} kept-alive connections;",
        f"the third best round of a cell took at most {max(spreads, default=0):.0%} more than the best",
        f"(a cell above {WIDE:.0%} is left out).",
        ", ".join(f"{name} {_bare(name, version)}" for name, version in versions.items()) + ".",
        "Compare within the table only; [method](benchmarks/README.md).",
    )
    return " ".join(sentences)


def markdown(result: Result) -> str:
    """Return the README's tables. The words around them name the machine, the date and the spread."""
    streams = f"{result.settings.streams:,} of {result.settings.events_per_second} events/s each"
    lines = [
        "Relay of an uncached segment, CPU μs per request (in parentheses: of aiohttp + uvloop's)",
        "",
        *markdown_table(
            ["", *(workload.title for workload in SEGMENTS), "CPU s per GB, 2 MiB"], _segment_rows(result)
        ),
        "",
        f"Relay of event streams, {streams}, CPU μs per event",
        "",
        *markdown_table(
            ["", "μs/event", "of by chunk", "of by line", "p99 latency, ms"], _event_rows(result)
        ),
        "",
        "A handler that answers by itself, CPU μs per request",
        "",
        *markdown_table(["", f"`{HANDLER.title}`"], _handler_rows(result)),
        "",
        _circumstances(result),
    ]
    return "\n".join(lines)


def _bare(name: str, version: str) -> str:
    """Take the number from a program's own words: "nginx version: nginx/1.22.1" becomes 1.22.1."""
    for word in version.replace("/", " ").split():
        number = word.removeprefix(name).lstrip("v")
        if number[:1].isdigit():
            return number.partition("-")[0]
    return version


def render(document: str, table: str, begin: str = BEGIN, end: str = END) -> str:
    """Return `document` with `table` between the markers. Raises ValueError unless each is there once."""
    if document.count(begin) != 1 or document.count(end) != 1 or document.index(begin) > document.index(end):
        raise ValueError(f"{begin} and {end} must each be in the document once, in this order")
    before, _, rest = document.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"
