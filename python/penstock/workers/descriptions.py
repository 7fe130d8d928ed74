"""Parts of an application as a worker describes them to its parent, which makes them anew.

What is the parent's stands in a description by its number, and code of the application by its name: the parent has it
called (`ends.Hooks`), and never has it itself.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from penstock import _shared

from . import messages

if TYPE_CHECKING:
    from penstock.serving.relay_spec import RelaySpec

__all__ = ["Code", "Reference", "SpecDescription", "described", "described_spec"]


@dataclass(frozen=True, slots=True)
class Reference:
    """Something that is declared, and is the parent's."""

    number: int


@dataclass(frozen=True, slots=True)
class Code:
    """Something of the application that is called."""

    name: str
    """Tells it from others of its kind: two workers declare the same where the names are the same."""


@dataclass(frozen=True, slots=True)
class SpecDescription:
    """A `RelaySpec`."""

    fields: dict[str, Any]


def described(value: object, home: _shared.Parent) -> Any:
    """`value` as it is sent to the parent."""
    if isinstance(value, _shared.Shared):
        return Reference(home.number(value))
    if callable(value):
        named = value if hasattr(value, "__qualname__") else type(value)
        return Code(f"{named.__module__}.{named.__qualname__}")
    return value


def described_spec(spec: "RelaySpec", home: _shared.Parent) -> SpecDescription:
    """`spec` as it is sent to the parent."""
    return SpecDescription({each.name: described(getattr(spec, each.name), home) for each in fields(spec)})


messages.allow(Code, Reference, SpecDescription)
