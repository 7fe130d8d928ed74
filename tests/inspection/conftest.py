"""Inspected responses through real sockets, on every way that event streams are relayed."""

from events.conftest import pytest_asyncio_loop_factories, pytest_collection_modifyitems, way

__all__ = ["pytest_asyncio_loop_factories", "pytest_collection_modifyitems", "way"]
