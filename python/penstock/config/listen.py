"""Where a server listens, as its configuration says it."""

from dataclasses import dataclass

from .checks import parse_address

__all__ = ["Inherited", "Listen", "parse_listen"]


@dataclass(frozen=True, slots=True)
class Inherited:
    """Sockets to listen to that were opened before this process began."""

    name: str
    """The name that the service manager has given them (`FileDescriptorName=`), or the number of a descriptor."""

    def __str__(self) -> str:
        return f"fd:{self.name}"


Listen = tuple[str, int] | str | Inherited
"""Where to listen: host and port, the path of a Unix socket, or sockets that are there already."""


def parse_listen(text: str) -> Listen:
    """Parse where to listen: what `parse_address` takes, and `fd:NAME` or `fd:NUMBER` for an inherited socket.

    Raises:
        ValueError: it has another form. The text says what it must be.
    """
    kind, _, name = text.partition(":")
    # Names of descriptors have no colon (sd_listen_fds(3)).
    if kind == "fd" and name and ":" not in name:
        return Inherited(name)
    try:
        return parse_address(text)
    except ValueError as error:
        raise ValueError(f"{error}; fd:NAME takes a socket that is there already") from None
