"""The boundary between the engine and Python. Private: use the names that `penstock` exports."""

import asyncio
import builtins
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, Self, TypeAlias, TypeVar, final, overload

from typing_extensions import Buffer, disjoint_base

from . import config, tokens
from .cache import CacheStats, StoredResponse
from .exceptions import ErrorCode, PenstockError
from .hub import HubStats, TopicStats
from .log import Entry, LogStats
from .origins import OriginsStats
from .stats import DecisionStats, DiskStats, EngineStats, InspectionStats, TenantStats, Timings
from .web.handover import Rest
from .web.relay_spec import Handles, HeaderEdits, RelaySpec

__all__ = [
    "BUILD_PROFILE",
    "AccessLog",
    "Admission",
    "Answer",
    "AskedRequest",
    "Awaitable",
    "Cache",
    "Caching",
    "Counts",
    "Decisions",
    "Drain",
    "Endpoint",
    "Engine",
    "Entered",
    "EventPolicy",
    "Expected",
    "FeedRequest",
    "Fields",
    "Forwarding",
    "Frame",
    "FrameStream",
    "Framing",
    "Gate",
    "Hub",
    "Inspection",
    "Inspector",
    "Jwt",
    "Lane",
    "Lease",
    "Limiter",
    "Lines",
    "LoopPort",
    "OriginNotice",
    "OrphanEnd",
    "Permit",
    "Plan",
    "Question",
    "Refused",
    "Relay",
    "Report",
    "RequestEnd",
    "Route",
    "Site",
    "SiteCounts",
    "Source",
    "Status",
    "Timeouts",
    "Topics",
    "Transport",
    "Upload",
    "Upstream",
    "Verifier",
    "Waiting",
    "Watched",
    "WorkerSite",
    "Workers",
    "__version__",
    "error_table",
    "fetch",
    "fetch_upload",
    "has_dot_segments",
    "hide",
    "is_done",
    "is_target",
    "next_batch",
    "offers_websocket",
    "read_on",
    "relay_head",
    "relay_seen",
    "response_fields",
    "shown",
    "signed_url",
    "status_line",
    "take_ready",
    "timings_of",
    "watch",
]

__version__: Final[str]
BUILD_PROFILE: Final[str]

_T_co = TypeVar("_T_co", covariant=True)
_Fields: TypeAlias = list[tuple[bytes, bytes]]

def error_table() -> list[ErrorCode]:
    """Every error code, ascending."""

def hide(name: str) -> None:
    """Have logs show no values of the parameter `name` from now on, in this process."""

def shown(target: str) -> str:
    """The target of a request as logs may show it, without the values of tokens."""

@final
class Awaitable(Generic[_T_co]):
    """What `await` drives. One task at a time."""

    def __await__(self) -> Generator[Any, None, _T_co]: ...
    def __iter__(self) -> Generator[Any, None, _T_co]: ...
    def __next__(self) -> Any: ...

@final
class LoopPort:
    """Where engine threads wake an event loop."""

    def drain(self) -> None: ...

@final
class Frame(Buffer):
    """Read-only bytes in the engine's memory.

    A frame is a buffer: `memoryview(frame)`, `bytes(frame)`, `numpy.frombuffer(frame, numpy.uint8)`. What it holds
    counts against the window of its stream until the last view and the frame itself are gone.

    NumPy's type hints accept no buffer but a memoryview: write `numpy.frombuffer(memoryview(frame), numpy.uint8)` where
    code is type-checked. No byte is copied either way.
    """

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> Frame: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    @property
    def exports(self) -> int:
        """Views and parts that are alive."""
    @property
    def released(self) -> bool:
        """Whether `release` was called."""
    def release(self) -> None:
        """Give the memory back now.

        Raises:
            BufferError: a view or a part of the frame is alive.
        """
    @property
    def event(self) -> memoryview | None:
        """The value of the block's `event` field, of a frame cut by `framing.Events`; None if it has none."""
    @property
    def id(self) -> memoryview | None:
        """The value of the block's `id` field; None if it has none, or one with a NUL."""
    @property
    def retry(self) -> int | None:
        """The value of the block's `retry` field in milliseconds; None if it has none that is a number."""
    @property
    def data(self) -> memoryview:
        """The values of the block's `data` fields, joined by LF: a view of one, a copy of several."""

@final
class Framing:
    @staticmethod
    def raw() -> Framing: ...
    @staticmethod
    def fixed(size: int) -> Framing: ...
    @staticmethod
    def length_prefixed(width: int, little_endian: bool, max_frame: int) -> Framing: ...
    @staticmethod
    def lines(max_frame: int) -> Framing: ...
    @staticmethod
    def events(max_frame: int, blocks: bool) -> Framing: ...

@final
class Endpoint:
    """An origin: what connections are kept by."""

    def __new__(cls, scheme: str, host: str, port: int, unix: str | os.PathLike[str] | None) -> Self: ...
    @property
    def authority(self) -> str:
        """What `Host` says unless the request has its own."""

@final
class Timeouts:
    """Limits on time in seconds; see `penstock.config.Timeouts`."""

    def __new__(
        cls,
        settings: config.Timeouts,
        lets_events_pause: bool,
    ) -> Self:
        """`lets_events_pause`: the consumer has a limit of its own on the pauses of event streams."""

@final
class Fields:
    """Header fields, ready for requests."""

    def __new__(cls, pairs: Sequence[tuple[bytes, bytes]]) -> Self: ...

def offers_websocket(method: str, version: tuple[int, int], fields: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether a request asks for WebSocket by all that this takes."""

def is_target(target: str) -> bool:
    """Whether a target in origin-form has what a target may have, and nothing else."""

def has_dot_segments(target: str) -> bool:
    """Whether an origin could take the path of a target for another one."""

@final
class Forwarding:
    """What each side is told of the other."""

    def __new__(
        cls,
        policy: config.Forwarding,
        fill: config.Caching | None = None,
        redirects: tuple[Endpoint, str, str] | None = None,
    ) -> Self:
        """`fill`: the response may be stored for other clients.

        `redirects`: the origin, how its paths begin there, and how they do for clients.
        """

    def request_fields(
        self,
        method: str,
        received: Sequence[tuple[bytes, bytes]],
        remote: str | None,
        scheme: str,
        host: str,
        version: tuple[int, int],
        replaced: Sequence[tuple[str, str | None]] | None,
        added: Sequence[tuple[str, str]] | None,
    ) -> Fields:
        """The fields that go to the origin.

        `replaced` stand in place of others of their names; None sends none. `added` stand behind others.
        """

@final
class Relay:
    """A relay that an engine can carry out."""

    def __new__(cls, spec: RelaySpec, handles: Handles, engine: Engine) -> Self: ...

@final
class Route:
    """A request that the engine answers alone."""

    def __new__(
        cls,
        spec: RelaySpec,
        handles: Handles,
        host: str | None,
        on_end: Callable[[RequestEnd], object] | None,
        gate: Gate | None,
    ) -> Self: ...

@final
class Decisions:
    """What is remembered of who may, and who is asked."""

    def __new__(cls, settings: config.Access) -> Self: ...
    def add_to(self, engine: Engine) -> None:
        """Add the counts to the metrics of `engine`."""

    def listen(self, engine: Engine, pose: Callable[[Question], object]) -> None:
        """Have `pose` called with each question, on the running loop."""
    def revoke(self, tenant: str | None, cut: bool) -> tuple[int, int]:
        """Forget what was decided about a tenant, or everybody. How many decisions, and responses that were cut."""
    def tenants(self) -> dict[str, TenantStats]:
        """What each tenant that is known has had, by name."""
    def renew(self, tenant: str) -> bool: ...
    def stats(self) -> DecisionStats: ...

@final
class Verifier:
    """What decides by what a request brings along."""

    def forwarded(self, headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return what the origin is sent of a client's fields: no token."""

@final
class Gate:
    """What stands before a route."""

    def __new__(
        cls,
        decisions: Decisions,
        name: str,
        scope: str,
        parts: Sequence[tuple[str, str]],
        verifier: Verifier | None,
        lifetime: float,
    ) -> Self: ...
    def revoke(self, values: Sequence[bytes | None], cut: bool) -> tuple[int, int]:
        """Forget what was decided about requests with these values for the parts of the key."""
    def enter(
        self,
        engine: Engine,
        method: str,
        target: str,
        prefix: str,
        authority: str,
        remote: str | None,
        headers: Sequence[tuple[bytes, bytes]],
    ) -> Permit | Refused | Waiting | None:
        """Begin to let a request in. None: what was found was revoked in between, and it is to be entered anew."""

@final
class Waiting:
    """One who waits for the answer to a question."""

    def wait(self) -> tuple[asyncio.Future[None], float]:
        """Return a future that is done when there is an answer, and seconds after which there is none."""
    def result(self) -> Permit | Refused | None:
        """Return what became of it. Who has waited for too long is refused."""

@final
class Permit:
    """A request that was let in, until it leaves."""

    @property
    def target(self) -> str | None:
        """Path and query without a token; None: as they came."""
    @property
    def tenant(self) -> str | None: ...
    @property
    def left(self) -> float:
        """Seconds for which it was decided, from now on."""
    def cut(self) -> asyncio.Future[None]:
        """Return a future that is done when the response is to end."""
    def sent(self, count: int) -> float:
        """Count bytes on the account of its tenant. For how many seconds nothing more is to be sent."""
    def leave(self) -> None: ...

@final
class Refused:
    """A request that was not let in."""

    @property
    def error(self) -> PenstockError: ...
    @property
    def status(self) -> int: ...
    @property
    def detail(self) -> str | None: ...
    @property
    def challenge(self) -> str | None: ...

@final
class AskedRequest:
    """A request that a question is about."""

    @property
    def route(self) -> str:
        """The name of the route."""
    @property
    def method(self) -> str: ...
    @property
    def target(self) -> str:
        """Path and query as they came."""
    @property
    def authority(self) -> str:
        """The host that is asked for, and its port if one is."""
    @property
    def remote(self) -> str | None:
        """The client's address; None on a Unix socket."""
    @property
    def headers(self) -> _Fields: ...
    @property
    def key(self) -> list[bytes | None]:
        """The first value of each part of the key."""

@final
class Question:
    """A question. One that is dropped has failed."""

    def request(self) -> AskedRequest | None:
        """What it is about; None once it has been answered."""
    def allow(self, lifetime: float, tenant: str | None, limits: config.TenantLimits | None) -> None: ...
    def deny(self, lifetime: float, status: int, detail: str | None, challenge: str | None) -> None: ...
    def fail(self, late: bool) -> None: ...

@final
class Drain:
    """How bodies are read on whose clients have left, and how many at a time."""

    def __new__(cls, settings: config.Drain) -> Self: ...

@final
class EventPolicy:
    """What is done with event streams besides relaying them."""

    def __new__(cls, settings: config.EventRelay, drain: Drain | None) -> Self: ...
    def fields(self) -> list[tuple[str, str]]:
        """The fields that the head has where the origin says nothing else."""

@final
class Limiter:
    """The limits of a route that the event loop's own transports serve."""

    def __new__(cls, name: str, limits: config.RouteLimits) -> Self: ...
    def enter(self) -> Entered:
        """Count a request, until it leaves. Raises where the route serves too much."""

@final
class Entered:
    """A request that a limiter has let in."""

    def leave(self) -> None: ...

@final
class Cache:
    """What an engine keeps of what it fetches."""

    def __new__(
        cls, engine: Engine, memory: int, variants: int, disk: tuple[Path, int, float] | None
    ) -> Self:
        """`memory` is in bytes, of the engine's pool; `variants`: the most of one URL.

        `disk`: a directory, the bytes of its files, seconds to wait.
        """

    def close(self, within: float) -> bool:
        """Write what is in memory alone, for so many seconds at most, and let go of the directory unless it hangs."""

    def disk_stats(self) -> DiskStats | None:
        """What the disk has done, if there is one."""

    def stats(self) -> CacheStats:
        """How full it is, and how requests went."""

    def purge(self, what: str, value: str, soft: bool) -> int:
        """Purge by "url", "prefix", "tag" or "all", and give the number of responses."""

    def list(self, prefix: str | None, after: str | None, limit: int) -> tuple[StoredResponse, ...]:
        """What is stored under the first `limit` URLs that begin with `prefix` and come after `after`."""

@final
class Caching:
    """How a route, a gateway or a request uses a cache."""

    def __new__(cls, cache: Cache, settings: config.Caching, name: str) -> Self:
        """From now on a purge by URL finds what is stored there. Requests are counted under `name`."""

@final
class Hub:
    """Topics, their history and their subscribers. Any thread may use it."""

    def __new__(cls, engine: Engine, settings: config.History, external: bool) -> Self:
        """`external`: what has been published is kept elsewhere, and comes from there by `load` and `take`."""

    def publish(
        self,
        topic: str,
        data: str | bytes | bytearray,
        event: str | None,
        named: str | None,
        key: str | None,
        retry: int | None,
    ) -> str:
        """Publish, and give the event's place in the order of the hub's. `named`: its id; `retry`: milliseconds."""

    def load(self, topic: str, floor: str, entries: Sequence[Entry]) -> tuple[int, str | None] | None:
        """Open a topic that is waiting for it with what an external log has after `floor`.

        Gives how many of the entries it refuses, and why the first. None: it is not waiting.
        """

    def take(
        self, topic: str, entries: Sequence[Entry]
    ) -> tuple[int, str | None, tuple[int, str | None]] | None:
        """Append what an external log has next: how many were taken, why not more, and the refused, as for `load`.

        None: the topic is not there, or waits to be loaded.
        """

    def interrupt(self, topic: str, floor: str) -> bool:
        """Tell subscribers that events between what they have and `floor` may be missing. False as for `load`."""

    def deliver(
        self,
        topic: str,
        data: str | bytes | bytearray,
        event: str | None,
        key: str | None,
        retry: int | None,
    ) -> bool:
        """Send an event that an external log does not have. False: there is no such topic."""

    def check(
        self,
        topic: str,
        data: str | bytes | bytearray,
        event: str | None,
        named: str | None,
        key: str | None,
        retry: int | None,
    ) -> None:
        """Whether an event could be published: raises as `publish`, and publishes nothing."""

    def checked(self, topic: str) -> None:
        """What an external log had when the topic was wanted again has been appended."""

    def wanted(self) -> tuple[list[str], asyncio.Future[None]]:
        """Topics of which an external log is to be asked, and a future that is done when there are more.

        Only one may be waited for.
        """

    def finish(self, topic: str) -> bool:
        """No more is to come. False: that had been said."""

    def stats(self) -> HubStats:
        """How full it is, and what it has counted; without `log`."""

    def set_log(self, stats: LogStats) -> None:
        """Note how it fares with its log."""

    def topic_stats(self, topic: str) -> TopicStats | None:
        """The same of one topic, if there is one of that name."""

    def subscribe(
        self,
        topic: str,
        after: str | None,
        terms: config.Subscriptions,
        framing: Framing,
    ) -> Source:
        """Subscribe as if an origin were asked: a head, then events."""

    def admit(
        self,
        topic: str,
        after: str | None,
        terms: config.Subscriptions,
        guest: tuple[str | None, str | None],
        lease: Lease | None,
    ) -> Admission:
        """Ask whether a client may subscribe, until `lease` has run out. `guest`: tenant and address."""

    def admit_afar(
        self,
        plan: bytes,
        topic: str,
        after: str | None,
        guest: tuple[str | None, str | None],
        lease: Lease | None,
        lines: Lines,
        near: Transport | None,
    ) -> Admission:
        """As `admit`, in a worker process: the parent is asked, by what describes hub and terms to it.

        That is for the request of `near`, or for none.
        """

    def subscribe_afar(
        self, plan: bytes, topic: str, after: str | None, framing: Framing, lines: Lines
    ) -> Source:
        """As `subscribe`, in a worker process."""

    def plan(self, terms: config.Subscriptions) -> Plan:
        """What worker processes subscribe by."""

    def read(self, admission: Admission, framing: Framing, near: Transport | None) -> Source:
        """The events of one who has been let in."""

    def feed(self, topic: str, stream: FrameStream, framing: Framing, error_event: str) -> None:
        """Publish the events of `stream` to `topic`, and finish it when that ends."""

    def feed_afar(
        self,
        number: int,
        topic: str,
        stream: FrameStream,
        error_event: str,
        lines: Lines,
        near: Transport | None,
    ) -> Source:
        """As `feed`, in a worker process: the parent does it, which calls the hub `number`.

        What it has fetched itself for the request of `near` does not come here.
        The source has no bytes: it ends when the topic is the stream's, or fails.
        """

    def take_over(self, stream: FrameStream, framing: Framing) -> Source:
        """What is left of `stream`, cut by `framing`, on the running loop. It is not its owner's any more."""

    def topics(self) -> list[str]:
        """The names of all topics."""

    def close(self) -> None:
        """End all responses to subscribers behind a whole event, and take nothing any more. Idempotent."""

@final
class Admission:
    """A request to subscribe."""

    def step(self) -> asyncio.Future[None] | None:
        """Go on. None: it is decided; else a future of when to ask again. Raises what refuses it."""

    def head(self) -> tuple[int, list[tuple[str, str]]] | None:
        """Status and fields of the response; None before it is decided, and once somebody serves it."""

    def close(self) -> None:
        """Give it up. Idempotent."""

@final
class Lease:
    """How long a subscription may go on."""

    def __new__(cls, seconds: float) -> Self:
        """For so many seconds from now on."""

    def renew(self, seconds: float | None) -> None:
        """For so many seconds from now on, in place of what was said before. 0 ends it behind a whole event."""

@final
class Topics:
    """Requests for topics that the engine answers alone."""

    def __new__(
        cls,
        name: str,
        host: str | None,
        prefix: str,
        hub: Hub,
        terms: config.Subscriptions,
        limits: config.RouteLimits,
        response: HeaderEdits,
        gate: Gate | None,
    ) -> Self: ...

@final
class AccessLog:
    """The lines of an access log, until Python takes them."""

    def __new__(cls) -> Self: ...
    def take(self) -> tuple[list[str], int] | None:
        """Wait for lines and take them, with how many were dropped behind them; None at the end of a closed log."""

    def close(self) -> None:
        """No more lines come."""

@final
class Site:
    """One way in: listeners and their connections."""

    def __new__(
        cls,
        engine: Engine,
        settings: config.Edge,
        natives: Sequence[Route | Topics],
        access_log: AccessLog | str | None,
        lane: Lane | None,
        own_log: bool = False,
    ) -> Self:
        """What no route matches goes to `lane`.

        `access_log` is the path of a file, or "-" for standard error, or others take its lines. With `own_log` the
        application logs what it answers by itself.
        """

    def listen_tcp(self, address: str, port: int) -> tuple[str, int]:
        """Listen to an address, and return it with the port that it got."""

    def listen_unix(self, path: str) -> None:
        """Listen to a Unix socket."""

    def listen_fd(self, descriptor: int) -> None:
        """Accept on a socket that is bound, or listens already. The descriptor stays the caller's."""

    def set_routes(self, natives: Sequence[Route | Topics]) -> None:
        """Replace all routes. Requests that are being answered go on by the old ones."""

    def drain(self) -> None:
        """Take no new connection; those that are open end with the response that is under way."""

    def close(self) -> None:
        """Cut off every connection."""

    def idle(self) -> asyncio.Future[None]: ...
    def active(self) -> int:
        """Requests that are being answered."""

    def waited_for(self) -> list[tuple[str, str, int]]:
        """Lane, route and number of requests that are being answered, on all sites of the engine."""

    def counts(self) -> SiteCounts: ...

@final
class SiteCounts:
    """What a site has counted."""

    @property
    def connections(self) -> int:
        """Connections that are open."""
    @property
    def accepted(self) -> int:
        """Connections so far."""
    @property
    def requests(self) -> int:
        """Requests so far."""
    @property
    def refused(self) -> int:
        """Requests that were refused so far."""

@final
class Status:
    """Pages about an engine, on a listener and a thread of their own."""

    def __new__(
        cls, engine: Engine, settings: config.Status, edge: config.Edge, pool: config.Pool
    ) -> Self: ...
    def listen_tcp(self, address: str, port: int) -> tuple[str, int]:
        """Listen to an address, and return it with the port that it got."""

    def listen_unix(self, path: str) -> None:
        """Listen to a Unix socket."""

    def close(self) -> None:
        """End all of it, and wait for the thread."""

@final
class Inspection:
    """What responses are looked at for."""

    def __new__(cls, settings: config.Inspection) -> Self: ...
    def amends(self, content_type: str | None, content_encoding: str | None) -> bool:
        """Whether a request with these fields may be amended."""

    def amend(self, body: bytes) -> bytes | None:
        """A request's body with what is added to it; None if it stays as it is."""

@final
class Counts:
    """What the responses of a route come to."""

    def __new__(cls, name: str) -> Self:
        """Of the route of that name."""

    def add_to(self, engine: Engine) -> None:
        """Add the counts to the metrics of `engine`."""

    def stats(self) -> InspectionStats: ...
    def add(self, stats: InspectionStats) -> None:
        """Add what another process has counted.

        Raises:
            ConfigurationError: its histograms have other buckets.
        """

@final
class Report:
    """What was seen of one response; see `penstock.web.Inspected`."""

    @property
    def content(self) -> Literal["events", "json", "other"]: ...
    @property
    def amended(self) -> bool: ...
    @property
    def events(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def first_token(self) -> float | None: ...
    @property
    def longest_gap(self) -> float | None: ...
    @property
    def total(self) -> float: ...
    @property
    def usage(self) -> builtins.bytes | None:
        """The usage as the origin has written it: an object of JSON."""
    @property
    def hidden(self) -> Literal["encoded", "too_large"] | None: ...

@final
class RequestEnd:
    """What became of a request on a native route."""

    @property
    def method(self) -> str: ...
    @property
    def target(self) -> str:
        """Path and query as they came."""
    @property
    def client(self) -> str | None:
        """The client's address; None on a Unix socket."""
    @property
    def status(self) -> int | None:
        """What the client was sent; None if it was sent no response."""
    @property
    def bytes(self) -> int:
        """Bytes of the body that the client was sent."""
    @property
    def timings(self) -> Timings | None:
        """None if no origin was asked."""
    @property
    def error(self) -> PenstockError | None:
        """Why it ended before its end."""
    @property
    def report(self) -> Report | None:
        """What was seen of the response, if it was inspected."""
    @property
    def tenant(self) -> str | None:
        """On whose account it was, if that was decided."""

@final
class Inspector:
    """What is known of one response."""

    def __new__(
        cls,
        engine: Engine,
        inspection: Inspection,
        counts: Counts,
        amended: bool,
        near: Transport | None,
    ) -> Self: ...
    def begin(self, stream: FrameStream) -> bool:
        """Take the head of `stream`, and say whether it has to be cut into events."""

    def over(self) -> asyncio.Future[None]:
        """Done when the response is over."""

    def report(self) -> Report:
        """End it, and say what was seen."""

@final
class Expected:
    """What is known of one response in a worker process, whose parent has it fetched and inspected."""

    def __new__(cls, engine: Engine, amended: bool) -> Self: ...
    def is_over(self) -> bool: ...
    def over(self) -> asyncio.Future[None]:
        """Done when the response is over."""

    def report(self) -> Report | None:
        """Say what was seen, once it is over; None before, and where nobody could say."""

_Places: TypeAlias = tuple[str, Sequence[str], bool]

def signed_url(secrets: list[tuple[str | None, bytes]], at: _Places) -> Verifier:
    """What verifies signed URLs: ids and secrets; the token's name, its places, and whether the origin gets it too."""

class _Key(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def id(self) -> str | None: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def key(self) -> bytes: ...

@final
class Jwt:
    """What verifies JSON Web Tokens."""

    def __new__(
        cls,
        keys: Sequence[_Key],
        claims: tokens.Jwt,
        at: _Places,
        longest: int,
    ) -> Self:
        """`keys`: a `kind` is `"secret"`, `"pem"` or `"jwk"`. The algorithm of a JSON Web Key may be its own."""

    def verifier(self) -> Verifier:
        """What stands before a route."""

    def fetched_by(self, engine: Engine, fetch: Callable[[], None], pause: int) -> None:
        """Have `fetch` called on the running loop when keys are wanted, no more than once in `pause` seconds."""

    def set_keys(
        self, text: bytes, names: Sequence[str], most: int, refresh: int, expires: int
    ) -> tuple[int, int]:
        """Take a set of keys: how many can be used, and how many cannot. Times are seconds since 1970."""

    def verify(self, token: bytes, path: str, now: int | None) -> tuple[str | None, int | None, list[str]]:
        """Tenant, until when, for which paths; at a time in seconds since 1970, or now."""

@final
class Lane:
    """The application's side of a site: gives each request to a protocol. Of the running loop."""

    def __new__(
        cls,
        engine: Engine,
        factory: Callable[[], Any],
        socket: Callable[[Transport], Any],
        fault: Callable[[str | None, PenstockError, bool], object],
        waiting: int,
        limit: float | None,
        untold: int,
        path: str | None,
    ) -> Self:
        """`factory` makes a protocol, `socket` what `get_extra_info("socket")` returns.

        `fault` is told of a response that was cut off, or of what befell the site: the request or None, what was wrong,
        and whether the response is a relay's that the application has handed over.
        """

    def drain(self) -> None:
        """Take no more requests; those that wait go to the application now."""

    def close(self) -> None:
        """Let go of everything. Idempotent."""

    def counts(self) -> tuple[int, int, int]:
        """Requests that wait, protocols that are idle, streams that the engine sends for handlers that are done."""

@final
class Transport:
    """A duck type of `asyncio.Transport`: one exchange after the other with clients of the engine."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...
    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None: ...
    def write_eof(self) -> None: ...
    def can_write_eof(self) -> bool: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def is_closing(self) -> bool: ...
    def is_reading(self) -> bool: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_protocol(self) -> Any: ...
    def set_protocol(self, protocol: Any) -> None: ...
    def get_extra_info(self, name: str, default: Any = None) -> Any: ...
    def get_write_buffer_size(self) -> int: ...
    def get_write_buffer_limits(self) -> tuple[int, int]: ...
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def send_file(self, descriptor: int, offset: int, count: int) -> asyncio.Future[int]:
        """Have the engine send `count` bytes of a file from `offset`. The future gives how many were sent."""
    def request_fields(
        self,
        request: Any,
        forwarding: Forwarding,
        replaced: Sequence[tuple[str, str | None]] | None,
    ) -> Fields:
        """Make the fields of an aiohttp request that go to the origin; see `Forwarding.request_fields`."""

    def hand_over(self, relay: Relay, target: str, engine: Engine) -> bool:
        """Have the engine answer by `relay` as on a native route; `target` is what the origin is asked for.

        False: it cannot, and nothing has been done. The request has a body, `engine` is not that of the client, or this
        is a worker process.
        """

    def relay(
        self,
        request: Any,
        stream: FrameStream,
        forwarding: Forwarding,
        events: Framing,
        closes: bool,
        rest: Rest,
    ) -> int:
        """Have the engine send the whole response: a head made of that of `stream`, and the body.

        Returns how many bytes the head has.
        """

    def attach_rest(self, stream: FrameStream, rest: Rest) -> None:
        """Have the engine send the rest of the body, after the head that was written."""

    def leave_body(self, told: Callable[[], object]) -> bool:
        """In a worker process: leave the rest of the request body to the parent, for the next fetch.

        `told` is called after the last bytes that do come here. False: the whole body is here already.
        """

    def attach_topic(
        self, admission: Admission, on_end: Callable[[int, PenstockError | None, bool], object]
    ) -> None:
        """Have the engine send the events of an admitted subscription. `on_end` is as in `attach_rest`."""

    def attach_part(self, stream: FrameStream) -> asyncio.Future[int]:
        """Have the engine send `stream` as a part of the body. The future gives how many bytes were sent."""

    def get_option(self, level: int, name: int, size: int) -> bytes | None:
        """Read an option of the client's socket. None in a worker process, which has no socket."""

    def set_option(self, level: int, name: int, value: int) -> None:
        """Set an option of the client's socket to a number. In a worker process the parent sets it later."""

    def end_response(self, free: bool) -> None:
        """End the protocol's response. `free`: the protocol can take another request."""

    def note(self, tenant: str | None, failure: int | None) -> None:
        """Set tenant and error code of the request in the access log."""

    def lose(self) -> None:
        """Call the protocol's `connection_lost`."""

@final
class Source:
    """A stream that was started and waits for its `FrameStream`."""

@disjoint_base
class FrameStream:
    """The base of `penstock.FrameStream`."""

    def __new__(cls, source: Source) -> Self: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Awaitable[Frame]: ...
    @property
    def closed(self) -> bool:
        """Whether its consumer has closed it."""
    # For the subclass alone.
    def _head(self) -> Awaitable[None]: ...
    def _set_framing(self, framing: Framing) -> None: ...
    def _join(self, frames: list[Frame]) -> bytes: ...
    def _headers(self) -> _Fields: ...
    def _trailers(self) -> _Fields: ...
    def _held(self) -> tuple[int, int]: ...
    def _close(self) -> None: ...

# Functions, because methods would be public ones of `penstock.FrameStream` and `penstock.Response`.

def relay_head(
    stream: FrameStream, forwarding: Forwarding, write: Callable[[bytes], object] | None
) -> Awaitable[None]:
    """Wait for the head. `write` gets the bytes of each interim response; None drops them."""

def status_line(stream: FrameStream) -> tuple[int, str, int] | None:
    """Status, reason and minor version of HTTP; None before the head."""

def response_fields(stream: FrameStream, forwarding: Forwarding) -> list[tuple[str, str]]:
    """The fields that a gateway sends to its client; empty before the head."""

def timings_of(stream: FrameStream) -> Timings | None:
    """The timings of the stages so far; None before the head."""

def next_batch(stream: FrameStream, most: int) -> Awaitable[list[Frame]]:
    """Wait for frames: at least one, at most `most`. The awaitable can be awaited again for the next ones."""

def take_ready(stream: FrameStream, most: int) -> list[Frame]:
    """The frames that are ready, at most `most`."""

def is_done(stream: FrameStream) -> bool:
    """Whether the source has ended well and no frame waits."""

@final
class Upload:
    """A request body on its way to the engine."""

    def room(self, size: int) -> Awaitable[None]: ...
    def write(self, data: Buffer, offset: int, length: int) -> None: ...
    def finish(self) -> None: ...
    def fail(self, reason: str) -> None: ...

@final
class Upstream:
    """Several origins that stand in for one another; see `penstock.Origins`."""

    def __new__(
        cls,
        identity: Endpoint,
        members: Sequence[tuple[Endpoint, config.Origin]],
        balance: str,
        key: str,
        health: config.Health,
        check: config.Check | None,
        retries: config.Retries,
    ) -> Self: ...
    @property
    def endpoint(self) -> Endpoint:
        """What requests are sent to in place of an origin."""
    def set(self, members: Sequence[tuple[Endpoint, config.Origin]]) -> None: ...
    def stats(self, urls: Sequence[str]) -> OriginsStats:
        """What is known of the origins. `urls` are theirs, in their order."""

@final
class OriginNotice:
    """What there is to say of an origin."""

    @property
    def origin(self) -> str:
        """`scheme://authority`."""
    @property
    def address(self) -> str | None:
        """The address that was connected to, if one was."""
    @property
    def event(self) -> str:
        """What has happened, such as the name of an error code."""
    @property
    def reason(self) -> str:
        """Why, in a sentence."""
    @property
    def is_good(self) -> bool:
        """Whether the origin can be used again."""
    @property
    def left_out(self) -> int:
        """How many more of the kind there were since the notice before."""

@final
class Engine:
    """Threads, pool and origins."""

    def __new__(
        cls,
        threads: int,
        pool: config.Pool,
        flow: config.Flow,
        reads: config.Reads,
        limits: config.OriginLimits,
        tls: config.Tls,
    ) -> Self: ...
    def open_file(self, path: str, offset: int, length: int | None, framing: Framing) -> Source: ...
    def open_fd(self, descriptor: int, framing: Framing) -> Source: ...
    def open_process(
        self,
        arguments: list[str],
        directory: str | None,
        environment: list[tuple[str, str]] | None,
        framing: Framing,
    ) -> Source: ...
    def notices(self) -> list[str]: ...
    def tell_of_origins(self, tell: Callable[[OriginNotice], object]) -> None:
        """Have `tell` called with each notice, on the loops that the engine is used on."""
    def address_range(self) -> tuple[int, int]: ...
    def stats(self) -> EngineStats: ...
    def add_upstream(self, upstream: Upstream) -> None:
        """Have what it comes to among the metrics."""

    def metrics(self, open: bool) -> str:  # noqa: A002
        """All metrics, in Prometheus' text format, or as OpenMetrics."""

    def stop(self) -> None: ...
    def join(self) -> None: ...
    def close(self) -> None: ...

def fetch(
    engine: Engine,
    endpoint: Endpoint,
    method: str,
    target: str,
    headers: Fields,
    body: bytes | None,
    timeouts: Timeouts,
    framing: Framing | None,
    caching: tuple[Caching, config.Overrides | None] | None,
    near: Transport | None,
    plan: tuple[bytes, config.Overrides | None, Expected | None] | None = None,
) -> Source:
    """Send a request, and return the response as a source. `near`: the transport of the client that it is for.

    With a `plan`, in a worker process, the parent sends it.
    """

def fetch_upload(
    engine: Engine,
    endpoint: Endpoint,
    method: str,
    target: str,
    headers: Fields,
    length: int | None,
    timeouts: Timeouts,
    framing: Framing | None,
    caching: tuple[Caching, config.Overrides | None] | None,
    near: Transport | None,
    plan: tuple[bytes, config.Overrides | None, Expected | None] | None = None,
    is_clients: bool = False,
    is_tunnel: bool = False,
) -> tuple[Source, Upload]:
    """As `fetch`, for a body that is written to the upload."""

def relay_seen(
    engine: Engine,
    stream: FrameStream,
    policy: EventPolicy | None,
    drain: Drain | None,
    inspector: Inspector | None,
) -> Source:
    """The body of `stream` as a client gets it: events by `policy`, seen by `inspector`.

    A consumer that closes the source counts as a client that disconnects; `drain` says what happens then.
    """

def watch(engine: Engine, stream: FrameStream, inspector: Inspector | None) -> tuple[Source, Watched]:
    """As `relay_seen`, for a stream that is read to its end for no client, and how it ends."""

def read_on(
    engine: Engine,
    stream: FrameStream,
    drain: Drain | None,
    policy: EventPolicy | None,
    inspected: tuple[Inspector, Framing] | None,
) -> None:
    """The client of `stream` has disconnected: read on by `drain`, or by `policy` if it is an event stream."""

@final
class Plan:
    """What a worker process' relays or subscriptions go by."""

    def __new__(cls, relay: Relay) -> Self:
        """Of relays; of subscriptions it is made by `Hub.plan`."""

@final
class Answer:
    """What a worker process waits for that has a topic fed."""

    def done(self) -> None: ...
    def failed(self, name: str, detail: str, origin: str | None) -> None:
        """Say the error, by the name of its code."""

@final
class FeedRequest:
    """A worker process wants a topic to be fed."""

    @property
    def hub(self) -> int:
        """What the hub is called."""
    @property
    def topic(self) -> str: ...
    @property
    def error_event(self) -> str:
        """The type of the event that tells of a failure."""
    @property
    def source(self) -> Source:
        """What the topic is fed by."""
    @property
    def answer(self) -> Answer:
        """Told whether the topic is fed."""

@final
class OrphanEnd:
    """The end of a relay whose worker is gone."""

    @property
    def account(self) -> builtins.bytes:
        """What the worker has left for that."""
    @property
    def bytes(self) -> int:
        """Bytes of the body that the client was sent."""
    @property
    def error(self) -> PenstockError | None: ...
    @property
    def begun(self) -> bool:
        """Whether any of the head was sent."""
    @property
    def timings(self) -> Timings | None:
        """None if there was no head."""
    @property
    def report(self) -> Report | None:
        """What was seen of the response, if it was inspected."""

@final
class Workers:
    """The worker processes of a site, which answer what `lane` has no application for. Of the running loop."""

    def __new__(
        cls,
        engine: Engine,
        lane: Lane,
        make_plan: Callable[[bytes], Plan],
        feed: Callable[[FeedRequest], object],
        orphan: Callable[[OrphanEnd], object],
        silent: Callable[[int, float], object],
    ) -> Self:
        """`make_plan` makes what a description says, `silent` is told for how long a worker's loop has given no sign.

        `feed` has a topic fed, `orphan` is told the end of a relay whose worker is gone.
        """

    def add(self, number: int, generation: int, path: str) -> asyncio.Future[None]:
        """Reach the worker `number`, which listens at `path`."""

    def switch(self, generation: int) -> None:
        """Have requests go to workers of this generation from now on."""

    def retire(self, number: int) -> None:
        """Send no more requests to a worker."""

    def remove(self, number: int) -> None:
        """A worker is gone."""

    def restarted(self, reason: Literal["ended", "hung", "reloaded"], count: int) -> None:
        """So many workers were started in the place of others. ValueError: there is no such reason."""

    def busy(self, number: int) -> int:
        """Requests that a worker has."""

    def close(self) -> None:
        """Let go of everything; nothing is told any more. Idempotent."""

@final
class Lines:
    """What a worker process has with its parent besides requests."""

    def __new__(cls) -> Self: ...

@final
class WorkerSite:
    """The application's side in a worker process, in the place of a `Site`."""

    def __new__(cls, engine: Engine, lane: Lane, descriptor: int, parent: int, lines: Lines) -> Self:
        """Accept on `descriptor`, a Unix socket; only the process `parent` may connect. It stays the caller's."""

    def drain(self) -> None:
        """Take no more requests."""

    def close(self) -> None:
        """Break off everything."""

    def active(self) -> int:
        """Requests that are open."""

    def idle(self) -> asyncio.Future[None]:
        """Done when no request is open. Only one may be waited for at a time."""

@final
class Watched:
    """How a stream ends that is read for no client."""

    def over(self) -> asyncio.Future[None]: ...
    def outcome(self) -> tuple[int, PenstockError | None] | None:
        """Bytes that were read, and the error that ended them; None before the end."""
