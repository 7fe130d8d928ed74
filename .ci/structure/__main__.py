"""Shows how the code is tied together, and fails if an import runs in a circle or upward, or if something is too long.

`make structure` prints the table; `make lint` runs it as a check. What is tied wrongly already is recorded in
`structure.toml`, beside the layers. That list only shrinks: `--record` takes from it what is gone, and adds nothing.
"""

import argparse
import json
import sys
from pathlib import Path

import figures
import functions
import graph
import python
import record
import rust
import sizes

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Runs the check on one tree."""
    parser = argparse.ArgumentParser(prog="structure", description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=HERE.parents[1], help="the checkout (default: this one)")
    parser.add_argument(
        "--settings", type=Path, default=HERE / "structure.toml", help="layers, and what is recorded"
    )
    parser.add_argument(
        "--before", type=Path, default=HERE / "before.json", help="the figures to compare with"
    )
    parser.add_argument("--json", action="store_true", help="print the figures alone, as JSON")
    parser.add_argument("--record", action="store_true", help="take from the record what is gone")
    options = parser.parse_args()

    crates = rust.read(options.root)
    modules = python.read(options.root)
    settings = record.read(options.settings)
    found = record.Found(
        circles=[*graph.circles(rust.arrows(crates), rust.children), *graph.circles(python.arrows(modules))],
        upward=[
            *graph.upward(rust.arrows(crates), rust.layer, settings.layers),
            *graph.upward(python.arrows(modules), python.layer, settings.layers),
        ],
    )
    files = [module for crate in crates.values() for module in crate.modules.values()]
    all_functions = [
        *(function for file in files for function in functions.of_rust(file)),
        *(function for module in modules.values() for function in functions.of_python(module)),
    ]
    rows = figures.rows(options.root, crates, modules, found, all_functions)
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    before = json.loads(options.before.read_text()) if options.before.exists() else {}
    figures.show(rows, before)

    faults = [
        *record.faults(found, settings),
        *sizes.faults(sizes.files(options.root), all_functions, settings.long),
    ]
    gone = record.gone(found, settings)
    if options.record and gone:
        record.shrink(options.settings, gone)
        print(f"\n{len(gone)} fewer are recorded.")
    elif gone:
        print(
            f"\n{len(gone)} recorded circles or arrows are gone: `make structure RECORD=1` takes them from the record."
        )
    for fault in faults:
        print(f"\n{fault}", file=sys.stderr)
    return 1 if faults else 0


sys.exit(main())
