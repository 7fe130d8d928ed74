"""What the deployment guides say of penstock is so: its options, its classes and their parameters are there."""

import inspect
import re
from pathlib import Path
from typing import Any

import click
import pytest
import trustme
from click.testing import CliRunner

import penstock
import penstock.tokens
import penstock.web
from penstock.cache import Cache
from penstock.cli import main
from support.certificates import written
from support.documents import ROOT, name, tables

GUIDES = sorted((ROOT / "docs" / "deploy").glob("*.md"))
TABLES = sorted((ROOT / "docs" / "deploy").glob("from-*.md"))
PLACES = (penstock.config, penstock, penstock.web, penstock.tokens)
# Methods, by the names that the guides give to their objects.
METHODS = {
    "gateway.native": penstock.web.Gateway.native,
    "gateway.relay": penstock.web.Gateway.relay,
    "hub.native": penstock.Hub.native,
    "hub.publish": penstock.Hub.publish,
    "hub.stats": penstock.Hub.stats,
    "engine.cache.purge": Cache.purge,
    "purge": Cache.purge,
}


def right_sides(path: Path) -> list[str]:
    """The cells of tables that say what there is here: the last of each row."""
    rows = [line for line in path.read_text().splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\) \| ", row.strip().strip("|"))[-1] for row in rows]
    assert len(cells) > 5
    return cells


def options() -> set[str]:
    found: set[str] = set()

    def add(command: click.Command) -> None:
        found.update(
            name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)
        )
        for inner in command.commands.values() if isinstance(command, click.Group) else ():
            add(inner)

    add(main)
    return found


def callable_of(named: str) -> Any:
    """What `named` stands for in the guides; None if it is nothing of penstock's."""
    if named in METHODS:
        return METHODS[named]
    found = [getattr(place, named) for place in PLACES if hasattr(place, named)]
    return found[0] if found else None


@pytest.mark.parametrize("path", TABLES, ids=name)
def test_options_are_there(path: Path) -> None:
    known = options()
    for cell in right_sides(path):
        for span in re.findall(r"`([^`]+)`", cell):
            for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", span):
                assert option in known, f"{name(path)}: {option}"


def commands(path: Path) -> list[str]:
    """The options that blocks of the guide give to penstock: in its own command, and in a unit's OPTIONS."""
    text = path.read_text().replace("\\\n", " ")
    inside = "\n".join(re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    found = re.findall(r"\bpenstock (?:serve|doctor|health|cache) (.*)", inside)
    return found + re.findall(r'OPTIONS="(.*?)"', inside)


@pytest.mark.parametrize("path", [*GUIDES, ROOT / "docs" / "operations" / "running.md"], ids=name)
def test_commands_have_options_that_are_there(path: Path) -> None:
    known = options()
    for command in commands(path):
        for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", command):
            assert option in known, f"{name(path)}: {option}"


def test_guides_have_commands() -> None:
    assert sum(len(commands(path)) for path in GUIDES) >= 5


@pytest.mark.parametrize("path", GUIDES, ids=name)
def test_classes_have_the_parameters(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`([^`]+)`", text):
        for named, arguments in re.findall(r"\b([A-Za-z][\w.]*)\(((?:[^()]|\([^()]*\))*)\)", span):
            given = set(re.findall(r"(?:^|, )(\w+)=", arguments))
            if not given:
                continue
            found = callable_of(named.removeprefix("penstock.").removeprefix("config."))
            if found is None:
                assert named[0].islower(), f"{name(path)}: {named} is nothing of penstock's"
                continue
            known = set(inspect.signature(found).parameters)
            assert given <= known, f"{name(path)}: {named} has no {given - known}"


@pytest.mark.parametrize("path", GUIDES, ids=name)
def test_classes_are_there(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for named in re.findall(r"`([A-Z][A-Za-z]*[a-z])[(.][a-z]", text):
        assert callable_of(named) is not None, f"{name(path)}: {named}"


FILES = [(guide, number) for guide in GUIDES for number in range(len(tables(guide)))]


@pytest.mark.parametrize(("guide", "number"), FILES, ids=[f"{path.stem}-{number}" for path, number in FILES])
def test_configuration_files_have_no_faults(guide: Path, number: int, tmp_path: Path) -> None:
    written(trustme.CA(), tmp_path, "media")
    path = tmp_path / "penstock.toml"
    path.write_text(tables(guide)[number].replace("/etc/tls/", f"{tmp_path}/"))
    done = CliRunner().invoke(main, ["check", str(path)])
    assert done.exit_code == 0, done.output
