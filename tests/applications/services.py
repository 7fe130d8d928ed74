"""Programs as in `extensions`, of what watches an application and of bots that others call."""

import hashlib
import hmac
import json
import time
from typing import Any

from aiohttp import web

from .common import GET, JSON, hello, plain
from .steps import Ask, program


@program(
    "aioprometheus",
    asks=[GET, Ask("GET", "/metrics", {"Accept": "text/plain"}, keeps=r'requests_total\{path="/"\} 1')],
    varies=True,
)
def aioprometheus() -> web.Application:
    from aioprometheus import REGISTRY, Counter, render

    requests = Counter("requests_total", "Requests")

    async def counted(request: web.Request) -> web.Response:
        requests.inc({"path": request.path})
        return web.Response(text="ok")

    async def metrics(request: web.Request) -> web.Response:
        content, headers = render(REGISTRY, request.headers.getall("Accept", []))
        return web.Response(body=content, headers=headers)

    app = web.Application()
    app.add_routes([web.get("/", counted), web.get("/metrics", metrics)])
    return app


@program("prometheus-async", asks=[GET, Ask("GET", "/metrics", keeps="handling_seconds_count")], varies=True)
def prometheus() -> web.Application:
    from prometheus_async.aio import time as timed
    from prometheus_async.aio.web import server_stats
    from prometheus_client import Histogram

    app = web.Application()
    app.router.add_get("/", timed(Histogram("handling_seconds", "Time"))(hello))
    app.router.add_get("/metrics", server_stats)
    return app


@program("aiohttp-openmetrics", asks=[GET, Ask("GET", "/metrics", keeps="request")], varies=True)
def openmetrics() -> web.Application:
    from aiohttp_openmetrics import metrics, metrics_middleware

    app = plain(middlewares=[metrics_middleware])
    app.router.add_get("/metrics", metrics)
    return app


@program(
    "sentry-sdk",
    asks=[GET, Ask("GET", "/fails", status=500), Ask("GET", "/sent")],
    expects="ZeroDivisionError",
)
def sentry() -> web.Application:
    import sentry_sdk
    from sentry_sdk.integrations.aiohttp import AioHttpIntegration

    sent: list[str] = []

    def keep(event: Any, hint: Any) -> None:
        sent.extend(error["type"] for error in event["exception"]["values"])

    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1",
        integrations=[AioHttpIntegration()],
        before_send=keep,
        traces_sample_rate=0,
    )

    async def fails(request: web.Request) -> web.Response:
        raise ZeroDivisionError

    async def seen(request: web.Request) -> web.Response:
        return web.json_response(sent)

    app = plain()
    app.add_routes([web.get("/fails", fails), web.get("/sent", seen)])
    return app


@program("opentelemetry-instrumentation-aiohttp-server", asks=[GET, Ask("GET", "/spans")], expects="GET /")
def opentelemetry() -> web.Application:
    from opentelemetry import trace
    from opentelemetry.instrumentation.aiohttp_server import AioHttpServerInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    AioHttpServerInstrumentor().instrument()

    async def spans(request: web.Request) -> web.Response:
        return web.json_response([span.name for span in exporter.get_finished_spans()])

    # Of the module, where the instrumented class is now.
    app = web.Application()
    app.add_routes([web.get("/", hello), web.get("/spans", spans)])
    return app


@program(
    "aiogram",
    asks=[
        Ask(
            "POST",
            "/webhook",
            {**JSON, "X-Telegram-Bot-Api-Secret-Token": "secret"},
            json.dumps(
                {
                    "update_id": 1,
                    "message": {
                        "message_id": 1,
                        "date": 0,
                        "chat": {"id": 7, "type": "private"},
                        "text": "hi",
                    },
                }
            ).encode(),
        ),
        Ask("POST", "/webhook", {**JSON, "X-Telegram-Bot-Api-Secret-Token": "guess"}, b"{}", status=401),
    ],
    varies=True,
)
def aiogram() -> web.Application:
    from aiogram import Bot, Dispatcher
    from aiogram.webhook.aiohttp_server import SimpleRequestHandler, setup_application

    dispatcher = Dispatcher()

    @dispatcher.message()
    async def echo(message: Any) -> Any:
        return message.answer(message.text)

    app = web.Application()
    handler = SimpleRequestHandler(
        dispatcher, bot=Bot("42:TEST"), handle_in_background=False, secret_token="secret"
    )
    handler.register(app, path="/webhook")
    setup_application(app, dispatcher)
    return app


def _slack(body: bytes) -> dict[str, str]:
    at = str(int(time.time()))
    signature = hmac.new(b"secret", f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": at,
        "X-Slack-Signature": f"v0={signature}",
    }


_COMMAND = b"command=%2Fhello&team_id=T1&user_id=U1&channel_id=C1&text=hi"


@program(
    "slack-bolt",
    asks=[
        Ask("POST", "/slack/events", _slack(_COMMAND), _COMMAND),
        Ask("POST", "/slack/events", {}, _COMMAND, status=401),
    ],
    expects="Hi hi",
)
def slack() -> web.Application:
    from slack_bolt.async_app import AsyncApp
    from slack_bolt.authorization import AuthorizeResult

    async def authorize(**_: Any) -> Any:
        return AuthorizeResult(
            enterprise_id=None, team_id="T1", bot_token="xoxb", bot_id="B1", bot_user_id="U2"
        )

    bolt = AsyncApp(signing_secret="secret", authorize=authorize)

    @bolt.command("/hello")
    async def greet(ack: Any, command: Any) -> None:
        await ack(f"Hi {command['text']}")

    return bolt.web_app()


_EVENT = b'{"action": "opened", "issue": {"number": 7}}'


@program(
    "gidgethub",
    asks=[
        Ask(
            "POST",
            "/",
            {
                **JSON,
                "X-GitHub-Event": "issues",
                "X-GitHub-Delivery": "1",
                "X-Hub-Signature-256": "sha256=" + hmac.new(b"secret", _EVENT, hashlib.sha256).hexdigest(),
            },
            _EVENT,
        ),
        Ask("POST", "/", {**JSON, "X-GitHub-Event": "issues", "X-GitHub-Delivery": "2"}, _EVENT, status=403),
    ],
    expects="opened 7",
)
def gidgethub() -> web.Application:
    from gidgethub import ValidationFailure, routing, sansio

    router = routing.Router()

    @router.register("issues", action="opened")
    async def opened(event: Any, said: list[str]) -> None:
        said.append(f"opened {event.data['issue']['number']}")

    async def webhook(request: web.Request) -> web.Response:
        said: list[str] = []
        try:
            event = sansio.Event.from_http(request.headers, await request.read(), secret="secret")
        except ValidationFailure as error:
            raise web.HTTPForbidden from error
        await router.dispatch(event, said)
        return web.Response(text=said[0])

    app = web.Application()
    app.router.add_post("/", webhook)
    return app


@program("aiozipkin", asks=[GET], varies=True)
async def zipkin() -> web.Application:
    import aiozipkin

    endpoint = aiozipkin.create_endpoint("service", ipv4="127.0.0.1", port=8080)
    tracer = await aiozipkin.create("http://127.0.0.1:9/api/v2/spans", endpoint, sample_rate=1.0)

    async def traced(request: web.Request) -> web.Response:
        span = aiozipkin.request_span(request)
        with tracer.new_child(span.context) as child:
            child.name("work")
        return web.Response(text="traced")

    app = web.Application()
    app.router.add_get("/", traced)
    aiozipkin.setup(app, tracer)
    return app


@program("elastic-apm", asks=[GET])
def elastic() -> web.Application:
    from elasticapm.contrib.aiohttp import ElasticAPM

    app = plain()
    app["ELASTIC_APM"] = {"SERVICE_NAME": "test", "ENABLED": False}
    ElasticAPM(app)
    return app


_UPDATE = json.dumps(
    {
        "update_id": 7,
        "message": {"message_id": 1, "date": 0, "chat": {"id": 7, "type": "private"}, "text": "hi"},
    }
)


@program("python-telegram-bot", asks=[Ask("POST", "/telegram", JSON, _UPDATE.encode())], expects="hi")
def telegram() -> web.Application:
    from telegram import Update

    async def webhook(request: web.Request) -> web.Response:
        update = Update.de_json(await request.json(), None)
        assert update is not None
        assert update.message is not None
        return web.Response(text=update.message.text)

    app = web.Application()
    app.router.add_post("/telegram", webhook)
    return app
