"""A stored response is shared by all clients that may have it, and no other client gets it."""

import penstock
from penstock.config import Cache, Caching
from penstock.testing import ScriptedOrigin
from penstock.web import Gateway
from support.client import answer
from support.edges import Edges
from support.hooks import Hook, problem
from support.origins import Recorder

STORED = answer("Cache-Control: max-age=3600", "Content-Length: 5", body=b"bytes")
AUTHORIZATION = "header:Authorization"


async def test_what_one_has_fetched_others_get_who_may() -> None:
    origin, hook = Recorder(response=STORED), Hook()
    async with (
        ScriptedOrigin(origin) as upstream,
        penstock.Engine(memory="16MiB", cache=Cache(memory="4MiB")) as engine,
    ):
        gateway = Gateway(upstream.url, engine=engine)
        # The origin, and so the cache, hears nothing of the token.
        route = gateway.native(
            "/",
            authorise=hook,
            decision_key=AUTHORIZATION,
            caching=Caching(),
            headers={"Authorization": None},
        )
        edges = Edges(engine)
        served = await edges.serve([route])
        for number in range(3):
            client = await edges.connect(served)
            for _ in range(2):
                reply = await client.ask("/film", f"Authorization: good-{number}")
                assert reply.body == b"bytes"
        refused = await (await edges.connect(served)).ask("/film", "Authorization: bad")
        assert problem(refused) == (403, "ACCESS_DENIED")
        assert len(origin.arrivals) == 1
        assert len(hook.asked) == 4
        await edges.close()


async def test_a_revoked_client_gets_no_stored_response() -> None:
    origin, hook = Recorder(response=STORED), Hook()
    async with (
        ScriptedOrigin(origin) as upstream,
        penstock.Engine(memory="16MiB", cache=Cache(memory="4MiB")) as engine,
    ):
        gateway = Gateway(upstream.url, engine=engine)
        route = gateway.native("/", authorise=hook, decision_key="header:Token", caching=Caching())
        edges = Edges(engine)
        served = await edges.serve([route])
        client = await edges.connect(served)
        for _ in range(2):
            assert (await client.ask("/film", "Token: good-a")).body == b"bytes"
        hook.allowed = {"tenant": 7}  # which makes the hook fail
        assert route.decisions is not None
        route.decisions.revoke(tenant="a")
        assert (await client.ask("/film", "Token: good-a")).head.status == 500
        assert len(origin.arrivals) == 1
        await edges.close()
