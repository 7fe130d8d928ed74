"""A collector of OpenTelemetry, as far as spans go: it reads them by the messages of opentelemetry-proto."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
from opentelemetry.proto.trace.v1 import trace_pb2 as traces

from .waiting import until

SERVER, CLIENT, INTERNAL = (
    traces.Span.SPAN_KIND_SERVER,
    traces.Span.SPAN_KIND_CLIENT,
    traces.Span.SPAN_KIND_INTERNAL,
)


@dataclass(frozen=True)
class Span:
    """A span that has come, with its ids in hexadecimal digits."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    state: str
    attributes: dict[str, Any]
    is_failure: bool
    links: tuple[tuple[str, str], ...]
    is_remote: bool
    began: int
    ended: int
    scope: str

    @classmethod
    def of(cls, span: traces.Span, scope: str) -> "Span":
        return cls(
            span.name,
            span.kind,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.trace_state,
            _values(span.attributes),
            span.status.code == traces.Status.STATUS_CODE_ERROR,
            tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
            bool(span.flags & traces.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            scope,
        )


def _values(attributes: Any) -> dict[str, Any]:
    values = {}
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        assert attribute.key not in values, "an attribute is there twice"
        values[attribute.key] = getattr(attribute.value, kind)
    return values


@dataclass
class Collector:
    """Takes spans, or answers with `status`."""

    url: str = ""
    spans: list[Span] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    resource: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    rejects: int = 0
    hold: threading.Event | None = None
    """The answer waits for it."""

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append(request)
        if self.hold is not None:
            await asyncio.to_thread(self.hold.wait)
        if self.status != 200:
            return web.Response(status=self.status)
        assert request.content_type == "application/x-protobuf"
        export = service.ExportTraceServiceRequest.FromString(body)
        for of_resource in export.resource_spans:
            self.resource = _values(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                assert of_scope.scope.version
                self.spans += [Span.of(span, of_scope.scope.name) for span in of_scope.spans]
        answer = service.ExportTraceServiceResponse()
        if self.rejects:
            answer.partial_success.rejected_spans = self.rejects
            answer.partial_success.error_message = "on purpose"
        return web.Response(body=answer.SerializeToString(), content_type="application/x-protobuf")

    async def wait(self, wanted: Callable[[list[Span]], object], what: str) -> list[Span]:
        """Wait until the spans that have come are what is wanted."""
        await until(lambda: wanted(self.spans), lambda: f"{what}: {[span.name for span in self.spans]}")
        return self.spans

    async def count(self, count: int) -> list[Span]:
        """Wait for so many spans; there must be no more."""
        await self.wait(lambda spans: len(spans) >= count, f"{count} spans")
        assert len(self.spans) == count
        return self.spans

    def of(self, kind: int) -> list[Span]:
        return [span for span in self.spans if span.kind == kind]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port, in a thread: the test has no tasks of it."""
    collector, ready, over = Collector(), threading.Event(), threading.Event()

    async def listen() -> None:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/v1/traces", collector.take)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
        ready.set()
        await asyncio.to_thread(over.wait)
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(listen(),), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield collector
    finally:
        if collector.hold is not None:
            collector.hold.set()
        over.set()
        thread.join()
