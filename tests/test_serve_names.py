"""What `penstock serve` may be given: MODULE:APP in all its forms, addresses, certificates. Each in a process."""

import asyncio
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
import trustme

from penstock.testing import ScriptedOrigin, respond
from support.client import answer
from support.command import COMMAND, Running, free_port, run, serve

OK = answer("Content-Length: 2", body=b"ok")

MINE = """
from types import SimpleNamespace

from aiohttp import web


def make(text="made"):
    async def say(request):
        return web.Response(text=text)

    app = web.Application()
    app.router.add_get("/", say)
    return app


async def make_later(argv):
    assert argv == []
    return make("later")


class Mine(web.Application):
    pass


application = make("application")
nested = SimpleNamespace(app=make("nested"))


def wants(a, b):
    raise AssertionError


async def handler(request):
    raise AssertionError


def fails():
    raise OSError("no such database")


def none():
    return None


class FastAPI:
    async def __call__(self, scope, receive, send):
        raise AssertionError


class Sub(FastAPI):
    pass


async def asgi(scope, receive, send):
    raise AssertionError


class Flask:
    def __call__(self, environ, start_response):
        raise AssertionError


def wsgi(environ, start_response):
    raise AssertionError


fast = Sub()
flask = Flask()


def make_fast():
    return fast
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "lacks.py").write_text("import no_such_thing\n")
    (tmp_path / "broken.py").write_text("def (\n")
    return tmp_path


async def text_of(running: Running, url: str | None = None) -> str:
    async with aiohttp.ClientSession() as session, session.get(url or running.url) as response:
        assert response.status == 200
        return await response.text()


@pytest.mark.parametrize(
    ("app", "says"),
    [
        ("application", "application"),
        ("make", "made"),
        ("make()", "made"),
        ("make('literal')", "literal"),
        ("make(text='named')", "named"),
        ("make_later", "later"),
        ("make_later([])", "later"),
        ("nested.app", "nested"),
    ],
)
async def test_an_application_is_named_in_each_of_these_ways(mine: Path, app: str, says: str) -> None:
    async with serve(f"mine:{app}", directory=mine) as running:
        assert await text_of(running) == says


ASGI = "penstock serves those of aiohttp: run it with a server of its own, such as 'uvicorn {0} --port 8000'"
WSGI = "penstock serves those of aiohttp: run it with a server of its own, such as 'gunicorn {0} --bind 127.0.0.1:8000'"
FRONT = "put penstock in front: 'penstock serve --origin http://127.0.0.1:8000'"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mine:fast", ("mine:fast is an ASGI application (Sub)", ASGI.format("mine:fast"), FRONT)),
        ("mine:asgi", ("mine:asgi is an ASGI application,", FRONT)),
        ("mine:make_fast", ("mine:make_fast is an ASGI application (Sub)", FRONT)),
        ("mine:flask", ("mine:flask is a WSGI application (Flask)", WSGI.format("mine:flask"), FRONT)),
        ("mine:wsgi", ("mine:wsgi is a WSGI application,", FRONT)),
        ("mine:app", ("module 'mine' has no 'app'; it has mine:application",)),
        ("mine:wants", ("mine:wants wants the arguments a, b: write 'mine:wants(...)'",)),
        ("mine:handler", ("mine:handler wants the arguments request",)),
        ("mine:none", ("mine:none is a NoneType, and no aiohttp.web.Application nor a function",)),
        ("mine:nested", ("mine:nested is a SimpleNamespace",)),
        ("json:decoder", ("json:decoder is a module, and no aiohttp.web.Application nor a function",)),
    ],
)
def test_what_is_no_application_is_named_with_what_to_do(
    mine: Path, name: str, said: tuple[str, ...]
) -> None:
    result = run("serve", name, directory=mine)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    for each in said:
        assert each in result.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mine:fails", ("mine.py", "OSError: no such database", "Error: Traceback", "mine:fails has failed")),
        ("lacks:app", ("lacks.py", "No module named 'no_such_thing'", "lacks cannot be imported")),
        ("broken:app", ("broken.py", "SyntaxError", "broken cannot be imported")),
    ],
)
@pytest.mark.parametrize("workers", [(), ("--workers", "1")], ids=["alone", "workers"])
def test_what_fails_of_the_application_is_shown_from_its_own_code_on(
    mine: Path, name: str, said: tuple[str, ...], workers: tuple[str, ...]
) -> None:
    result = run("serve", name, "--listen", "127.0.0.1:0", *workers, directory=mine)
    assert result.returncode == 1
    for each in said:
        assert each.removeprefix("Error: ") in result.stderr
    assert "penstock/web/app_import.py" not in result.stderr
    assert "importlib" not in result.stderr


def test_an_application_of_another_kind_is_named_by_a_worker_too(mine: Path) -> None:
    result = run("serve", "mine:fast", "--listen", "127.0.0.1:0", "--workers", "1", directory=mine)
    assert result.returncode == 1
    assert "mine:fast is an ASGI application (Sub)" in result.stderr
    assert "Traceback" not in result.stderr


def test_run_app_names_an_application_of_another_kind() -> None:
    from penstock.web import run_app

    async def asgi(scope: object, receive: object, send: object) -> None:
        raise AssertionError

    with pytest.raises(TypeError, match="app is an ASGI application"):
        run_app(asgi, host="127.0.0.1", port=0, print=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("form", "reached"),
    [
        ("{0}", "127.0.0.1"),
        (":{0}", "127.0.0.1"),
        ("*:{0}", "127.0.0.1"),
        ("localhost:{0}", "localhost"),
        ("127.0.0.1:{0}", "127.0.0.1"),
        ("[::]:{0}", "[::1]"),
        ("[::1]:{0}", "[::1]"),
    ],
)
async def test_an_address_is_written_in_each_of_these_ways(form: str, reached: str) -> None:
    if ":" in reached and not socket.has_dualstack_ipv6():
        pytest.skip("there is no IPv6 here")
    port = free_port()
    async with (
        ScriptedOrigin(respond(OK)) as origin,
        serve("--origin", origin.url, "--listen", form.format(port)) as running,
    ):
        assert await text_of(running, f"http://{reached}:{port}/") == "ok"


@pytest.mark.parametrize("form", ["127.0.0.1:0", "localhost:0", "0", ":0"])
async def test_the_status_url_that_is_printed_answers(form: str) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        process = await asyncio.create_subprocess_exec(
            *(*COMMAND, "serve", "--listen", "127.0.0.1:0", "--origin", origin.url, "--status-listen", form),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stderr is not None
            line = ""
            while not line.startswith("status on "):
                line = (await process.stderr.readline()).decode()
                assert line
            url = line.removeprefix("status on ").strip()
            assert "/penstock/health" in await text_of(Running(process), url)
        finally:
            process.terminate()
            await process.communicate()


async def test_ca_verifies_an_origin(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with ScriptedOrigin(respond(OK), tls=context) as origin:
        async with serve("--origin", origin.url, "--ca", str(tmp_path / "ca.pem")) as running:
            assert await text_of(running) == "ok"
        async with (
            serve("--origin", origin.url) as running,
            aiohttp.ClientSession() as session,
            session.get(running.url) as response,
        ):
            assert (response.status, (await response.json(content_type=None))["name"]) == (502, "TLS_FAILED")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nothing\n", "must be a PEM file with certificates, and has none"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "the root certificates cannot be used",
        ),
    ],
)
def test_a_file_without_certificates_is_named_by_its_option(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "ca.pem").write_text(text)
    result = run(
        "serve", "--origin", "https://o", "--listen", "127.0.0.1:0", "--ca", str(tmp_path / "ca.pem")
    )
    assert result.returncode == 2
    assert "Invalid value for '--ca': " in result.stderr
    assert says in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--listen", "1.2.3.4:80"), "Error: --listen: 0x50A LISTEN_FAILED: cannot listen to 1.2.3.4:80"),
        (
            ("--listen", "unix:/no/such/socket"),
            "Error: --listen: 0x50A LISTEN_FAILED: cannot listen to /no/such/",
        ),
        (
            ("--listen", "no-such-host.invalid:80"),
            "Error: --listen: 0x50A LISTEN_FAILED: no-such-host.invalid:80 has",
        ),
        (
            ("--status-listen", "1.2.3.4:81"),
            "Error: --status-listen: 0x50A LISTEN_FAILED: cannot listen to 1.2.3.4",
        ),
        (
            ("--cache", "1MiB", "--cache-disk", "/no/such/directory", "--cache-disk-size", "1GiB"),
            "Error: --cache-disk: 0x50E CACHE_DIRECTORY_FAILED",
        ),
        (("--memory", "200TiB"), "Error: --memory: 0x"),
    ],
)
def test_a_failure_to_start_names_its_option(arguments: tuple[str, ...], says: str) -> None:
    result = run("serve", "--listen", "127.0.0.1:0", "--origin", "http://127.0.0.1:1", *arguments)
    assert result.returncode == 1
    assert says in result.stderr
    assert "Traceback" not in result.stderr
