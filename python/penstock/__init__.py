"""penstock: an async media gateway. Policy in Python, bytes in Rust.

The library in four lines::

    async with penstock.Engine(memory="256MiB") as engine:
        async with engine.get("http://origin/seg1.m4s") as response:
            async for frame in response:
                view = memoryview(frame)

The settings are in `penstock.config`, the ways to cut a body in `penstock.framing`, metrics and health of an engine in
`penstock.metrics`, the gateway for aiohttp applications in `penstock.web`, topics in `penstock.Hub`, tokens that the
engine verifies in `penstock.tokens`, origins for tests in `penstock.testing`, and what a worker process can ask about
itself in `penstock.workers`. All of it is loaded on first use.
"""

import importlib

from ._native import __version__

# As type checkers know it. The module `typing` takes more than half of the time of an import of this package.
TYPE_CHECKING = False

if TYPE_CHECKING:
    # Loaded on first use: the library does without aiohttp, and the command without much of the library.
    from . import config as config
    from . import framing as framing
    from . import metrics as metrics
    from . import testing as testing
    from . import tokens as tokens
    from . import web as web
    from . import workers as workers
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
    from .forwarding import end_to_end
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
    "end_to_end",
    "error_codes",
    "framing",
    "metrics",
    "open_fd",
    "open_file",
    "open_process",
]

if not TYPE_CHECKING:
    # PEP 562. A type checker takes the imports above: with a `__getattr__` it would take any name for one that is there.
    _MODULES = frozenset(
        [
            "cache",
            "config",
            "engine",
            "events",
            "exceptions",
            "forwarding",
            "framing",
            "hub",
            "log",
            "metrics",
            "origins",
            "sources",
            "stats",
            "stream",
            "testing",
            "tokens",
            "web",
            "workers",
        ]
    )
    # The module of each name.
    _HOMES = {
        **dict.fromkeys(("CacheStats", "StoredResponse"), "cache"),
        **dict.fromkeys(("KafkaLog", "Origin", "RedisLog"), "config"),
        **dict.fromkeys(("Engine", "default_engine"), "engine"),
        "encode_event": "events",
        "end_to_end": "forwarding",
        **dict.fromkeys(("ErrorCode", "error_codes"), "exceptions"),
        **dict.fromkeys((name for name in __all__ if name.endswith("Error")), "exceptions"),
        "Hub": "web.hub",
        **dict.fromkeys(("HubCounts", "HubStats", "TopicStats"), "hub"),
        "LogStats": "log",
        **dict.fromkeys(("OriginState", "Origins", "OriginsStats"), "origins"),
        **dict.fromkeys(("open_fd", "open_file", "open_process"), "sources"),
        **dict.fromkeys(("DiskStats", "EngineStats", "Histogram", "InspectionStats", "OriginStats"), "stats"),
        **dict.fromkeys(("PoolStats", "RelayStats", "SlabClass", "Timings"), "stats"),
        **dict.fromkeys(("Frame", "FrameStream", "Response"), "stream"),
    }

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f".{name}", __name__)
        if name in _HOMES:
            value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
            # Looked for once.
            globals()[name] = value
            return value
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

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_MODULES})
