"""No client is given another's decision: the key of a decision is exactly what the hook decides by."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock
from penstock import _native
from penstock.config import Access
from penstock.testing import ScriptedOrigin
from penstock.web import Allow, Deny, NativeRequest
from support.client import RawClient
from support.edges import Edges
from support.origins import Recorder

VALUE = st.text('ab=&;,% +"', max_size=4)
FIELD = st.tuples(st.sampled_from([b"Token", b"token", b"Cookie", b"cookie"]), VALUE)
TARGET = st.builds(
    lambda path, pairs: "/p/" + path + "?" + "&".join(f"{name}={value}" for name, value in pairs),
    st.text("ab/", max_size=5),
    st.lists(st.tuples(st.sampled_from(["q", "%71", "r"]), st.text("ab%6", max_size=3)), max_size=2),
)


@pytest.mark.parametrize(
    ("parts", "requests"),
    [
        ("header:Token", [("/", "Token: a"), ("/", "Token: b"), ("/", "token: a, b"), ("/",)]),
        ("cookie:s", [("/", "Cookie: s=a"), ("/", "Cookie: x=1; s=b"), ("/", "Cookie: S=a")]),
        ("cookie:s", [("/", "Cookie: s=a; s=b"), ("/", "Cookie: s=a"), ("/", 'Cookie: x="; s=a"')]),
        ("query:t", [("/?t=a",), ("/?%74=b",), ("/?t=a&t=b",), ("/?t=",), ("/",)]),
        ("path:2", [("/a/b/",), ("/a/c/",), ("/ab/",), ("/a%2Fb/c",)]),
        (("path:1", "header:Token"), [("/a/", "Token: b"), ("/a/",), ("/b/", "Token: a"), ("/b/",)]),
        (("method", "host"), [("/",), ("/", "HEAD"), ("/", "POST")]),
    ],
    ids=repr,
)
async def test_requests_that_differ_are_asked_about_each(
    anywhere: Edges, parts: str, requests: list[tuple[str, ...]]
) -> None:
    asked: list[NativeRequest] = []

    def hook(request: NativeRequest) -> Allow | Deny:
        asked.append(request)
        return Allow(str(len(asked)))

    async with ScriptedOrigin(Recorder()) as upstream:
        route = anywhere.gateway(upstream.url).native("/", authorise=hook, decision_key=parts)
        served = await anywhere.serve([route])
        for _ in range(2):
            for target, *rest in requests:
                method = rest[0] if rest and ":" not in rest[0] else "GET"
                fields = [field for field in rest if ":" in field]
                client = await anywhere.connect(served)
                assert (await client.ask(target, *fields, method=method)).head.status == 200
        assert len(asked) == len(requests)


async def test_an_encoded_name_of_a_parameter_hides_nothing(anywhere: Edges) -> None:
    """What a hook finds under a name decides, however it is written: else a good one is remembered for all without."""

    def hook(request: NativeRequest) -> bool:
        return request.url.query.get("token") == "good"

    async with ScriptedOrigin(Recorder()) as upstream:
        route = anywhere.gateway(upstream.url).native("/", authorise=hook, decision_key="query:token")
        served = await anywhere.serve([route])

        async def status(target: str) -> int:
            return (await (await anywhere.connect(served)).ask(target)).head.status

        assert await status("/?%74oken=good") == 200
        assert await status("/") == 403
        assert await status("/?token=good") == 200


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(TARGET, st.lists(FIELD, max_size=3), st.sampled_from(["1.1.1.1", "2.2.2.2"])), max_size=8
    )
)
def test_a_decision_is_given_to_whom_the_hook_would_give_it(
    requests: list[tuple[str, list[tuple[bytes, str]], str]],
) -> None:
    """A hook that answers by the whole of its key: a client that a remembered decision admits has the same key."""
    asyncio.run(_each_gets_its_own(requests))


async def _each_gets_its_own(requests: list[tuple[str, list[tuple[bytes, str]], str]]) -> None:
    parts = [("header", "Token"), ("cookie", "a"), ("query", "q"), ("path", "1"), ("address", "")]
    async with penstock.Engine(memory="1MiB") as engine:
        decisions = _native.Decisions(Access())
        keys: list[tuple[object, ...]] = []

        def pose(question: _native.Question) -> None:
            asked = question.request()
            assert asked is not None
            keys.append(tuple(asked.key))
            question.allow(60.0, str(len(keys) - 1), None)

        decisions.listen(engine.native, pose)
        gate = _native.Gate(decisions, "r", "r", parts, None, 60.0)
        told: list[tuple[tuple[object, ...], str]] = []
        for target, fields, remote in requests * 2:
            headers = [(name, value.encode()) for name, value in fields]
            found = gate.enter(engine.native, "GET", target, "/p/", "h", remote, headers)
            if isinstance(found, _native.Waiting):
                future, seconds = found.wait()
                await asyncio.wait({future}, timeout=seconds)
                found = found.result()
            assert isinstance(found, _native.Permit)
            assert found.tenant is not None
            told.append((_key(target, fields, remote), found.tenant))
            found.leave()
        for one, tenant in told:
            for other, also in told:
                assert (one == other) == (tenant == also), (one, other)


def _key(target: str, fields: list[tuple[bytes, str]], remote: str) -> tuple[object, ...]:
    """What the request has for each part, read by other means."""
    path, _, query = target.partition("?")

    def decoded(text: str) -> bytes:
        from urllib.parse import unquote_to_bytes

        return unquote_to_bytes(text.replace("+", " "))

    pairs = [pair.partition("=") for pair in query.split("&")]
    cookies = [pair for name, line in fields if name.lower() == b"cookie" for pair in line.split(";")]
    split: Callable[[str], list[str]] = lambda pair: [half.strip() for half in pair.partition("=")]  # noqa: E731
    return (
        tuple(value for name, value in fields if name.lower() == b"token"),
        tuple(split(pair)[2] for pair in cookies if split(pair)[0] == "a"),
        tuple(decoded(value) for name, _, value in pairs if decoded(name) == b"q"),
        path.removeprefix("/p/").split("/")[0],
        remote,
    )


async def test_a_decision_key_has_its_parts_as_the_engine_read_them(edge: Edges) -> None:
    """What is in the key is told as the engine has read it."""
    seen: list[tuple[str | None, ...]] = []

    def hook(request: NativeRequest) -> bool:
        seen.append(request.key)
        return True

    parts = ("header:X", "cookie:s", "query:t", "path:1", "address", "host", "method")
    async with ScriptedOrigin(Recorder()) as upstream:
        route = edge.gateway(upstream.url).native("/vod/", authorise=hook, decision_key=parts)
        client: RawClient = await edge.connect(await edge.serve([route]))
        await client.ask("/vod/film/1?t=%C3%A9", "X: a", "Cookie: s=1")
        assert seen == [("a", "1", "é", "film", "127.0.0.1", "gateway.test", "GET")]
        await client.ask("/vod/x")
        assert seen[1] == (None, None, None, "x", "127.0.0.1", "gateway.test", "GET")
        assert route.decisions is not None
        assert route.decisions.revoke(key=seen[1]).decisions == 1
