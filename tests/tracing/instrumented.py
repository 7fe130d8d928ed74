"""An aiohttp application that OpenTelemetry's own instrumentation traces, on penstock's sockets.

Its arguments are the collector and the origin that it relays to. It says its URL.
"""

import sys

from aiohttp import web
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.aiohttp_server import AioHttpServerInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from penstock import Engine
from penstock.config import Tracing
from penstock.web import Gateway, run_app


def main() -> None:
    collector, origin = sys.argv[1:]
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=collector)))
    trace.set_tracer_provider(provider)
    # It replaces `web.Application`.
    AioHttpServerInstrumentor().instrument()
    engine = Engine(tracing=Tracing(endpoint=collector, ratio=1.0, interval=0.05), threads=1, memory="32MiB")
    app = web.Application()
    app.router.add_get("/{path:.*}", Gateway(origin, engine=engine).relay)

    def say(line: str) -> None:
        print(line, flush=True)  # noqa: T201 (what its starter reads)

    run_app(app, host="127.0.0.1", port=0, engine=engine, access_log=None, print=say)


main()
