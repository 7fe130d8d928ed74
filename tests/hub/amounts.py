"""How much fills the connection of a slow subscriber."""

SMALL = 4096
"""A receive buffer, so that little is needed to fill it."""


DATA = "x" * 30_000


ENOUGH = 300
"""Events of that size: more than the kernel takes for one connection, and than the history has."""
