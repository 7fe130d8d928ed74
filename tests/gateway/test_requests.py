"""What reaches the origin of a request: method, target and fields as the client wrote them, but for the
hop's."""

import pytest
from aiohttp import web

import penstock
from penstock.config import Forwarding
from penstock.testing import RecordedRequest, ScriptedOrigin, respond
from penstock.web import Gateway

from .conftest import Connect
from .server import Serving

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def ask(serving: Serving, connect: Connect):
    async def ask(request: bytes, **options: object) -> RecordedRequest:
        """Relay `request` and return what the origin got of it."""
        async with ScriptedOrigin(respond(OK)) as origin:
            client = await connect(await serving.gateway(origin.url, **options))
            await client.send(request)
            head = await client.head()
            assert (head.status, await client.body(head)) == (200, b"ok")
            return origin.requests[0]

    return ask


def get(*fields: str, target: str = "/", method: str = "GET") -> bytes:
    return "\r\n".join((f"{method} {target} HTTP/1.1", "Host: gateway.test", *fields, "", "")).encode(
        "latin-1"
    )


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "PATCH", "PROPFIND"])
async def test_the_method_passes(ask, method: str) -> None:
    assert (await ask(get(method=method))).method == method


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/a%2Fb%20c/%7euser/%C3%A9",
        "/a//b///c",
        "/plus+and;semi=1,2",
        "/q?x=%2F&y=a+b&&z",
        "/?empty=",
        "/?",
        "/dots...and/..a/b..",
        "/q?path=/../up",
        "/pipe|and^caret?{brace}",
    ],
)
async def test_the_target_passes_as_it_is(ask, target: str) -> None:
    assert (await ask(get(target=target))).target == target


async def test_an_absolute_target_becomes_a_path(ask) -> None:
    assert (await ask(get(target="http://gateway.test/a%20b?q=1"))).target == "/a%20b?q=1"


async def test_an_asterisk_stays_one(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        gateway = Gateway(origin.url, engine=serving.engine)

        # No route matches it, so it can only be relayed by a middleware.
        @web.middleware
        async def everything(request, handler):
            return await gateway.relay(request)

        client = await connect(await serving.app(web.Application(middlewares=[everything])))
        assert (await client.ask("*", method="OPTIONS")).body == b"ok"
        assert origin.requests[0].target == "*"


@pytest.mark.parametrize(
    "target", ["/a/../b", "/..", "/a/./b", "/%2e%2E/b", "/a/..%2fb", "/a%5c..%5cb", "/a/%2e", "/frag#ment"]
)
async def test_a_target_that_the_origin_would_resolve_to_another_is_refused(
    serving: Serving, connect: Connect, target: str
) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        client = await connect(await serving.gateway(origin.url))
        assert (await client.ask(target)).head.status == 400
        assert not origin.requests


async def test_prefix_and_base_are_exchanged(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        client = await connect(await serving.gateway(origin.url + "/base/", prefix="/live"))
        for target in ("/live/a%20b?q=1", "/live", "/live?q", "/live/"):
            assert (await client.ask(target)).head.status == 200
        assert [request.target for request in origin.requests] == [
            "/base/a%20b?q=1",
            "/base/",
            "/base/?q",
            "/base/",
        ]
        assert (await client.ask("/lively")).head.status == 400


async def test_the_host_is_the_origins(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        for preserve, expected in ((False, f"127.0.0.1:{origin.port}"), (True, "gateway.test")):
            policy = Forwarding(preserve_host=preserve)
            client = await connect(await serving.gateway(origin.url, forwarding=policy))
            await client.ask()
            assert origin.requests[-1].get("Host") == expected


async def test_end_to_end_fields_pass_in_order_and_unharmed(ask) -> None:
    sent = (
        "Accept: a/b",
        "X-Twice: 1",
        "Cookie: a=1; b=2",
        "X-Twice: 2",
        'If-Range: "x"',
        "Range: bytes=0-1",
        "X-Bytes: \xe9\xff\xc3",
        "X-Empty:",
        "Authorization: Bearer x",
        "Accept-Encoding: gzip, br",
        "Cache-Control: no-cache",
    )
    request = await ask(get(*sent))
    fields = [f"{name}: {value}".rstrip() for name, value in request.fields]
    assert [field for field in fields if field in sent] == list(sent)


async def test_hop_by_hop_fields_stop(ask) -> None:
    hop = (
        "Keep-Alive",
        "Proxy-Connection",
        "Proxy-Authorization",
        "TE",
        "Trailer",
        "Upgrade",
        "X-Nominated",
        "X-Other",
    )
    request = await ask(
        get(
            *(f"{name}: x" for name in hop if name not in {"TE", "Upgrade"}),
            "TE: trailers",
            "Connection: close, X-Nominated",
            "connection: x-other,",
            "X-Kept: 1",
        )
    )
    for name in (*hop, "Transfer-Encoding"):
        assert not request.get_all(name), name
    assert request.get("X-Kept") == "1"
    assert "nominated" not in (request.get("Connection") or "").lower()


async def test_connection_cannot_take_the_gateways_own_fields_away(ask) -> None:
    request = await ask(get("Connection: X-Forwarded-For, Via, Host"))
    assert request.get("X-Forwarded-For") == "127.0.0.1"
    assert request.get("Via") == "1.1 penstock"
    assert request.get("Host") is not None


async def test_expect_is_met_by_the_gateway(serving: Serving, connect: Connect) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        client = await connect(await serving.gateway(origin.url))
        await client.get("/", "Content-Length: 4", "Expect: 100-continue", method="POST")
        assert (await client.head()).status == 100
        await client.send(b"body")
        assert (await client.head()).status == 200
        assert origin.requests[0].get("Expect") is None
        assert origin.connections[0].body_received == 4


class TestForwarding:
    CLAIMS = ("X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: claimed.test")

    async def test_by_default_x_forwarded_is_the_truth(self, ask) -> None:
        request = await ask(
            get(*self.CLAIMS, "X-Real-IP: 192.0.2.1", "Forwarded: for=192.0.2.1", "Via: 1.0 fred")
        )
        assert request.get("X-Forwarded-For") == "127.0.0.1"
        assert request.get("X-Forwarded-Proto") == "http"
        assert request.get("X-Forwarded-Host") == "gateway.test"
        assert not request.get_all("Forwarded")
        assert not request.get_all("X-Real-IP")
        assert request.get_all("Via") == ["1.0 fred", "1.1 penstock"]

    async def test_a_trusted_client_is_added_to(self, ask) -> None:
        request = await ask(
            get(*self.CLAIMS, "X-Forwarded-For: 192.0.2.2", "X-Real-IP: 192.0.2.1"),
            forwarding=Forwarding(trust_incoming=True),
        )
        assert request.get("X-Forwarded-For") == "192.0.2.1, 192.0.2.2, 127.0.0.1"
        assert request.get("X-Forwarded-Proto") == "https"
        assert request.get("X-Forwarded-Host") == "claimed.test"
        assert request.get("X-Real-IP") == "192.0.2.1"

    async def test_forwarded(self, ask) -> None:
        request = await ask(
            get("Forwarded: for=192.0.2.1", *self.CLAIMS),
            forwarding=Forwarding(x_forwarded=False, forwarded=True),
        )
        assert request.get("Forwarded") == "for=127.0.0.1;host=gateway.test;proto=http"
        assert not request.get_all("X-Forwarded-For")

    async def test_forwarded_of_a_trusted_client_is_added_to(self, ask) -> None:
        request = await ask(
            get('Forwarded: for="[2001:db8::1]";proto=https'),
            forwarding=Forwarding(forwarded=True, trust_incoming=True),
        )
        own = "for=127.0.0.1;host=gateway.test;proto=http"
        assert request.get("Forwarded") == f'for="[2001:db8::1]";proto=https, {own}'

    @pytest.mark.parametrize(
        ("host", "quoted"),
        [("h:8080", '"h:8080"'), ("[::1]:80", '"[::1]:80"'), ("plain", "plain"), ('a"b\\', r'"a\"b\\"')],
    )
    async def test_forwarded_quotes_what_is_no_token(
        self, ask, transport: str, host: str, quoted: str
    ) -> None:
        if transport != "stock" and "\\" in host:
            pytest.skip("the engine refuses a malformed Host")
        head = f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        request = await ask(head, forwarding=Forwarding(forwarded=True))
        assert request.get("Forwarded") == f"for=127.0.0.1;host={quoted};proto=http"

    async def test_an_address_of_version_6_is_bracketed_and_quoted(
        self, serving: Serving, connect: Connect
    ) -> None:
        async with ScriptedOrigin(respond(OK)) as origin:
            gateway = Gateway(origin.url, engine=serving.engine, forwarding=Forwarding(forwarded=True))

            async def handler(request):
                return await gateway.relay(request.clone(remote="2001:db8:0::17"))

            await (await connect(await serving.handler(handler))).ask()
            assert 'for="[2001:db8::17]"' in (origin.requests[0].get("Forwarded") or "")
            assert origin.requests[0].get("X-Forwarded-For") == "2001:db8:0::17"

    async def test_nothing_is_said_if_nothing_is_to_be_said(self, ask) -> None:
        request = await ask(get("Accept: */*"), forwarding=Forwarding(x_forwarded=False, via=None))
        assert {name.lower() for name, _ in request.fields} == {"host", "accept"}


class TestPolicy:
    async def test_an_application_can_say_path_origin_and_fields(
        self, serving: Serving, connect: Connect
    ) -> None:
        async with ScriptedOrigin(respond(OK)) as origin:
            gateway = Gateway("http://127.0.0.1:1", engine=serving.engine)

            async def handler(request):
                return await gateway.relay(
                    request,
                    path="/other%2Fpath",
                    origin=origin.url,
                    headers={"Authorization": "Bearer origin", "Cookie": None, "X-New": "1"},
                    tenant="a",
                )

            client = await connect(await serving.handler(handler))
            await client.ask("/path?q=1", "Authorization: Bearer client", "Cookie: secret", "X-Old: 1")
        request = origin.requests[0]
        assert request.target == "/other%2Fpath?q=1"
        assert request.get("Authorization") == "Bearer origin"
        assert request.get("Cookie") is None
        assert (request.get("X-New"), request.get("X-Old")) == ("1", "1")

    async def test_a_path_with_a_query_replaces_the_query(self, serving: Serving, connect: Connect) -> None:
        async with ScriptedOrigin(respond(OK)) as origin:
            gateway = Gateway(origin.url, engine=serving.engine)
            client = await connect(
                await serving.handler(lambda request: gateway.relay(request, path="/p?own"))
            )
            await client.ask("/path?q=1")
            assert origin.requests[0].target == "/p?own"

    @pytest.mark.parametrize(
        "origin",
        ["", "origin", "ftp://h", "http://", "http://h?q", "http://h/#f", "http://u:p@h", "http://h:99999"],
    )
    def test_what_is_no_origin_is_refused(self, origin: str) -> None:
        with pytest.raises(penstock.ConfigurationError):
            Gateway(origin)

    @pytest.mark.parametrize("prefix", ["live", "/live/", "/"])
    def test_what_is_no_prefix_is_refused(self, prefix: str) -> None:
        with pytest.raises(penstock.ConfigurationError):
            Gateway("http://h", prefix=prefix)


@pytest.mark.parametrize("target", ["/a%", "/a%zz", "/<a>", '/"', "/{a}", "/?<", "/a/..;/b", "/a/%c0%ae./b"])
async def test_what_is_no_target_or_may_be_another_is_refused(
    serving: Serving, connect: Connect, target: str
) -> None:
    async with ScriptedOrigin(respond(OK)) as origin:
        client = await connect(await serving.gateway(origin.url))
        assert (await client.ask(target)).head.status == 400
        assert not origin.requests
