"""Texts that a file does not have itself: `{ file = "…" }` and `{ env = "…" }`. They are in no message."""

import os
from pathlib import Path
from typing import Any

from .document import Node

__all__ = ["is_reference", "read_reference"]

# A key, a certificate or a token is smaller; arbitrary.
_LARGEST = 1 << 20


def is_reference(value: Any) -> bool:
    """Whether a table says where a text is, and nothing else."""
    return (
        isinstance(value, dict)
        and len(value) == 1
        and next(iter(value)) in {"file", "env"}
        and isinstance(next(iter(value.values())).value, str)
    )


def read_reference(table: dict[str, Node], directory: Path) -> bytes:
    """What a reference leads to, without the line end of a file.

    Raises:
        ValueError: there is nothing. The text says why.
    """
    ((kind, node),) = table.items()
    name: str = node.value
    if kind == "env":
        found = None if "\0" in name else os.environb.get(os.fsencode(name))
        if found is None:
            raise ValueError(f"the environment has no variable {name}")
        return found
    try:
        with (directory / name).open("rb") as file:
            text = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{node.value} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if len(text) > _LARGEST:
        raise ValueError(f"{node.value} is larger than 1 MiB")
    return text.removesuffix(b"\n").removesuffix(b"\r")
