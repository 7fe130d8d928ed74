"""The relay of faults by itself: what passes is exact to the byte, and the rest is what the action says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.testing import Peer, ScriptedOrigin
from support.client import RawClient, client_of
from support.fault_relay import ALTERING, HARMLESS, Action, Fault, FaultRelay, Place
from support.waiting import in_time, until

SAID = b"one two three four"
AT = SAID.index(b"three")


async def says(peer: Peer) -> None:
    """Send it in two pieces, and then what comes, to its end."""
    await peer.send(SAID[:6])
    await peer.send(SAID[6:])
    peer.half_close()
    while not peer.left:
        await peer.stall()


@asynccontextmanager
async def relayed(fault: Fault | None) -> AsyncIterator[tuple[FaultRelay, RawClient, Peer]]:
    async with (
        ScriptedOrigin(says) as origin,
        FaultRelay(origin.port, fault) as relay,
        client_of(relay.port) as client,
    ):
        yield relay, client, await origin.connection()


@pytest.mark.parametrize("action", sorted(HARMLESS))
@pytest.mark.parametrize("place", [Place(rb"(three)"), 0, AT, len(SAID)], ids=str)
async def test_what_tcp_may_do_changes_nothing(action: Action, place: Place | int) -> None:
    async with relayed(Fault(action, place)) as (relay, client, _):
        assert await in_time(client.rest()) == SAID
        assert relay.fired.is_set()
        assert relay.passages[0].down.passed == SAID


@pytest.mark.parametrize("action", [Action.CUT, Action.HALF_CLOSE])
async def test_an_end_comes_after_the_byte_before_the_place(action: Action) -> None:
    async with relayed(Fault(action, AT)) as (relay, client, peer):
        assert await in_time(client.rest()) == SAID[:AT]
        assert relay.passages[0].down.passed == SAID[:AT]
        if action is Action.CUT:
            await in_time(peer.wait_left(), "the sender's connection ends as well")
        else:
            await client.send(b"heard")
            assert await in_time(peer.read(5)) == b"heard"


async def test_a_reset_is_one_for_both() -> None:
    async with relayed(Fault(Action.RESET, AT)) as (_, client, peer):
        with pytest.raises(ConnectionResetError):
            await in_time(client.rest())
        await in_time(peer.wait_left(), "the sender's connection ends as well")


async def test_a_stall_lasts_until_one_side_leaves() -> None:
    async with relayed(Fault(Action.STALL, AT)) as (relay, client, _):
        assert await in_time(client.reader.readexactly(AT)) == SAID[:AT]
        await until(relay.fired.is_set, "the fault has happened")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.read(1), 0.1)


async def test_a_byte_is_changed_and_no_other() -> None:
    async with relayed(Fault(Action.CORRUPT, AT)) as (_, client, _peer):
        data = await in_time(client.rest())
        assert [place for place, pair in enumerate(zip(data, SAID, strict=True)) if pair[0] != pair[1]] == [
            AT
        ]


async def test_bytes_are_inserted_before_the_place() -> None:
    async with relayed(Fault(Action.INSERT, AT)) as (_, client, _peer):
        data = await in_time(client.rest())
        assert data.startswith(SAID[:AT])
        assert data.endswith(SAID[AT:])
        assert len(data) > len(SAID)


async def test_a_seed_chooses_the_same_byte_again_and_others_others() -> None:
    place = Place(rb"(three four)")
    chosen = [Fault(Action.CUT, place, seed=str(seed)).at(SAID) for seed in range(20)]
    assert chosen == [Fault(Action.CUT, place, seed=str(seed)).at(SAID) for seed in range(20)]
    assert len(set(chosen)) > 5
    assert all(at is not None and AT <= at < len(SAID) for at in chosen)


async def test_a_fault_happens_once() -> None:
    async with ScriptedOrigin(says) as origin, FaultRelay(origin.port, Fault(Action.CUT, AT)) as relay:
        for expected in (SAID[:AT], SAID):
            async with client_of(relay.port) as client:
                assert await in_time(client.rest()) == expected


def test_each_action_is_of_one_kind() -> None:
    assert not HARMLESS & ALTERING
    assert set(Action) - HARMLESS - ALTERING == {Action.STALL, Action.CUT, Action.RESET, Action.HALF_CLOSE}
