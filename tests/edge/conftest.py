"""The edge through real sockets: raw clients in front, scripted origins behind, with one engine thread and with three.

Where the meaning must not depend on who serves a route, a stock aiohttp runner is a third way.
"""

from support.edges import anywhere, edge

__all__ = ["anywhere", "edge"]
