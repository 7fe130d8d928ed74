"""Who may subscribe to a topic is decided when he does, and again when that has run out."""

import asyncio

from penstock import Hub
from penstock.config import Access, Subscriptions
from penstock.web import Allow, Deny, NativeRequest
from support.edges import Edges
from support.hooks import TOKEN, Hook, problem
from support.subscribers import Subscriber, Topics
from support.waiting import in_time, until


def hub_of(edge: Edges) -> Hub:
    return Topics(edge).hub()


async def subscribe(edge: Edges, served: object, token: str) -> Subscriber:
    client = await edge.connect(served)  # type: ignore[arg-type]
    await client.get("/events/news", f"Token: {token}")
    head = await in_time(client.head())
    assert head.status == 200, head
    return Subscriber(client, head)


async def test_those_who_may_subscribe_and_others_are_refused(anywhere: Edges) -> None:
    hub, hook = hub_of(anywhere), Hook()
    route = hub.native("/events/", authorise=hook, decision_key=TOKEN)
    served = await anywhere.serve([route])
    subscriber = await subscribe(anywhere, served, "good-a")
    refused = await (await anywhere.connect(served)).ask("/events/news", "Token: bad")
    assert problem(refused) == (403, "ACCESS_DENIED")
    await hub.publish("news", "1")
    assert await subscriber.data(1) == ["1"]
    assert hub.stats().subscribers == 1
    assert (hook.asked[0].route, hook.asked[0].path) == ("/events/", "/events/news")
    hub.close()


async def test_the_tenant_of_a_decision_counts_its_subscriptions(anywhere: Edges) -> None:
    hub = hub_of(anywhere)
    terms = Subscriptions(per_tenant=1)
    route = hub.native("/events/", authorise=Hook(), decision_key=TOKEN, subscriptions=terms)
    served = await anywhere.serve([route])
    await subscribe(anywhere, served, "good-a")
    refused = await (await anywhere.connect(served)).ask("/events/news", "Token: good-a")
    assert problem(refused) == (429, "TOO_MANY_REQUESTS")
    await subscribe(anywhere, served, "good-b")
    hub.close()


async def test_a_subscription_is_authorised_again_and_ends_after_a_whole_event(anywhere: Edges) -> None:
    hub = hub_of(anywhere)
    allowed = True
    asked = 0

    async def hook(_: NativeRequest) -> Allow | Deny:
        nonlocal asked
        asked += 1
        return Allow("a", lifetime=1) if allowed else Deny()

    route = hub.native("/events/", authorise=hook, decision_key=TOKEN)
    served = await anywhere.serve([route])
    subscribers = [await subscribe(anywhere, served, "x") for _ in range(3)]
    await until(lambda: asked >= 3, "it is asked again, and again")
    await hub.publish("news", "1")
    for subscriber in subscribers:
        assert await subscriber.data(1) == ["1"]
    allowed = False
    for subscriber in subscribers:
        assert await subscriber.rest() == []
    await until(lambda: hub.stats().subscribers == 0, "all have left")
    hub.close()


async def test_a_hook_that_fails_later_ends_the_subscription(edge: Edges) -> None:
    hub = hub_of(edge)
    answers: list[Allow] = [Allow(lifetime=0)]

    def hook(_: NativeRequest) -> Allow:
        return answers.pop()

    route = hub.native("/events/", authorise=hook, decision_key=TOKEN)
    subscriber = await subscribe(edge, await edge.serve([route]), "x")
    assert await subscriber.rest() == []
    hub.close()


async def test_subscriptions_that_run_out_together_take_turns(edge: Edges) -> None:
    """More of them than questions that may be open: none ends because the others ask as well."""
    hub, go = hub_of(edge), asyncio.Event()
    hook = Hook(allowed={"lifetime": 1})
    route = hub.native("/events/", authorise=hook, decision_key=TOKEN, access=Access(questions=1))
    served = await edge.serve([route])
    subscribers = [await subscribe(edge, served, f"good-{number}") for number in range(5)]
    await until(lambda: len(hook.asked) >= 15, "all were asked about again, and again")
    go.set()
    await hub.publish("news", "1")
    for subscriber in subscribers:
        assert await subscriber.data(1) == ["1"]
    hub.close()


async def test_a_revoked_subscription_ends_at_once_after_a_whole_event(edge: Edges) -> None:
    hub = hub_of(edge)
    route = hub.native("/events/", authorise=Hook(), decision_key=TOKEN)
    served = await edge.serve([route])
    one, other = await subscribe(edge, served, "good-a"), await subscribe(edge, served, "good-b")
    assert route.decisions is not None
    assert route.decisions.revoke(tenant="a") == (1, 1)
    assert await one.rest() == []
    await hub.publish("news", "1")
    assert await other.data(1) == ["1"]
    assert route.decisions.stats().running == 1
    hub.close()
