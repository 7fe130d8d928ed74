"""What `help()` says, and what is loaded when."""

import ast
import inspect
import pydoc
import re
import subprocess
import sys
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import ModuleType

import pytest

import penstock
import penstock.testing
import penstock.tokens
import penstock.web
import penstock.workers

MODULES = [
    penstock,
    penstock.config,
    penstock.framing,
    penstock.metrics,
    penstock.testing,
    penstock.tokens,
    penstock.web,
    penstock.workers,
]
DATACLASSES = sorted(
    {
        value
        for module in MODULES
        for value in (getattr(module, name) for name in module.__all__)
        if isinstance(value, type) and is_dataclass(value)
    },
    key=lambda cls: f"{cls.__module__}.{cls.__name__}",
)


@pytest.mark.parametrize("cls", DATACLASSES, ids=lambda cls: cls.__name__)
def test_help_of_a_class_and_of_its_fields_says_what_they_are(cls: type) -> None:
    whole = pydoc.plain(pydoc.render_doc(cls))
    for field in fields(cls):
        if field.name.startswith("_"):
            continue
        text = inspect.getdoc(getattr(cls, field.name))
        assert text, f"{cls.__name__}.{field.name} says nothing"
        assert text in pydoc.plain(pydoc.render_doc(getattr(cls, field.name))).replace("\n    ", "\n")
        assert text.splitlines()[0] in whole
        if field.default is not MISSING:
            assert f"Default: {field.default!r}." in text
            assert text != f"Default: {field.default!r}.", (
                f"{cls.__name__}.{field.name} says its default alone"
            )


@pytest.mark.parametrize(
    "cls", [cls for cls in DATACLASSES if ".config." in cls.__module__], ids=lambda cls: cls.__name__
)
def test_settings_say_their_units(cls: type) -> None:
    for field in fields(cls):
        text = (inspect.getdoc(getattr(cls, field.name)) or "").lower()
        if "float" in str(field.type):
            assert re.search(r"second|share|factor|part", text), f"{cls.__name__}.{field.name} has no unit"
        if field.type in {int | str, int | str | None}:
            assert re.search(r"byte|bits", text), f"{cls.__name__}.{field.name} has no unit"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_everything_that_is_public_says_what_it_is(module: ModuleType) -> None:
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{module.__name__}.{name}"
            for member, method in vars(value).items() if inspect.isclass(value) else ():
                if not member.startswith("_") and (
                    inspect.isfunction(method) or isinstance(method, property)
                ):
                    assert inspect.getdoc(method), f"{module.__name__}.{name}.{member}"


def test_help_of_a_frame_is_what_its_stub_says() -> None:
    stub = ast.parse((Path(penstock.__file__).parent / "_native.pyi").read_text())
    (frame,) = (node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == "Frame")
    assert inspect.getdoc(penstock.Frame) == ast.get_docstring(frame)
    documented = 0
    for node in frame.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            assert inspect.getdoc(getattr(penstock.Frame, node.name)) == ast.get_docstring(node), node.name
            documented += 1
    assert documented == 7


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name", ["web.Gateway", "web.run_app", "tokens.SignedUrl", "testing.ScriptedOrigin", "workers.current"]
)
def test_modules_are_loaded_on_first_use(name: str) -> None:
    printed = run(f"import sys, penstock\nprint('aiohttp' in sys.modules, penstock.{name}.__name__)\n")
    assert printed == f"False {name.split('.')[1]}\n"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'penstock' has no attribute 'gateway'"):
        penstock.gateway  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no attribute 'Gateway': it is penstock\.web\.Gateway"):
        penstock.Gateway  # noqa: B018
    assert {"web", "tokens", "testing", "workers", "Engine"} <= set(dir(penstock))
