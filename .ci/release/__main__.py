"""Makes a release up to publishing it: builds, checks, and writes checksums.

`make wheel` builds this machine's wheel. `make release` builds everything and checks it; a workflow does the same with
a job for each platform, and publishes what `check` has let pass. Files stand in dist/.
"""

import argparse
import sys
from pathlib import Path

import building
import checking
import targets

ROOT = building.ROOT


def _build(options: argparse.Namespace) -> list[str]:
    version = checking.version(ROOT)
    platforms = {one.triple: one for one in targets.PLATFORMS}
    if options.platform == "local":
        chosen = [targets.local()]
    elif options.platform == "all":
        chosen = list(platforms.values())
    else:
        chosen = [platforms[options.platform]]
    flavours = (targets.ABI3,) if options.abi3_only else targets.FLAVOURS
    for where in chosen:
        for flavour in flavours:
            print(building.wheel(flavour, where, version, options.folder), flush=True)
    if options.sdist:
        print(building.sdist(options.folder), flush=True)
    return []


def _check(options: argparse.Namespace) -> list[str]:
    version = checking.version(ROOT)
    wanted = targets.expected(version)
    complaints = checking.versions(ROOT, options.tag) + checking.files(options.folder, wanted)
    there = [
        options.folder / name
        for name in sorted(wanted)
        if "/" not in name and (options.folder / name).exists()
    ]
    for path in there:
        complaints += checking.contents(path)
    if there:
        complaints += checking.by_tools(ROOT, there)
    if not complaints:
        (options.folder / checking.SUMS).write_text(checking.sums(options.folder, wanted))
        print(
            f"{version}: {len(wanted)} files may be released; {options.folder / checking.SUMS} has their checksums"
        )
    return complaints


def _reproduce(_options: argparse.Namespace) -> list[str]:
    return building.twice(checking.version(ROOT))


def _rebuild(options: argparse.Namespace) -> list[str]:
    options.folder.mkdir(parents=True, exist_ok=True)
    return building.offline(options.folder)


def main() -> int:
    """Run one step."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "dist", help="where the files are (default: dist/)"
    )
    steps = parser.add_subparsers(required=True)
    build = steps.add_parser("build", help="build wheels, and the source distribution")
    build.add_argument(
        "--platform",
        choices=["local", "all", *(one.triple for one in targets.PLATFORMS)],
        default="local",
        help="which wheels (default: those of this machine)",
    )
    build.add_argument("--abi3-only", action="store_true", help="no wheels for interpreters without a GIL")
    build.add_argument("--sdist", action="store_true", help="the source distribution as well")
    build.set_defaults(step=_build)
    check = steps.add_parser("check", help="refuse what is no release, and write checksums")
    check.add_argument("--tag", help="the tag that is released, as v1.2.3")
    check.set_defaults(step=_check)
    reproduce = steps.add_parser("reproduce", help="build the last commit in two directories, and compare")
    reproduce.set_defaults(step=_reproduce)
    rebuild = steps.add_parser("rebuild", help="build from the source distribution without a network")
    rebuild.set_defaults(step=_rebuild)
    options = parser.parse_args()
    complaints = options.step(options)
    for line in complaints:
        print(f"release: {line}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
