"""Writes the manual pages, docs/man, from the tree of commands: one for each command, as `make man` does.

    python docs/generate_manual.py            write the pages
    python docs/generate_manual.py --check    exit with 1 if a page is not what would be written

The pages are in the form of man(7), and have no date, so that the same commands make the same pages. A wheel has them
in share/man/man1.
"""
# ruff: noqa: INP001 (a script, and no package)

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from penstock.cli import main as command
from penstock.cli_config import SETTINGS, ConfiguredCommand, variable_of

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = ROOT / "docs" / "man" / "data" / "share" / "man" / "man1"

_GUIDE: Final = "https://github.com/penstock/penstock/blob/main/docs/guide/configuration.md"


def escaped(text: str) -> str:
    """A text as roff reads it: without commands, and with hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(character if character.isascii() else f"\\[u{ord(character):04X}]" for character in text)
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def commands(group: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A command and those below it, each with its whole name."""
    yield name, group
    if isinstance(group, click.Group):
        for each in sorted(group.commands):
            yield from commands(group.commands[each], f"{name} {each}")


def filled(text: str) -> list[str]:
    """A paragraph in lines of a source."""
    wrapped = textwrap.wrap(text, 72, break_long_words=False, break_on_hyphens=False)
    return [escaped(line) for line in wrapped]


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a help text; what stands after a backspace keeps its lines."""
    lines = []
    for block in inspect.cleandoc(text).split("\n\n"):
        if block.startswith("\b\n"):
            lines += [".PP", ".nf", *escaped(block.removeprefix("\b\n")).splitlines(), ".fi"]
        else:
            lines += [".PP", *filled(block)]
    return lines


def option_lines(option: click.Option) -> list[str]:
    """An option, what it takes, and what it is."""
    value = "" if option.is_flag else f" {option.make_metavar(click.Context(command))}"
    flags = ", ".join((*option.opts, *option.secondary_opts))
    text = option.help or ""
    if option.show_default is True and not option.secondary_opts:
        default = f"{option.default:g}" if isinstance(option.default, float) else option.default
        text += f" Default: {default}."
    return [".TP", f".B {escaped(flags + value)}", *filled(text)]


def page(name: str, each: click.Command) -> str:
    """The page of one command."""
    title = name.replace(" ", "-")
    about = inspect.cleandoc(each.help or "").splitlines()[0].rstrip(".")
    with click.Context(each, info_name=name) as ctx:
        usage = " ".join(each.collect_usage_pieces(ctx))
    lines = [
        '.\\" Written by docs/generate_manual.py: change the help texts, then run it.',
        f'.TH {title.upper().replace("-", chr(92) + "-")} 1 "" penstock "penstock manual"',
        ".SH NAME",
        f"{escaped(title)} \\-",
        *filled(about[0].lower() + about[1:]),
        ".SH SYNOPSIS",
        f".B {escaped(name)}",
        escaped(usage),
        ".SH DESCRIPTION",
        *paragraphs(each.help or "")[1:],
    ]
    options = [option for option in each.params if isinstance(option, click.Option)]
    if options:
        lines.append(".SH OPTIONS")
    for option in options:
        lines += option_lines(option)
    if isinstance(each, ConfiguredCommand):
        lines += _environment(options)
    lines += _see_also(name, each)
    return "\n".join(lines) + "\n"


def _environment(options: list[click.Option]) -> list[str]:
    lines = [".SH ENVIRONMENT"]
    for option in options:
        if option.name in SETTINGS or option.name == "config":
            lines += [".TP", f".B {escaped(variable_of(option.name))}", f"As {escaped(option.opts[-1])}."]
    return [
        *lines,
        ".SH FILES",
        "The file of \\-\\-config is TOML; its tables and keys are described at",
        f"{escaped(_GUIDE)}.",
    ]


def _see_also(name: str, each: click.Command) -> list[str]:
    below = [f"{name} {other}" for other in sorted(each.commands)] if isinstance(each, click.Group) else []
    above = [name.rpartition(" ")[0]] if " " in name else []
    others = [f".BR {escaped(other.replace(' ', '-'))} (1)" for other in (*above, *below)]
    return [".SH SEE ALSO", *(f"{line}," for line in others[:-1]), *others[-1:]]


def main() -> int:
    """Write or check all pages; the exit status."""
    check = sys.argv[1:] == ["--check"]
    pages = {f"{name.replace(' ', '-')}.1": page(name, each) for name, each in commands(command, "penstock")}
    known = {path.name for path in PAGES.glob("*.1")}
    stale = [name for name in known if name not in pages]
    for name, text in pages.items():
        path = PAGES / name
        if check and (name not in known or path.read_text() != text):
            stale.append(name)
        elif not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if not check:
        for name in stale:
            (PAGES / name).unlink()
    elif stale:
        sys.stderr.write(f"run docs/generate_manual.py: {', '.join(sorted(stale))} would change\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
