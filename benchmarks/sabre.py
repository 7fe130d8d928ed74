"""The players of `penstock load` against Sabre: `sabre.py --sabre DIRECTORY [--traces DIRECTORY] [--output FILE]`.

Sabre is the simulator of the authors of BOLA (github.com/UMass-LIDS/sabre, in no registry). DIRECTORY is a copy of its
repository. Without `--traces` this writes the fixture of the test in rust/load/tests/sabre.rs: what Sabre makes of a
film over 126 courses of the networks that `penstock load` has. With `--traces`, a directory of Sabre's JSON, it writes
the same of those into a file, and runs the test with it.

Sabre's BOLA is run as dash.js has it: BOLA-E (`bolae`), without going above the throughput (`--abr-osc`). `dynamic` is
`dynamicdash`. Abandonment is off: Sabre computes the rendition for which a segment is given up, and does not use it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from penstock.load.network import PRESETS

RUST = Path(__file__).parent.parent / "rust"
FIXTURE = RUST / "load" / "tests" / "sabre" / "ours.json"
# Courses of each preset; 126 as Sabre's examples have 86 of 3G and 40 of 4G.
COURSES: Final = {"3g": 60, "bad-wifi": 36, "4g": 30}
SECONDS: Final = 180.0
SEED: Final = 7
BUFFER: Final = 25.0
SEGMENT: Final = 4.0
SEGMENTS: Final = 100
LADDER: Final = (230, 477, 991, 2056, 4200, 8600, 17000)
# Sabre's figures, as the generator reads them.
INSUFFICIENT: Final = {"first": 0.9, "falls": 0.9, "least": 0.5}
ESTIMATE: Final = {"fast": 3.0, "slow": 8.0, "first": 0.0}
BOLA: Final = {
    "low": 10.0,
    "per_level": 2.0,
    "stable": BUFFER,
    "share": 1.0,
    "insufficient": INSUFFICIENT,
}
RULES: Final[dict[str, dict[str, Any]]] = {
    "throughput": {
        "name": "throughput",
        "share": 0.9,
        "insufficient": INSUFFICIENT,
        "estimate": ESTIMATE,
    },
    "bola": {"name": "bola", "bola": BOLA, "estimate": ESTIMATE},
    "dynamic": {
        "name": "dynamic",
        "high": 10.0,
        "low": 5.0,
        "share": 0.9,
        "insufficient": INSUFFICIENT,
        "bola": BOLA,
        "estimate": ESTIMATE,
    },
}
OF_SABRE: Final = {"throughput": ["throughput"], "bola": ["bolae", "-ao"], "dynamic": ["dynamicdash", "-ao"]}


def movie() -> dict[str, Any]:
    """A film whose segments vary as those of encoders do."""
    numbers = random.Random(SEED)
    factors = [max(0.4, min(2.0, numbers.lognormvariate(0, 0.25))) for _ in range(SEGMENTS)]
    # Whole bytes.
    sizes = [[round(rate * 1000 * SEGMENT * factor / 8) * 8 for rate in LADDER] for factor in factors]
    return {"segment": SEGMENT, "bitrates_kbps": LADDER, "sizes_bits": sizes}


def own_networks() -> list[dict[str, Any]]:
    """Courses of the presets, by the generator."""
    wanted = [
        {
            "name": f"{preset} {index}",
            "chain": PRESETS[preset],
            "seed": SEED,
            "index": index,
            "seconds": SECONDS,
        }
        for preset, count in COURSES.items()
        for index in range(count)
    ]
    command = ["cargo", "run", "--quiet", "-p", "penstock-load", "--example", "traces"]
    made = subprocess.run(
        command, cwd=RUST, input=json.dumps(wanted), capture_output=True, text=True, check=True
    )
    found: list[dict[str, Any]] = json.loads(made.stdout)
    return found


def traces(directory: Path) -> list[dict[str, Any]]:
    """Traces in the form of Sabre, each with one latency."""
    found = []
    for path in sorted(directory.rglob("*.json")):
        rows = json.loads(path.read_text())
        (latency,) = {row["latency_ms"] for row in rows}
        steps = [(row["duration_ms"], row["bandwidth_kbps"]) for row in rows]
        found.append({"name": path.stem, "latency_ms": latency, "steps": steps})
    return found


def simulate(sabre: Path, film: Path, network: Path, rule: str) -> tuple[float, float]:
    """What Sabre finds: the mean bitrate in kbit/s and the seconds of stalls."""
    arguments = ["-n", network, "-m", film, "-a", *OF_SABRE[rule], "-noa", "-b", BUFFER]
    command = [sys.executable, "-W", "ignore", sabre / "src" / "sabre.py", *arguments]
    output = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, check=True
    ).stdout

    def figure(name: str) -> float:
        match = re.search(rf"^{name}: ([0-9.]+)$", output, re.MULTILINE)
        assert match is not None, output
        return float(match[1])

    segments = len(json.loads(film.read_text())["segment_sizes_bits"])
    return round(figure("total played bitrate") / segments, 4), figure("total rebuffer")


def simulated(sabre: Path, networks: list[dict[str, Any]]) -> dict[str, Any]:
    made = movie()
    with tempfile.TemporaryDirectory() as name:
        film = Path(name) / "movie.json"
        film.write_text(
            json.dumps(
                {
                    "segment_duration_ms": SEGMENT * 1000,
                    "bitrates_kbps": made["bitrates_kbps"],
                    "segment_sizes_bits": made["sizes_bits"],
                }
            )
        )
        files = []
        for at, network in enumerate(networks):
            path = Path(name) / f"network-{at}.json"
            rows = [
                {"duration_ms": length, "bandwidth_kbps": rate, "latency_ms": network["latency_ms"]}
                for length, rate in network["steps"]
            ]
            path.write_text(json.dumps(rows))
            files.append(path)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            runs = {
                rule: list(pool.map(lambda path, rule=rule: simulate(sabre, film, path, rule), files))
                for rule in RULES
            }
    return {"buffer": BUFFER, "movie": made, "rules": RULES, "networks": networks, "runs": runs}


def written(fixture: dict[str, Any], path: Path) -> None:
    """Write a fixture with a network a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    compact = {"separators": (",", ":")}
    parts = [f'"{name}":{json.dumps(fixture[name], **compact)}' for name in ("buffer", "movie", "rules")]
    networks = ",\n".join(json.dumps(each, **compact) for each in fixture["networks"])
    runs = ",\n".join(f'"{rule}":{json.dumps(each, **compact)}' for rule, each in fixture["runs"].items())
    parts += [f'"networks":[\n{networks}]', f'"runs":{{\n{runs}}}']
    path.write_text("{" + ",\n".join(parts) + "}\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sabre", type=Path, required=True, help="a copy of Sabre's repository")
    parser.add_argument("--traces", type=Path, help="traces in the form of Sabre, in place of our networks")
    parser.add_argument("--output", type=Path, help="default: the fixture, or sabre.json with --traces")
    arguments = parser.parse_args()
    own = arguments.traces is None
    output: Path = arguments.output or (FIXTURE if own else Path("sabre.json"))
    written(simulated(arguments.sabre, own_networks() if own else traces(arguments.traces)), output)
    command = ["cargo", "test", "-p", "penstock-load", "--test", "sabre", "--", "--nocapture"]
    environment = {**os.environ, "PENSTOCK_SABRE": str(output.resolve())}
    return subprocess.run(command, cwd=RUST, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
