"""The files for Grafana and Prometheus: as they are generated, and as both read them."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from boards import LEFT_OUT, PAGES
from boards.rules import ALERTS, RECORDED, Alert
from boards.shape import WIDE, Page, dashboard
from boards.table import METRICS
from generate import HERE, files
from support.programs import require

from .scenarios import SCENARIOS, Scenario

ROOT = HERE.parent
GUIDE = ROOT / "docs" / "operations" / "dashboards.md"
RULES = HERE / "prometheus" / "penstock.yml"
UNITS = {"s", "d", "bytes", "Bps", "percentunit", "reqps", "cps", "ops", "short"}

_EXPRESSIONS = [line.expression for page in PAGES for panel in page.panels for line in panel.lines]
_OF_RULES = [*(recorded.expression for recorded in RECORDED), *(alert.expression for alert in ALERTS)]
_ALL = [*_EXPRESSIONS, *_OF_RULES]

by_name = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def metrics(expression: str) -> set[str]:
    """The metrics that an expression names, as the table has them."""
    found = set(re.findall(r"\bpenstock_\w+", expression))
    return {name if name in METRICS else re.sub(r"_(bucket|count|sum)$", "", name) for name in found}


def test_the_files_are_as_they_are_generated() -> None:
    for path, text in files().items():
        assert path.read_text() == text, f"run dashboards/generate.py: {path.relative_to(ROOT)}"
    there = {path for folder in ("grafana", "prometheus") for path in (HERE / folder).iterdir()}
    assert there == {path for path in files() if path.is_relative_to(HERE)}


def test_each_metric_is_on_a_panel_or_left_out_for_a_reason() -> None:
    shown = set().union(*map(metrics, _EXPRESSIONS))
    assert shown <= set(METRICS)
    assert shown | set(LEFT_OUT) == set(METRICS), "add it to a page of dashboards/boards, or to LEFT_OUT"
    assert not shown & set(LEFT_OUT)
    assert all(LEFT_OUT.values())


def test_an_expression_has_labels_of_its_metrics() -> None:
    for expression in _ALL:
        known = {"job", "instance", "le"}.union(*(METRICS[name].labels for name in metrics(expression)))
        for group in re.findall(r"\bby \(([^)]*)\)", expression):
            assert set(group.split(", ")) <= known, expression
        for name, matchers in re.findall(r"\b(penstock_\w+|up)\{([^}]*)\}", expression):
            labels = {"job", "instance"}.union(*(METRICS[metric].labels for metric in metrics(name)))
            assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)) <= labels, expression


def test_a_rate_is_that_of_a_count() -> None:
    for expression in _ALL:
        rated = re.findall(r"\b(?:rate|increase)\((penstock_\w+)", expression)
        kinds = {METRICS[metric].kind for metric in metrics(" ".join(rated))}
        assert kinds <= {"counter", "histogram"}, expression
        counts = {name for name in metrics(expression) if METRICS[name].kind == "counter"}
        assert counts == set(rated) & set(METRICS), expression


def test_the_variables_select_and_grafana_adds_one_alone() -> None:
    for expression in _EXPRESSIONS:
        used = set(re.findall(r"\$(\w+)", expression))
        has_route = any("route" in METRICS[name].labels for name in metrics(expression))
        assert used - {"__rate_interval"} == {"job", "instance", *(["route"] if has_route else [])}, (
            expression
        )


@by_name
def test_a_page_has_each_variable_that_it_uses(page: Page) -> None:
    made = dashboard(page)
    names = [each["name"] for each in made["templating"]["list"]]
    used = {name for name in ("job", "instance", "route") if f"${name}" in json.dumps(made["panels"])}
    assert names[0] == "datasource"
    assert set(names[1:]) == used


@by_name
def test_panels_have_a_place_and_say_what_they_are_for(page: Page) -> None:
    made = dashboard(page)["panels"]
    assert len({panel["id"] for panel in made}) == len(made)
    taken: Counter[tuple[int, int]] = Counter()
    for panel in made:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDE
        taken.update(
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        )
    assert max(taken.values()) == 1, "panels overlap"
    for panel in page.panels:
        assert panel.unit in UNITS
        assert panel.about.endswith(".")
        assert len({line.legend for line in panel.lines}) == len(panel.lines)


@by_name
def test_grafana_reads_a_page_and_knows_each_field(page: Page) -> None:
    """By Grafana's own models: they drop what they do not know."""
    register_default_plugins()
    text = (HERE / "grafana" / f"{page.name}.json").read_text()
    read = Dashboard.from_json(json.loads(text))
    assert without_defaults(json.loads(text), json.loads(JSONEncoder().encode(read))) == json.loads(text)


def without_defaults(written: Any, read: Any) -> Any:
    """`read` without the fields that `written` does not have: the models write each default."""
    if isinstance(written, dict) and isinstance(read, dict):
        return {name: without_defaults(value, read[name]) for name, value in written.items() if name in read}
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [without_defaults(*pair) for pair in zip(written, read, strict=True)]
    return read


async def promtool(*arguments: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(require("promtool", package="prometheus"), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    status, said = await promtool("check", "rules", str(RULES))
    assert status == 0, said
    assert f"{len(RECORDED) + len(ALERTS)} rules found" in said


async def test_alerts_fire_when_they_should_and_at_no_other_time(tmp_path: Path) -> None:
    assert set(SCENARIOS) == {alert.name for alert in ALERTS}
    tests = [test for alert in ALERTS for test in checks_of(alert, SCENARIOS[alert.name])]
    path = tmp_path / "scenarios.yml"
    # JSON is YAML.
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "30s", "tests": tests}))
    status, said = await promtool("test", "rules", str(path))
    assert status == 0, said


def checks_of(alert: Alert, scenario: Scenario) -> list[dict[str, Any]]:
    """For promtool."""
    labels = {"job": "penstock", "instance": "a:9145", **scenario.labels}
    notes = {
        "summary": filled(alert.summary, labels, scenario.value),
        "description": filled(alert.description, labels, scenario.value),
        "runbook_url": alert.runbook,
    }
    firing = [{"exp_labels": {**labels, "severity": alert.severity}, "exp_annotations": notes}]
    checks = [(scenario.at, firing), *([(scenario.before, [])] if scenario.before else [])]
    assert (scenario.before is None) == (alert.hold == "0s")
    return [
        promtool_test(alert, scenario.fires, *checks),
        promtool_test(alert, scenario.quiet, (scenario.at, [])),
    ]


def promtool_test(
    alert: Alert, series: dict[str, str], *checks: tuple[str | None, list[Any]]
) -> dict[str, Any]:
    return {
        "interval": "30s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"alertname": alert.name, "eval_time": at, "exp_alerts": alerts} for at, alerts in checks
        ],
    }


def filled(text: str, labels: dict[str, str], value: str) -> str:
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
    text, count = re.subn(r"\{\{ \$value \| \w+ \}\}", value, text)
    assert (count == 0) or value
    return text


def test_the_guide_says_what_to_do_for_each_alert() -> None:
    text = GUIDE.read_text()
    headings = re.findall(r"^### (Penstock\w+)$", text, re.MULTILINE)
    assert headings == [alert.name for alert in ALERTS]
    for alert in ALERTS:
        assert alert.runbook.endswith(f"docs/operations/dashboards.md#{alert.name.lower()}")


@by_name
def test_the_guide_shows_each_page(page: Page) -> None:
    text = GUIDE.read_text()
    picture = f"images/dashboard-{page.name}.png"
    assert f"(../{picture})" in text
    assert (ROOT / "docs" / picture).exists()
    assert f"grafana/{page.name}.json" in text
