"""The status of an engine for operators: pages on a listener of their own, and metrics as text.

A thread of their own answers the pages, without the interpreter and without the engine's threads and memory: they are
there while Python stands still. `penstock.web.Site` and `run_app` open them with `status=`, `penstock serve` with
`--status-listen`; `Pages` is for an engine without a site.

    GET /penstock/         200: for browsers what flows now, for others which pages there are
    GET /penstock/events   what flows now as events: one a second, as JSON
    GET /penstock/health   200, or 503 if an engine thread hangs
    GET /penstock/ready    200, or 503 if no new work is taken; why, as JSON
    GET /penstock/profile  what the next `?seconds=` (10) go to, by thread and by route, as JSON
    GET /penstock/metrics  Prometheus' text format, or OpenMetrics for clients that ask for it

Each is there without `/penstock` as well.
"""

from types import TracebackType
from typing import Final, Self

from . import _native, config
from .engine import Engine

__all__ = ["Pages", "text"]

# Scrapers send small heads and no bodies, and read what they have asked for.
_EDGE: Final = config.Edge(
    line_bytes="4KiB", head_bytes="16KiB", max_body=0, write_timeout=10.0, backlog=128, stall_grace=1.0
)
# For the heads of requests, so that the pages are there while the engine's own memory is full.
_POOL: Final = config.Pool(memory="4MiB", prefault=0, caches=1)


def text(engine: Engine, *, openmetrics: bool = False) -> str:
    """The metrics of `engine`, for an endpoint of your own.

    Args:
        engine: whose.
        openmetrics: in OpenMetrics 1.0 (`application/openmetrics-text; version=1.0.0; charset=utf-8`), and not in
            Prometheus' text format (`text/plain; version=0.0.4; charset=utf-8`).
    """
    return engine.native.metrics(openmetrics)


class Pages:
    """The pages about an engine, from now on until they are closed.

    Args:
        engine: what they are about.
        settings: where they listen, and what they call well and ready.

    Attributes:
        url: where they listen.

    Raises:
        SystemFailureError: the operating system refused the socket (LISTEN_FAILED) or the thread.
    """

    def __init__(self, engine: Engine, settings: config.Status | None = None) -> None:
        settings = settings or config.Status()
        self._native = _native.Status(engine.native, settings, _EDGE, _POOL)
        try:
            self.url: Final = self._listen(settings.place())
        except BaseException:
            self.close()
            raise

    def _listen(self, place: tuple[str, int] | str) -> str:
        if isinstance(place, str):
            self._native.listen_unix(place)
            return f"unix:{place}"
        host, port = self._native.listen_tcp(*place)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def close(self) -> None:
        """Close them, and cut off who reads them. Idempotent."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
