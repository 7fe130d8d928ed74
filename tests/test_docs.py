"""The documentation says what is so: its Python runs, its links lead somewhere, its reference is current.

Blocks of one document run in order in one namespace, as a reader would type them, against an origin that
stands in for `http://origin` and `https://origin.example`. A text block directly after a Python block is what
that one prints. An application that a block calls `app` is served and asked for a segment.
"""

import asyncio
import atexit
import contextlib
import dataclasses
import functools
import hashlib
import inspect
import io
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import click
import pytest
from aiohttp import web

import penstock
import penstock.testing
import penstock.tokens
import penstock.web
import penstock.workers
from penstock.cli import main
from support.documents import DOCUMENTS, ROOT, RUN, blocks, name

DECISIONS = sorted(ROOT.glob("docs/decisions/[0-9]*.md"))
# The site has the pages of docs/ alone, so these name everything else by its address.
REPOSITORY = "https://github.com/penstock/penstock/blob/main/"
SEGMENT = bytes(range(256)) * 1024
TOKENS = ("A", " gated", " pipe")

NOT_RUN = re.compile(r"not run: \S.*")
NEEDS = re.compile(r"needs (\S+)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


PUBLIC = [
    *(penstock, penstock.config, penstock.framing, penstock.metrics),
    *(penstock.testing, penstock.tokens, penstock.web, penstock.workers),
]


async def segment(request: web.Request) -> web.Response:
    return web.Response(body=SEGMENT, content_type="video/iso.segment")


async def completion(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number, token in enumerate(TOKENS):
        await response.write(f"id: {number}\ndata: {token}\n\n".encode())
    await response.write(b"event: done\ndata: [DONE]\n\n")
    return response


async def length(request: web.Request) -> web.Response:
    return web.json_response({"received": len(await request.read())})


async def records(request: web.Request) -> web.Response:
    parts = (b"one", b"", b"three")
    return web.Response(body=b"".join(len(part).to_bytes(4, "big") + part for part in parts))


async def log(request: web.Request) -> web.Response:
    return web.Response(text="first\r\nsecond\nlast")


async def stall(request: web.Request) -> web.Response:
    # Until the client has left: the server cancels it then.
    await asyncio.Event().wait()
    raise AssertionError


@contextlib.asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
async def origin() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{path:.*\\.m4s}", segment)
    app.router.add_get("/stall", stall)
    app.router.add_get("/records", records)
    app.router.add_get("/log", log)
    app.router.add_post("/upload", length)
    app.router.add_route("*", "/v1/chat/completions", completion)
    async with served(app) as url:
        yield url


@pytest.fixture
async def shared_engine() -> AsyncIterator[None]:
    """Documents use the engine of the process, which would live on."""
    yield
    from penstock import engine

    if engine._default is not None:
        shared = engine._default[1]
        engine._default = None
        atexit.unregister(shared.close)
        await shared.aclose()


@pytest.mark.parametrize("path", RUN, ids=name)
async def test_python_runs(
    path: Path,
    origin: str,
    shared_engine: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = blocks(path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "movie.mp4").write_bytes(SEGMENT)
    namespace: dict[str, object] = {"__name__": path.stem}
    for block in found:
        code = block.compile(path, origin)
        needed = NEEDS.fullmatch(block.mark)
        if NOT_RUN.fullmatch(block.mark) or (needed and shutil.which(needed[1]) is None):
            continue
        assert not block.mark or needed, f"{name(path)}:{block.line}: unknown mark {block.mark!r}"
        known = namespace.get("app")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            result = eval(code, namespace)
            if inspect.isawaitable(result):
                await asyncio.wait_for(result, 30)
        if block.prints is not None:
            assert printed.getvalue() == block.prints, f"{name(path)}:{block.line}"
        app = namespace.get("app")
        if isinstance(app, web.Application) and app is not known:
            await ask_for_a_segment(app)
    # A record of a failure holds its traceback, and that the engine.
    caplog.clear()


async def ask_for_a_segment(app: web.Application) -> None:
    async with served(app) as url, aiohttp.ClientSession() as session:
        headers = {"Authorization": "Bearer let-me-in"}
        async with session.get(f"{url}/live/seg1.m4s", headers=headers) as response:
            assert response.status == 200
            assert hashlib.sha256(await response.read()).digest() == hashlib.sha256(SEGMENT).digest()
            assert "penstock" in response.headers["Via"]


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted(ROOT.glob("docs/guide/*.md"))], ids=name)
def test_guides_have_python_that_runs(path: Path) -> None:
    assert any(not NOT_RUN.fullmatch(block.mark) for block in blocks(path))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_python_compiles(path: Path) -> None:
    for block in blocks(path):
        block.compile(path)


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in LINK.findall(FENCE.sub("", path.read_text())):
        target, _, anchor = link.partition("#")
        if target.startswith(REPOSITORY):
            assert (ROOT / target.removeprefix(REPOSITORY)).exists(), f"{name(path)}: {link}"
        if "://" in target:
            continue
        there = (path.parent / target).resolve() if target else path
        assert there.exists(), f"{name(path)}: {link}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{name(path)}: {link}"


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_its_sections(path: Path) -> None:
    lines = path.read_text().splitlines()
    title = re.fullmatch(r"# (\d{3})\. (.+)", lines[0])
    assert title, "the first line is '# NNN. Title'"
    assert path.name.startswith(f"{title[1]}-")
    assert re.match(r"Date: \d{4}-\d\d-\d\d", lines[2]), "the third line is 'Date: YYYY-MM-DD'"
    sections = [line for line in lines if line.startswith("## ")]
    assert sections == ["## Context", "## Decision", "## Alternatives", "## What would change this"]
    assert len(lines) <= 60, "a decision is a page or less"


def test_the_index_names_every_decision() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    numbers = [path.name[:3] for path in DECISIONS]
    assert numbers == [f"{number:03}" for number in range(1, len(DECISIONS) + 1)]
    named = re.findall(r"^- \[(.+)\]\((.+)\)$", index, re.MULTILINE)
    titles = [(path.read_text().partition("\n")[0].removeprefix("# "), path.name) for path in DECISIONS]
    assert sorted(named) == titles


def test_changes_stand_above_what_was_released() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text()
    unreleased, released = changes.index("## [Unreleased]\n"), changes.index("## [0.1.0] - 2026-11-22\n")
    assert unreleased < released
    # What was released does not change: new lines belong above. A merge of two branches may put them here.
    assert hashlib.sha256(changes[released:].encode()).hexdigest().startswith("0357b8f1fcb0e49d")


def test_the_layout_names_every_file() -> None:
    layout = (ROOT / "CONTRIBUTING.md").read_text().partition("## Layout")[2].partition("## Rules")[0]
    named = set(re.findall(r"\w+", layout))
    for sources in ("rust/*/src/**/*.rs", "python/penstock/**/*.py"):
        for path in ROOT.glob(sources):
            if "tests" not in path.parts and path.stem not in {"lib", "mod", "tests", "__init__", "__main__"}:
                assert path.stem in named, f"CONTRIBUTING.md does not say what {name(path)} is for"


def test_the_files_of_where_is_exist() -> None:
    answers = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where is")[2].partition("## Rules")[0]
    named = re.findall(r"`([\w/]+\.(?:rs|py))`", answers)
    assert len(named) >= 12
    for name_of_file in named:
        found = [*ROOT.glob(f"rust/**/{name_of_file}"), *ROOT.glob(f"python/penstock/**/{name_of_file}")]
        assert found, f"CONTRIBUTING.md names {name_of_file}, which is not there"


def anchors(path: Path) -> set[str]:
    """The anchors of headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_reference_is_of_this_code() -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate_reference.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_every_public_name_is_in_the_reference() -> None:
    text = "".join(path.read_text() for path in ROOT.glob("docs/reference/*.md"))
    # A heading of the second level, and what stands below it up to the next one.
    parts = dict(re.findall(r"^## `([\w.]+)`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    names = 0
    for module in PUBLIC:
        for public in module.__all__:
            value = getattr(module, public)
            if public == "__version__" or inspect.ismodule(value):
                continue
            what = f"{module.__name__}.{public}"
            # What penstock takes over from a module stands there.
            headings = [what, what.removeprefix("penstock.")]
            if module is penstock:
                headings.append(f"config.{public}")
            found_at = [heading for heading in headings if heading in parts]
            assert found_at, f"{what} is not in the reference"
            part = parts[found_at[0]]
            names += 1
            if inspect.isfunction(value):
                check_parameters(value, part, what)
            elif inspect.isclass(value):
                if "__init__" in vars(value) and not dataclasses.is_dataclass(value):
                    check_parameters(value, part, what)
                for member, found in vars(value).items():
                    check_member(member, found, part, what)
                for field in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
                    assert field.name.startswith("_") or f"| `{field.name}` |" in part, f"{what}.{field.name}"
    assert names > 100


def check_member(member: str, found: object, part: str, what: str) -> None:
    if member.startswith("_"):
        return
    if isinstance(found, property | functools.cached_property):
        assert f".{member}`\n\nProperty" in part, f"{what}.{member} is not in the reference"
    elif inspect.isfunction(found) or isinstance(found, classmethod | staticmethod):
        section = part.partition(f".{member}`\n")[2]
        assert section, f"{what}.{member} is not in the reference"
        check_parameters(getattr(found, "__func__", found), section, f"{what}.{member}")


def check_parameters(function: Callable[..., object], part: str, what: str) -> None:
    """Each parameter stands in the first signature of `part`."""
    shown = re.search(r"^```text\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    assert shown, f"{what} has no signature in the reference"
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in {"self", "cls"} and not parameter.name.startswith("_"):
            assert re.search(rf"\b{parameter.name}\b", shown[1]), (
                f"{what}: {parameter.name} is not in the reference"
            )


def test_every_option_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "command.md").read_text()

    def check(command: click.Command, name: str) -> None:
        assert f"`penstock{name}`" in text, f"penstock{name}"
        section = text.partition(f"## `penstock{name}`")[2].partition("\n## ")[0]
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.opts[0] in section, f"penstock{name} {option.opts[0]}"
        for inner in command.commands.values() if isinstance(command, click.Group) else ():
            check(inner, f"{name} {inner.name}")

    check(main, "")


def test_every_error_code_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "errors.md").read_text()
    for row in penstock.error_codes():
        assert f"| 0x{row.number:03X} | `{row.name}` |" in text


def test_every_reason_for_a_copy_is_explained() -> None:
    text = (ROOT / "docs" / "concepts" / "memory.md").read_text()
    with contextlib.closing(penstock.Engine(memory="1MiB")) as engine:
        reasons = engine.stats().pool.bytes_copied
    for reason in reasons:
        assert f"`{reason}`" in text
