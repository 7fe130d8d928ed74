"""Programs after the public demos and examples of aiohttp, in a few lines of our own each."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from .steps import Ask, Chat, Socket, program

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}
_BOUNDARY = "----boundary"


def _multipart(name: str, content: bytes) -> bytes:
    field = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return field.encode() + content + f"\r\n--{_BOUNDARY}--\r\n".encode()


UPLOAD = {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}


@program("demo: chat", asks=[Chat("/ws", "hello", "again"), Ask("GET", "/")])
def chat() -> web.Application:
    sockets: list[web.WebSocketResponse] = []

    async def index(request: web.Request) -> web.StreamResponse:
        return web.Response(text=f"{len(sockets)} here")

    async def join(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(heartbeat=10, max_msg_size=1000)
        await socket.prepare(request)
        sockets.append(socket)
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    for other in sockets:
                        await other.send_json({"text": message.data})
        finally:
            sockets.remove(socket)
        return socket

    app = web.Application()
    app.add_routes([web.get("/", index), web.get("/ws", join)])
    return app


@program(
    "demo: polls",
    asks=[
        Ask("GET", "/"),
        Ask("POST", "/poll/1/vote", FORM, b"choice=0"),
        Ask("GET", "/poll/1/results"),
        Ask("GET", "/poll/9/results", status=404),
        Ask("POST", "/poll/1/vote", FORM, b"", status=400),
    ],
)
def polls() -> web.Application:
    votes = {1: [0, 0]}

    @web.middleware
    async def errors(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as error:
            return web.Response(text=f"sorry: {error.status}", status=error.status)

    def poll(request: web.Request) -> list[int]:
        try:
            return votes[int(request.match_info["number"])]
        except KeyError:
            raise web.HTTPNotFound from None

    async def index(request: web.Request) -> web.Response:
        return web.json_response(list(votes))

    async def results(request: web.Request) -> web.Response:
        return web.json_response(poll(request))

    async def vote(request: web.Request) -> web.Response:
        chosen = (await request.post()).get("choice")
        if chosen is None:
            raise web.HTTPBadRequest
        poll(request)[int(str(chosen))] += 1
        raise web.HTTPFound(request.app.router["results"].url_for(number=request.match_info["number"]))

    app = web.Application(middlewares=[errors])
    app.router.add_get("/", index)
    app.router.add_get(r"/poll/{number:\d+}/results", results, name="results")
    app.router.add_post(r"/poll/{number:\d+}/vote", vote)
    return app


@program(
    "demo: shortify",
    asks=[
        Ask("POST", "/shortify", JSON, b'{"url": "http://127.0.0.1:9/a"}'),
        Ask("GET", "/unknown", status=404),
        Ask("POST", "/shortify", JSON, b"{", status=400),
    ],
)
def shortify() -> web.Application:
    kept: dict[str, str] = {}

    async def shorten(request: web.Request) -> web.Response:
        try:
            url = (await request.json())["url"]
        except (ValueError, KeyError):
            raise web.HTTPBadRequest(text="no url") from None
        short = hashlib.sha256(url.encode()).hexdigest()[:8]
        kept[short] = url
        return web.json_response({"url": f"http://{request.url.host}/{short}"})

    async def follow(request: web.Request) -> web.Response:
        if (url := kept.get(request.match_info["short"])) is None:
            raise web.HTTPNotFound
        raise web.HTTPFound(url)

    app = web.Application()
    app.add_routes([web.post("/shortify", shorten), web.get("/{short}", follow)])
    return app


@program(
    "demo: imagetagger", asks=[Ask("POST", "/predict", UPLOAD, _multipart("a.png", bytes(range(256)) * 2000))]
)
def imagetagger() -> web.Application:
    async def predict(request: web.Request) -> web.Response:
        form = await request.post()
        data = await asyncio.get_running_loop().run_in_executor(None, form["file"].file.read)
        return web.json_response({"name": form["file"].filename, "digest": hashlib.sha256(data).hexdigest()})

    app = web.Application(client_max_size=1 << 20)
    app.router.add_post("/predict", predict)
    return app


@program(
    "demo: file_upload",
    asks=[
        Ask("POST", "/", UPLOAD, _multipart("big", bytes(300_000))),
        Ask("POST", "/", {"Content-Type": "text/plain"}, b"x", status=400),
    ],
)
def file_upload() -> web.Application:
    async def store(request: web.Request) -> web.Response:
        try:
            reader = await request.multipart()
        except (AssertionError, ValueError):
            raise web.HTTPBadRequest from None
        size = 0
        part = await reader.next()
        while chunk := await part.read_chunk(8192):
            size += len(chunk)
        return web.Response(text=f"{part.filename}: {size}")

    app = web.Application()
    app.router.add_post("/", store)
    return app


@program(
    "demo: moderator",
    asks=[Ask("POST", "/moderate", JSON, b'["you fool", "hello"]')],
    expects=r"\[true, false\]",
)
def moderator() -> web.Application:
    async def moderate(request: web.Request) -> web.Response:
        texts = await request.json()
        loop = asyncio.get_running_loop()
        futures = [loop.run_in_executor(None, lambda text=text: "fool" in text) for text in texts]
        return web.json_response(await asyncio.gather(*futures))

    app = web.Application()
    app.router.add_post("/moderate", moderate)
    return app


@program(
    "demo: blog",
    asks=[
        Ask("GET", "/", status=401),
        Ask("POST", "/login", FORM, b"login=me"),
        Ask("POST", "/posts", FORM, b"title=one"),
        Ask("GET", "/"),
    ],
    expects="one",
)
def blog() -> web.Application:
    posts: list[str] = []

    async def login(request: web.Request) -> web.Response:
        response = web.HTTPSeeOther("/")
        response.set_cookie("user", str((await request.post())["login"]), httponly=True)
        raise response

    @web.middleware
    async def guarded(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path != "/login" and "user" not in request.cookies:
            raise web.HTTPUnauthorized
        return await handler(request)

    async def write(request: web.Request) -> web.Response:
        posts.append(str((await request.post())["title"]))
        return web.Response(status=201)

    async def index(request: web.Request) -> web.Response:
        return web.json_response(posts)

    app = web.Application(middlewares=[guarded])
    app.add_routes([web.get("/", index), web.post("/login", login), web.post("/posts", write)])
    return app


@program(
    "example: static files",
    asks=[
        Ask("GET", "/index.html"),
        Ask("HEAD", "/index.html"),
        Ask("GET", "/index.html", {"Range": "bytes=1-3"}, status=206),
        Ask("GET", "/missing", status=404),
        Ask("GET", "/"),
    ],
    varies=True,
)
def static_files() -> web.Application:
    app = web.Application()
    app.router.add_static("/", Path(__file__).parent / "static", show_index=True)
    return app


@program(
    "example: sub-applications and views",
    asks=[
        Ask("GET", "/admin/"),
        Ask("PUT", "/admin/"),
        Ask("DELETE", "/admin/", status=405),
        Ask("OPTIONS", "/admin/", status=405),
    ],
)
def subapplications() -> web.Application:
    class View(web.View):
        async def get(self) -> web.Response:
            return web.Response(text=str(self.request.url.path))

        async def put(self) -> web.Response:
            return web.Response(status=204)

    async def sign(request: web.Request, response: web.StreamResponse) -> None:
        response.headers["X-Signed"] = "yes"

    inner = web.Application()
    inner.router.add_view("/", View)
    app = web.Application()
    app.on_response_prepare.append(sign)
    app.add_subapp("/admin/", inner)
    return app


@program("example: background tasks", asks=[Ask("GET", "/")], expects="started")
def background() -> web.Application:
    state: list[str] = []

    async def work(app: web.Application) -> Any:
        task = asyncio.create_task(asyncio.sleep(3600))
        state.append("started")
        yield
        task.cancel()

    async def show(request: web.Request) -> web.Response:
        return web.json_response(state)

    app = web.Application()
    app.cleanup_ctx.append(work)
    app.router.add_get("/", show)
    return app


@program("example: streaming", asks=[Ask("GET", "/")])
def streaming() -> web.Application:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for number in range(100):
            await response.write(json.dumps({"number": number, "fill": "x" * 1000}).encode() + b"\n")
        return response

    app = web.Application()
    app.router.add_get("/", stream)
    return app


@program(
    "example: web sockets of many kinds",
    asks=[Socket("/", ["text", b"bytes", "close"], answers=2), Ask("GET", "/", status=400)],
)
def echo_sockets() -> web.Application:
    async def echo(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("chat",), compress=True)
        await socket.prepare(request)
        async for message in socket:
            if message.data == "close":
                await socket.close(code=4000, message=b"asked")
            elif message.type is WSMsgType.TEXT:
                await socket.send_str(message.data)
            else:
                await socket.send_bytes(message.data)
        return socket

    app = web.Application()
    app.router.add_get("/", echo)
    return app
