"""Fails if the text of the project uses a word that `words.toml` lists, more often than recorded there.

`make lint` runs it. It reads documents, comments, docstrings, messages and tests alike. Each place (a file or a
folder) has a recorded count, which only falls: `--record` lowers it to what is there now. `--show PLACE` lists what
is left in a place, with what to write instead.
"""

import argparse
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ENDINGS = {".md", ".py", ".pyi", ".rs", ".toml"}
SKIPPED = {"target", "data", "results", "media", "corpus", "__pycache__"}
# White space, and what begins a line of a comment or goes on with a string.
GAP = r"(?:\s+(?:(?://[/!]?|#:?|\*|\"|f\")[ \t]*)?)"


@dataclass(frozen=True)
class Hit:
    """One use of a listed word."""

    path: str
    line: int
    text: str
    instead: str


def read_words(settings: dict) -> list[tuple[re.Pattern[str], str]]:
    """The patterns of a settings file, and what to write instead of each."""
    words = []
    for pattern, instead in settings["words"].items():
        spaced = pattern.replace(" ?", r"\s*").replace(" ", GAP)
        first = spaced[0]
        # A capital may begin a sentence; inside a pattern it is another word, such as Python's None.
        any_case = (
            f"[{first}{first.upper()}]{spaced[1:]}" if first.isalpha() else f"(?:{spaced}|{capital(spaced)})"
        )
        end = "" if spaced.endswith("]") else r"\b"
        words.append((re.compile(rf"\b(?:{any_case}){end}"), instead))
    return words


def capital(pattern: str) -> str:
    """The pattern with a capital at the beginning of each choice of its first group."""
    first, rest = pattern.split(")", 1)
    return re.sub(r"([(|])([a-z])", lambda found: found[1] + found[2].upper(), first) + ")" + rest


def files(root: Path, places: list[str]) -> Iterator[Path]:
    """Every file of text in the places, once."""
    found = set()
    for place in places:
        path = root / place
        found |= {path} if path.is_file() else {file for file in path.rglob("*") if file.suffix in ENDINGS}
    yield from (file for file in sorted(found) if not SKIPPED & set(file.relative_to(root).parts[:-1]))


def hits(path: Path, root: Path, words: list[tuple[re.Pattern[str], str]]) -> Iterator[Hit]:
    """What one file has. Of a changelog, only what is not released: the rest does not change."""
    text = path.read_text()
    if path.name == "CHANGELOG.md":
        unreleased, found, _ = text.partition("\n## [0")
        text = unreleased if found else text
    for pattern, instead in words:
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield Hit(path.relative_to(root).as_posix(), line, " ".join(match[0].split()), instead)


def place_of(path: str, places: list[str]) -> str:
    """The most specific place that holds the file."""
    return max((place for place in places if path == place or path.startswith(f"{place}/")), key=len)


def lowered(text: str, counts: Counter[str]) -> str:
    """The settings file with each limit lowered to what is there."""

    def limit(found: re.Match[str]) -> str:
        return f'"{found[1]}" = {min(int(found[2]), counts[found[1]])}'

    head, mark, limits = text.partition("[limits]\n")
    return head + mark + re.sub(r'^"([^"]+)" = (\d+)$', limit, limits, flags=re.MULTILINE)


def main() -> int:
    """Run the check on one checkout."""
    parser = argparse.ArgumentParser(prog="words", description=__doc__.splitlines()[0])
    here = Path(__file__).resolve().parent
    parser.add_argument("--root", type=Path, default=here.parent, help="the checkout (default: this one)")
    parser.add_argument("--settings", type=Path, default=here / "words.toml", help="the words and the limits")
    parser.add_argument("--record", action="store_true", help="lower the limits to what is there")
    parser.add_argument("--show", metavar="PLACE", help="list what is in one file or folder, limit or not")
    options = parser.parse_args()

    settings = tomllib.loads(options.settings.read_text())
    words, limits = read_words(settings), settings["limits"]
    missing = [place for place in limits if not (options.root / place).exists()]
    if missing:
        sys.stderr.write(f"words: {', '.join(missing)} is in the limits, and does not exist: take it out\n")
        return 1
    # The settings have the words themselves.
    read = (path for path in files(options.root, list(limits)) if path != options.settings)
    found = [hit for path in read for hit in hits(path, options.root, words)]
    if options.show:
        found = [hit for hit in found if hit.path == options.show or hit.path.startswith(f"{options.show}/")]
        for hit in found:
            sys.stdout.write(f"{hit.path}:{hit.line}: '{hit.text}': {hit.instead}\n")
        return 0

    counts = Counter(place_of(hit.path, list(limits)) for hit in found)
    if options.record:
        options.settings.write_text(lowered(options.settings.read_text(), counts))
    over = {place: count for place, count in counts.items() if count > limits[place]}
    for hit in found:
        # A place with many is not listed whole: its new ones cannot be told from its old ones.
        if (place := place_of(hit.path, list(limits))) in over and limits[place] == 0:
            sys.stderr.write(f"{hit.path}:{hit.line}: '{hit.text}': {hit.instead}\n")
    for place, count in sorted(over.items()):
        sys.stderr.write(
            f"words: {place} has {count} words of .ci/words.toml, and may have {limits[place]}: write them otherwise"
            f" ('.ci/words.py --show {place}' lists them)\n"
        )
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
