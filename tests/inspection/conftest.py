"""Inspected responses through real sockets, on every way that event streams are relayed."""

from support.loops import both_loops
from support.ways import pytest_collection_modifyitems, way

__all__ = ["pytest_asyncio_loop_factories", "pytest_collection_modifyitems", "way"]

pytest_asyncio_loop_factories = both_loops
