"""penstock: an async media gateway. Policy in Python, bytes in Rust.

The library in four lines::

    async with penstock.Engine(memory="256MiB") as engine:
        async with engine.get("http://origin/seg1.m4s") as response:
            async for frame in response:
                view = memoryview(frame)

The settings are in `penstock.config`, the ways to cut a body in `penstock.framing`, metrics and health of an engine in
`penstock.metrics`. Loaded on first use: the gateway for aiohttp applications, `penstock.web`; topics, `penstock.Hub`;
tokens that the engine verifies, `penstock.tokens`; origins for tests, `penstock.testing`; what a worker process can ask
about itself, `penstock.workers`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import config, framing, metrics
from ._field_docs import document
from ._native import __version__
from .cache import CacheStats, StoredResponse
from .config import KafkaLog, Origin, RedisLog
from .engine import Engine, default_engine
from .events import encode_event
from .exceptions import (
    ArgumentError,
    BodyTruncatedError,
    ConfigurationError,
    ConnectionFailedError,
    DecodeError,
    ErrorCode,
    FrameError,
    PenstockError,
    PoolError,
    ProtocolError,
    RequestError,
    ResponseStatusError,
    StateError,
    StreamBusyError,
    SystemFailureError,
    TimeLimitError,
    WindowHeldError,
    error_codes,
)
from .hub import HubCounts, HubStats, TopicStats
from .log import LogStats
from .origins import Origins, OriginsStats, OriginState
from .sources import open_fd, open_file, open_process
from .stats import (
    DiskStats,
    EngineStats,
    Histogram,
    InspectionStats,
    OriginStats,
    PoolStats,
    RelayStats,
    SlabClass,
    Timings,
)
from .stream import Frame, FrameStream, Response

if TYPE_CHECKING:
    # Loaded on first use: the library does without aiohttp.
    from . import testing as testing
    from . import tokens as tokens
    from . import web as web
    from . import workers as workers
    from .web.hub import Hub

__all__ = [
    "ArgumentError",
    "BodyTruncatedError",
    "CacheStats",
    "ConfigurationError",
    "ConnectionFailedError",
    "DecodeError",
    "DiskStats",
    "Engine",
    "EngineStats",
    "ErrorCode",
    "Frame",
    "FrameError",
    "FrameStream",
    "Histogram",
    "Hub",
    "HubCounts",
    "HubStats",
    "InspectionStats",
    "KafkaLog",
    "LogStats",
    "Origin",
    "OriginState",
    "OriginStats",
    "Origins",
    "OriginsStats",
    "PenstockError",
    "PoolError",
    "PoolStats",
    "ProtocolError",
    "RedisLog",
    "RelayStats",
    "RequestError",
    "Response",
    "ResponseStatusError",
    "SlabClass",
    "StateError",
    "StoredResponse",
    "StreamBusyError",
    "SystemFailureError",
    "TimeLimitError",
    "Timings",
    "TopicStats",
    "WindowHeldError",
    "__version__",
    "config",
    "default_engine",
    "encode_event",
    "error_codes",
    "framing",
    "metrics",
    "open_fd",
    "open_file",
    "open_process",
]

if not TYPE_CHECKING:
    # PEP 562. A type checker takes the imports above: with a `__getattr__` it would take any name for one that is there.
    _LATER = frozenset(("testing", "tokens", "web", "workers"))

    def __getattr__(name: str) -> Any:
        if name == "Hub":
            return importlib.import_module(".web.hub", __name__).Hub
        if name not in _LATER:
            # What is looked for here first.
            home = {
                "Gateway": "web",
                "Site": "web",
                "run_app": "web",
                "SignedUrl": "tokens",
                "Jwt": "tokens",
            }.get(name)
            hint = "" if home is None else f": it is penstock.{home}.{name}"
            message = f"module {__name__!r} has no attribute {name!r}{hint}"
            raise AttributeError(message, name=name)
        return importlib.import_module(f".{name}", __name__)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_LATER})


document(globals()[name] for name in __all__ if name in globals())
