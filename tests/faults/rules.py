"""What holds in every cell, whatever happened."""

from support.fault_relay import FaultRelay

from .cells import Cell
from .seen import Message, events, read_all

REFUSED = frozenset({500, 502, 503, 504})


def brief(message: Message) -> str:
    return f"{message.status}, {len(message.body)} bytes, {'whole' if message.whole else 'not whole'}"


def meanings(relay: FaultRelay) -> list[Message]:
    """What the gateway was sent, by connection and in order."""
    return [
        message
        for passage in relay.passages
        for message in read_all(passage.down.passed, finished=True)
        if message.status is not None
    ]


def check_seen(cell: Cell, seen: Message, truth: bytes, sent: list[Message]) -> None:
    """A response is the origin's, or a refusal, or it visibly does not end.

    Args:
        cell: which.
        seen: what the client got.
        truth: the body.
        sent: what passed the relay, if that may differ from the truth.
    """
    if cell.is_harmless:
        assert (seen.status, seen.whole) == (200, True), f"what TCP may do is noticed: {brief(seen)}"
        assert (seen.body == truth) is True, f"another body: {brief(seen)}"
        return
    if seen.status is None or seen.status in REFUSED:
        return
    if not cell.alters:
        assert seen.status == 200, brief(seen)
        assert truth.startswith(seen.body), f"bytes that the origin did not send: {brief(seen)}"
        assert not seen.whole or seen.body == truth, f"a truncated body looks whole: {brief(seen)}"
        return
    allowed = [Message(200, body=truth, whole=True), *sent]
    assert any(
        (one.status == seen.status and one.body.startswith(seen.body) and (one.whole or not seen.whole))
        and (not seen.whole or one.body == seen.body)
        for one in allowed
    ), f"not what the origin sent: {brief(seen)}; it sent {[brief(one) for one in sent]}"


def check_next(cell: Cell, seen: Message, truth: bytes, sent: list[Message]) -> None:
    """The next request gets the exact body; or what the cache had to take for one."""
    allowed = [Message(200, body=truth, whole=True)]
    if cell.alters:
        allowed += [message for message in sent if message.whole]
    assert any((one.status, one.body, True) == (seen.status, seen.body, seen.whole) for one in allowed), (
        f"the next request does not get it: {brief(seen)} {seen.body[:200]!r}"
    )


def check_events(cell: Cell, seen: Message, truth: list[bytes], sent: list[Message]) -> None:
    """Events come whole, in order, and once."""
    got = events(seen.body)
    if cell.is_harmless:
        assert seen.whole, f"what TCP may do is noticed: {brief(seen)}"
        assert got == truth, f"{len(got)} of {len(truth)} events"
        return
    if seen.status != 200:
        return
    known = [truth, *([events(one.body) for one in sent] if cell.alters else [])]
    assert any(got == one[: len(got)] for one in known), f"not the events that were sent: {got[-2:]}"
    if not cell.alters:
        assert not seen.whole or got == truth, f"a truncated stream looks whole: {len(got)} events"
