"""The rules of profiles, beside the rules that are compared with Sabre."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from penstock.load.profiles import rule_of
from penstock.load.scenario import Player

FIXTURE = Path(__file__).parents[2] / "rust" / "load" / "tests" / "sabre" / "ours.json"


def figures(rule: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in rule.items():
        found |= figures(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


@pytest.mark.parametrize(
    ("profile", "compared", "different"),
    [
        ("throughput", "throughput", set()),
        ("bola", "bola", {"bola.share", "bola.stable"}),
        ("dash.js", "dynamic", {"bola.share", "bola.stable", "high", "low", "estimate.first"}),
    ],
)
def test_profiles_are_the_rules_that_are_compared_with_figures_of_dash_js(
    profile: Literal["throughput", "bola", "dash.js"], compared: str, different: set[str]
) -> None:
    ours = figures(rule_of(Player(profile=profile)))
    theirs = figures(json.loads(FIXTURE.read_text())["rules"][compared])
    assert ours.keys() == theirs.keys()
    insufficient = {name for name in ours if "insufficient" in name}
    assert {name for name, value in ours.items() if theirs[name] != value} == different | insufficient
