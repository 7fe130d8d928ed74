"""An application in processes of its own, behind one edge: what `penstock serve MODULE:APP --workers N` runs.

The parent has the engine, every client's socket, the native routes and the streams that flow, and runs no code of the
application. Each worker runs the application. `current` is how other modules know that they are in one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._field_docs import document

if TYPE_CHECKING:
    from .link import Calls, Link

__all__ = ["Worker", "current"]


@dataclass(frozen=True, slots=True)
class Worker:
    """The worker that this process is."""

    number: int
    """Its own: no other one of the same parent has had it."""
    generation: int
    """Of which code it is. It rises with each reload."""
    link: "Link"
    """To the parent, for what is awaited."""
    calls: "Calls"
    """To the parent, for what cannot be."""


_current: Worker | None = None


def current() -> Worker | None:
    """The worker that this process is; None in every other process."""
    return _current


def become(worker: Worker) -> None:
    """Make this process `worker`, before anything of the application is imported."""
    global _current  # noqa: PLW0603 (a process is one worker for good)
    _current = worker


document(globals()[name] for name in __all__)
