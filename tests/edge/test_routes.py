"""Which route a request takes, and what is changed on its way: paths, fields, forwarding."""

import json

import pytest
from aiohttp import web

import penstock
from penstock.config import Forwarding
from penstock.testing import ScriptedOrigin, respond
from support.client import answer
from support.edges import Edges
from support.origins import Recorder
from support.waiting import until

NAMED = {name: answer("Content-Length: 1", body=name.encode()) for name in "abcd"}


async def test_the_longest_prefix_wins_and_a_host_before_any(anywhere: Edges) -> None:
    async with (
        ScriptedOrigin(respond(NAMED["a"])) as a,
        ScriptedOrigin(respond(NAMED["b"])) as b,
        ScriptedOrigin(respond(NAMED["c"])) as c,
    ):
        gateway = anywhere.gateway(a.url)
        # The stock router takes the first that matches; the engine sorts.
        routes = [
            gateway.native("/", origin=c.url, host="media.test"),
            gateway.native("/vod/hd/", origin=b.url),
            gateway.native("/vod/"),
        ]
        client = await anywhere.connect(await anywhere.serve(routes))

        async def answered(target: str, host: str) -> bytes:
            await client.send(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            return await client.body(await client.head())

        assert await answered("/vod/x", "gateway.test") == b"a"
        assert await answered("/vod/hd/x", "gateway.test") == b"b"
        assert await answered("/vod/hd", "gateway.test") == b"a"
        assert await answered("/vod/hd/x", "media.test") == b"c"
        assert await answered("/vod/hd/x", "MEDIA.test:8080") == b"c"
        assert await answered("/vod/?/../x", "gateway.test") == b"a"


async def test_the_order_of_declaration_means_nothing_to_the_engine(edge: Edges) -> None:
    async with ScriptedOrigin(respond(NAMED["a"])) as a, ScriptedOrigin(respond(NAMED["b"])) as b:
        gateway = edge.gateway(a.url)
        routes = [gateway.native("/"), gateway.native("/vod/"), gateway.native("/vod/hd/", origin=b.url)]
        for declared in (routes, routes[::-1]):
            client = await edge.connect(await edge.serve(declared))
            assert (await client.ask("/vod/hd/x")).body == b"b"
            assert (await client.ask("/vod/x")).body == b"a"


@pytest.mark.parametrize(
    "target",
    [
        *("/vo", "/vod", "/Vod/x", "/vod%2Fx", "//vod/x", "/", "/vod/../x", "/vod/./x", "/vod/..", "/vod/."),
        *("/vod/%2e%2E/x", "/vod/%2e%2e%2fx", "/vod/..%5Cx", "/vod/..\\x", "/vod/a%2F..%2fb"),
        # To a servlet container what follows a semicolon is no part of the segment.
        *("/vod/..;/x", "/vod/7/..;a=b/8", "/vod/7/%2e%2e;/8", "/vod/7/..%3B/8", "/vod/.;/x", "/vod/7/..;"),
        *("/vod/%c0%ae%c0%ae/x", "/vod/7%c0%af..%c0%af8"),
    ],
)
async def test_what_matches_no_route_is_told_so(anywhere: Edges, target: str) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        served = await anywhere.serve([anywhere.gateway(origin.url).native("/vod/")])
        client = await anywhere.connect(served)
        assert (await client.ask(target)).head.status == 404
    assert not recorder.arrivals


@pytest.mark.parametrize(
    "target",
    [
        *("/vod/.hidden", "/vod/a..b", "/vod/...", "/vod/x?p=/../y", "/vod/%252e%252e/x"),
        *("/vod/..a;b/x", "/vod/a;..", "/vod/x?p=/..;/y", "/vod/%00%0d%0a"),
    ],
)
async def test_dots_that_are_no_dot_segments_pass(anywhere: Edges, target: str) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await anywhere.serve([anywhere.gateway(origin.url).native("/vod/")])
        client = await anywhere.connect(served)
        assert (await client.ask(target)).head.status == 200
        assert origin.requests[0].target == target


async def test_the_host_decides_and_the_target_of_an_absolute_url_before_it(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.serve([edge.gateway(origin.url).native("/", host="media.test")])
        good = (
            "GET / HTTP/1.1\r\nHost: Media.Test\r\n\r\n",
            "GET http://media.test:80/ HTTP/1.1\r\nHost: x\r\n\r\n",
        )
        bad = ("GET / HTTP/1.1\r\nHost: x.test\r\n\r\n", "GET http://x/ HTTP/1.1\r\nHost: media.test\r\n\r\n")
        bad += ("GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: media.test.x\r\n\r\n")
        for status, requests in ((200, good), (404, bad)):
            for request in requests:
                client = await edge.connect(served)
                await client.send(request.encode())
                assert (await client.head()).status == status, request


@pytest.mark.parametrize(
    ("base", "options", "target", "sent"),
    [
        ("", {}, "/vod/a?b", "/vod/a?b"),
        ("", {"rewrite": "/archive/2026/"}, "/vod/a%2Fb?c=%20", "/archive/2026/a%2Fb?c=%20"),
        ("", {"rewrite": "/"}, "/vod/vod/a", "/vod/a"),
        ("/base", {}, "/vod/a", "/base/vod/a"),
        ("/base", {"rewrite": "/"}, "/vod/", "/base/"),
    ],
)
async def test_a_prefix_is_rewritten_and_the_rest_kept_as_it_was_written(
    anywhere: Edges, base: str, options: dict[str, str], target: str, sent: str
) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await anywhere.serve([anywhere.gateway(origin.url + base).native("/vod/", **options)])
        client = await anywhere.connect(served)
        assert (await client.ask(target)).head.status == 200
        assert origin.requests[0].target == sent


async def test_fields_of_the_request_are_set_added_and_dropped(anywhere: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await anywhere.relay(
            origin.url,
            headers={"x-set": "new", "Cookie": None, "Host": "cdn.test", "X-Forwarded-For": None},
            add_headers=[("Accept", "text/plain"), ("X-Added", "1"), ("X-Added", "2")],
        )
        client = await anywhere.connect(served)
        reply = await client.ask("/", "X-Set: old", "X-SET: older", "Cookie: secret", "Accept: */*")
        assert reply.head.status == 200
        (request,) = origin.requests
        assert request.get_all("X-Set") == ["new"]
        assert request.get("Cookie") is None
        assert request.get_all("Accept") == ["*/*", "text/plain"]
        assert request.get_all("X-Added") == ["1", "2"]
        assert request.get("Host") == "cdn.test"
        assert request.get("X-Forwarded-For") is None
        assert request.get("X-Forwarded-Proto") == "http"


async def test_fields_of_the_response_are_set_added_and_dropped(anywhere: Edges) -> None:
    head = answer("Content-Length: 2", "X-Set: old", "X-SET: older", "X-Powered-By: x", "Vary: a", body=b"ok")
    async with ScriptedOrigin(respond(head)) as origin:
        served = await anywhere.relay(
            origin.url,
            response_headers={"x-set": "new", "X-Powered-By": None, "Date": "Sat, 21 Nov 2026 00:00:00 GMT"},
            add_response_headers=[("Vary", "b"), ("X-Added", "1"), ("X-Added", "2")],
        )
        client = await anywhere.connect(served)
        head_of = (await client.ask()).head
        assert head_of.all("X-Set") == ["new"]
        assert head_of.one("X-Powered-By") is None
        assert head_of.all("Vary") == ["a", "b"]
        assert head_of.all("X-Added") == ["1", "2"]
        assert head_of.all("Date") == ["Sat, 21 Nov 2026 00:00:00 GMT"]


async def test_the_origin_is_told_who_asks_and_not_what_the_client_claims(anywhere: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.ask(
            "/", "X-Forwarded-For: 192.0.2.1", "X-Real-IP: 192.0.2.1", "Forwarded: for=x", "Via: 1.0 a"
        )
        (request,) = origin.requests
        assert request.get_all("X-Forwarded-For") == ["127.0.0.1"]
        assert request.get_all("X-Forwarded-Proto") == ["http"]
        assert request.get_all("X-Forwarded-Host") == ["gateway.test"]
        assert request.get("X-Real-IP") is None
        assert request.get("Forwarded") is None
        assert request.get_all("Via") == ["1.0 a", "1.1 penstock"]


async def test_a_claim_is_none_the_less_one_with_underscores(anywhere: Edges) -> None:
    """CGI and WSGI know no difference, and read such a field in place of ours."""
    async with ScriptedOrigin(Recorder()) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.ask(
            "/", "X_Forwarded_For: 192.0.2.1", "x-forwarded_PROTO: https", "X_Real_IP: x", "X_Other: y"
        )
        (request,) = origin.requests
        assert [name for name, _ in request.fields if "_" in name] == ["X_Other"]
        assert request.get_all("X-Forwarded-For") == ["127.0.0.1"]


async def test_a_trusted_client_is_added_to(anywhere: Edges) -> None:
    policy = Forwarding(trust_incoming=True, forwarded=True, via=None, preserve_host=True)
    async with ScriptedOrigin(Recorder()) as origin:
        served = await anywhere.serve([anywhere.gateway(origin.url, forwarding=policy).native("/")])
        client = await anywhere.connect(served)
        reply = await client.ask(
            "/", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "Forwarded: for=x"
        )
        (request,) = origin.requests
        assert request.get_all("X-Forwarded-For") == ["192.0.2.1, 127.0.0.1"]
        assert request.get_all("X-Forwarded-Proto") == ["https"]
        assert request.get_all("Forwarded") == ["for=x, for=127.0.0.1;host=gateway.test;proto=http"]
        assert request.get_all("Via") == []
        assert request.get_all("Host") == ["gateway.test"]
        assert reply.head.all("Via") == []


async def test_fields_of_the_hop_stay_there(anywhere: Edges) -> None:
    response = answer(
        *("Content-Length: 2", "Connection: X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5", "Upgrade: h2c"),
        *("Proxy-Authenticate: Basic", "X-End: 1"),
        body=b"ok",
    )
    async with ScriptedOrigin(respond(response)) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        reply = await client.ask(
            *("/", "Connection: keep-alive, X-Mine", "X-Mine: 1", "Keep-Alive: timeout=9", "TE: trailers"),
            *("Proxy-Authorization: Basic x", "Upgrade: h2c", "X-End: 1", "Proxy-Connection: x"),
        )
        assert reply.body == b"ok"
        (request,) = origin.requests
        hop = (
            "X-Mine",
            "Keep-Alive",
            "TE",
            "Proxy-Authorization",
            "Upgrade",
            "Proxy-Connection",
            "Connection",
        )
        assert [name for name in hop if request.get(name) is not None] == []
        assert request.get("X-End") == "1"
        back = ("X-Hop", "Keep-Alive", "Upgrade", "Proxy-Authenticate", "Connection")
        assert [name for name in back if reply.head.one(name) is not None] == []
        assert (reply.head.one("X-End"), reply.head.all("Via")) == ("1", ["1.1 penstock"])


async def test_routes_are_replaced_while_traffic_flows(edge: Edges) -> None:
    """What has begun goes on by the old table, on the same connection the next request takes the new one."""
    async with ScriptedOrigin(respond(NAMED["a"])) as a, ScriptedOrigin(respond(NAMED["b"])) as b:
        gateway = edge.gateway(a.url)
        served = await edge.serve([gateway.native("/")])
        client, slow = await edge.connect(served), await edge.connect(served)
        assert (await client.ask()).body == b"a"
        await slow.send(b"POST / HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 2\r\n\r\n1")
        await until(lambda: len(a.requests) == 2, "the second request is on its way")
        served.native.set_routes(edge.natives([gateway.native("/b/", origin=b.url)]))
        await slow.send(b"2")
        assert await slow.body(await slow.head()) == b"a"
        assert (await slow.ask("/b/")).body == b"b"
        assert (await client.ask("/b/")).body == b"b"
        assert (await client.ask("/")).head.status == 404


async def test_a_route_of_a_sub_application_has_its_prefix(anywhere: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        gateway = anywhere.gateway(origin.url)
        inner, app = web.Application(), web.Application()
        inner.add_routes([gateway.native("/vod/"), gateway.native("/live/", rewrite="/l/")])
        app.add_subapp("/media/", inner)
        client = await anywhere.connect(await anywhere.serve(app))
        for target, sent in (("/media/vod/a?b", "/vod/a?b"), ("/media/live/a", "/l/a")):
            assert (await client.ask(target)).head.status == 200
            assert origin.requests[-1].target == sent
        assert (await client.ask("/vod/a")).head.status == 404


CLAIMS = (
    *("X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-Client-Cert"),
    *("X-Forwarded-Scheme", "X-Forwarded-Access-Token", "X-Forwarded-Preferred-Username", "X-Forwarded"),
    *("x-forwarded-anything", "X_Forwarded_User", "X.Forwarded.User", "X-Forwarded_Client.Cert", "X.Real.IP"),
)


async def test_no_claim_of_a_client_reaches_the_origin(anywhere: Edges) -> None:
    """Who is behind a proxy that authenticates believes these: oauth2-proxy, Envoy, Traefik and others set them."""
    async with ScriptedOrigin(Recorder()) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        await client.ask("/", *(f"{name}: admin" for name in CLAIMS), "X-Forwardedly: kept")
        (request,) = origin.requests
        assert [name for name, value in request.fields if value == "admin"] == []
        assert request.get("X-Forwardedly") == "kept"


async def test_a_trusted_client_may_claim_what_it_likes(anywhere: Edges) -> None:
    policy = Forwarding(trust_incoming=True)
    async with ScriptedOrigin(Recorder()) as origin:
        served = await anywhere.serve([anywhere.gateway(origin.url, forwarding=policy).native("/")])
        client = await anywhere.connect(served)
        await client.ask("/", *(f"{name}: admin" for name in CLAIMS))
        (request,) = origin.requests
        assert [name for name, value in request.fields if value == "admin"] == list(CLAIMS)


async def test_what_looks_like_framing_crosses_neither_way(anywhere: Edges) -> None:
    """CGI and what followed it take `Transfer_Encoding` for Transfer-Encoding."""
    alike = (
        *(
            "Transfer_Encoding: chunked",
            "Transfer.Encoding: chunked",
            "Content_Length: 5",
            "content.length: 5",
        ),
        *("Keep_Alive: 1", "Proxy_Authorization: x", "HTTP2_Settings: x"),
    )
    response = answer("Content-Length: 2", *alike, "X_Other: kept", body=b"ok")
    async with ScriptedOrigin(Recorder(response=response)) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        reply = await client.ask("/", *alike, "X_Other: kept")
        (request,) = origin.requests
        for fields in (request.fields, reply.head.fields):
            assert [name for name, _ in fields if "_" in name or "." in name] == ["X_Other"]
        assert reply.body == b"ok"


@pytest.mark.parametrize(
    "target", ["/a%", "/a%2", "/a%zz", "/<a>", '/"', "/{a}", "/?<", '/?"', "http://a/%zz"]
)
async def test_what_is_no_target_is_refused(edge: Edges, target: str) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await edge.connect(await edge.relay(origin.url))
        reply = await client.ask(target)
        assert (reply.head.status, json.loads(reply.body)["name"]) == (400, "BAD_REQUEST_HEAD")
    assert not recorder.arrivals


@pytest.mark.parametrize(
    ("location", "mapped"),
    [
        ("{origin}/base/archive/x?y=z#f", "/vod/x?y=z#f"),
        ("HTTP://{authority}/base/archive/", "/vod/"),
        ("{origin}/base/other", "{origin}/base/other"),
        ("{origin}/", "{origin}/"),
        ("https://{authority}/base/archive/x", "https://{authority}/base/archive/x"),
        ("http://other.test/base/archive/x", "http://other.test/base/archive/x"),
        ("{origin}.test/base/archive/x", "{origin}.test/base/archive/x"),
        ("http://a@{authority}/base/archive/x", "http://a@{authority}/base/archive/x"),
        ("/base/archive/x", "/base/archive/x"),
        ("x", "x"),
    ],
)
async def test_what_an_origin_says_of_itself_is_mapped(anywhere: Edges, location: str, mapped: str) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        authority = origin.url.removeprefix("http://")

        def filled(text: str) -> str:
            return text.format(origin=origin.url, authority=authority)

        fields = (f"Location: {filled(location)}", f"Content-Location: {filled(location)}")
        recorder.response = answer(
            *fields, f"Refresh: 5; URL={filled(location)}", "Content-Length: 0", status="302 Found"
        )
        gateway = anywhere.gateway(f"{origin.url}/base")
        served = await anywhere.serve([gateway.native("/vod/", rewrite="/archive/")])
        head = (await (await anywhere.connect(served)).ask("/vod/a")).head
        assert head.one("Location") == head.one("Content-Location") == filled(mapped)
        assert head.one("Refresh") == f"5; URL={filled(mapped)}"


async def test_a_path_that_would_name_another_host_is_not_mapped(anywhere: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        client = await anywhere.connect(await anywhere.relay(origin.url))
        for path in ("//evil.test/x", "/\\evil.test/x"):
            location = f"Location: {origin.url}{path}"
            recorder.response = answer(location, "Content-Length: 0", status="302 Found")
            assert (await client.ask("/")).head.one("Location") == f"{origin.url}{path}"


async def test_the_mapping_can_be_left_out(anywhere: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin:
        recorder.response = answer(f"Location: {origin.url}/x", "Content-Length: 0", status="302 Found")
        gateway = anywhere.gateway(origin.url, forwarding=Forwarding(map_location=False))
        client = await anywhere.connect(await anywhere.serve([gateway.native("/")]))
        assert (await client.ask("/")).head.one("Location") == f"{origin.url}/x"


async def test_each_of_several_origins_is_one_that_is_mapped(anywhere: Edges) -> None:
    recorder = Recorder()
    async with ScriptedOrigin(recorder) as origin, ScriptedOrigin(recorder) as other:
        recorder.response = answer(f"Location: {other.url}/x", "Content-Length: 0", status="302 Found")
        gateway = anywhere.gateway(penstock.Origins([origin.url, other.url]))
        client = await anywhere.connect(await anywhere.serve([gateway.native("/")]))
        for _ in range(2):
            assert (await client.ask("/")).head.one("Location") == "/x"
