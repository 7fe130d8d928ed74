"""The check of how files are tied together: it finds what is planted, and nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

STRUCTURE = Path(__file__).resolve().parent.parent / ".ci" / "structure"
LAYERS = '[layers]\nengine = ["low", "high other"]\npenstock = ["low", "high web"]\n'


def tree(root: Path, files: dict[str, str]) -> Path:
    """A checkout of these files: a crate `engine`, a boundary, and a package."""
    manifests = {
        f"rust/{name}/Cargo.toml": f'[package]\nname = "penstock-{name}"\n'
        for name in ("engine", "python", "memory")
    }
    for path, text in {**manifests, "python/penstock/__init__.py": "", **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def check(root: Path, recorded: str = "", *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = root / "structure.toml"
    settings.write_text(f"{LAYERS}[recorded]\n{recorded}")
    command = [
        sys.executable,
        STRUCTURE,
        "--root",
        root,
        "--settings",
        settings,
        "--before",
        root / "none",
        *arguments,
    ]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)


def figure(run: subprocess.CompletedProcess[str], label: str) -> int:
    return json.loads(run.stdout)[label]


RUST_CIRCLE = {
    "rust/engine/src/lib.rs": "mod high;",
    "rust/engine/src/high/mod.rs": "mod one;\nmod two;\npub(crate) use one::One;",
    "rust/engine/src/high/one.rs": "use super::two::Two;\npub(crate) struct One(Two);",
    "rust/engine/src/high/two.rs": "pub(crate) struct Two;\nfn make() { crate::high::One::new(); }",
}
PYTHON_CIRCLE = {
    "python/penstock/high/__init__.py": "from penstock.high.one import One",
    "python/penstock/high/one.py": "def late():\n    from penstock.high import two\n",
    "python/penstock/high/two.py": "import typing\nif typing.TYPE_CHECKING:\n    from penstock.high import One\n",
}


@pytest.mark.parametrize(
    ("files", "named"),
    [
        pytest.param(RUST_CIRCLE, "rust/engine/src/high/one.rs", id="rust"),
        pytest.param(PYTHON_CIRCLE, "python/penstock/high/one.py", id="python"),
    ],
)
def test_a_planted_circle_fails(tmp_path: Path, files: dict[str, str], named: str) -> None:
    run = check(tree(tmp_path, files))
    assert run.returncode == 1
    assert "a new circle of imports" in run.stderr
    assert named in run.stderr
    assert "mod.rs" not in run.stderr, "what a parent hands on is defined elsewhere"


def test_a_parent_and_its_own_children_are_no_circle(tmp_path: Path) -> None:
    files = {
        "rust/engine/src/high/mod.rs": "mod one;\nmod two;\npub struct High(one::One);\nfn two() { two::two() }",
        "rust/engine/src/high/one.rs": "use super::High;\npub struct One;\nfn f() { super::two::two() }",
        "rust/engine/src/high/two.rs": "use crate::high::High;\npub fn two() {}",
    }
    run = check(tree(tmp_path, files))
    assert run.returncode == 0, run.stderr


def test_children_of_one_parent_that_use_each_other_are_a_circle(tmp_path: Path) -> None:
    files = {
        "rust/engine/src/high/mod.rs": "mod one;\nmod two;\npub struct High(one::One);",
        "rust/engine/src/high/one.rs": "use super::High;\npub struct One(super::two::Two);",
        "rust/engine/src/high/two.rs": "use super::one::One;\npub struct Two(One);",
    }
    run = check(tree(tmp_path, files))
    assert run.returncode == 1
    assert "mod.rs" not in run.stderr


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {
                "rust/engine/src/low.rs": "use crate::high::High;",
                "rust/engine/src/high.rs": "pub struct High;",
            },
            id="rust",
        ),
        pytest.param(
            {
                "rust/engine/src/high.rs": "use crate::other;\nfn f() { other::other() }",
                "rust/engine/src/other.rs": "pub fn other() {}",
            },
            id="rust, within a row",
        ),
        pytest.param(
            {
                "python/penstock/low.py": "def late():\n    from penstock.web import serve\n",
                "python/penstock/web/__init__.py": "",
                "python/penstock/web/serve.py": "",
            },
            id="python",
        ),
    ],
)
def test_an_import_that_points_up_fails(tmp_path: Path, files: dict[str, str]) -> None:
    run = check(tree(tmp_path, files))
    assert run.returncode == 1
    assert "an import that points up" in run.stderr


def test_imports_that_point_down_pass(tmp_path: Path) -> None:
    files = {
        "rust/engine/src/lib.rs": "pub use penstock_memory::low;",
        "rust/engine/src/high.rs": 'use crate::low::Low;\n// crate::other::X\nconst TEXT: &str = "crate::other::X";',
        "rust/memory/src/lib.rs": "pub mod low;",
        "rust/memory/src/low.rs": "pub struct Low;\n#[cfg(test)]\nmod tests { use crate::high::High; }",
        "python/penstock/high.py": "from penstock.low import Low",
        "python/penstock/low.py": "class Low: ...",
    }
    run = check(tree(tmp_path, files))
    assert run.returncode == 0, run.stderr


def test_a_member_without_a_layer_fails(tmp_path: Path) -> None:
    files = {"rust/engine/src/new.rs": "use crate::low::Low;", "rust/engine/src/low.rs": "pub struct Low;"}
    run = check(tree(tmp_path, files))
    assert run.returncode == 1
    assert "`new` of engine" in run.stderr


def test_what_is_recorded_passes_and_does_not_grow(tmp_path: Path) -> None:
    recorded = 'circles = [\n  "rust/engine/src/high/one.rs rust/engine/src/high/two.rs",\n]\n'
    run = check(tree(tmp_path, RUST_CIRCLE), recorded)
    assert run.returncode == 0, run.stderr
    grown = RUST_CIRCLE | {
        "rust/engine/src/high/two.rs": "pub(crate) struct Two;\nfn make() { super::three::make() }",
        "rust/engine/src/high/three.rs": "fn make() { crate::high::One::new(); }",
    }
    assert check(tree(tmp_path, grown), recorded).returncode == 1


def test_the_record_loses_what_is_gone_and_gains_nothing(tmp_path: Path) -> None:
    recorded = 'circles = [\n  "a.rs b.rs",\n]\nupward = [\n  "a.rs -> b.rs",\n]\n'
    root = tree(tmp_path, RUST_CIRCLE)
    assert "2 recorded circles or arrows are gone" in check(root, recorded).stdout
    assert check(root, recorded, "--record").returncode == 1, "the planted circle is not recorded"
    assert (tmp_path / "structure.toml").read_text().endswith("circles = [\n]\nupward = [\n]\n")


def test_the_figures_are_counted_without_tests(tmp_path: Path) -> None:
    many = ", ".join(f"a{n}: u8" for n in range(9))
    wide = ", ".join(f"a{n}: int" for n in range(9))
    files = {
        "rust/engine/src/low.rs": f"fn f(&self, {many}) {{\n    unsafe {{ g() }}\n}}\n\n// unsafe {{ }}\n",
        "rust/engine/src/tests/low.rs": f"fn f({many}) {{ unsafe {{ }} }}",
        "rust/python/src/rows.rs": "type Row = (u8, &'static str, Vec<(u8, u8)>, f64);\nfn f() -> (u8, u8) {}",
        "python/penstock/low.py": f'"""Doc."""\n\ndef _f({wide}):  # noqa: X\n    """Doc."""\n'
        + "    f()\n" * 61,
        "python/penstock/high.py": f"def f(*, {wide}): ...\n",
        "python/penstock/_native.pyi": "def f() -> tuple[int, int, int, int]: ...\n",
    }
    run = check(tree(tmp_path, files), "", "--json")
    assert figure(run, "lines of code, Rust") == 5
    assert figure(run, "lines of code, Python") == 63
    assert figure(run, "functions of more than 60 lines") == 1
    assert figure(run, "functions of more than 8 parameters") == 2
    assert figure(run, "rows (tuples of more than 3) in the boundary") == 1
    assert figure(run, "rows in the stub") == 1
    assert figure(run, "unsafe blocks and impls") == 1
    assert figure(run, "suppressions of lints") == 1


LONG_FUNCTIONS = [
    pytest.param("rust/engine/src/low.rs", "fn low() {\n" + "    low();\n" * 59 + "}\n", id="rust"),
    pytest.param("python/penstock/low.py", "def low():\n" + "    low()\n" * 60, id="python"),
]


@pytest.mark.parametrize(("path", "text"), LONG_FUNCTIONS)
def test_a_function_that_is_too_long_fails(tmp_path: Path, path: str, text: str) -> None:
    run = check(tree(tmp_path, {path: text}))
    assert run.returncode == 1
    assert f"{path} low has 61 lines of 60" in run.stderr


@pytest.mark.parametrize(("path", "text"), LONG_FUNCTIONS)
def test_an_exception_that_is_named_may_be_too_long(tmp_path: Path, path: str, text: str) -> None:
    run = check(tree(tmp_path, {path: text}), f'[long]\n"{path} low" = "a table"\n')
    assert run.returncode == 0, run.stderr


def test_neither_docstrings_nor_tests_make_a_function_too_long(tmp_path: Path) -> None:
    files = {
        "python/penstock/low.py": 'def low():\n    """Low.\n' + "\n" * 60 + '    """\n',
        "rust/engine/src/low.rs": "#[cfg(test)]\nmod tests {\n    fn low() {\n" + "\n" * 60 + "    }\n}\n",
        "tests/test_low.py": "def test_low():\n" + "    low()\n" * 61,
    }
    run = check(tree(tmp_path, files))
    assert run.returncode == 0, run.stderr


def test_a_member_of_tests_ends_where_it_does(tmp_path: Path) -> None:
    arms = "Self::One => (),\n#[cfg(test)]\nSelf::Other(one, two) => two,\n#[cfg(test)]\nSelf::Last => ()\n"
    low = f"fn low() {{\nmatch self {{\n{arms}}}\n}}\n"
    text = low + "enum Low {\nOne,\n#[cfg(test)]\nOther(u8)\n}\n" + "fn lower() {\n}\n" * 60
    run = check(tree(tmp_path, {"rust/engine/src/low.rs": text}))
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("path", ["rust/engine/src/tests/low.rs", "python/penstock/low.pyi", "tests/low.py"])
def test_a_file_that_is_too_long_fails(tmp_path: Path, path: str) -> None:
    run = check(tree(tmp_path, {path: "\n" * 601}))
    assert run.returncode == 1
    assert f"{path} has 601 lines of 600" in run.stderr
    run = check(tree(tmp_path, {path: "\n" * 600}))
    assert run.returncode == 0, run.stderr


def test_what_is_built_has_no_limit(tmp_path: Path) -> None:
    run = check(tree(tmp_path, {"rust/target/low.rs": "\n" * 601}))
    assert run.returncode == 0, run.stderr


def test_an_exception_that_is_not_too_long_any_more_fails(tmp_path: Path) -> None:
    files = {"python/penstock/low.py": "def low(): ..."}
    run = check(tree(tmp_path, files), '[long]\n"python/penstock/low.py low" = "a table"\n')
    assert run.returncode == 1
    assert "python/penstock/low.py low is an exception" in run.stderr
