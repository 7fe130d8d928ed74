"""The boundary between the engine and Python. Private: use the names that `penstock` exports."""

import asyncio
import builtins
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NoReturn,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    final,
    overload,
)

from typing_extensions import Buffer, disjoint_base

from . import config, tokens
from .cache import CacheStats, StoredResponse
from .engine import OriginRequest
from .exceptions import ErrorCode, PenstockError
from .hub import HubStats, TopicStats
from .log import Entry, LogStats
from .origins import OriginsStats
from .serving.relay_spec import Handles, RelaySpec
from .serving.upgrade_messages import Stream, Subscriber, TicketKey
from .stats import DecisionStats, DiskStats, EngineStats, InspectionStats, TenantStats, Timings
from .web.handover import Rest
from .web.topics import TopicsRoute

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
    "Done",
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
    "HttpPages",
    "Hub",
    "HubAnswer",
    "Inspection",
    "Inspector",
    "Jwt",
    "Lane",
    "Lease",
    "Limiter",
    "Lines",
    "LoadOrigin",
    "LoadRun",
    "LoopPort",
    "MovingCache",
    "MovingStream",
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
    "TicketSecret",
    "Timeouts",
    "TlsSession",
    "TopicClaim",
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
    "adopt_client",
    "ask",
    "begin_all_streams",
    "begin_moving_streams",
    "begin_streams",
    "claim_listener",
    "clients_given_away",
    "close_given_listeners",
    "decision_secret",
    "end_moving_streams",
    "end_to_end",
    "entry",
    "entry_line",
    "error_table",
    "fetch",
    "fetch_upload",
    "field_texts",
    "follow_hub",
    "give_clients_away",
    "give_listeners",
    "gives_clients_away",
    "hand_over_hubs",
    "has_dot_segments",
    "hide",
    "hold_clients",
    "hub_names",
    "is_done",
    "is_target",
    "lead_hub",
    "let_clients_in",
    "listeners",
    "next_batch",
    "offers_websocket",
    "parse_toml",
    "read_on",
    "relay_head",
    "relay_seen",
    "response_fields",
    "self_signed",
    "shown",
    "signed_url",
    "status_line",
    "streams_to_move",
    "take_decision_secret",
    "take_ready",
    "take_ticket_secrets",
    "take_up_stream",
    "take_up_subscriber",
    "ticket_secrets",
    "timings_of",
    "usual_fields",
    "watch",
]

__version__: Final[str]
BUILD_PROFILE: Final[str]

_T_co = TypeVar("_T_co", covariant=True)
_Stream = TypeVar("_Stream", bound=FrameStream)
_Fields: TypeAlias = list[tuple[bytes, bytes]]

def error_table() -> list[ErrorCode]:
    """Every error code, ascending."""

@final
class LoadRun:
    """A run of the load generator, on threads of its own."""

    def __new__(cls, plan: str) -> Self:
        """Start a plan, which is JSON.

        Raises:
            ValueError: it is no plan.
            RuntimeError: a thread cannot be started.
        """

    def progress(self) -> tuple[int, int, int, int, int, int]:
        """Sessions that began, ended and were dropped; responses, bytes and failed requests."""

    def wait(self, seconds: float) -> bool:
        """Wait for the end for so many seconds at most. Whether it has come."""

    def stop(self) -> None:
        """Have the run end early. What was recorded is kept."""

    def records(self) -> str:
        """Wait for the end, and take what was recorded, as JSON.

        Raises:
            RuntimeError: the target has no address, or the records have been taken.
        """

@final
class LoadOrigin:
    """An origin that makes up what it serves, on a free port of 127.0.0.1."""

    def __new__(cls, settings: str) -> Self:
        """Start it; `settings` is JSON.

        Raises:
            ValueError: it is not the JSON of settings.
            OSError: there is no port.
        """

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""

    def close(self) -> None:
        """End it."""

def self_signed(names: Sequence[str]) -> tuple[str, str]:
    """A certificate for `names` that is signed by its own key, and the key, as PEM. It is valid for a week."""

def parse_toml(
    text: str,
) -> tuple[dict[str, Any], list[tuple[tuple[int, int], str]]]:
    """The table of a document, and what is wrong with its syntax: each with a line and a column.

    A table is a dict of keys to their position and their node. A node is a position and a value: a table, a list of
    nodes, a text, a number, a truth value, or a tuple with the text of a time.
    """

def hide(name: str) -> None:
    """Hide the values of the parameter `name` in the logs of this process from now on."""

def shown(target: str) -> str:
    """The target of a request for logs, without the values of tokens."""

@final
class Awaitable(Generic[_T_co]):
    """What `await` drives. One task at a time."""

    def __await__(self) -> Generator[Any, None, _T_co]: ...
    def __iter__(self) -> Generator[Any, None, _T_co]: ...
    def __next__(self) -> Any: ...
    def throw(
        self, kind: object, value: BaseException | None = None, traceback: TracebackType | None = None
    ) -> NoReturn: ...
    def close(self) -> None: ...

@final
class Done:
    """What `await` drives where there is nothing to wait for."""

    def __await__(self) -> Generator[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...

def hold_clients() -> None:
    """From now on no listener of this process accepts; clients wait in the kernel's queue."""

def let_clients_in() -> None:
    """From now on the listeners of this process accept."""

def listeners() -> list[int]:
    """Duplicates of the sockets that engines listen to, in the order in which they began. They are the caller's."""

def give_listeners(descriptors: list[int]) -> None:
    """Have listeners be opened on duplicates of `descriptors` where these have their addresses."""

def close_given_listeners() -> None:
    """Close the sockets that were given and that nothing listens to."""

def give_clients_away() -> None:
    """From now on connections on which no request is under way are given away, instead of closed, when a site drains."""

def gives_clients_away() -> bool:
    """Whether connections are given away."""

def clients_given_away(most: int, within: float) -> list[int]:
    """Up to `most` connections to give away, after at most `within` seconds. They are the caller's."""

def adopt_client(descriptor: int) -> bool:
    """Serve a duplicate of a connection that another process has accepted. False: nothing listens there."""

@final
class MovingCache:
    """What is left to move of a cache to the cache of another process."""

    def write(self, descriptor: int, most: int) -> int:
        """Write records of about `most` bytes to a file. How many: 0 when all have been written."""

@final
class MovingStream:
    """An event stream that is neither read nor written. Unless it is given, it goes on here when this is dropped."""

    @property
    def client(self) -> int:
        """The descriptor of the client's connection, which is this object's."""

    @property
    def origin(self) -> int | None:
        """The descriptor of the origin's connection, which is this object's; None for a subscriber of a hub."""

    @property
    def place(self) -> tuple[str, bool] | None:
        """The id of the event before the place of a subscriber, and whether it was sent an event; None for a relay."""

    @property
    def request(self) -> str:
        """The head of the request, with a character for each byte."""

    @property
    def response(self) -> str:
        """The head of the origin's response, with a character for each byte."""

    @property
    def sent(self) -> int:
        """Bytes that the client was sent after the head of its response."""

    @property
    def payload(self) -> int:
        """Bytes of the body among them."""

    @property
    def elapsed(self) -> float:
        """Seconds since the request came."""

    @property
    def first_byte(self) -> float:
        """Seconds from the request to the head of the response."""

    def give(self) -> None:
        """It is the next process's. The descriptors are closed."""

    def keep(self) -> None:
        """It goes on here. The descriptors are closed."""

def begin_moving_streams() -> None:
    """From now on event streams move when they are asked to."""

def end_moving_streams() -> None:
    """No more event streams move."""

def streams_to_move(most: int, within: float) -> list[MovingStream] | None:
    """Up to `most` streams to move, after at most `within` seconds; None if all have moved that may."""

def take_up_stream(stream: Stream, client: int, origin: int) -> str | None:
    """Take up a stream of another process, with duplicates of the descriptors. Why it cannot go on here, if so."""

def take_up_subscriber(subscriber: Subscriber, client: int) -> str | None:
    """Take up a subscriber of another process, with a duplicate of the descriptor. Why it cannot go on here, if so."""

def hub_names() -> list[str]:
    """The names of the hubs of this process; one of two hubs is there twice."""

def lead_hub(name: str, descriptor: int) -> bool:
    """Have the process at the other end of a duplicate of the socket follow the hub. False: there is no such hub."""

def follow_hub(name: str, descriptor: int, within: float) -> bool:
    """Have the hub follow that of the process at the other end of a duplicate of the socket.

    Returns when it has all of it: whether that process has such a hub.
    """

def hand_over_hubs(within: float) -> int:
    """Have the next process give the events of hubs their order. Returns when it does, with the number of hubs."""

@final
class TicketSecret:
    """A secret that keys of session tickets are derived from. Times are seconds since 1970."""

    @property
    def period(self) -> float:
        """Seconds for which it seals."""

    @property
    def secret(self) -> str:
        """In hexadecimal digits."""

    @property
    def made(self) -> float:
        """When it was made."""

    @property
    def until(self) -> float:
        """Until when it opens tickets."""

def ticket_secrets() -> list[TicketSecret]:
    """The random secrets of session tickets of this process."""

def take_ticket_secrets(secrets: Sequence[TicketKey]) -> None:
    """Begin with the random secrets of another process. What cannot be a secret is dropped."""

def decision_secret() -> str:
    """The secret of this process that keys of decisions are made with, in hexadecimal digits."""

def take_decision_secret(secret: str) -> bool:
    """Have keys of decisions be made with the secret of another process.

    False: it is no secret, or keys were made already.
    """

def begin_streams(numbers: Sequence[int]) -> None:
    """Begin with the streams of these numbers, which were taken up."""

def begin_all_streams() -> None:
    """Begin with all streams that were taken up."""

def claim_listener(place: str) -> int | None:
    """The socket that was given for an address with its port, or `unix:` and a path. It is the caller's."""

@final
class LoopPort:
    """Where engine threads wake an event loop."""

    def drain(self) -> None: ...
    def tell(self) -> None: ...

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
    """An origin: connections are pooled by it."""

    def __new__(cls, scheme: str, host: str, port: int, unix: str | os.PathLike[str] | None) -> Self: ...
    @property
    def authority(self) -> str:
        """The value of `Host`, unless the request has its own."""

@final
class Timeouts:
    """Limits on time in seconds; see `penstock.config.Timeouts`."""

    def __new__(
        cls,
        settings: config.Timeouts,
        lets_events_pause: bool,
    ) -> Self:
        """`lets_events_pause`: the consumer limits the pauses of event streams itself."""

@final
class Fields:
    """Header fields, ready for requests."""

    def __new__(cls, pairs: Sequence[tuple[bytes, bytes]]) -> Self: ...

def usual_fields(headers: object) -> tuple[Fields, int | None] | None:
    """The fields of a mapping or of pairs, without Content-Length, and its value.

    None if something of them is unusual: another class, a lone surrogate, a Content-Length that is no number.
    """

def offers_websocket(method: str, version: tuple[int, int], fields: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether a request is a valid WebSocket handshake."""

def is_target(target: str) -> bool:
    """Whether a target is valid in origin-form."""

def has_dot_segments(target: str) -> bool:
    """Whether an origin could resolve the path of a target to another one."""

@final
class Forwarding:
    """Which fields each side gets of the other's, and which are added."""

    def __new__(
        cls,
        policy: config.Forwarding,
        fill: config.Caching | None = None,
        redirects: tuple[Endpoint, str, str] | None = None,
    ) -> Self:
        """`fill`: the response may be stored for other clients.

        `redirects`: the origin, the prefix of its paths, and the prefix for clients.
        """

    def request_fields(
        self,
        request: Any,
        received: Sequence[tuple[bytes, bytes]] | None,
        replaced: Sequence[tuple[str, str | None]] | None,
        added: Sequence[tuple[str, str]] | None,
    ) -> Fields:
        """The fields of an aiohttp request that go to the origin.

        `received` are in place of all fields of the request. `replaced` are in place of those of their names; None
        removes them. `added` come after those.
        """

@final
class Relay:
    """A relay that an engine can carry out."""

    def __new__(cls, spec: RelaySpec, handles: Handles, engine: Engine) -> Self: ...

@final
class Route:
    """A native route, and the callback for the ends of its requests."""

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
    """The decisions about requests, and the hook that is asked."""

    def __new__(cls, settings: config.Access) -> Self: ...
    def add_to(self, engine: Engine) -> None:
        """Add the counts to the metrics of `engine`."""

    def listen(self, engine: Engine, pose: Callable[[Question], object]) -> None:
        """Call `pose` with each question, on the running loop."""
    def revoke(self, tenant: str | None, cut: bool) -> tuple[int, int]:
        """Revoke the decisions about a tenant, or all. Returns their number, and that of the responses that were cut."""
    def tenants(self) -> dict[str, TenantStats]:
        """The counts of each tenant, by name."""
    def renew(self, tenant: str) -> bool: ...
    def write_records(self, descriptor: int, content: str, most: int) -> tuple[int, int]:
        """Write records to a file, up to `most` bytes. How many decisions and tenants are in it.

        `content` is `all`: what is cached and the bytes of tenants; `totals`: the bytes of tenants; or `growth`: their
        bytes since the last call.
        """

    def take_records(self, descriptor: int, has_decisions: bool) -> tuple[int, int]:
        """Take the records in a file, from its beginning. How many decisions and tenants were taken."""

    def stats(self) -> DecisionStats: ...

@final
class Verifier:
    """Decides by a token of the request."""

    def forwarded(self, headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """The fields of a client without the token, for the origin."""

@final
class Gate:
    """The gate of a route."""

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
        """Revoke the decision about requests with these values for the parts of the key."""
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
        """Ask for a request. None: the decision was revoked meanwhile, and the caller asks again."""

@final
class Waiting:
    """A request that waits for the answer to a question."""

    def wait(self) -> tuple[asyncio.Future[None], float]:
        """A future that is done when there is an answer, and the seconds until it is too late."""
    def result(self) -> Permit | Refused | None:
        """The result, as of `Gate.enter`. A request that has waited for too long is refused."""

@final
class Permit:
    """A request that was let in, until `leave` is called."""

    @property
    def target(self) -> str | None:
        """Path and query without a token; None: as the client sent them."""
    @property
    def tenant(self) -> str | None: ...
    @property
    def left(self) -> float:
        """Seconds until the decision expires."""
    def cut(self) -> asyncio.Future[None]:
        """A future that is done when the response is to be cut."""
    def sent(self, count: int) -> float:
        """Count bytes for the tenant. Returns the seconds to wait before more is sent."""
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
    """The request of a question."""

    @property
    def route(self) -> str:
        """The name of the route."""
    @property
    def method(self) -> str: ...
    @property
    def target(self) -> str:
        """Path and query, as the client sent them."""
    @property
    def authority(self) -> str:
        """The requested host, and its port."""
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
    """A question. If it is dropped, it has failed."""

    def request(self) -> AskedRequest | None:
        """The request; None after the answer."""
    def allow(self, lifetime: float, tenant: str | None, limits: config.TenantLimits | None) -> None: ...
    def deny(self, lifetime: float, status: int, detail: str | None, challenge: str | None) -> None: ...
    def fail(self, late: bool) -> None: ...

@final
class Drain:
    """How bodies are read on after their clients have disconnected, and how many at a time."""

    def __new__(cls, settings: config.Drain) -> Self: ...

@final
class EventPolicy:
    """How event streams are relayed."""

    def __new__(cls, settings: config.EventRelay, drain: Drain | None) -> Self: ...
    def fields(self) -> list[tuple[str, str]]:
        """Default fields of the head."""

@final
class Limiter:
    """The limits of a route, for transports of the event loop's own."""

    def __new__(cls, name: str, limits: config.RouteLimits) -> Self: ...
    def enter(self) -> Entered:
        """Count a request, until it leaves. Raises if the route serves too many."""

@final
class Entered:
    """A request that a limiter has admitted."""

    def leave(self) -> None: ...

@final
class Cache:
    """The stored responses of an engine."""

    def __new__(
        cls, engine: Engine, memory: int, variants: int, disk: tuple[Path, int, float] | None
    ) -> Self:
        """`memory`: bytes of the engine's pool. `variants`: of one URL, at most.

        `disk`: a directory, the bytes of its files, and the seconds to wait for an operation.
        """

    def begin_moving(self) -> MovingCache:
        """Begin to move what is in memory alone to the cache of another process."""

    def release_memory(self) -> int:
        """Drop what is in memory, and give the memory back to the system: so many bytes."""

    def take_records(self, descriptor: int) -> bool:
        """Take the records in a file, from its beginning. False: there is no room for more."""

    def release_directory(self, within: float) -> bool:
        """Write responses of memory alone, for `within` seconds, and unlock the directory. False: the disk hangs."""

    def close(self, within: float) -> bool:
        """As `release_directory`, and end the threads that read."""

    def disk_stats(self) -> DiskStats | None:
        """The counts of the disk, if there is one."""

    def stats(self) -> CacheStats:
        """The sizes, and the results of requests."""

    def purge(self, what: str, value: str, soft: bool) -> int:
        """Purge by "url", "prefix", "tag" or "all". Returns the number of responses."""

    def list(self, prefix: str | None, after: str | None, limit: int) -> tuple[StoredResponse, ...]:
        """The stored responses of the first `limit` URLs that begin with `prefix` and come after `after`."""

@final
class Caching:
    """How a route, a gateway or a request uses a cache."""

    def __new__(cls, cache: Cache, settings: config.Caching, name: str) -> Self:
        """Its requests are counted under `name`. From now on a purge by URL finds its responses."""

@final
class Hub:
    """Topics, their history and their subscribers. Any thread may use it."""

    def __new__(cls, engine: Engine, settings: config.History, external: bool, name: str | None) -> Self:
        """`external`: an external log keeps the events, which come from there by `load` and `take`.

        `name`: what it is called in upgrades, if it is a part of them.
        """

    def publish(
        self,
        topic: str,
        data: str | bytes | bytearray,
        event: str | None,
        named: str | None,
        key: str | None,
        retry: int | None,
    ) -> str | HubAnswer[str]:
        """Publish an event, and return its position. `named`: its id; `retry`: milliseconds."""

    def load(self, topic: str, floor: str, entries: Sequence[Entry]) -> tuple[int, str | None] | None:
        """Open a topic that waits to be loaded, with the entries of an external log after `floor`.

        Returns how many of the entries it refuses, and why the first. None: the topic does not wait.
        """

    def take(
        self, topic: str, entries: Sequence[Entry]
    ) -> tuple[int, str | None, tuple[int, str | None]] | None:
        """Append the next entries of an external log. Returns how many were taken, why not more, and the refused ones.

        None: there is no such topic, or it waits to be loaded.
        """

    def interrupt(self, topic: str, floor: str) -> bool:
        """Tell subscribers that events before `floor` may be missing. False: no such topic, or it waits to be loaded."""

    def deliver(
        self,
        topic: str,
        data: str | bytes | bytearray,
        event: str | None,
        key: str | None,
        retry: int | None,
    ) -> bool:
        """Send an event that is not in the external log. False: there is no such topic."""

    def check(
        self,
        topic: str,
        data: str | bytes | bytearray,
        event: str | None,
        named: str | None,
        key: str | None,
        retry: int | None,
    ) -> None:
        """Raise as `publish`, and publish nothing."""

    def checked(self, topic: str) -> None:
        """The entries that the external log had when the topic was wanted again have been appended."""

    def wanted(self) -> tuple[list[str], asyncio.Future[None]]:
        """Topics to load from the external log, and a future that is done when there are more.

        A second future replaces the first.
        """

    def finish(self, topic: str) -> bool | HubAnswer[bool]:
        """Finish a topic. False: it is finished already."""

    def claim(self, topic: str) -> TopicClaim | HubAnswer[TopicClaim]:
        """Return the right to feed a topic."""

    def stats(self) -> HubStats:
        """The statistics, without `log`."""

    def set_log(self, stats: LogStats) -> None:
        """Set the statistics of its log."""

    def topic_stats(self, topic: str) -> TopicStats | None:
        """The statistics of a topic, if there is one of that name."""

    def subscribe(
        self,
        topic: str,
        after: str | None,
        terms: config.Subscriptions,
        framing: Framing,
    ) -> Source:
        """Subscribe. The source is like the response of an origin: a head, then events."""

    def admit(
        self,
        topic: str,
        after: str | None,
        terms: config.Subscriptions,
        guest: tuple[str | None, str | None],
        lease: Lease | None,
    ) -> Admission:
        """Ask whether a client may subscribe. `guest`: its tenant and address. `lease`: how long it is served."""

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
        """As `admit`, in a worker process: ask the parent. `plan` describes hub and terms.

        The parent then serves the client of `near`, if given.
        """

    def subscribe_afar(
        self, plan: bytes, topic: str, after: str | None, framing: Framing, lines: Lines
    ) -> Source:
        """As `subscribe`, in a worker process."""

    def plan(self, terms: config.Subscriptions) -> Plan:
        """The plan by which worker processes subscribe."""

    def read(self, admission: Admission, framing: Framing, near: Transport | None) -> Source:
        """The events of an admitted subscriber. The engine thread of the client of `near` reads them, if given."""

    def feed(self, claim: TopicClaim, stream: FrameStream, framing: Framing, error_event: str) -> None:
        """Publish the events of `stream` to the topic of `claim`, and finish it when that ends."""

    def feed_afar(
        self,
        number: int,
        topic: str,
        stream: FrameStream,
        error_event: str,
        lines: Lines,
        near: Transport | None,
    ) -> Source:
        """As `feed`, in a worker process: the parent publishes the stream to its hub `number`.

        A body that the parent fetches, for the request of `near`, does not pass here.
        The source has no bytes: it ends when the topic has this feed, or fails.
        """

    def take_over(self, stream: FrameStream, framing: Framing) -> Source:
        """The rest of `stream`, cut by `framing`, on the running loop. It takes the rest from the present owner."""

    def topics(self) -> list[str]:
        """The names of all topics."""

    def close(self) -> None:
        """End all responses to subscribers after a whole event, and refuse further calls. Idempotent."""

@final
class HubAnswer(Generic[_T_co]):
    """A call of a hub that another process answers. Dropped, the call goes on."""

    def step(self) -> asyncio.Future[None] | None:
        """Drive the call. None: it is answered; else a future, after which to call again. Raises what it fails with."""

    def result(self) -> _T_co:
        """What it gives; once."""

@final
class TopicClaim:
    """The right to feed a topic, until this is dropped or used."""

@final
class Admission:
    """A request to subscribe."""

    def step(self) -> asyncio.Future[None] | None:
        """Drive the decision. None: it is decided; else a future, after which to call again. Raises a refusal."""

    def head(self) -> tuple[int, list[tuple[str, str]]] | None:
        """Status and fields of the response; None before the decision, and after the subscriber was taken."""

    def close(self) -> None:
        """Cancel it. Idempotent."""

@final
class Lease:
    """The time limit of a subscription."""

    def __new__(cls, seconds: float) -> Self:
        """It expires `seconds` from now."""

    def renew(self, seconds: float | None) -> None:
        """Expire `seconds` from now instead; None: never. 0 ends the subscription after a whole event."""

@final
class Topics:
    """A native route to topics."""

    def __new__(cls, hub: Hub, route: TopicsRoute, prefix: str, gate: Gate | None) -> Self: ...

@final
class HttpPages:
    """What the engine itself answers to plain HTTP."""

    @staticmethod
    def redirects(port: int) -> HttpPages:
        """Every request is sent to https at `port`."""

    @staticmethod
    def challenges(root: str) -> HttpPages:
        """The answers to challenges of authorities of certificates, which an ACME client writes below `root`."""

    @staticmethod
    def grpc_health(engine: Engine, hung: float, behind: float) -> HttpPages:
        """Whether `engine` is ready, for clients of gRPC. The times are those of `config.Status`, in seconds."""

@final
class AccessLog:
    """An access log: lines that wait for Python, or that a thread writes to a file.

    Raises:
        SystemFailureError: the file cannot be opened (FILE_FAILED).
    """

    def __new__(cls, path: str | None = None, parts: list[tuple[str, str | None]] | None = None) -> Self:
        """`path`: the file, "-" for standard error; None if Python takes the lines. `parts`: of `config.AccessLog`."""

    @staticmethod
    def fields() -> list[tuple[str, str]]:
        """The names of what a line can say, each with what it is."""

    def reopen(self) -> None:
        """Open the file anew."""

    def take(self) -> tuple[list[str], int] | None:
        """Wait for lines. Returns them, and the number dropped after them; None at the end of a closed log."""

    def close(self, seconds: float) -> bool:
        """Close the log, and wait until its lines are in the file. False if they are not after so many seconds."""

@final
class Site:
    """The listeners of a server, and their connections."""

    def __new__(
        cls,
        engine: Engine,
        settings: config.Edge,
        natives: Sequence[Route | Topics | HttpPages],
        access_log: AccessLog | None,
        lane: Lane | None,
        own_log: bool = False,
    ) -> Self:
        """Requests without a route go to `lane`. With `own_log` the application logs its own answers."""

    def listen_tcp(self, address: str, port: int) -> tuple[str, int]:
        """Listen to an address, and return it with the bound port."""

    def listen_unix(self, path: str) -> None:
        """Listen to a Unix socket."""

    def listen_fd(self, descriptor: int) -> None:
        """Listen on a duplicate of a bound or listening socket."""

    def set_routes(self, natives: Sequence[Route | Topics | HttpPages]) -> None:
        """Replace all routes. Requests that are being answered go on by the old ones."""

    def reload_tls(self) -> None:
        """Read the files of certificates anew, on a thread of its own, and have what is wrong with them logged."""

    def drain(self, retry: float) -> None:
        """Take no new connection. Open connections end after the response in progress.

        Clients of event streams that end are told to come back within `retry` seconds, each at a time of its own.
        """

    def end_events(self, over: float) -> None:
        """End event streams whose clients come back in the next `over` seconds, each at a time of its own."""

    def close(self) -> None:
        """Close every connection."""

    def idle(self) -> asyncio.Future[None]: ...
    def active(self) -> int:
        """Requests that are being answered."""

    def waited_for(self) -> list[tuple[str, str, int]]:
        """Lane, route and number of the requests that are being answered, on all sites of the engine."""

    def counts(self) -> SiteCounts: ...

@final
class SiteCounts:
    """The counts of a site."""

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
        """Listen to an address, and return it with the bound port."""

    def listen_unix(self, path: str) -> None:
        """Listen to a Unix socket."""

    def close(self) -> None:
        """Close the listeners, and wait for the thread."""

@final
class Inspection:
    """The rules of an inspection."""

    def __new__(cls, settings: config.Inspection) -> Self: ...
    def amends(self, content_type: str | None, content_encoding: str | None) -> bool:
        """Whether a request with these fields may be amended."""

    def amend(self, body: bytes) -> bytes | None:
        """The amended body of a request; None if there is nothing to amend."""

@final
class Counts:
    """The counts of the inspected responses of a route."""

    def __new__(cls, name: str) -> Self:
        """For the route of that name."""

    def add_to(self, engine: Engine) -> None:
        """Add the counts to the metrics of `engine`."""

    def stats(self) -> InspectionStats: ...
    def add(self, stats: InspectionStats) -> None:
        """Add the counts of another process.

        Raises:
            ConfigurationError: its histograms have other buckets.
        """

@final
class Report:
    """The inspection of one response; see `penstock.web.Inspected`."""

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
    """The end of a request on a native route."""

    @property
    def method(self) -> str: ...
    @property
    def target(self) -> str:
        """Path and query, as the client sent them."""
    @property
    def client(self) -> str | None:
        """The client's address; None on a Unix socket."""
    @property
    def status(self) -> int | None:
        """The status that the client was sent; None without a response."""
    @property
    def bytes(self) -> int:
        """Bytes of the body that the client was sent."""
    @property
    def timings(self) -> Timings | None:
        """None if no origin was asked."""
    @property
    def error(self) -> PenstockError | None:
        """Why the response is incomplete."""
    @property
    def report(self) -> Report | None:
        """The inspection, if the response was inspected."""
    @property
    def tenant(self) -> str | None: ...

@final
class Inspector:
    """The inspection of one response."""

    def __new__(
        cls,
        engine: Engine,
        inspection: Inspection,
        counts: Counts,
        amended: bool,
        near: Transport | None,
    ) -> Self: ...
    def begin(self, stream: FrameStream) -> bool:
        """Take the head of `stream`. Returns whether the body must be cut into events."""

    def over(self) -> asyncio.Future[None]:
        """Done when the response is over."""

    def report(self) -> Report:
        """End the inspection, and return its report."""

@final
class Expected:
    """The inspection of one response in a worker process, whose parent fetches and inspects it."""

    def __new__(cls, engine: Engine, amended: bool) -> Self: ...
    def is_over(self) -> bool: ...
    def over(self) -> asyncio.Future[None]:
        """Done when the response is over."""

    def report(self) -> Report | None:
        """The report; None before the end, or if the parent has sent none."""

_Places: TypeAlias = tuple[str, Sequence[str], bool]

def signed_url(secrets: list[tuple[str | None, bytes]], at: _Places) -> Verifier:
    """A verifier of signed URLs. `at`: the token's name, its places, and whether the origin gets it."""

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
    """Verifies JSON Web Tokens."""

    def __new__(
        cls,
        keys: Sequence[_Key],
        claims: tokens.Jwt,
        at: _Places,
        longest: int,
    ) -> Self:
        """`keys`: a `kind` is `"secret"`, `"pem"` or `"jwk"`. The algorithm of a JSON Web Key may be its own."""

    def verifier(self) -> Verifier:
        """The verifier for a gate."""

    def fetched_by(self, engine: Engine, fetch: Callable[[], None], pause: int) -> None:
        """Call `fetch` on the running loop when keys are to be fetched, at most once in `pause` seconds."""

    def set_keys(
        self, text: bytes, names: Sequence[str], most: int, refresh: int, expires: int
    ) -> tuple[int, int]:
        """Replace the keys by a set. Returns how many can be used, and how many cannot. Times are Unix seconds."""

    def verify(self, token: bytes, path: str, now: int | None) -> tuple[str | None, int | None, list[str]]:
        """The tenant, the time of expiry and the paths of a token, at a time in Unix seconds, or now."""

@final
class Lane:
    """The application's side of a site, on the running loop. It gives each request to a protocol."""

    def __new__(
        cls,
        engine: Engine,
        edge: config.Edge,
        factory: Callable[[], Any] | None,
        socket: Callable[[Transport], Any],
        fault: Callable[[str | None, PenstockError, bool], object],
        path: str | None,
    ) -> Self:
        """`factory` makes a protocol, `socket` what `get_extra_info("socket")` returns.

        Without `factory` there is no application: requests without a route are refused (NO_ROUTE).

        `fault` is called with errors of responses and of the site: the request or None, the error, and whether a
        relay that the application has handed over has failed.
        """

    def drain(self) -> None:
        """Take no more requests. The application gets the waiting ones now."""

    def retire(self) -> None:
        """End the idle protocols, and the others after their responses: from now on each takes one request."""

    def close(self) -> None:
        """Report the ends of requests, abort waiting requests, and close idle protocols. Idempotent."""

    def counts(self) -> tuple[int, int, int]:
        """Waiting requests, idle protocols, and responses that the engine sends after their handlers have returned."""

@final
class TlsSession:
    """The TLS of a client's connection, with the methods of `ssl.SSLObject` that tell about one."""

    def version(self) -> str:
        """The version, such as "TLSv1.3"."""

    def cipher(self) -> tuple[str, str, int]:
        """The name of the cipher suite, the version, and the bits of its key."""

    def selected_alpn_protocol(self) -> str | None:
        """The protocol that was agreed on (ALPN)."""

    @staticmethod
    def compression() -> str | None:
        """Always None: there is no compression."""

    @property
    def server_hostname(self) -> str | None:
        """The name that the client asked for (SNI)."""
    @property
    def session_reused(self) -> bool:
        """Whether the handshake resumed an earlier session."""
    def getpeercert(self, binary_form: bool = False) -> dict[str, Any] | bytes | None:
        """The certificate of the client, as `ssl.SSLSocket.getpeercert` gives it; None if it sent none."""

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
        received: Sequence[tuple[bytes, bytes]] | None,
        replaced: Sequence[tuple[str, str | None]] | None,
        added: Sequence[tuple[str, str]] | None,
    ) -> Fields:
        """As `Forwarding.request_fields`, for a request that this transport has received."""

    def hand_over(self, relay: Relay, target: str, engine: Engine) -> bool:
        """Have the engine answer by `relay` as on a native route. `target`: that at the origin.

        False, without an effect: the request has a body, `engine` is not that of the client, or this
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

        Returns the bytes of the head.
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

    def retires(self) -> bool:
        """Whether the lane, which has retired, ends the protocol: at once, or after the response that it has to send."""

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
    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Done: ...
    @property
    def closed(self) -> bool:
        """Whether its consumer has closed it."""
    # For the subclass alone.
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

def entry(response: _Stream) -> Awaitable[_Stream]:
    """Wait for the head of a response, which is closed if that fails or is cancelled."""

def entry_line(response: FrameStream) -> tuple[int, str, int] | None:
    """As `status_line`; None also before `entry`."""

def end_to_end(message: object) -> list[tuple[str, str]] | None:
    """The end-to-end fields of a response or of pairs. None: it has no head, or Python must look at the pairs itself."""

def field_texts(stream: FrameStream) -> list[tuple[str, str]]:
    """Names and values as received, as text; empty before the head."""

def response_fields(stream: FrameStream, forwarding: Forwarding) -> list[tuple[str, str]]:
    """The fields that a gateway sends to its client; empty before the head."""

def timings_of(stream: FrameStream) -> Timings | None:
    """The timings so far; None before the head."""

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
    """Several origins for the same requests; see `penstock.Origins`."""

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
        """The endpoint that stands for the origins."""
    def set(self, members: Sequence[tuple[Endpoint, config.Origin]]) -> None: ...
    def stats(self, urls: Sequence[str]) -> OriginsStats:
        """The statistics of the origins. `urls` are theirs, in the same order."""

@final
class OriginNotice:
    """An event of an origin, for the log."""

    @property
    def origin(self) -> str:
        """`scheme://authority`."""
    @property
    def address(self) -> str | None:
        """The address that was connected to, if one was."""
    @property
    def event(self) -> str:
        """The name of the event, such as that of an error code."""
    @property
    def reason(self) -> str:
        """The reason, in a sentence."""
    @property
    def is_good(self) -> bool:
        """Whether the origin can be used again."""
    @property
    def left_out(self) -> int:
        """Notices of the same kind that were left out since the last one."""

@final
class Engine:
    """Threads, pool and origins."""

    def __new__(
        cls,
        threads: int,
        pool: config.Pool,
        flow: config.Flow,
        reads: config.Reads,
        origins: tuple[config.OriginLimits, config.OriginTls, config.OriginHttp2],
        tracing: tuple[config.Tracing, config.Pool] | None = None,
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
        """Call `tell` with each notice, on the loop that used the engine last."""
    def address_range(self) -> tuple[int, int]: ...
    def stats(self) -> EngineStats: ...
    def add_upstream(self, upstream: Upstream) -> None:
        """Add its counts to the metrics."""

    def note_reload(self, is_applied: bool) -> None:
        """Count a reading of the server's configuration: it was applied, or was bad."""

    def write_counters(self, descriptor: int, anew: bool) -> int:
        """Write counters to a file: `anew` all of them, and else by how much they have grown since the last call.

        How many samples that are.
        """

    def take_counters(self, descriptor: int) -> None:
        """Add the counters in a file to those of the metrics, from its beginning."""

    def metrics(self, open: bool) -> str:  # noqa: A002
        """All metrics, in Prometheus' text format, or as OpenMetrics."""

    def fault(self, hung: float) -> str | None:
        """What is wrong, if an engine thread has made no progress for `hung` seconds."""

    def stop(self) -> None: ...
    def join(self) -> None: ...
    def close(self) -> None: ...

def ask(
    engine: Engine,
    endpoint: Endpoint,
    method: str,
    target: str,
    headers: Fields,
    timeouts: Timeouts,
    framing: Framing | None,
) -> Source:
    """As `fetch`, for a request without a body and without any of the other options."""

def fetch(engine: Engine, request: OriginRequest, body: bytes | None) -> Source:
    """Send a request with a body that is in memory, or none. The response is a source."""

def fetch_upload(engine: Engine, request: OriginRequest, length: int | None) -> tuple[Source, Upload]:
    """Send a request whose body is written to the upload; of `length` bytes, if that is known."""

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
    """As `relay_seen`, for a stream that is read to its end without a client. Also returns its end."""

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
    """How the parent carries out a worker's relays or subscriptions."""

    def __new__(cls, relay: Relay) -> Self:
        """A plan of relays. `Hub.plan` makes plans of subscriptions."""

@final
class Answer:
    """The answer to a worker's `FeedRequest`."""

    def done(self) -> None: ...
    def failed(self, name: str, detail: str, origin: str | None) -> None:
        """`name` is that of an error code."""

@final
class FeedRequest:
    """A worker's request to feed a topic."""

    @property
    def hub(self) -> int:
        """The number of the hub."""
    @property
    def topic(self) -> str: ...
    @property
    def error_event(self) -> str:
        """The type of the event that reports a failure."""
    @property
    def source(self) -> Source:
        """The stream to publish."""
    @property
    def answer(self) -> Answer:
        """Gets the answer."""

@final
class OrphanEnd:
    """The end of a relay whose worker process has ended before it."""

    @property
    def account(self) -> builtins.bytes:
        """What the worker has left for its `on_complete`."""
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
        """The inspection, if the response was inspected."""

@final
class Workers:
    """The worker processes of a site, on the running loop. They answer the requests of `lane`."""

    def __new__(
        cls,
        engine: Engine,
        lane: Lane,
        make_plan: Callable[[bytes], Plan],
        feed: Callable[[FeedRequest], object],
        orphan: Callable[[OrphanEnd], object],
        silent: Callable[[int, float], object],
    ) -> Self:
        """`make_plan` makes a plan of a description. `silent` gets a worker, and the seconds without a sign of its loop.

        `feed` answers requests to feed a topic. `orphan` gets the ends of relays of lost workers.
        """

    def add(self, number: int, generation: int, path: str) -> asyncio.Future[None]:
        """Connect to the worker `number`, which listens at `path`."""

    def switch(self, generation: int) -> None:
        """Send requests to workers of this generation from now on."""

    def retire(self, number: int) -> None:
        """Send no more requests to a worker."""

    def remove(self, number: int) -> None:
        """Remove a worker that has ended."""

    def restarted(self, reason: Literal["ended", "hung", "reloaded"], count: int) -> None:
        """Count workers that were started in place of others. ValueError: there is no such reason."""

    def busy(self, number: int) -> int:
        """Open requests of a worker."""

    def close(self) -> None:
        """Close the connections, and drop the callbacks. Idempotent."""

@final
class Lines:
    """A worker's connection to its parent for messages that belong to no request."""

    def __new__(cls) -> Self: ...

@final
class WorkerSite:
    """The application's side in a worker process, in place of a `Site`."""

    def __new__(cls, engine: Engine, lane: Lane, descriptor: int, parent: int, lines: Lines) -> Self:
        """Accept on a duplicate of `descriptor`, a Unix socket. Only the process `parent` may connect."""

    def drain(self) -> None:
        """Take no more requests."""

    def close(self) -> None:
        """Abort all requests."""

    def active(self) -> int:
        """Open requests."""

    def idle(self) -> asyncio.Future[None]:
        """Done when no request is open. A second future replaces the first."""

@final
class Watched:
    """The end of a stream that is read without a client."""

    def over(self) -> asyncio.Future[None]: ...
    def outcome(self) -> tuple[int, PenstockError | None] | None:
        """The bytes that were read, and the error that ended them early; None before the end."""
