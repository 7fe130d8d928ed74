"""Panels, rows and pages, and the JSON that Grafana imports.

The JSON is that of schema version 39, which Grafana has had since 10.4 and which later ones bring up to their own.
"""

from dataclasses import dataclass, field
from typing import Any

SCHEMA = 39
WIDE = 24
"""Columns of Grafana's grid."""
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Line:
    """An expression, and the name of each of its series: text with `{{label}}`."""

    expression: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """Series over time, unless `kind` is `stat` or `bargauge`, which have the last values alone."""

    title: str
    about: str
    """What it says, and what to do if it is not as it should be."""
    unit: str
    """One of Grafana's units."""
    lines: tuple[Line, ...]
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    least: float | None = 0
    most: float | None = None
    colours: dict[str, str] = field(default_factory=dict)
    """Colours of series, by a regular expression for their names."""
    steps: tuple[tuple[float | None, str], ...] = ((None, "blue"),)
    """Colours of a value from each threshold on; of `stat` and `bargauge`."""


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Page:
    """A dashboard."""

    name: str
    title: str
    about: str
    rows: tuple[Row, ...]

    @property
    def panels(self) -> list[Panel]:
        """All its panels."""
        return [panel for row in self.rows for panel in row.panels]


def graph(title: str, about: str, unit: str, *lines: tuple[str, str], **options: Any) -> Panel:
    """Series over time."""
    return Panel(title, about, unit, tuple(Line(*line) for line in lines), **options)


def stat(title: str, about: str, unit: str, expression: str, **options: Any) -> Panel:
    """One large number."""
    options = {"width": 4, "height": 4, "least": None, **options}
    return Panel(title, about, unit, (Line(expression, title),), kind="stat", **options)


def dashboard(page: Page) -> dict[str, Any]:
    """The JSON of a page."""
    panels = _panels(page)
    text = str(panels)
    return {
        "annotations": {"list": []},
        "description": page.about,
        "editable": True,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "links": [_other_pages()],
        "panels": panels,
        "refresh": "30s",
        "schemaVersion": SCHEMA,
        "tags": ["penstock"],
        "templating": {"list": [_source(), *(each for each in _variables() if f"${each['name']}" in text)]},
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "title": page.title,
        "uid": f"penstock-{page.name}",
        "version": 1,
    }


def _panels(page: Page) -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = []
    top = 0
    for row in page.rows:
        panels.append(_row(row, len(panels) + 1, top))
        top += 1
        left = tallest = 0
        for panel in row.panels:
            if left + panel.width > WIDE:
                top, left, tallest = top + tallest, 0, 0
            place = {"h": panel.height, "w": panel.width, "x": left, "y": top}
            panels.append(_panel(panel, len(panels) + 1, place))
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest
    return panels


def _row(row: Row, number: int, top: int) -> dict[str, Any]:
    place = {"h": 1, "w": WIDE, "x": 0, "y": top}
    return {
        "collapsed": False,
        "gridPos": place,
        "id": number,
        "panels": [],
        "title": row.title,
        "type": "row",
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "datasource": _SOURCE,
        "description": panel.about,
        "fieldConfig": {
            "defaults": _defaults(panel),
            "overrides": [_colour(*each) for each in panel.colours.items()],
        },
        "gridPos": place,
        "id": number,
        "options": _options(panel),
        "targets": [_target(panel, line, chr(ord("A") + at)) for at, line in enumerate(panel.lines)],
        "title": panel.title,
        "type": panel.kind,
    }


def _target(panel: Panel, line: Line, letter: str) -> dict[str, Any]:
    is_graph = panel.kind == "timeseries"
    return {
        "datasource": _SOURCE,
        "expr": line.expression,
        "instant": not is_graph,
        "legendFormat": line.legend,
        "range": is_graph,
        "refId": letter,
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.least is not None:
        defaults["min"] = panel.least
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.kind == "timeseries":
        defaults["color"] = {"mode": "palette-classic"}
        defaults["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 30 if panel.stacked else 8,
            "lineWidth": 1,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"group": "A", "mode": "normal" if panel.stacked else "none"},
        }
    else:
        steps = [{"color": colour, "value": value} for value, colour in panel.steps]
        defaults["color"] = {"mode": "thresholds"}
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return defaults


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "timeseries":
        return {
            "legend": {
                "calcs": ["lastNotNull", "max"],
                "displayMode": "table",
                "placement": "bottom",
                "showLegend": True,
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    common = {
        "orientation": "horizontal" if panel.kind == "bargauge" else "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    if panel.kind == "bargauge":
        return {**common, "displayMode": "basic", "showUnfilled": True, "valueMode": "color"}
    return {**common, "colorMode": "value", "graphMode": "none", "justifyMode": "auto", "textMode": "auto"}


def _colour(series: str, colour: str) -> dict[str, Any]:
    return {
        "matcher": {"id": "byRegexp", "options": f"/^(?:{series})$/"},
        "properties": [{"id": "color", "value": {"fixedColor": colour, "mode": "fixed"}}],
    }


def _source() -> dict[str, Any]:
    return {
        "includeAll": False,
        "label": "Data source",
        "multi": False,
        "name": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "type": "datasource",
    }


def _variables() -> list[dict[str, Any]]:
    here = 'job=~"$job", instance=~"$instance"'
    return [
        _variable("job", "Job", "label_values(penstock_build_info, job)"),
        _variable("instance", "Instance", 'label_values(penstock_build_info{job=~"$job"}, instance)'),
        _variable("route", "Route", f"label_values(penstock_requests_active{{{here}}}, route)"),
    ]


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "allValue": ".*",
        "current": {"selected": True, "text": "All", "value": "$__all"},
        "datasource": _SOURCE,
        "includeAll": True,
        "label": label,
        "multi": True,
        "name": name,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "type": "query",
    }


def _other_pages() -> dict[str, Any]:
    return {
        "asDropdown": True,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "tags": ["penstock"],
        "targetBlank": False,
        "title": "penstock",
        "tooltip": "",
        "type": "dashboards",
        "url": "",
    }
