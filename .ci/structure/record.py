"""What is recorded of circles and upward arrows: a list that only shrinks."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

from graph import Upward


class Found(NamedTuple):
    """What the code has."""

    circles: list[list[str]]
    upward: list[Upward]


class Settings(NamedTuple):
    """The layers, and what is recorded."""

    layers: dict[str, list[list[str]]]
    circles: list[list[str]]
    upward: list[str]
    long: dict[str, str]
    """What may be longer than others, and why."""


def read(path: Path) -> Settings:
    """Reads `structure.toml`. A row of a layer is a line of names."""
    content = tomllib.loads(path.read_text())
    layers = {group: [row.split() for row in rows] for group, rows in content.get("layers", {}).items()}
    recorded = content.get("recorded", {})
    circles = [circle.split() for circle in recorded.get("circles", [])]
    return Settings(layers, circles, list(recorded.get("upward", [])), dict(content.get("long", {})))


def faults(found: Found, settings: Settings) -> list[str]:
    """What is not recorded, each with what to do."""
    said = [
        "a new circle of imports:\n  "
        + "\n  ".join(circle)
        + "\nmove what they share into a file that imports none of them"
        for circle, recorded in _matched(found, settings)
        if recorded is None
    ]
    said += [
        f"an import that points up: {arrow.source} -> {arrow.target} ({', '.join(arrow.names)})\n"
        "move what is shared into a layer below both, or hand it in from above"
        for arrow in found.upward
        if _line(arrow) not in settings.upward
    ]
    return said


def gone(found: Found, settings: Settings) -> list[str]:
    """What is recorded and is no longer so, as it stands in the record."""
    matched = [recorded for _circle, recorded in _matched(found, settings) if recorded is not None]
    upward = {_line(arrow) for arrow in found.upward}
    return [
        *(" ".join(circle) for circle in settings.circles if circle not in matched),
        *(arrow for arrow in settings.upward if arrow not in upward),
    ]


def shrink(path: Path, lines: list[str]) -> None:
    """Takes lines from the record."""
    text = path.read_text()
    for line in lines:
        text = re.sub(rf'^ *"{re.escape(line)}",\n', "", text, flags=re.MULTILINE)
    path.write_text(text)


def _matched(found: Found, settings: Settings) -> list[tuple[list[str], list[str] | None]]:
    """Each circle with its record: one that shares a file with it and is not smaller. Files may be renamed."""
    left = list(settings.circles)
    matched: list[tuple[list[str], list[str] | None]] = []
    for circle in sorted(found.circles, key=len, reverse=True):
        fitting = [old for old in left if len(old) >= len(circle) and not set(old).isdisjoint(circle)]
        best = min(fitting, key=len, default=None)
        if best is not None:
            left.remove(best)
        matched.append((circle, best))
    return matched


def _line(arrow: Upward) -> str:
    """An arrow as it is recorded."""
    return f"{arrow.source} -> {arrow.target}"
