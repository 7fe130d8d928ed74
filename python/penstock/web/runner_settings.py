"""What a runner was told of connections, which the engine carries out: `web.AppRunner(app, keepalive_timeout=30)`.

Most of its arguments are for aiohttp's protocol, which is the same on a Site. Here are the ones about a client's
connection or about the size of a request's head, both of which the engine sees first.
"""

from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from penstock.config import Edge, parse_size
from penstock.exceptions import make_error

__all__ = ["edge_as_told", "edge_of", "told"]

# A head is parsed in one piece of at most so many bytes.
_MOST_HEAD: Final = 256 * 1024
_MOST_FIELDS: Final = 4096
_TOLD: Final = ("keepalive_timeout", "max_line_size", "max_field_size", "max_headers", "tcp_keepalive")
# What a head has beside its longest line or field: the other fields.
_REST: Final = 16 * 1024


def edge_of(server: web.Server, edge: Edge) -> Edge:
    """`edge` with what the runner of `server` was told. Raises as `edge_as_told`."""
    return edge_as_told(told(server), edge)


def told(server: web.Server) -> dict[str, Any]:
    """What the runner of `server` was told of connections, or its application (`Application(handler_args=...)`)."""
    kwargs: dict[str, Any] = server._kwargs  # noqa: SLF001 (it is public on the runner's side alone)
    return {name: kwargs[name] for name in _TOLD if kwargs.get(name) is not None}


def edge_as_told(told: dict[str, Any], edge: Edge) -> Edge:
    """`edge` with what a runner was told of connections.

    `keepalive_timeout` stands in the place of `idle_timeout`. `max_line_size`, `max_field_size` and `max_headers` raise
    the limits of the edge where they are higher; the lower ones are aiohttp's to apply.

    Raises:
        ConfigurationError: a limit is higher than the engine can have it, or `tcp_keepalive` is False: the engine
            finds vanished clients by probes.
    """
    changes: dict[str, Any] = {}
    # With 0 the protocol closes after each response, and a client may still wait before its first request.
    if keepalive := told.get("keepalive_timeout"):
        changes["idle_timeout"] = keepalive
    line, field = told.get("max_line_size", 0), told.get("max_field_size", 0)
    for name, value, most in (
        ("max_line_size", line, _MOST_HEAD - _REST),
        ("max_field_size", field, _MOST_HEAD - _REST),
        ("max_headers", told.get("max_headers", 0), _MOST_FIELDS),
    ):
        if value > most:
            raise make_error("BAD_CONFIGURATION", f"{name}={value}: the engine takes at most {most}")
    if max(line, field) + _REST > parse_size(edge.head_bytes):
        changes["head_bytes"] = max(line, field) + _REST
    if not told.get("tcp_keepalive", True):
        message = (
            "tcp_keepalive=False: the engine probes all clients, as often as Edge(write_timeout=...) says, "
            "to find clients that have vanished"
        )
        raise make_error("BAD_CONFIGURATION", message)
    if line > parse_size(edge.line_bytes):
        changes["line_bytes"] = line
    if told.get("max_headers", 0) > edge.head_fields:
        changes["head_fields"] = told["max_headers"]
    return replace(edge, **changes) if changes else edge
