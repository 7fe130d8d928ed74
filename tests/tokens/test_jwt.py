"""Routes that want a JSON Web Token."""

import time

import pytest

from penstock import config
from penstock.testing import ScriptedOrigin
from penstock.tokens import Jwt, Key
from support.client import answer
from support.edges import Edges
from support.origins import Recorder

from .asking import bearer, protect
from .issuer import SECRET, Signer, rules


@pytest.mark.parametrize("algorithm", ["HS256", "RS256", "ES256", "EdDSA"])
async def test_a_token_is_let_in_and_not_sent_on(anywhere: Edges, algorithm: str) -> None:
    recorder = Recorder()
    signer = Signer.make(algorithm)
    async with ScriptedOrigin(recorder) as origin:
        way = await protect(anywhere, origin.url, rules(signer))
        token = signer.token()
        for _ in range(3):
            assert await way.ask("/vod/7/a.m4s", bearer(token)) == (200, b"ok")
        assert [arrival.head.get("Authorization") for arrival in recorder.arrivals] == [None] * 3
        status, body = await way.ask("/vod/7/a.m4s", bearer(token[:-4] + "AAAA"))
        assert status == 401
        assert b"TOKEN_WRONG_SIGNATURE" in body


async def test_a_refusal_says_how_to_be_let_in(anywhere: Edges) -> None:
    """RFC 6750, section 3."""
    async with ScriptedOrigin(Recorder()) as origin:
        way = await protect(anywhere, origin.url, rules(Signer.make("HS256")))
        for fields in ((), (bearer("a.b.c"),)):
            head, _ = await way.answer("/vod/a", *fields)
            assert head.status == 401
            error = ' error="invalid_token"' if fields else ""
            assert head.one("WWW-Authenticate") == f"Bearer{error}"


async def test_a_token_is_for_its_paths_however_often_it_comes(anywhere: Edges) -> None:
    """What is remembered of a token that was dear to verify is compared with each path."""
    recorder = Recorder()
    signer = Signer.make("ES256")
    async with ScriptedOrigin(recorder) as origin:
        way = await protect(anywhere, origin.url, rules(signer, paths="/vod/{sub}/*"))
        token = signer.token({"sub": "7"})
        for target, status in (("/vod/7/a", 200), ("/vod/8/a", 403), ("/vod/7/b", 200), ("/vod/8/a", 403)):
            assert (await way.ask(target, bearer(token)))[0] == status


async def test_a_token_expires_though_it_is_remembered(anywhere: Edges) -> None:
    signer = Signer.make("ES256")
    async with ScriptedOrigin(Recorder()) as origin:
        way = await protect(anywhere, origin.url, rules(signer, leeway=0))
        expires = int(time.time()) + 2
        token = signer.token({"exp": expires})
        statuses = []
        while True:
            before = time.time()
            statuses.append((await way.ask("/vod/a", bearer(token)))[0])
            if statuses[-1] != 200 or before > expires + 20:
                break
        # Let in until then, and at no time after.
        assert statuses[-1] == 401
        assert time.time() >= expires - 1
        assert 200 in statuses or before >= expires


@pytest.mark.parametrize("place", ["path", "query", "cookie"])
async def test_a_token_may_stand_elsewhere(anywhere: Edges, place: str) -> None:
    recorder = Recorder()
    signer = Signer.make("EdDSA")
    async with ScriptedOrigin(recorder) as origin:
        way = await protect(anywhere, origin.url, rules(signer, places=(place,), name="t"))
        token = signer.token()
        target, fields = {
            "path": (f"/vod/t={token}/a", ()),
            "query": (f"/vod/a?t={token}", ()),
            "cookie": ("/vod/a", (f"Cookie: t={token}",)),
        }[place]
        assert (await way.ask(target, *fields))[0] == 200
        assert recorder.arrivals[0].head.target == "/vod/a"
        assert (await way.ask("/vod/a", bearer(token)))[0] == 401


async def test_viewers_with_tokens_share_what_is_stored(caching: Edges) -> None:
    body = b"x" * 1000
    recorder = Recorder(
        response=answer("Cache-Control: max-age=60", f"Content-Length: {len(body)}", body=body)
    )
    signer = Signer.make("ES256")
    async with ScriptedOrigin(recorder) as origin:
        way = await protect(caching, origin.url, rules(signer, tenant="sub"), caching=config.Caching())
        for viewer in ("a", "b"):
            for _ in range(2):
                token = signer.token({"sub": viewer})
                assert await way.ask("/vod/7/a.m4s", bearer(token)) == (200, body)
        assert len(recorder.arrivals) == 1


async def test_public_keys_make_no_secret(anywhere: Edges) -> None:
    """RFC 8725, section 2.1."""
    import hmac
    import json
    from base64 import urlsafe_b64encode

    signer = Signer.make("RS256")
    async with ScriptedOrigin(Recorder()) as origin:
        way = await protect(anywhere, origin.url, rules(signer))

        def encode(data: bytes) -> bytes:
            return urlsafe_b64encode(data).rstrip(b"=")

        payload = encode(json.dumps({"exp": time.time() + 60}).encode())
        confused = encode(b'{"alg":"HS256"}') + b"." + payload
        signature = encode(hmac.new(signer.pem.encode(), confused, "sha256").digest())
        unsecured = encode(b'{"alg":"none"}') + b"." + payload + b"."
        for token in (confused + b"." + signature, unsecured):
            status, body = await way.ask("/vod/a", bearer(token.decode()))
            assert status == 401
            assert b"TOKEN_WRONG_ALGORITHM" in body


async def test_secrets_rotate(anywhere: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        old, new = Signer("HS256", SECRET, "old"), Signer("HS256", SECRET[::-1], "new")
        keys = (Key("HS256", new.private, id="new"), Key("HS256", old.private, id="old"))
        way = await protect(anywhere, origin.url, Jwt(keys=keys))
        for signer in (old, new):
            assert (await way.ask("/vod/a", bearer(signer.token())))[0] == 200
        stranger = Signer("HS256", SECRET, "other")
        status, body = await way.ask("/vod/a", bearer(stranger.token()))
        assert (status, b"TOKEN_UNKNOWN_KEY" in body) == (401, True)
