"""Clients that try tokens at random are bounded in memory, and push out no client that may."""

import asyncio
from collections import Counter

from penstock.config import Access
from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.edges import Edges
from support.hooks import TOKEN, Hook
from support.origins import Recorder
from support.waiting import in_time


async def test_a_flood_of_bad_tokens_stays_bounded_and_evicts_no_permission(edge: Edges) -> None:
    hook = Hook(denied={"lifetime": 3600})
    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = edge.gateway(upstream.url)
        access = Access(decisions=8, denials=4, lifetime=3600)
        route = gateway.native("/", authorise=hook, decision_key=TOKEN, access=access)
        served = await edge.serve([route])
        viewers = [await edge.connect(served) for _ in range(8)]
        for number, viewer in enumerate(viewers):
            assert (await viewer.ask("/", f"Token: good-{number}")).body == b"ok"
        for number in range(100):
            # Long ones take no more than short ones.
            reply = await (await edge.connect(served)).ask("/", f"Token: bad-{number}-{'x' * 4000}")
            assert reply.head.status == 403
        decisions = route.decisions
        assert decisions is not None
        stats = decisions.stats()
        assert (stats.allowed, stats.denied, stats.evicted) == (8, 4, 96)
        asked = len(hook.asked)
        for number, viewer in enumerate(viewers):
            assert (await viewer.ask("/", f"Token: good-{number}")).body == b"ok"
        assert len(hook.asked) == asked, "no client was asked about again"


async def test_a_flood_from_one_address_does_not_block_decisions_for_others(edge: Edges) -> None:
    """Ten thousand distinct bad tokens, many more at a time than may be asked about, and an honest client amid them."""
    lines, each, honest = 100, 100, 20
    hook = Hook(denied={"lifetime": 0}, pause=0.005)
    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = edge.gateway(upstream.url)
        route = gateway.native("/", authorise=hook, decision_key=TOKEN, access=Access(questions=8))
        served = await edge.serve([route])
        statuses = Counter[int]()
        halfway = asyncio.Event()

        async def flood(line: int) -> None:
            client = await edge.connect(served)
            for number in range(each):
                head = (await client.ask("/", f"Token: bad-{line}-{number}")).head
                if head.one("Connection") == "close":
                    client.abort()
                    client = await edge.connect(served)
                statuses[head.status] += 1
                if statuses[503] > honest:
                    halfway.set()

        async with asyncio.TaskGroup() as group:
            for line in range(lines):
                group.create_task(flood(line))
            await in_time(halfway.wait(), "the flood is halfway")
            viewer = await RawClient.connect(served.port, source="127.0.0.2")
            edge.keep(viewer)
            replies = [await viewer.ask("/", f"Token: good-{number}") for number in range(honest)]
            assert statuses.total() < lines * each, "the flood is over too soon to tell"
        assert [(reply.head.status, reply.body) for reply in replies] == [(200, b"ok")] * honest
        assert statuses.total() == lines * each
        assert set(statuses) == {403, 503}
        assert route.decisions is not None
        assert route.decisions.stats().open == 0


async def test_more_viewers_than_are_remembered_are_asked_about_again_and_let_in(edge: Edges) -> None:
    hook = Hook()
    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = edge.gateway(upstream.url)
        route = gateway.native("/", authorise=hook, decision_key=TOKEN, access=Access(decisions=4))
        client = await edge.connect(await edge.serve([route]))
        for _ in range(2):
            for number in range(12):
                assert (await client.ask("/", f"Token: good-{number}")).body == b"ok"
        assert route.decisions is not None
        stats = route.decisions.stats()
        assert stats.allowed == 4
        assert stats.evicted == len(hook.asked) - 4


async def test_a_crowd_at_once_is_answered_each_by_its_own(edge: Edges) -> None:
    hook = Hook()
    async with ScriptedOrigin(Recorder()) as upstream:
        gateway = edge.gateway(upstream.url)
        route = gateway.native("/", authorise=hook, decision_key=TOKEN, access=Access(questions=500))
        served = await edge.serve([route])
        clients = [await edge.connect(served) for _ in range(200)]
        tokens = [f"{'good' if number % 2 else 'bad'}-{number % 20}" for number in range(200)]
        for client, token in zip(clients, tokens, strict=True):
            await client.get("/", f"Token: {token}")
        heads = await asyncio.gather(*(client.head() for client in clients))
        expected = [200 if token.startswith("good") else 403 for token in tokens]
        assert [head.status for head in heads] == expected
        assert sorted(map(str, hook.tokens)) == sorted(set(tokens))
