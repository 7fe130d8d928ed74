"""Writes the Grafana dashboards and the Prometheus rules: `python dashboards/generate.py`.

`--check` writes nothing, and fails if a file is not as it would be written. Metrics and labels are checked by the table
of docs/operations/metrics.md.
"""

import argparse
import json
import sys
from pathlib import Path

from boards import PAGES
from boards.rules import as_yaml
from boards.shape import dashboard

HERE = Path(__file__).parent


def files() -> dict[Path, str]:
    """What is written, by its place."""
    found = {
        HERE / "grafana" / f"{page.name}.json": json.dumps(dashboard(page), indent=1, sort_keys=True) + "\n"
        for page in PAGES
    }
    # A chart has no files but its own.
    rules = (
        HERE / "prometheus" / "penstock.yml",
        HERE.parent / "packaging" / "helm" / "penstock" / "rules.yml",
    )
    return {**found, **dict.fromkeys(rules, as_yaml())}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is not as it would be"
    )
    check = parser.parse_args().check
    stale = [path for path, text in files().items() if not path.exists() or path.read_text() != text]
    if not check:
        for path in stale:
            path.parent.mkdir(exist_ok=True)
            path.write_text(files()[path])
    for path in stale:
        sys.stderr.write(f"{'not as generated' if check else 'written'}: {path.relative_to(HERE.parent)}\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
