"""`penstock demo`: real video and a real token stream through the gateway, with nothing else to install.

`run(host, port)` serves it; `python -m penstock.demo` is the same from a shell. The parts: `origin` (a live HLS
stream and a chat completion), `app` (the gateway and the page), `latency` and `figures` (what the page shows
of them).
"""

from .app import run

__all__ = ["run"]
