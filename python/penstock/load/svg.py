"""Plots as inline SVG. Colours are classes of the style sheet, so that a plot is light or dark as the page is."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

__all__ = ["Axis", "Line", "Plot", "decades"]

_LEFT: Final = 76
_RIGHT: Final = 14
_TOP: Final = 12
_BOTTOM: Final = 30
_MOST_LABELS: Final = 8


@dataclass(frozen=True)
class Axis:
    """What one direction shows."""

    low: float
    high: float
    show: Callable[[float], str]
    """A value as its label."""
    logarithmic: bool = False
    ticks: Sequence[float] | None = None
    """Where labels are; None: at round values."""

    def share(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
        return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0

    def labels(self) -> Sequence[float]:
        """The values that have labels."""
        if self.ticks is not None:
            return self.ticks
        if self.logarithmic:
            return decades(self.low, self.high)
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        step = 10.0 ** math.floor(math.log10(span / 4))
        step *= next((each for each in (1, 2, 5, 10) if span / (step * each) <= 5), 10)  # noqa: PLR2004 (labels)
        first = math.ceil(self.low / step)
        return [step * at for at in range(first, first + _MOST_LABELS) if step * at <= self.high + step / 1e6]


def decades(low: float, high: float) -> list[float]:
    """The powers of ten from `low` to `high`."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]


@dataclass(frozen=True)
class Line:
    """A curve."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    """The number of a colour of the style sheet, from 0 on."""
    is_dashed: bool = False
    is_area: bool = False


class Plot:
    """A plot that is drawn piece by piece."""

    def __init__(self, title: str, x: Axis, y: Axis, *, width: int = 560, height: int = 240) -> None:
        self._x, self._y = x, y
        self._width, self._height = width, height
        self._title = title
        self._parts: list[str] = []
        self._legend: list[tuple[str, str]] = []

    def x(self, value: float) -> float:
        """Where a value of the axis below is."""
        return _LEFT + self._x.share(value) * (self._width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Where a value of the axis at the left is."""
        return self._height - _BOTTOM - self._y.share(value) * (self._height - _TOP - _BOTTOM)

    def line(self, line: Line) -> None:
        """Draw a curve."""
        if not line.points:
            return
        places = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in line.points)
        if line.is_area:
            base = self.y(self._y.low)
            first, last = self.x(line.points[0][0]), self.x(line.points[-1][0])
            self._parts.append(
                f'<polygon class="a{line.colour}" points="{first:.1f},{base:.1f} {places} {last:.1f},{base:.1f}"/>'
            )
        dashed = " dashed" if line.is_dashed else ""
        self._parts.append(f'<polyline class="l{line.colour}{dashed}" points="{places}"/>')
        self._legend.append((f"l{line.colour}{dashed}", line.name))

    def box(
        self, x: tuple[float, float], y: tuple[float, float], kind: str, about: str, *, opacity: float = 1
    ) -> None:
        """Draw a rectangle between values; `about` is shown under the pointer."""
        left, right, top, bottom = self.x(x[0]), self.x(x[1]), self.y(y[1]), self.y(y[0])
        self._parts.append(
            f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0.5):.1f}" '
            f'height="{max(bottom - top, 0.5):.1f}" opacity="{opacity:.2f}"><title>{escape(about)}</title></rect>'
        )

    def drawn(self) -> str:
        """The plot with its title, its axes and its legend, as a figure of HTML."""
        return "".join(self._figure())

    def _figure(self) -> Iterable[str]:
        title = escape(self._title)
        yield f"<figure><figcaption>{title}</figcaption>"
        yield f'<svg viewBox="0 0 {self._width} {self._height}" role="img" aria-label="{title}">'
        base = self._height - _BOTTOM
        for value in self._y.labels():
            at = self.y(value)
            yield f'<line class="grid" x1="{_LEFT}" x2="{self._width - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            yield f'<text x="{_LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">{escape(self._y.show(value))}</text>'
        for value in self._x.labels():
            at = self.x(value)
            yield f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{base}" y2="{base + 4}"/>'
            yield f'<text x="{at:.1f}" y="{base + 18}" text-anchor="middle">{escape(self._x.show(value))}</text>'
        yield from self._parts
        yield "</svg>"
        if len(self._legend) > 1:
            yield '<div class="legend">'
            for kind, name in self._legend:
                sample = f'<line class="{kind}" x1="0" x2="22" y1="5" y2="5"/>'
                yield f'<span><svg width="22" height="10">{sample}</svg>{escape(name)}</span>'
            yield "</div>"
        yield "</figure>"
