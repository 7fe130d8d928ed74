"""Programs as in `extensions`, of other protocols and interfaces on aiohttp: GraphQL, JSON-RPC, Socket.IO, WSGI, ASGI."""

from typing import Any

from aiohttp import web

from .common import JSON
from .steps import Ask, Chat, Socket, program


@program(
    "strawberry-graphql",
    asks=[
        Ask("POST", "/graphql", JSON, b'{"query": "{ hello(name: \\"you\\") }"}'),
        Ask("POST", "/graphql", JSON, b'{"query": "{ nothing }"}'),
    ],
)
def strawberry() -> web.Application:
    import strawberry
    from strawberry.aiohttp.views import GraphQLView

    def greet(name: str) -> str:
        return f"Hello, {name}"

    query = type("Query", (), {"__annotations__": {}, "hello": strawberry.field(resolver=greet)})
    app = web.Application()
    app.router.add_route("*", "/graphql", GraphQLView(schema=strawberry.Schema(query=strawberry.type(query))))
    return app


@program(
    "python-socketio",
    "python-engineio",
    asks=[
        Ask("GET", "/socket.io/?EIO=4&transport=polling", keeps=r'"upgrades":\["websocket"\]'),
        Ask("GET", "/socket.io/?EIO=9&transport=polling", status=400),
        Socket(
            "/socket.io/?EIO=4&transport=websocket",
            ["40", '42["echo","hi"]'],
            answers=3,
            keeps=r'42\["echoed","hi"\]',
        ),
    ],
    varies=True,
)
def socketio() -> web.Application:
    import socketio

    server = socketio.AsyncServer(async_mode="aiohttp")

    @server.event
    async def echo(sid: str, data: str) -> None:
        await server.emit("echoed", data, to=sid)

    app = web.Application()
    server.attach(app)
    return app


_CALL = b'{"jsonrpc": "2.0", "method": "echo", "params": ["hi"], "id": 1}'


@program("jsonrpcserver", asks=[Ask("POST", "/", JSON, _CALL), Ask("POST", "/", JSON, b"no JSON")])
def jsonrpcserver() -> web.Application:
    from jsonrpcserver import Success, async_dispatch, method

    @method
    async def echo(text: str) -> Any:
        return Success(text)

    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=await async_dispatch(await request.text()), content_type="application/json")

    app = web.Application()
    app.router.add_post("/", handle)
    return app


@program("aiohttp-rpc", asks=[Ask("POST", "/rpc", JSON, _CALL), Chat("/ws", _CALL.decode())])
def rpc() -> web.Application:
    import aiohttp_rpc

    def echo(text: str) -> str:
        return text

    server = aiohttp_rpc.JSONRPCServer()
    server.add_method(echo)
    sockets = aiohttp_rpc.WSJSONRPCServer()
    sockets.add_method(echo)
    app = web.Application()
    app.add_routes(
        [web.post("/rpc", server.handle_http_request), web.get("/ws", sockets.handle_http_request)]
    )
    return app


@program("aiohttp-jrpc", asks=[Ask("POST", "/", JSON, _CALL.replace(b'["hi"]', b'{"text": "hi"}'))])
def jrpc() -> web.Application:
    from aiohttp_jrpc import Service

    class Calls(Service):
        @Service.valid({"type": "object", "properties": {"text": {"type": "string"}}})
        async def echo(self, _: Any, data: Any) -> Any:
            return data["text"]

    app = web.Application()
    app.router.add_post("/", Calls)
    return app


@program("aiohttp-wsgi", asks=[Ask("POST", "/path?a=b", {}, b"body")], expects="POST /path a=b body")
def wsgi() -> web.Application:
    from aiohttp_wsgi import WSGIHandler

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        said = [
            environ["REQUEST_METHOD"],
            environ["PATH_INFO"],
            environ["QUERY_STRING"],
            environ["wsgi.input"].read().decode(),
        ]
        return [" ".join(said).encode()]

    app = web.Application()
    app.router.add_route("*", "/{path_info:.*}", WSGIHandler(application))
    return app


@program("aiohttp-asgi", asks=[Ask("POST", "/path", {}, b"body")], expects="/path body")
def asgi() -> web.Application:
    from aiohttp_asgi import ASGIResource

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = (await receive())["body"]
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
        )
        await send({"type": "http.response.body", "body": scope["path"].encode() + b" " + body})

    app = web.Application()
    app.router.register_resource(ASGIResource(application, root_path="/"))
    return app
