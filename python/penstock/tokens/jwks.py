"""Keys that are published at a URL (RFC 7517 §5): fetched when they are wanted, and kept while they cannot be.

The engine says when: with the first token, when keys are old, and when a token names one that is not known. It never
waits: a token that comes before its key is refused, and its client may come again.
"""

import asyncio
import logging
import re
import time
import weakref
from dataclasses import KW_ONLY, dataclass
from ipaddress import ip_address
from typing import Final, Literal, get_args

from yarl import URL

from penstock import _native
from penstock._awaited import await_at_start
from penstock.config import Timeouts
from penstock.config.checks import bad, count, flag, parse_size, put, seconds, sequence, size
from penstock.engine import Engine
from penstock.exceptions import PenstockError, make_error

__all__ = ["ALGORITHMS", "Algorithm", "Jwks", "keep_fetched"]

Algorithm = Literal[
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"
]
"""What tokens are signed by (RFC 7518 §3, RFC 8037)."""

ALGORITHMS: Final = get_args(Algorithm)

_MAX_AGE: Final = re.compile(r'(?:^|,)\s*max-age\s*=\s*"?([0-9]{1,9})"?\s*(?=,|$)', re.ASCII | re.IGNORECASE)
_OK: Final = 200

_log: Final = logging.getLogger("penstock.tokens")


@dataclass(frozen=True, slots=True)
class Jwks:
    """Where the keys of tokens are published, and how they are kept. Times are seconds."""

    url: str
    """`https://issuer.example/.well-known/jwks.json`. Redirects are not followed."""
    _: KW_ONLY
    algorithms: tuple[Algorithm, ...] = ("RS256", "ES256", "EdDSA")
    """What keys may be for. One that does not say (`alg`) is for the first of these that fits its type. `HS256` and the
    like are not among them: a key that any client can fetch is not a secret."""
    least: float = 60.0
    """For which keys are not fetched anew, whatever Cache-Control says."""
    usual: float = 900.0
    """After which they are fetched anew where Cache-Control says nothing. New keys are mostly published a day before
    they sign."""
    most: float = 86_400.0
    """After which they are fetched anew at the latest: a key that was taken out is one for a day at most."""
    pause: float = 30.0
    """Between two attempts, whatever tokens come: made-up names of keys would have us fetch without end."""
    keep: float = 86_400.0
    """For how long keys serve after they were last fetched, while the URL cannot be reached; then requests are answered
    with 503 (KEYS_UNAVAILABLE). From `most` on."""
    timeout: float = 10.0
    """For one attempt."""
    max_bytes: int | str = "256KiB"
    """Bytes of the set; larger ones are refused. Sets have some KB."""
    max_keys: int = 64
    """Keys of the set; larger ones are refused."""
    insecure: bool = False
    """Whether the URL may be `http` to other machines: an attacker on the way could then admit any client."""

    def __post_init__(self) -> None:
        flag(self, "insecure")
        target = _target(self.url)
        if target is None:
            raise bad(self, "url", "must be an absolute https URL")
        if target.scheme != "https" and not self.insecure and not _is_loopback(target.raw_host or ""):
            raise bad(self, "url", "must be https; keys that come in the clear can be an attacker's")
        rule = f"must be some of {', '.join(ALGORITHMS[3:])}"
        algorithms = sequence(self, "algorithms", rule)
        if not algorithms or not all(algorithm in ALGORITHMS[3:] for algorithm in algorithms):
            raise bad(self, "algorithms", rule)
        put(self, "algorithms", algorithms)
        for name in ("least", "usual", "most", "pause", "keep", "timeout"):
            seconds(self, name)
        if not self.least <= self.usual <= self.most <= self.keep:
            raise bad(self, "usual", "must be from least to most, and keep no less than most")
        size(self, "max_bytes", 64, 1 << 24)
        count(self, "max_keys", 1, 1024)


def keep_fetched(handle: _native.Jwt, source: Jwks, engine: Engine) -> None:
    """Have `engine` fetch the keys of `handle` when they are wanted, on the running loop, and for the first time now."""
    loop = asyncio.get_running_loop()
    known = _fetchers.get(handle)
    if known is not None and known.serves(engine, loop):
        return
    fetcher = _fetchers[handle] = _Fetcher(handle, source, engine, loop)
    handle.fetched_by(engine.native, fetcher.fetch, max(1, round(source.pause)))
    fetcher.fetch()


class _Fetcher:
    """Fetches the keys of one verifier. It keeps neither that nor the engine."""

    def __init__(
        self, handle: _native.Jwt, source: Jwks, engine: Engine, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._handle = weakref.ref(handle)
        self._source = source
        self._engine = weakref.ref(engine)
        self.loop = loop
        self.task: asyncio.Task[None] | None = None

    def serves(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it is `engine` and `loop` that it fetches with."""
        return self._engine() is engine and self.loop is loop

    def fetch(self) -> None:
        """Fetch the keys, unless they are being fetched. Called on the loop."""
        if self.task is None:
            self.task = self.loop.create_task(self._fetch())
            self.task.add_done_callback(self._done)
            await_at_start(self.task)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the keys at %s could not be fetched", self._source.url, exc_info=error)

    async def _fetch(self) -> None:
        source = self._source
        engine = self._engine()
        if engine is None:
            return
        try:
            async with asyncio.timeout(source.timeout):
                text, lifetime = await _download(engine, source)
            handle = self._handle()
            if handle is None:
                return
            now = int(time.time())
            lasts = min(max(source.usual if lifetime is None else lifetime, source.least), source.most)
            names = list(source.algorithms)
            used, skipped = handle.set_keys(
                text, names, source.max_keys, now + round(lasts), now + round(source.keep)
            )
        except (PenstockError, TimeoutError) as error:
            # As text: a handler that keeps the record would keep the engine with it.
            reason = str(error) or "it took too long"
            _log.warning("the keys at %s could not be fetched: %s", source.url, reason)
        else:
            _log.info("%d keys from %s, and %d that cannot be used", used, source.url, skipped)


_fetchers: "Final[weakref.WeakKeyDictionary[_native.Jwt, _Fetcher]]" = weakref.WeakKeyDictionary()


async def _download(engine: Engine, source: Jwks) -> tuple[bytes, float | None]:
    """The set, and for how long it is fresh if that is said."""
    limits = Timeouts(total=source.timeout)
    accept = [("Accept", "application/jwk-set+json, application/json")]
    async with engine.request("GET", source.url, headers=accept, timeouts=limits) as response:
        if response.status != _OK:
            raise make_error("KEYS_UNAVAILABLE", f"it answers with {response.status}")
        pieces, received = [], 0
        async for frame in response:
            received += len(frame)
            if received > parse_size(source.max_bytes):
                raise make_error("KEYS_UNAVAILABLE", f"the set is larger than {source.max_bytes} bytes")
            pieces.append(bytes(frame))
        stated = _MAX_AGE.search(",".join(response.headers.getall("Cache-Control", ())))
        age = response.headers.get("Age", "")
        elapsed = int(age) if age.isascii() and age.isdigit() and len(age) < 10 else 0  # noqa: PLR2004 (as max-age)
        return b"".join(pieces), None if stated is None else max(0, int(stated[1]) - elapsed)


def _target(url: object) -> URL | None:
    try:
        target = URL(url) if isinstance(url, str) else None
    except ValueError:
        return None
    return target if target is not None and target.scheme in ("http", "https") and target.raw_host else None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
