"""What is wrong with a configuration: each fault with its place, and all of them at once."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Fault", "Faults", "FaultyConfigurationError", "Place", "suggestion"]


class Place(NamedTuple):
    """Where something was said: in a file, or by an option or a variable of the environment."""

    file: str = ""
    """As it was given. Empty for what no file says."""
    line: int = 0
    """From 1 on."""
    column: int = 0
    """In characters, from 1 on."""
    option: str = ""
    """Such as `--cache`, or the name of a variable."""

    def __str__(self) -> str:
        return self.option or f"{self.file}:{self.line}:{self.column}"


class Fault(NamedTuple):
    """One fault."""

    place: Place
    path: str
    """The setting, such as `cache.memory`; empty for a fault of syntax."""
    text: str
    """What is wrong, and what to write."""
    is_combination: bool = False
    """The value alone would do: it does not go with another."""

    def __str__(self) -> str:
        return f"{self.place}: {self.path}: {self.text}" if self.path else f"{self.place}: {self.text}"


class FaultyConfigurationError(Exception):
    """A configuration has faults. Nothing of it is used."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: fault.place))
        super().__init__("\n".join(str(fault) for fault in self.faults))


class Faults(list[Fault]):
    """The faults that were found so far."""

    def check(self) -> None:
        """End if there are some.

        Raises:
            FaultyConfigurationError: there are.
        """
        if self:
            raise FaultyConfigurationError(self)


def suggestion(text: str, known: Iterable[str]) -> str:
    """What to append to a fault about `text`: the one of `known` that was probably meant, if there is one."""
    close = difflib.get_close_matches(text, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
