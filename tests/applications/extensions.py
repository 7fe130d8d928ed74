"""Programs of a dozen lines that use an extension as its documentation shows, and what a client asks of each.

Each function makes an application; its decorator says which distributions it is of and what is asked. They import
what they use themselves: each runs in a process of its own, because some change aiohttp for all that is in theirs.
"""

import asyncio
import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from .common import GET, JSON, hello, plain
from .steps import Ask, Socket, program


@program("aiohttp-sse", asks=[GET, Ask("HEAD", "/", status=405), GET])
def server_sent_events() -> web.Application:
    from aiohttp_sse import sse_response

    async def clock(request: web.Request) -> web.StreamResponse:
        async with sse_response(request, send_timeout=5) as response:
            for number in range(3):
                await response.send(f"tick {number}", id=str(number), event="clock")
        return response

    app = web.Application()
    app.router.add_get("/", clock)
    return app


@program("aiohttp-session", asks=[GET, GET, GET], expects="2")
def session() -> web.Application:
    import aiohttp_session
    from aiohttp_session.cookie_storage import EncryptedCookieStorage

    async def count(request: web.Request) -> web.Response:
        kept = await aiohttp_session.get_session(request)
        kept["visits"] = kept.get("visits", -1) + 1
        return web.Response(text=str(kept["visits"]))

    app = web.Application()
    aiohttp_session.setup(app, EncryptedCookieStorage(b"0123456789abcdef0123456789abcdef"))
    app.router.add_get("/", count)
    return app


@program("aiohttp-jinja2", asks=[Ask("GET", "/?name=you")], expects="<p>you</p>")
def jinja2() -> web.Application:
    import aiohttp_jinja2
    import jinja2

    @aiohttp_jinja2.template("page.html")
    async def page(request: web.Request) -> dict[str, str]:
        return {"name": request.query["name"]}

    app = web.Application()
    aiohttp_jinja2.setup(app, loader=jinja2.DictLoader({"page.html": "<p>{{ name }}</p>"}))
    app.router.add_get("/", page)
    return app


@program("aiohttp-mako", asks=[Ask("GET", "/")], expects="<p>it</p>")
def mako() -> web.Application:
    import aiohttp_mako

    @aiohttp_mako.template("page.html")
    async def page(request: web.Request) -> dict[str, str]:
        return {"name": "it"}

    app = web.Application()
    lookup = aiohttp_mako.setup(
        app, input_encoding="utf-8", output_encoding="utf-8", default_filters=["decode.utf8"]
    )
    lookup.put_string("page.html", "<p>${name}</p>")
    app.router.add_get("/", page)
    return app


_ORIGIN = {"Origin": "http://client.example"}


@program(
    "aiohttp-cors",
    asks=[
        Ask("GET", "/", _ORIGIN),
        Ask("OPTIONS", "/", {**_ORIGIN, "Access-Control-Request-Method": "GET"}),
        Ask(
            "OPTIONS",
            "/",
            {"Origin": "http://evil.example", "Access-Control-Request-Method": "GET"},
            status=403,
        ),
    ],
)
def cors() -> web.Application:
    import aiohttp_cors

    app = web.Application()
    rules = aiohttp_cors.setup(
        app, defaults={"http://client.example": aiohttp_cors.ResourceOptions(allow_credentials=True)}
    )
    rules.add(rules.add(app.router.add_resource("/")).add_route("GET", hello))
    return app


@program(
    "aiohttp-security",
    asks=[
        Ask("GET", "/", status=401),
        Ask("POST", "/login"),
        Ask("GET", "/"),
        Ask("POST", "/logout"),
        Ask("GET", "/", status=401),
    ],
)
def security() -> web.Application:
    import aiohttp_security
    import aiohttp_session

    class Policy(aiohttp_security.AbstractAuthorizationPolicy):
        async def authorized_userid(self, identity: str) -> str:
            return identity

        async def permits(self, identity: str, _permission: str, _context: Any = None) -> bool:
            return identity == "jack"

    async def login(request: web.Request) -> web.Response:
        response = web.Response(text="in")
        await aiohttp_security.remember(request, response, "jack")
        return response

    async def logout(request: web.Request) -> web.Response:
        response = web.Response(text="out")
        await aiohttp_security.forget(request, response)
        return response

    async def protected(request: web.Request) -> web.Response:
        await aiohttp_security.check_permission(request, "read")
        return web.Response(text=await aiohttp_security.authorized_userid(request))

    app = web.Application()
    aiohttp_session.setup(app, aiohttp_session.SimpleCookieStorage())
    aiohttp_security.setup(app, aiohttp_security.SessionIdentityPolicy(), Policy())
    app.add_routes([web.get("/", protected), web.post("/login", login), web.post("/logout", logout)])
    return app


@program("aiohttp-debugtoolbar", asks=[GET, Ask("GET", "/_debugtoolbar/static/css/toolbar.css")], varies=True)
def debugtoolbar() -> web.Application:
    import aiohttp_debugtoolbar

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html><body>page</body></html>", content_type="text/html")

    app = web.Application()
    aiohttp_debugtoolbar.setup(app)
    app.router.add_get("/", page)
    return app


_DOCUMENTED = """
    ---
    summary: A pet
    parameters:
      - name: number
        in: path
        required: true
        schema:
          type: integer
          minimum: 1
    responses:
      '200':
        description: a pet
"""


@program(
    "aiohttp-swagger3",
    asks=[Ask("GET", "/pets/7"), Ask("GET", "/pets/0", status=400), Ask("GET", "/docs/swagger.json")],
)
def swagger3() -> web.Application:
    from aiohttp_swagger3 import SwaggerDocs, SwaggerInfo, SwaggerUiSettings

    async def pet(request: web.Request, number: int) -> web.Response:
        return web.json_response({"number": number})

    pet.__doc__ = _DOCUMENTED
    app = web.Application()
    docs = SwaggerDocs(
        app, info=SwaggerInfo(title="Pets", version="1"), swagger_ui_settings=SwaggerUiSettings(path="/docs/")
    )
    docs.add_routes([web.get("/pets/{number}", pet)])
    return app


@program("aiohttp-swagger", asks=[GET, Ask("GET", "/api/doc/swagger.json"), Ask("GET", "/api/doc")])
def swagger() -> web.Application:
    from aiohttp_swagger import setup_swagger

    app = plain()
    setup_swagger(app, swagger_url="/api/doc", ui_version=2)
    return app


@program(
    "aiohttp-remotes",
    asks=[
        Ask(
            "GET",
            "/",
            {"X-Forwarded-For": "10.10.10.10", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "a.example"},
        )
    ],
    expects="10.10.10.10 https a.example",
)
async def remotes() -> web.Application:
    from aiohttp_remotes import XForwardedRelaxed, setup

    async def who(request: web.Request) -> web.Response:
        return web.Response(text=f"{request.remote} {request.scheme} {request.host}")

    app = web.Application()
    await setup(app, XForwardedRelaxed())
    app.router.add_get("/", who)
    return app


@program("aiojobs", asks=[GET, Ask("GET", "/atomic")])
def jobs() -> web.Application:
    from aiojobs.aiohttp import atomic, setup, spawn

    async def handler(request: web.Request) -> web.Response:
        done = asyncio.get_running_loop().create_future()

        async def job() -> None:
            done.set_result("done")

        await spawn(request, job())
        return web.Response(text=await done)

    @atomic
    async def shielded(request: web.Request) -> web.Response:
        await asyncio.sleep(0)
        return web.Response(text="whole")

    app = web.Application()
    app.add_routes([web.get("/", handler), web.get("/atomic", shielded)])
    setup(app)
    return app


@program(
    "aiohttp-devtools",
    asks=[
        Ask("GET", "/"),
        Ask("GET", "/livereload.js"),
        Socket(
            "/livereload",
            [json.dumps({"command": "hello", "protocols": ["http://livereload.com/protocols/official-7"]})],
            answers=1,
        ),
    ],
)
def devtools() -> web.Application:
    from aiohttp_devtools.runserver.serve import create_auxiliary_app

    here = Path(__file__).parent
    return create_auxiliary_app(static_path=str(here), static_url="/", livereload=True)


@program(
    "aiohttp-basicauth",
    asks=[
        Ask("GET", "/", status=401),
        Ask("GET", "/", {"Authorization": "Basic " + base64.b64encode(b"me:secret").decode()}),
    ],
)
def basicauth() -> web.Application:
    from aiohttp_basicauth import BasicAuthMiddleware

    return plain(middlewares=[BasicAuthMiddleware(username="me", password="secret")])


@program(
    "aiohttp-middlewares",
    asks=[GET, Ask("GET", "/", _ORIGIN), Ask("GET", "/missing", status=404), Ask("GET", "/slow", status=500)],
)
def middlewares() -> web.Application:
    from aiohttp_middlewares import cors_middleware, error_middleware, timeout_middleware

    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        raise AssertionError

    app = plain(middlewares=[cors_middleware(allow_all=True), error_middleware(), timeout_middleware(0.05)])
    app.router.add_get("/slow", slow)
    return app


@program("aiohttp-index", asks=[Ask("GET", "/static/"), Ask("GET", "/static/index.html")], varies=True)
def index() -> web.Application:
    from aiohttp_index import IndexMiddleware

    folder = Path(__file__).parent / "static"
    app = web.Application(middlewares=[IndexMiddleware()])
    app.router.add_static("/static", folder)
    return app


@program("aiohttp-utils", asks=[Ask("GET", "/", {"Accept": "application/json"}), Ask("GET", "/api/")])
def utils() -> web.Application:
    from aiohttp_utils import Response, negotiation, routing

    async def data(request: web.Request) -> web.Response:
        return Response({"message": "Hello"})

    app = web.Application()
    app.router.add_get("/", data)
    with routing.add_route_context(app, url_prefix="/api/", name_prefix="api") as route:
        route("GET", "/", data)
    negotiation.setup(app)
    return app


_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def _split(data: Any, _: web.Request) -> Any:
    return data["text"].split()


@program(
    "aiohttp-validate",
    asks=[Ask("POST", "/", JSON, b'{"text": "a b"}'), Ask("POST", "/", JSON, b'{"text": 7}', status=400)],
)
def validate() -> web.Application:
    from aiohttp_validate import validate

    app = web.Application()
    app.router.add_post("/", validate(request_schema=_SCHEMA, response_schema={"type": "array"})(_split))
    return app


@program(
    "aiohttp-pydantic",
    asks=[
        Ask("GET", "/?loud=true"),
        Ask("GET", "/?loud=perhaps", status=400),
        Ask("POST", "/", JSON, b'{"name": "it", "pages": 7}'),
    ],
)
def pydantic() -> web.Application:
    from aiohttp_pydantic import PydanticView
    from pydantic import BaseModel

    class Article(BaseModel):
        name: str
        pages: int

    class View(PydanticView):
        async def get(self, loud: bool = False) -> web.Response:
            return web.json_response({"loud": loud})

        async def post(self, article: Article) -> web.Response:
            return web.json_response(article.model_dump())

    app = web.Application()
    app.router.add_view("/", View)
    return app


@program("webargs", asks=[Ask("GET", "/?name=you"), Ask("GET", "/", status=422)])
def webargs() -> web.Application:
    from webargs import fields
    from webargs.aiohttpparser import use_args

    @use_args({"name": fields.Str(required=True)}, location="query")
    async def greet(request: web.Request, args: dict[str, str]) -> web.Response:
        return web.Response(text=f"Hello, {args['name']}")

    app = web.Application()
    app.router.add_get("/", greet)
    return app


@program(
    "wtforms",
    asks=[
        Ask("POST", "/", {"Content-Type": "application/x-www-form-urlencoded"}, b"name=you"),
        Ask("POST", "/", {}, b"", status=400),
    ],
)
def wtforms() -> web.Application:
    from wtforms import Form, StringField, validators

    class Greeting(Form):
        name = StringField("Name", [validators.InputRequired()])

    async def greet(request: web.Request) -> web.Response:
        form = Greeting(await request.post())
        if not form.validate():
            return web.json_response(form.errors, status=400)
        return web.Response(text=f"Hello, {form.name.data}")

    app = web.Application()
    app.router.add_post("/", greet)
    return app


@program("aiohttp-cache", asks=[GET, GET], expects="1")
def cache() -> web.Application:
    from aiohttp_cache import cache, setup_cache

    calls: list[None] = []

    @cache(expires=60)
    async def counted(request: web.Request) -> web.Response:
        calls.append(None)
        return web.Response(text=str(len(calls)))

    app = web.Application()
    setup_cache(app)
    app.router.add_get("/", counted)
    return app


@program(
    "aiohttp-compress",
    asks=[Ask("GET", "/", {"Accept-Encoding": "gzip"}), Ask("GET", "/", {"Accept-Encoding": "identity"})],
)
def compress() -> web.Application:
    from aiohttp_compress import compress_middleware

    async def long(request: web.Request) -> web.Response:
        return web.Response(text="long " * 1000)

    app = web.Application(middlewares=[compress_middleware])
    app.router.add_get("/", long)
    return app


@program("aiohttp-fast-zlib", asks=[Ask("GET", "/", {"Accept-Encoding": "deflate"})])
def fast_zlib() -> web.Application:
    import aiohttp_fast_zlib

    aiohttp_fast_zlib.enable()

    async def long(request: web.Request) -> web.Response:
        response = web.Response(text="long " * 1000)
        response.enable_compression()
        return response

    app = web.Application()
    app.router.add_get("/", long)
    return app


@program("aiohttp-deps", asks=[Ask("GET", "/?name=you")], expects="Hello, you")
def deps() -> web.Application:
    from aiohttp_deps import Depends, Query, Router, init

    router = Router()

    async def greeting(name: str = Depends(Query())) -> str:
        return f"Hello, {name}"

    @router.get("/")
    async def greet(text: str = Depends(greeting)) -> web.Response:
        return web.Response(text=text)

    app = web.Application()
    app.on_startup.append(init)
    app.router.add_routes(router)
    return app


def _token() -> str:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    signed = part(b'{"alg":"HS256","typ":"JWT"}') + "." + part(b'{"user":"me"}')
    return signed + "." + part(hmac.new(b"secret" * 8, signed.encode(), hashlib.sha256).digest())


@program(
    "aiohttp-jwt",
    asks=[Ask("GET", "/", status=401), Ask("GET", "/", {"Authorization": f"Bearer {_token()}"})],
)
def jwt() -> web.Application:
    from aiohttp_jwt import JWTMiddleware

    async def who(request: web.Request) -> web.Response:
        return web.json_response(request["payload"])

    app = web.Application(middlewares=[JWTMiddleware("secret" * 8, algorithms=["HS256"])])
    app.router.add_get("/", who)
    return app
