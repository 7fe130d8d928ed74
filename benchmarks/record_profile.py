"""Records which functions of the engine run often, for the compiler, into rust/profiles/.

The engine is built with counters, and what `make counts` counts is put on it, longer: relays, hits, events, deliveries
and handlers, by HTTP/1.1 and HTTP/2, with and without TLS. A part of the tests runs on it as well, so that what they
come to is not taken for code that never runs, which the compiler makes small and not fast.

    .venv/bin/python benchmarks/record_profile.py
"""

from __future__ import annotations

import argparse
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from harness import counting
from harness.load import LoadError
from harness.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_backend"))

import penstock_profile  # noqa: E402

# A wheel's, and a checkout's. The boundary's own functions have other names in each.
FEATURES = ("abi3-py311", "")
STEPS = 4000
# On a checkout's alone: what they are to come to is the engine. One request of a load counts as WEIGHT of theirs. With
# equal weights all that they come to is compiled to be fast, and a wheel is larger than the 6 MB that one may have.
WEIGHT = 100
TESTS = (
    "tests/cache",
    "tests/gateway",
    "tests/edge",
    "tests/events",
    "tests/hub",
    "tests/grpc",
    "tests/http2",
)


def build(target: str, features: str) -> Path:
    """Return the library with counters, which each process writes when it ends."""
    directory = ROOT / "rust" / "target" / "profiled"
    flags = f"{os.environ.get('RUSTFLAGS', '')} -Cprofile-generate"
    command = ["cargo", "build", "--release", "--quiet", "--package", "penstock-python", "--target", target]
    command += ["--target-dir", str(directory), *(["--features", features] if features else [])]
    environment = {**os.environ, "RUSTFLAGS": flags, "PYO3_PYTHON": sys.executable}
    subprocess.run(command, cwd=ROOT / "rust", env=environment, check=True)
    return directory / target / "release" / "lib_native.so"


def put_loads() -> None:
    """Put each row of `make counts` on penstock, for some seconds."""
    for row in counting.ROWS:
        steps = max(STEPS // row.units, 40)
        for name in row.gateways:
            gateway = counting.GATEWAYS[name]
            if not gateway.own:
                continue
            # It begins with the steps.
            with counting.started(replace(row, steps=steps), gateway, Settings(), lambda command, _: command):
                print(f"{row.name}: {steps} steps on {name}", flush=True)


def run_tests(folder: str) -> None:
    """Run the tests of a folder. Tests of time fail on a slower build, and what has run counts all the same."""
    subprocess.run([sys.executable, "-m", "pytest", "-q", "--no-header", folder], cwd=ROOT, check=False)


def train(library: Path, features: str, raw: Path) -> None:
    """Run the loads and the tests on the library. Raises LoadError."""
    with tempfile.TemporaryDirectory(prefix="penstock-profile-") as folder:
        package = Path(folder) / "penstock"
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / "python" / "penstock", package, ignore=ignored)
        shutil.copy(library, package / ("_native.abi3.so" if features else "_native.so"))
        os.environ["PYTHONPATH"] = folder
        # Processes share a few files.
        os.environ["LLVM_PROFILE_FILE"] = str(raw / "loads-%4m.profraw")
        put_loads()
        os.environ["LLVM_PROFILE_FILE"] = str(raw / "tests-%4m.profraw")
        if not features:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(run_tests, TESTS))


def merge(target: str, raw: Path, into: Path) -> None:
    """Write the profile that rustc reads."""
    sysroot = subprocess.run(
        ["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True
    ).stdout.strip()
    tool = Path(sysroot) / "lib" / "rustlib" / target / "bin" / "llvm-profdata"
    if not tool.exists():
        raise SystemExit(f"record_profile: there is no {tool}: 'rustup component add llvm-tools' installs it")
    weights = {"loads": WEIGHT, "tests": 1}
    inputs = [f"-weighted-input={weights[path.name[:5]]},{path}" for path in sorted(raw.rglob("*.profraw"))]
    merged = raw / "merged.profdata"
    subprocess.run([tool, "merge", "-o", merged, *inputs], check=True)
    into.parent.mkdir(exist_ok=True)
    into.write_bytes(lzma.compress(merged.read_bytes(), preset=9 | lzma.PRESET_EXTREME))


def main() -> int:
    """Return the exit status."""
    argparse.ArgumentParser(description="Record a profile of the engine for the compiler.").parse_args()
    target, version = penstock_profile.compiler()
    with tempfile.TemporaryDirectory(prefix="penstock-profile-") as folder:
        for features in FEATURES:
            raw = Path(folder) / (features or "checkout")
            raw.mkdir()
            try:
                train(build(target, features), features, raw)
            except LoadError as error:
                print(f"record_profile: {error}", file=sys.stderr)
                return 1
        into = penstock_profile.recorded(target, version)
        merge(target, Path(folder), into)
    print(f"saved: {into} ({into.stat().st_size:,} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
