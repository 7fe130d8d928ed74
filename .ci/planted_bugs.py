"""Shows that the simulations find the bugs that are planted for them.

Each bug is a line of the engine under `cfg(all(test, planted_bug = "NAME"))`, which no build but that of the unit tests
can have. For each this builds the engine's unit tests with it, and runs the simulations up to the first seed that fails.

    python3 .ci/planted_bugs.py [NAME...]
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUST = ROOT / "rust"
SEEDS = 200
PLANTED = re.compile(r'planted_bug = "([a-z-]+)"')
FOUND = re.compile(r"^(\S+), seed (\d+): (.*)$", re.MULTILINE)


def planted() -> list[str]:
    sources = (RUST / "engine/src").rglob("*.rs")
    return sorted({name for source in sources for name in PLANTED.findall(source.read_text())})


def build(bug: str) -> str:
    """The program of the unit tests with that bug: only the engine itself is compiled anew."""
    command = ["cargo", "rustc", "-p", "penstock-engine", "--lib", "--profile", "test", "--quiet"]
    command += ["--message-format", "json", "--", "-C", "debuginfo=0", "--cfg", f'planted_bug="{bug}"']
    built = subprocess.run(command, cwd=RUST, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = [json.loads(line) for line in built.splitlines()]
    programs = [found for message in messages if (found := message.get("executable"))]
    return programs[-1]


def find(bug: str) -> str | None:
    """How the simulations find the bug, if they do."""
    environment = {**os.environ, "SEEDS": str(SEEDS)}
    environment.pop("SEED", None)
    # Traces of two processes are equal with a bug as well.
    command = [build(bug), "simulation::", "--skip", "in_each_process"]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    ran = subprocess.run(command, env=environment, check=False, **output)
    found = FOUND.search(ran.stdout)
    if ran.returncode == 0 or found is None:
        return None
    test, seed, violated = found.groups()
    return f"seed {seed} of {test.split('::simulation::')[0]}: {violated}"


def main() -> int:
    bugs = sys.argv[1:] or planted()
    if unknown := set(bugs) - set(planted()):
        print(f"planted_bugs: there is no bug {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    missed = []
    for bug in bugs:
        begun = time.monotonic()
        found = find(bug)
        print(
            f"{bug}: {found or f'not found in {SEEDS} seeds'} ({time.monotonic() - begun:.0f} s)", flush=True
        )
        if found is None:
            missed.append(bug)
    print(f"{len(bugs) - len(missed)} of {len(bugs)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
