"""The cache through real sockets: raw clients in front, scripted origins behind, one engine thread or three."""

from support.edges import caching

__all__ = ["caching"]
