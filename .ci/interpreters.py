"""Runs the Python tests on every CPython at hand from 3.11 up, with the wheel that users would install.

One abi3 wheel is built for all of them; a free-threaded interpreter gets a wheel of its own, because it has
no stable ABI. Interpreters are looked for on PATH and among pyenv's, the newest patch release of each version.

The oldest and the newest run everything that depends on the interpreter. What lies between runs `BETWEEN`: what Python has
removed is missing in the newest, and what it has added in the oldest, so that a version between can differ by its own
defects alone. The one that penstock has met is of asyncio's transports (README.md), and tests/lane is on them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_backend"))

import penstock_profile  # noqa: E402

OLDEST = (3, 11)
# What the engine does alone is the same on every interpreter: tests/edge, and of these but for what Python says of it.
ALONE = [
    path
    for folder, of_python in (
        ("cache", {"from_python"}),
        ("deploy", {"guides", "health_command", "inherited", "notify"}),
        ("events", {"handlers", "policies"}),
        ("grpc", set[str]()),
        ("http2", {"requests"}),
        ("hub", {"from_python", "subscribing", "sharing"}),
        ("inspection", {"ends"}),
        ("metrics", {"command", "pages", "profile", "settings"}),
        ("origins", {"balance"}),
        ("shipping", {"fresh_directory"}),
        ("tokens", {"jwks", "settings", "signing"}),
        ("tracing", {"spans", "tree"}),
    )
    for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))
    if path.stem.removeprefix("test_") not in of_python
]
# Nor do browsers, Prometheus, ffmpeg, make, slow clients of the engine, programs that run by an interpreter of their own, and checks of
# the checkout show anything about the interpreter.
OF_THE_CHECKOUT = ("benchmark_table", "counts", "imports", "makefile", "structure", "words")
ELSEWHERE = (
    *("applications", "browsers", "dashboards", "demo", "edge", "media", "overload"),
    *(f"test_{name}.py" for name in OF_THE_CHECKOUT),
)
TESTS = [
    path
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
    if path.relative_to(ROOT / "tests").parts[0] not in ELSEWHERE and path not in ALONE
]
# The boundary itself: frames, streams and the command, applications on a Site over both loops, and the wheel in a fresh
# directory.
BETWEEN = [
    path
    for path in TESTS
    if path.parent.name in {"tests", "lane"} or path.match("shipping/test_fresh_directory.py")
]
# Of a part, which is a process of pytest: a start of it takes a second, and a file some seconds. Arbitrary.
MOST_FILES = 8
ABI3 = "abi3-py311"
ASK = (
    "import json, platform, sys, sysconfig; print(json.dumps([sys.version_info[:3], "
    "bool(sysconfig.get_config_var('Py_GIL_DISABLED')), platform.python_implementation()]))"
)


class Interpreter(NamedTuple):
    """A CPython that can be run."""

    version: tuple[int, int, int]
    free_threaded: bool
    path: Path

    def __str__(self) -> str:
        return ".".join(map(str, self.version)) + ("t" if self.free_threaded else "")


def candidates() -> list[Path]:
    """Every file whose name says that it may be one."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=True).stdout.strip()
        folders += Path(root).glob("versions/*/bin")
    name = re.compile(r"python3\.\d+t?")
    return [
        path
        for folder in folders
        if folder.is_dir()
        for path in folder.iterdir()
        if name.fullmatch(path.name) and os.access(path, os.X_OK)
    ]


def find() -> list[Interpreter]:
    """The newest patch release of each version, with and without a GIL."""
    newest: dict[tuple[int, int, bool], Interpreter] = {}
    for path in candidates():
        asked = subprocess.run([path, "-c", ASK], capture_output=True, text=True, check=False)
        if asked.returncode != 0:
            continue  # pyenv leaves names on PATH that lead to no version
        (major, minor, patch), free_threaded, kind = json.loads(asked.stdout)
        key = (major, minor, free_threaded)
        found = Interpreter((major, minor, patch), free_threaded, path)
        if kind == "CPython" and (major, minor) >= OLDEST and (key not in newest or found > newest[key]):
            newest[key] = found
    return sorted(newest.values())


def is_tested(interpreter: Interpreter) -> bool:
    """Whether `make test` has tested it with what the wheel is built of: the Makefile builds with FEATURES."""
    own = not interpreter.free_threaded and interpreter.version[:2] == sys.version_info[:2]
    return own and os.environ.get("FEATURES") == ABI3


def build(folder: Path, *options: str) -> Path:
    """The wheel that maturin builds, of what the Makefile has compiled as far as that is the same."""
    target, version = penstock_profile.compiler()
    maturin = [Path(sys.executable).with_name("maturin"), "build", "--quiet", "--release", "--target", target]
    environment = {**os.environ, "RUSTFLAGS": penstock_profile.rustflags(target, version)}
    subprocess.run([*maturin, "-o", folder, *options], cwd=ROOT, env=environment, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def chosen(interpreter: Interpreter, interpreters: list[Interpreter]) -> list[Path]:
    """The tests that it runs: fewer if there is an older one and a newer one. One without a GIL is like no other."""
    with_gil = [one for one in interpreters if not one.free_threaded]
    is_between = not interpreter.free_threaded and interpreter not in {with_gil[0], with_gil[-1]}
    return BETWEEN if is_between else TESTS


def parts(tests: list[Path]) -> list[list[Path]]:
    """Files of one folder, some at a time."""
    folders = [list(files) for _, files in groupby(tests, key=lambda path: path.parent)]
    return [list(part) for files in folders for part in batched(files, MOST_FILES)]


def batched(files: list[Path], size: int) -> Iterator[list[Path]]:
    """`itertools.batched`, which Python has from 3.12 on."""
    for start in range(0, len(files), size):
        yield files[start : start + size]


def install(interpreter: Interpreter, wheel: Path, folder: Path) -> Path:
    """That wheel and what tests need in an environment of its own: its Python."""
    subprocess.run([interpreter.path, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    subprocess.run([*pip, "install", "-q", wheel, "--group", "test"], cwd=ROOT, check=True)
    return python


def passes(interpreter: Interpreter, python: Path, wheel: Path, files: list[Path]) -> bool:
    """Run a part, and say what it has said."""
    started = time.monotonic()
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    # tests/shipping installs it in a fresh directory. pytest keeps what it compiles of its plugins.
    environment = os.environ | {"PENSTOCK_WHEEL": str(wheel), "PYTHONDONTWRITEBYTECODE": ""}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, check=False, **output)
    outcome = "passed" if ran.returncode == 0 else "FAILED"
    what = " ".join(str(path.relative_to(ROOT)) for path in files)
    took = time.monotonic() - started
    print(f"{ran.stdout}\n{interpreter}: {outcome} in {took:.0f} s: {what}", flush=True)
    return ran.returncode == 0


def main() -> int:
    """Tests all, and says which failed. Tests mostly wait, so that there are three parts at a time for each core."""
    interpreters = find()
    print("interpreters:", *interpreters, flush=True)
    runs: list[tuple[Interpreter, Future[bool]]] = []
    with (
        tempfile.TemporaryDirectory(prefix="penstock-") as name,
        ThreadPoolExecutor(3 * (os.cpu_count() or 1)) as pool,
    ):
        folder = Path(name)
        shared = None
        for interpreter in interpreters:
            if is_tested(interpreter):
                print(f"{interpreter}: make test has tested it", flush=True)
                continue
            if interpreter.free_threaded:
                wheel = build(folder / f"wheel-{interpreter}", "-i", str(interpreter.path))
            else:
                wheel = shared = shared or build(folder / "wheel", "--features", ABI3)
            print(f"{interpreter}: {wheel.name}", flush=True)
            python = install(interpreter, wheel, folder / f"venv-{interpreter}")
            for files in parts(chosen(interpreter, interpreters)):
                runs.append((interpreter, pool.submit(passes, interpreter, python, wheel, files)))
        failed = list(dict.fromkeys(str(interpreter) for interpreter, run in runs if not run.result()))
    if failed or not interpreters:
        print("failed:", *(failed or ["no interpreter was found"]), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
