"""Runs the Python tests on every CPython at hand from 3.11 up, with the wheel that users would install.

One abi3 wheel is built for all of them; a free-threaded interpreter gets a wheel of its own, because it has
no stable ABI. Interpreters are looked for on PATH and among pyenv's, the newest patch release of each version.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
# What needs a browser or ffmpeg shows nothing about the interpreter.
# What the engine does alone is the same on every interpreter: tests/edge, and of these but for what Python says of it.
ALONE = [
    path
    for folder, of_python in (
        ("cache", {"from_python"}),
        ("events", {"handlers", "policies"}),
        ("hub", {"from_python", "subscribing", "sharing"}),
        ("inspection", {"ends"}),
        ("origins", {"balance"}),
        ("tokens", {"jwks", "settings", "signing"}),
    )
    for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))
    if path.stem.removeprefix("test_") not in of_python
]
# Nor do programs that run by an interpreter of their own, make, or slow clients of the engine.
ELSEWHERE = ("applications", "demo", "edge", "media", "overload", "test_makefile.py")
TESTS = ["tests", *(f"--ignore=tests/{name}" for name in ELSEWHERE)]
TESTS += [f"--ignore={path.relative_to(ROOT)}" for path in ALONE]
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
    """The wheel that maturin builds."""
    maturin = Path(sys.executable).with_name("maturin")
    subprocess.run([maturin, "build", "--quiet", "--release", "-o", folder, *options], cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


class Run(NamedTuple):
    """The tests on one interpreter, as they are carried out."""

    process: subprocess.Popen[bytes]
    said: Path
    started: float


def begin(interpreter: Interpreter, wheel: Path, folder: Path) -> Run:
    """Have the tests run on that wheel, installed into an environment of its own."""
    started = time.monotonic()
    subprocess.run([interpreter.path, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    subprocess.run([*pip, "install", "-q", wheel, "--group", "test"], cwd=ROOT, check=True)
    said = folder / "said"
    with said.open("wb") as output:
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    return Run(process, said, started)


def end(interpreter: Interpreter, run: Run) -> bool:
    """Wait for the tests, and say what they have said; whether they have passed."""
    passed = run.process.wait() == 0
    outcome = "passed" if passed else "FAILED"
    print(run.said.read_text(errors="replace"))
    print(f"{interpreter}: {outcome} in {time.monotonic() - run.started:.0f} s", flush=True)
    return passed


def main() -> int:
    """Tests all, since they mostly wait for clocks all at a time, and says which failed."""
    interpreters = find()
    print("interpreters:", *interpreters, flush=True)
    runs: list[tuple[Interpreter, Run]] = []
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
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
            runs.append((interpreter, begin(interpreter, wheel, folder / f"venv-{interpreter}")))
        failed = [str(interpreter) for interpreter, run in runs if not end(interpreter, run)]
    if failed or not interpreters:
        print("failed:", *(failed or ["no interpreter was found"]), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
