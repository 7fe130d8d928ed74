"""What verifies tokens, of the tables `[gates.NAME]`: the classes of `penstock.tokens`, by their `kind`."""

from typing import Any, NamedTuple

from penstock.config import Access

__all__ = ["KINDS", "ServerGate", "class_of"]

# The names of their classes: they are imported where a file has a gate.
KINDS = {"signed-url": "SignedUrl", "jwt": "Jwt"}


class ServerGate(NamedTuple):
    """What lets requests in."""

    verifying: Any
    """A `penstock.tokens.SignedUrl` or `Jwt`, which decides by the token of a request."""
    access: Access
    """How much is remembered, and the limits of tenants."""


def class_of(kind: str) -> Any:
    """The class of `penstock.tokens` that a kind stands for."""
    from penstock import tokens  # noqa: PLC0415 (a server without gates does without)

    return getattr(tokens, KINDS[kind])
