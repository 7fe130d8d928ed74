"""Event streams that are relayed: heartbeats, idle limit, errors, draining and inspection."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from . import checks
from .checks import Size

_NO_EVENT_NAME: Final = re.compile(r"[\0\r\n]")  # HTML Living Standard 9.2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """How a response is read on after its client has disconnected, so that the origin can finish it.

    Each limit that is reached cancels the origin's response.
    """

    bytes: Size = "16MiB"
    """Bytes of one response: far more than one answer of a model, and not a film."""
    seconds: float = 300.0
    """Seconds for one response, from when the client disconnected: long answers of slow models take some
    minutes."""
    concurrency: int = 64
    """Responses at a time, by route; beyond it the origin is cancelled at once, and counted. Clients that ask and
    disconnect could otherwise make an origin work for no client without end."""

    def __post_init__(self) -> None:
        checks.size(self, "bytes", 0)
        checks.seconds(self, "seconds")
        checks.count(self, "concurrency", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRelay:
    """What is done with relayed event streams (text/event-stream) of a route, a gateway or a request.

    Times are seconds. Streams that the origin has compressed, or given a length, are relayed as they are.
    """

    heartbeat: float | None = 15.0
    """Seconds without a byte sent after which a comment is sent, between two events. Each interval is up to a
    quarter shorter, so that streams do not send together. Proxies and load balancers cut connections that are idle
    for 30 to 60 s. None: no comments."""
    idle: float | None = None
    """Seconds for which the origin may send no event; its comments do not count. With it `Timeouts.between_bytes`
    does not apply to the bodies of event streams. None: a feed may have no event for hours, as long as bytes
    arrive."""
    unbuffered: bool = True
    """Send `X-Accel-Buffering: no`, by which nginx passes events on at once, and `Cache-Control: no-cache`, unless
    the origin says otherwise."""
    error_event: str | None = "error"
    """The name of the event that reports a failure after the head: its data is `{"error": {"code", "name",
    "message", "retryable"}}`, which clients of model servers raise. The stream is aborted all the same. None: no
    event is sent."""
    drain: Drain | None = None
    """How an event stream is read on after its client has disconnected. None: as the route says for all responses;
    by default the origin is cancelled at once."""

    def __post_init__(self) -> None:
        checks.seconds(self, "heartbeat", optional=True)
        checks.seconds(self, "idle", optional=True)
        checks.flag(self, "unbuffered")
        name = self.error_event
        if name is not None and (not isinstance(name, str) or not name or _NO_EVENT_NAME.search(name)):
            raise checks.bad(self, "error_event", "must be a text of one line, or None")
        if self.drain is not None and not isinstance(self.drain, Drain):
            raise checks.bad(self, "drain", "must be a Drain or None")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What is inspected in responses as they pass: events and tokens are counted and timed, a usage is found.

    The origin is asked for responses without a content coding. The bytes sent to the client are not changed.
    Usages are found by name, without parsing events that carry none: by default in the forms that OpenAI's and
    Anthropic's servers send. Names in a response are compared as they are here, without escapes.
    """

    usage: tuple[str, ...] = ("usage", "response.usage")
    """Where the JSON of an event, or of a whole response, has the object with the cost of the response: names of
    members, from the outermost object on, with dots between them."""
    usage_start: tuple[str, ...] = ("message.usage",)
    """Where it has a first part of it, which later ones add to: values of the same names replace earlier ones. A
    server that reports the usage so far with each event, as Gemini does, belongs here."""
    tokens: tuple[str, ...] = ("content_block_delta", "*.delta")
    """The types of the events that carry tokens, besides events without a type that are not `[DONE]`: first token
    and gaps are counted from these. A name that begins with * matches all names that end so."""
    amend: Mapping[str, Any] | str | None = None
    """What is added to the JSON of a request, if that is an object with `"stream": true`, such as
    `{"stream_options": {"include_usage": True}}`: missing members, as deep as both have objects. Everything else
    stays as the client wrote it. After construction it is JSON text."""
    insist: bool = False
    """Whether `amend` replaces values of the client."""
    max_request: Size = "8MiB"
    """Bytes of a request that is amended, which is read whole for it. A larger one is refused (413): sent
    unamended, it would be unmetered. Images are sent within the JSON, each some megabytes."""
    max_response: Size = "1MiB"
    """Bytes of a JSON response that is not a stream and in which a usage is looked for: it is kept until its end.
    A larger one is relayed as well, and reported as hidden."""

    def __post_init__(self) -> None:
        for name in ("usage", "usage_start", "tokens"):
            checks.texts(self, name)
        for name in ("usage", "usage_start"):
            for path in getattr(self, name):
                if not path.isascii() or set(path) & set('"\\/') or not all(path.split(".")):
                    raise checks.bad(
                        self, name, "must be names with dots between them, without quotes and slashes"
                    )
        if not (self.usage or self.usage_start):
            raise checks.bad(self, "usage", "must name a place, or usage_start must")
        if self.amend is not None:
            checks.put(self, "amend", checks.json_object(self, "amend"))
        checks.flag(self, "insist")
        checks.size(self, "max_request", 1)
        checks.size(self, "max_response", 1)
