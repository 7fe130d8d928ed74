"""Several origins for the same content: health, health checks, retries."""

import os
import re
from dataclasses import KW_ONLY, dataclass

from . import checks


@dataclass(frozen=True, slots=True)
class Origin:
    """One of several origins for the same content; see `penstock.Origins`."""

    url: str
    """`http://host:port` or `https://host`; a path must be the same for all of them."""
    _: KW_ONLY
    weight: int = 1
    """Its share of the requests, relative to the others."""
    backup: bool = False
    """Used only while no other origin is available."""
    max_requests: int | None = None
    """Requests in progress at most, over all engine threads; further ones go to other origins, and are refused
    (QUEUE_FULL) if all are as busy. None: `OriginLimits` alone, which count connections by engine thread."""
    unix: str | os.PathLike[str] | None = None
    """Path of a Unix socket to reach it by."""

    def __post_init__(self) -> None:
        checks.text(self, "url")
        # Ratios beyond that are no balance, and would leave an origin idle for hours.
        checks.count(self, "weight", 1, 1_000_000)
        checks.flag(self, "backup")
        if self.max_requests is not None:
            checks.count(self, "max_requests", 1)
        if self.unix is not None:
            checks.path(self, "unix")


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """When an origin is ejected because of failed requests, and how it returns.

    A failure is a connection that cannot be opened or breaks, an exceeded time limit, a response that is not HTTP
    or has one of `statuses`, or a body that ends too soon. A client that disconnects is not a failure.
    """

    failures: int | None = 5
    """Failures in a row that eject; None for no such rule. Five, as in Envoy: a single one can happen to any
    origin. An origin that returns is ejected again at its first failure."""
    failure_percent: int | None = 50
    """Share of failed requests in a window that ejects, for origins that fail now and then; None for no such rule.
    Half: an origin that fails less is still useful, and retries cover for it."""
    least_requests: int = 20
    """Requests that must have ended in a window for that share to count."""
    window: float = 10.0
    """Seconds over which the share is taken."""
    statuses: tuple[int, ...] = (500, 502, 503, 504)
    """Statuses that are failures of the origin. Others are about the request."""
    eject: float = 10.0
    """Seconds of the first ejection; each that follows soon is twice as long. Long enough for a process to be started
    again."""
    max_eject: float = 300.0
    """Seconds of the longest ejection, as in Envoy: a recovered origin is noticed within five minutes."""
    slow_start: float = 10.0
    """Seconds over which a returning or new origin gets its whole share, from a tenth on: its caches and its
    connections are cold. 0 for at once."""
    panic_percent: int = 0
    """If a smaller share of the origins is available, all are used as if they were, so that the last ones are not
    overloaded as well. 0: only if no origin is available; then all are used in any case."""

    def __post_init__(self) -> None:
        if self.failures is not None:
            checks.count(self, "failures", 1)
        if self.failure_percent is not None:
            checks.count(self, "failure_percent", 1, 100)
        checks.count(self, "least_requests", 1)
        checks.seconds(self, "window")
        _statuses(self, "statuses")
        checks.seconds(self, "eject")
        checks.seconds(self, "max_eject")
        if self.max_eject < self.eject:
            raise checks.bad(self, "max_eject", f"must not be below eject, {self.eject} s")
        checks.seconds(self, "slow_start", zero=True)
        checks.count(self, "panic_percent", 0, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Health checks of origins, besides the results of clients' requests.

    The first check is sent with the first request. An origin counts as healthy until checks fail.
    """

    path: str
    """The path that is requested by GET, on a connection of its own."""
    interval: float = 5.0
    """Seconds from one check of an origin to the next."""
    timeout: float = 2.0
    """Seconds that one check may take, the connection included."""
    statuses: tuple[int, ...] = (200, 204)
    """Statuses of a healthy origin."""
    fall: int = 3
    """Failures in a row that take an origin out, as in HAProxy: one check can be lost."""
    rise: int = 2
    """Successes in a row that bring it back, as in HAProxy. It is no longer ejected then."""

    def __post_init__(self) -> None:
        if not (isinstance(self.path, str) and self.path.startswith("/")):
            raise checks.bad(self, "path", "must begin with '/'")
        checks.seconds(self, "interval")
        checks.seconds(self, "timeout")
        _statuses(self, "statuses")
        checks.count(self, "fall", 1)
        checks.count(self, "rise", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """What is sent to another origin if one fails, before or after the response has begun.

    GET, HEAD and OPTIONS are retried, unless their bodies are streamed. Any other request is sent elsewhere only
    if none of it was sent: if no connection could be opened.
    """

    tries: int = 3
    """Origins that one request is sent to at most, the first included, each once."""
    statuses: tuple[int, ...] = (500, 502, 503, 504)
    """Statuses after which another origin is tried. The client gets the last such response if there is no
    better."""
    try_timeout: float | None = None
    """Seconds that one origin has to begin its response, the connection included. None: `Timeouts` alone; models
    think long. Set it if origins answer at once: it is what a stalled origin costs."""
    hedge: float | str | None = None
    """Seconds without a response after which a second origin is tried beside the first; the first response is
    used. Or `"p95"`, from `"p50"` to `"p99"`: as long as that share of the last 128 requests took, once there were
    32. None: never."""
    resume: bool = True
    """Request the rest of a body that broke off from another origin, if a strong entity tag proves that it is the
    same."""
    budget_percent: int = 20
    """Retries, hedges and resumptions as a share of the requests of the last ten seconds, as in Finagle, Linkerd
    and Envoy: when all origins fail, load grows by a fifth and not threefold."""
    budget_per_second: int = 10
    """Retries, hedges and resumptions allowed each second besides, as in Finagle and Linkerd: a quiet route has
    few requests to take a share of."""

    def __post_init__(self) -> None:
        checks.count(self, "tries", 1, 100)
        _statuses(self, "statuses")
        checks.seconds(self, "try_timeout", optional=True)
        if not isinstance(self.hedge, str):
            checks.seconds(self, "hedge", optional=True)
        elif not re.fullmatch(r"p[5-9][0-9]", self.hedge, re.ASCII):
            raise checks.bad(self, "hedge", "must be seconds, a percentile from 'p50' to 'p99', or None")
        checks.flag(self, "resume")
        checks.count(self, "budget_percent", 0, 1000)
        checks.count(self, "budget_per_second", 0, 1_000_000)


def _statuses(settings: object, name: str) -> None:
    statuses = checks.sequence(settings, name, "must be status codes, such as (500, 503)")
    known = range(200, 600)
    if not all(isinstance(status, int) and status in known for status in statuses):
        raise checks.bad(settings, name, "must be status codes from 200 to 599")
    checks.put(settings, name, statuses)
