"""Files and functions that are too long to be read at a time.

Every file of code counts, tests as well; of functions those of the crates and the package, because a test may be a table.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from functions import Function

FILE = 600
FUNCTION = 60
ROOTS = ("rust", "python", "tests", "benchmarks", "docs", "dashboards", "examples", "build_backend", ".ci")
SUFFIXES = {".rs", ".py", ".pyi"}
LEFT_OUT = {"target", "node_modules"}


def files(root: Path) -> dict[str, int]:
    """The lines of each file of code."""
    return {
        str(path.relative_to(root)): path.read_bytes().count(b"\n")
        for folder in ROOTS
        for path in _files(root / folder)
    }


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and path.name not in LEFT_OUT:
            yield from _files(path)
        elif path.suffix in SUFFIXES:
            yield path


def faults(
    lines: Mapping[str, int], functions: Iterable[Function], exceptions: Mapping[str, str]
) -> list[str]:
    """What is too long and no exception, and exceptions that are not needed."""
    long = {path: f"has {count} lines of {FILE}" for path, count in lines.items() if count > FILE}
    for path, name, count, _parameters in functions:
        if count > FUNCTION:
            long[f"{path} {name}"] = f"has {count} lines of {FUNCTION}"
    return [
        *(
            f"{what} {how}\ntake a part out of it that has a name of its own"
            for what, how in long.items()
            if what not in exceptions
        ),
        *(
            f"{what} is an exception of [long], and is not too long: take it from there"
            for what in exceptions
            if what not in long
        ),
    ]
