"""Keys that are published: fetched, refreshed, kept while they cannot be, never fetched more often than is said."""

import asyncio
import time
from typing import Any

import pytest

from penstock.testing import ScriptedOrigin
from penstock.tokens import Jwks, Jwt
from support.client import answer
from support.edges import Edges
from support.origins import Recorder
from support.waiting import DEADLINE, until

from .asking import Way, bearer, protect
from .issuer import SECRET, Publisher, Signer


def jwks_of(issuer: ScriptedOrigin, **options: Any) -> Jwt:
    return Jwt(jwks=Jwks(f"{issuer.url}/jwks.json", **{"pause": 1, "least": 1, **options}))


async def come_again(way: Way, signer: Signer, status: int = 200) -> None:
    """Asks until the engine knows better."""
    end = time.monotonic() + DEADLINE
    while (found := (await way.ask("/vod/a", bearer(signer.token())))[0]) != status:
        if time.monotonic() > end:
            pytest.fail(f"not {status} within {DEADLINE} s, but {found}")
        # It may take the second that `pause` is: each request costs what thirty polls of a counter do.
        await asyncio.sleep(0.02)


async def test_published_keys_are_fetched_and_used(anywhere: Edges) -> None:
    signers = [Signer.make("ES256", "a"), Signer.make("RS256", "b"), Signer.make("EdDSA", "c")]
    publisher = Publisher([signer.jwk(use="sig") for signer in signers])
    async with ScriptedOrigin(publisher) as issuer, ScriptedOrigin(Recorder()) as origin:
        way = await protect(anywhere, origin.url, jwks_of(issuer))
        await come_again(way, signers[0])
        for signer in signers:
            assert (await way.ask("/vod/a", bearer(signer.token())))[0] == 200
        assert publisher.asked == 1


async def test_a_token_before_the_first_keys_may_come_again(anywhere: Edges) -> None:
    publisher = Publisher(response=answer("Content-Length: 0", status="500 Internal Server Error"))
    signer = Signer.make("ES256", "a")
    async with ScriptedOrigin(publisher) as issuer, ScriptedOrigin(Recorder()) as origin:
        way = await protect(anywhere, origin.url, jwks_of(issuer))
        head, body = await way.answer("/vod/a", bearer(signer.token()))
        assert (head.status, head.one("Retry-After") is not None) == (503, True)
        assert b"KEYS_UNAVAILABLE" in body
        await until(lambda: publisher.asked, "they were asked for")
        publisher.keys, publisher.response = [signer.jwk()], None
        await come_again(way, signer)
        assert publisher.asked >= 2


async def test_a_new_key_is_fetched_when_a_token_names_it(anywhere: Edges) -> None:
    old, new = Signer.make("ES256", "old"), Signer.make("ES256", "new")
    publisher = Publisher([old.jwk()])
    async with ScriptedOrigin(publisher) as issuer, ScriptedOrigin(Recorder()) as origin:
        way = await protect(anywhere, origin.url, jwks_of(issuer))
        await come_again(way, old)
        publisher.keys = [old.jwk(), new.jwk()]
        await come_again(way, new)
        assert (await way.ask("/vod/a", bearer(old.token())))[0] == 200


async def test_made_up_keys_do_not_have_it_fetch_without_end(anywhere: Edges) -> None:
    known = Signer.make("ES256", "a")
    publisher = Publisher([known.jwk()])
    async with ScriptedOrigin(publisher) as issuer, ScriptedOrigin(Recorder()) as origin:
        way = await protect(anywhere, origin.url, jwks_of(issuer, pause=3600))
        await come_again(way, known)
        for number in range(50):
            stranger = Signer("ES256", known.private, str(number))
            status, body = await way.ask("/vod/a", bearer(stranger.token()))
            assert (status, b"TOKEN_UNKNOWN_KEY" in body) == (401, True)
        assert (await way.ask("/vod/a", bearer(known.token())))[0] == 200
        assert publisher.asked <= 2


@pytest.mark.parametrize(
    "response",
    [
        answer("Content-Length: 0", status="404 Not Found"),
        answer("Content-Length: 0", "Location: /elsewhere", status="302 Found"),
        answer("Content-Length: 4", body=b"none"),
        answer("Content-Length: 2", body=b"{}"),
        answer("Content-Length: 11", body=b'{"keys":[]}'),
        answer("Content-Length: 100", body=b'{"keys":[]}'),
        answer(f"Content-Length: {1 << 20}", body=b" " * (1 << 20)),
        b"nothing of HTTP\r\n\r\n",
    ],
    ids=["404", "redirect", "no JSON", "no set", "no keys", "truncated", "too large", "no HTTP"],
)
async def test_keys_stay_while_nothing_better_is_published(
    anywhere: Edges, response: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    signer, unknown = Signer.make("ES256", "a"), Signer.make("ES256", "b")
    publisher = Publisher([signer.jwk()])
    async with ScriptedOrigin(publisher) as issuer, ScriptedOrigin(Recorder()) as origin:
        way = await protect(anywhere, origin.url, jwks_of(issuer, timeout=2))
        await come_again(way, signer)
        publisher.response = response
        asked = publisher.asked

        def told() -> bool:
            return any("could not be fetched" in record.getMessage() for record in caplog.records)

        while publisher.asked == asked or not told():
            assert (await way.ask("/vod/a", bearer(unknown.token())))[0] == 401
            await asyncio.sleep(0.02)
        assert (await way.ask("/vod/a", bearer(signer.token())))[0] == 200


async def test_a_secret_that_is_published_is_none(anywhere: Edges) -> None:
    signer = Signer.make("ES256", "a")
    secret = {"kty": "oct", "kid": "s", "alg": "HS256", "k": "YSBzZWNyZXQgb2YgdHdvIGFuZCB0aGlydHkgYnl0ZXM"}
    async with (
        ScriptedOrigin(Publisher([secret, signer.jwk()])) as issuer,
        ScriptedOrigin(Recorder()) as origin,
    ):
        way = await protect(anywhere, origin.url, jwks_of(issuer))
        await come_again(way, signer)
        forged = Signer("HS256", SECRET, "s")
        assert (await way.ask("/vod/a", bearer(forged.token())))[0] == 401


async def test_keys_are_fetched_anew_when_they_are_old(anywhere: Edges) -> None:
    """A key that was taken out is not valid any more once the set's time is over."""
    gone, left = Signer.make("ES256", "gone"), Signer.make("ES256", "left")
    publisher = Publisher([gone.jwk(), left.jwk()], fields=("Cache-Control: public, max-age=1",))
    async with ScriptedOrigin(publisher) as issuer, ScriptedOrigin(Recorder()) as origin:
        way = await protect(anywhere, origin.url, jwks_of(issuer))
        await come_again(way, left)
        publisher.keys = [left.jwk()]
        await come_again(way, gone, status=401)
        assert (await way.ask("/vod/a", bearer(left.token())))[0] == 200


async def test_many_routes_of_one_rule_fetch_once(anywhere: Edges) -> None:
    signer = Signer.make("ES256", "a")
    publisher = Publisher([signer.jwk()])
    async with ScriptedOrigin(publisher) as issuer, ScriptedOrigin(Recorder()) as origin:
        jwt = jwks_of(issuer)
        gateway = anywhere.gateway(origin.url)
        routes = [gateway.native(f"/{name}/", authorise=jwt) for name in ("vod", "live", "dvr")]
        way = Way(anywhere, await anywhere.serve(routes))
        await come_again(way, signer)
        for name in ("vod", "live", "dvr"):
            assert (await way.ask(f"/{name}/a", bearer(signer.token())))[0] == 200
        assert publisher.asked == 1


async def test_a_set_that_has_more_keys_than_it_may_is_refused(
    anywhere: Edges, caplog: pytest.LogCaptureFixture
) -> None:
    signer = Signer.make("ES256", "a")
    async with (
        ScriptedOrigin(Publisher([signer.jwk()] * 3)) as issuer,
        ScriptedOrigin(Recorder()) as origin,
    ):
        way = await protect(anywhere, origin.url, jwks_of(issuer, max_keys=2))
        assert (await way.ask("/vod/a", bearer(signer.token())))[0] == 503
        await until(lambda: "more than 2" in caplog.text, "it is told")
        assert (await way.ask("/vod/a", bearer(signer.token())))[0] == 503
