"""Who may: a hook that is asked once for each key, and the engine's memory of what it has said.

`Gateway.native` and `Hub.native` take a hook and the parts of a request that it decides by. The engine asks about the
first request of a key, has the others wait for the same answer, and remembers that; Python hears of no other.
`Decisions` is what is remembered, to be revoked and counted.
"""

import asyncio
import inspect
import logging
import weakref
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from penstock import _arguments, _native
from penstock._limited_log import LimitedLog
from penstock._shared import Shared, shared
from penstock.config import Access, TenantLimits
from penstock.config.checks import is_token
from penstock.engine import Engine
from penstock.exceptions import make_error
from penstock.serving.gates import Gates, Verifying
from penstock.stats import DecisionStats, TenantStats

from .target import target_url

__all__ = [
    "Allow",
    "Authoriser",
    "Decisions",
    "Deny",
    "NativeRequest",
    "Revoked",
    "Verifying",
    "decisions_of",
]

_log: Final = LimitedLog(logging.getLogger("penstock.web"))

_ALONE: Final = frozenset({"address", "host", "method"})
_YEAR: Final = 365 * 24 * 3600.0
# Paths are shorter.
_SEGMENTS: Final = 1000


@dataclass(frozen=True, slots=True)
class NativeRequest:
    """A request that a native route asks a hook about."""

    method: str
    """Such as GET."""
    url: URL
    """Path and query as they stand on the wire, without scheme and host."""
    headers: CIMultiDictProxy[str]
    """All fields."""
    remote: str | None
    """The client's address; None on a Unix socket."""
    host: str
    """The host that is asked for, and its port if one is."""
    route: str
    """The name of the route."""
    key: tuple[str | None, ...]
    """What the request has for each part of `decision_key`, decoded; None for what it has not. Of several of one name
    it is the first. To decide by this alone is to decide by what the answer is remembered by."""

    @property
    def path(self) -> str:
        """The path, percent-encoded."""
        return self.url.raw_path


@dataclass(frozen=True, slots=True)
class Allow:
    """The answer of a hook: let it in."""

    tenant: str | None = None
    """On whose account: for `Decisions.revoke`, `on_complete`, and limits of subscriptions by tenant."""
    lifetime: float | None = None
    """Seconds for which that is remembered; None: what the route says."""
    limits: TenantLimits | None = None
    """What the tenant may have at most; None: what the route says (`Access.tenant_limits`)."""

    def __post_init__(self) -> None:
        _check_lifetime(self.lifetime, "Allow.lifetime", least=0)
        if self.tenant is not None and (not isinstance(self.tenant, str) or not self.tenant):
            raise _bad(f"Allow.tenant = {self.tenant!r}: must be a text that is not empty, or None")
        _arguments.instance(
            "Allow.limits", self.limits, TenantLimits, "a penstock.config.TenantLimits or None"
        )
        if self.limits is not None and self.tenant is None:
            raise _bad("Allow.limits are a tenant's: there is no tenant")


@dataclass(frozen=True, slots=True)
class Deny:
    """The answer of a hook: refuse it. The client gets application/problem+json (RFC 9457)."""

    status: int = 403
    """From 400 to 599."""
    detail: str | None = None
    """What the client is told; None for a sentence that says that it is not authorised."""
    lifetime: float | None = None
    """Seconds for which that is remembered; None: what the route says (`Access.denied_lifetime`). 0: not at all."""
    challenge: str | None = None
    """What `WWW-Authenticate` says, such as `Bearer`; a 401 has to have one (RFC 9110, section 15.5.2)."""

    def __post_init__(self) -> None:
        _check_lifetime(self.lifetime, "Deny.lifetime", least=0)
        _arguments.text("Deny.detail", self.detail)
        _arguments.text("Deny.challenge", self.challenge, "'Bearer'")
        if not isinstance(self.status, int) or self.status not in range(400, 600):
            raise _bad(f"Deny.status = {self.status!r}: must be from 400 to 599")
        challenge = self.challenge
        if challenge is not None and not (challenge and challenge.isascii() and challenge.isprintable()):
            raise _bad(f"Deny.challenge = {challenge!r}: must be printable ASCII, or None")
        if self.status == HTTPStatus.UNAUTHORIZED and challenge is None:
            raise _bad("Deny(status=401) needs a challenge, such as challenge='Bearer'")


Answer = Allow | Deny | bool | None
"""What a hook says: True is `Allow()`, False and None are `Deny()`."""

Authoriser = Callable[[NativeRequest], Answer | Awaitable[Answer]]
"""A hook: a function, or a coroutine function, which is called on the event loop."""


class Revoked(NamedTuple):
    """What a revocation came to.

    Attributes:
        decisions: decisions that were forgotten.
        cut: responses that were made to end.
    """

    decisions: int
    cut: int


class Decisions(Shared):
    """What is remembered of who may, on one native route or on several. Made by `Gateway.native` and `Hub.native`.

    Given to another route as `authorise` it has both ask one hook, in one memory: what is revoked is so on both. Each
    route asks for itself. All methods may be called from any thread.
    """

    _KIND = "decisions"

    def __init__(
        self,
        authorise: Authoriser | Verifying,
        *,
        key: str | Sequence[str] | None = None,
        access: Access | None = None,
    ) -> None:
        """See `Gateway.native`, whose `decision_key` is `key`.

        Raises:
            ConfigurationError: there is no key for a hook, or one that cannot be.
        """
        _arguments.ACCESS("access", access)
        if key is not None and not isinstance(key, str):
            rule = "a part of a request such as 'header:Authorization', or a list of them"
            key = _arguments.sequence("decision_key", key, rule)
        self._authorise: Final = authorise
        self._verifier: _native.Verifier | None = None
        self._verifying: Verifying | None = None
        self.access = access or Access()
        self.has_hook: Final = not isinstance(authorise, Verifying)
        if isinstance(authorise, Verifying):
            if key is not None:
                raise _bad("a decision_key goes with a hook: what verifies knows itself what it decides by")
            self._verifying = authorise
            self._verifier = authorise._verifier()  # noqa: SLF001 (what the protocol is)
        elif not callable(authorise):
            raise _bad(f"authorise is {authorise!r}: it must be a hook, or what verifies")
        elif key is None:
            raise _bad(
                "authorise needs a decision_key: the parts of a request that the hook decides by, such as "
                "'header:Authorization'. Requests that have the same get the same answer"
            )
        self.key = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        self._parts = [_part(part) for part in self.key]
        if key is not None and not self._parts:
            raise _bad("decision_key is empty: all requests would get the same answer")
        self._gates = Gates(self.access, self._verifier, self._parts)
        self._native = self._gates.native
        self._asker = None if self._verifier else _Asker(authorise, self.access)  # type: ignore[arg-type]
        # Whose loop is asked. Weak: what is remembered does not keep an engine.
        self._listening: tuple[weakref.ref[Engine], asyncio.AbstractEventLoop] | None = None

    def _declaration(self) -> dict[str, Any]:
        return {"authorise": self._authorise, "key": self.key or None, "access": self.access}

    @shared
    def revoke(
        self,
        *,
        key: str | Sequence[str | None] | None = None,
        tenant: str | None = None,
        everybody: bool = False,
        running: str = "cut",
    ) -> Revoked:
        """Forget what was decided. When this returns no engine thread admits a request by it.

        A question that is open is asked anew, and the hook's answer to the old one counts for no request. While an
        upgrade is under way the other process is told of it, and this does not wait until it has revoked as well.

        Args:
            key: about the requests that have this for each part of the key, as `NativeRequest.key` says it; a text
                where the key has one part. Of what verifies by itself nothing is known by key.
            tenant: about that tenant.
            everybody: all of it.
            running: what happens to responses that run by such a decision. `cut`: they end at once, event streams
                behind a whole event and others visibly before their end. `go on`: they are sent to their end.

        Returns:
            How many decisions this process forgot, and responses it cut.

        Raises:
            ConfigurationError: not exactly one of `key`, `tenant` and `everybody` was given, or `key` has not as many
                parts as the route's; or `running` is something else.
        """
        if (key is not None) + (tenant is not None) + everybody != 1:
            raise _bad("revoke one of: key, tenant, everybody=True")
        if running not in ("cut", "go on"):
            raise _bad(f"running is {running!r}: it must be 'cut' or 'go on'")
        cut = running == "cut"
        if key is None:
            return Revoked(*self._gates.revoke(None, tenant, cut=cut))
        values = (key,) if isinstance(key, str) else tuple(key)
        if len(values) != len(self._parts):
            raise _bad(f"the key has {len(self._parts)} parts, and {len(values)} were given")
        raw = [None if value is None else value.encode("utf-8", "surrogateescape") for value in values]
        return Revoked(*self._gates.revoke(raw, None, cut=cut))

    @shared
    def stats(self) -> DecisionStats:
        """What is remembered, and what was counted so far."""
        return self._native.stats()

    @shared
    def tenants(self) -> dict[str, TenantStats]:
        """What each tenant has had that is known, by name."""
        return self._native.tenants()

    @shared
    def renew(self, tenant: str) -> bool:
        """Have a tenant begin its total anew (`TenantLimits.total`); whether it is known."""
        return self._native.renew(tenant)

    def _gate(self, engine: Engine, name: str, host: str | None) -> _native.Gate:
        """What stands before a route; on the running loop, which is asked from now on."""
        if self._asker is not None:
            self._listen(engine, self._asker)
        if self._verifying is not None:
            self._verifying._attend(engine)  # noqa: SLF001 (what the protocol is)
        return self._gates.gate(engine, name, host)

    def _listen(self, engine: Engine, asker: "_Asker") -> None:
        loop = asyncio.get_running_loop()
        if self._listening is None or (self._listening[0](), self._listening[1]) != (engine, loop):
            self._native.listen(engine.native, asker.pose)
            self._listening = (weakref.ref(engine), loop)

    async def _asked(self, row: "Row") -> Answer:
        """Have the hook asked by the parent, whose memory it is."""
        request = _request_of(row)
        assert self._asker is not None  # noqa: S101 (the parent asks where there is one)
        try:
            answer = await self._asker.ask(request)
        except Exception as error:
            _log_failure(request, "failed", error)
            raise
        # Of a class of the application's own the parent knows nothing.
        if isinstance(answer, Allow):
            return Allow(answer.tenant, answer.lifetime, answer.limits)
        if isinstance(answer, Deny):
            return Deny(answer.status, answer.detail, answer.lifetime, answer.challenge)
        return answer

    def _forwarded(self, request: web.Request) -> list[tuple[bytes, bytes]] | None:
        """What the origin is sent of the fields of `request`, where that is not all of them."""
        return None if self._verifier is None else self._verifier.forwarded(list(request.raw_headers))

    async def _enter(
        self, engine: Engine, request: web.Request, name: str, host: str | None, prefix: str
    ) -> _native.Permit | _native.Refused:
        """Let in a request that the event loop's own transports serve."""
        gate = self._gate(engine, name, host)
        while True:
            found = gate.enter(
                engine.native,
                request.method,
                request.rel_url.raw_path_qs,
                prefix,
                request.host,
                request.remote,
                list(request.raw_headers),
            )
            if isinstance(found, _native.Waiting):
                future, seconds = found.wait()
                await asyncio.wait({future}, timeout=seconds)
                found = found.result()
            # None: what was found was revoked in between.
            if found is not None:
                return found


class _Asker:
    """Calls the hook. It knows nothing of what is remembered, which is what keeps it alive."""

    def __init__(self, authorise: Authoriser, access: Access) -> None:
        self._authorise = authorise
        self._access = access
        self._tasks: set[asyncio.Task[None]] = set()

    def pose(self, question: _native.Question) -> None:
        """Have a question answered. Called on the loop, for each."""
        task = asyncio.get_running_loop().create_task(self._answer(question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, question: _native.Question) -> None:
        asked = question.request()
        assert asked is not None  # noqa: S101 (it has not been answered)
        request = _request(asked)
        try:
            async with asyncio.timeout(self._access.timeout) as limit:
                answer = await self.ask(request)
            self._say(question, answer)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is no answer)
            late = limit.expired()
            _log_failure(request, "taken too long" if late else "failed", error)
            question.fail(late)
        except BaseException:
            question.fail(False)
            raise

    async def ask(self, request: NativeRequest) -> Answer:
        """What the hook says."""
        answer = self._authorise(request)
        return await answer if inspect.isawaitable(answer) else answer

    def _say(self, question: _native.Question, answer: Answer) -> None:
        if answer is True:
            answer = Allow()
        elif answer is False or answer is None:
            answer = Deny()
        if isinstance(answer, Allow):
            lifetime = self._access.lifetime if answer.lifetime is None else answer.lifetime
            question.allow(float(lifetime), answer.tenant, answer.limits)
        elif isinstance(answer, Deny):
            lifetime = self._access.denied_lifetime if answer.lifetime is None else answer.lifetime
            question.deny(float(lifetime), answer.status, answer.detail, answer.challenge)
        else:
            raise TypeError(f"it returned {type(answer).__name__}, not Allow, Deny, True, False or None")


def _log_failure(request: NativeRequest, what: str, error: Exception) -> None:
    _log.log(
        logging.ERROR,
        ("hook", request.route, what, type(error)),
        "%s: the hook that authorises %s %s has %s",
        *(request.route, request.method, _native.shown(request.path), what),
        error=error,
    )


def decisions_of(
    authorise: "Authoriser | Verifying | Decisions | None",
    key: str | Sequence[str] | None,
    lifetime: float | None,
    access: Access | None,
) -> Decisions | None:
    """What a route is told of who may, as one.

    Raises:
        ConfigurationError: these do not go together.
    """
    if authorise is None or isinstance(authorise, Decisions):
        if key is not None or lifetime is not None or access is not None:
            raise _bad("decision_key, lifetime and access go with a hook")
        return authorise
    if lifetime is not None:
        access = replace(access or Access(), lifetime=lifetime)
    return Decisions(authorise, key=key, access=access)


def _request(asked: _native.AskedRequest) -> NativeRequest:
    headers = CIMultiDict((_text(name), _text(value)) for name, value in asked.headers)
    return NativeRequest(
        method=asked.method,
        url=target_url(asked.target),
        headers=CIMultiDictProxy(headers),
        remote=asked.remote,
        host=asked.authority,
        route=asked.route,
        key=tuple(None if value is None else _text(value) for value in asked.key),
    )


Row = tuple[str, str, str, str, str | None, tuple[tuple[str, str], ...], tuple[str | None, ...]]
"""A `NativeRequest` as it goes from one process to another."""


def row_of(request: NativeRequest) -> Row:
    """What a worker makes `request` of."""
    return (
        request.route,
        request.method,
        request.url.raw_path_qs,
        request.host,
        request.remote,
        tuple((str(name), value) for name, value in request.headers.items()),
        request.key,
    )


def _request_of(row: Row) -> NativeRequest:
    route, method, target, host, remote, fields, key = row
    headers = CIMultiDictProxy(CIMultiDict(fields))
    return NativeRequest(method, target_url(target), headers, remote, host, route, key)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _part(text: str) -> tuple[str, str]:
    """A part of a key, such as `header:Authorization`."""
    kind, _, what = text.partition(":") if isinstance(text, str) else ("", "", "")
    if kind in _ALONE and text == kind:
        return kind, ""
    if kind in ("header", "cookie") and is_token(what):
        return kind, what
    if kind == "query" and what:
        return kind, what
    if kind == "path" and what.isascii() and what.isdigit() and 0 < int(what) < _SEGMENTS:
        return kind, what
    raise _bad(
        f"decision_key has {text!r}: a part is 'header:NAME', 'cookie:NAME', 'query:NAME', 'path:COUNT', "
        "'address', 'host' or 'method'"
    )


def _check_lifetime(value: float | None, name: str, *, least: float) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= _YEAR:
        raise _bad(f"{name} = {value!r}: must be seconds from {least} to a year, or None")


def _bad(rule: str) -> Exception:
    return make_error("BAD_CONFIGURATION", rule)
