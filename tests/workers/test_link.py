"""The two ways between the parent and a worker: what goes over them, what does not, and how they end."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock import config
from penstock.exceptions import make_error
from penstock.workers import messages
from penstock.workers.link import Calls, Link
from support.waiting import in_time


@pytest.fixture
async def links() -> AsyncIterator[tuple[Link, Link]]:
    """Both ends of one."""
    one, other = (Link(sock) for sock in socket.socketpair())
    async with one, other:
        yield one, other


@pytest.fixture
async def raw() -> AsyncIterator[tuple[Link, socket.socket]]:
    """A link, and the other end of its socket."""
    mine, other = socket.socketpair()
    other.setblocking(False)
    with other:
        async with Link(mine) as link:
            yield link, other


def fails(error: Exception) -> Any:
    def raising(*_: object) -> None:
        raise error

    return raising


async def test_an_answer_is_what_the_function_returns(links: tuple[Link, Link]) -> None:
    one, other = links

    async def later(*arguments: object) -> object:
        await asyncio.sleep(0)
        return arguments

    other.handle("now", lambda *arguments: arguments)
    other.handle("later", later)
    sent = (None, 1, 2.5, "text", b"bytes", [1, {"a": {2}}], config.Edge(max_body="1MiB"))
    assert await one.call("now", *sent) == sent
    assert await one.call("later", *sent) == sent


async def test_both_ends_call_each_other_at_once(links: tuple[Link, Link]) -> None:
    one, other = links
    for link in (one, other):
        link.handle("double", lambda number: 2 * number)

        async def around(number: int, back: Link = link) -> Any:
            return await back.call("double", number)

        link.handle("around", around)
    numbers = range(500)
    answers = await asyncio.gather(
        *(one.call("around", number) for number in numbers),
        *(other.call("around", number) for number in numbers),
    )
    assert answers == [2 * number for number in (*numbers, *numbers)]


async def test_an_error_keeps_its_code_its_text_and_its_origin(links: tuple[Link, Link]) -> None:
    one, other = links
    for row in penstock.error_codes():
        error = make_error(row.name, "so it is", "http://origin")
        other.handle("fail", fails(error))
        with pytest.raises(type(error)) as caught:
            await one.call("fail")
        assert (caught.value.code, caught.value.name) == (row.number, row.name)
        assert (caught.value.detail, caught.value.origin) == ("so it is", "http://origin")
        assert str(caught.value) == str(error)


async def test_any_other_error_is_known_by_its_text(links: tuple[Link, Link]) -> None:
    one, other = links
    other.handle("fail", fails(KeyError("key")))
    with pytest.raises(RuntimeError, match=r"KeyError\('key'\)"):
        await one.call("fail")
    own = penstock.PenstockError("mine", code=1, name="OF_MINE", source="local", retryable=False)
    other.handle("fail", fails(own))
    with pytest.raises(RuntimeError, match="OF_MINE"):
        await one.call("fail")


async def test_a_call_of_an_unknown_name_is_refused(links: tuple[Link, Link]) -> None:
    one, _ = links
    with pytest.raises(RuntimeError, match="nothing is called 'unknown'"):
        await one.call("unknown")


async def test_what_is_told_is_done_in_order_and_its_errors_are_logged(
    links: tuple[Link, Link], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = links
    noted: list[int] = []
    other.handle("note", noted.append)
    other.handle("fail", fails(KeyError("key")))
    for number in range(100):
        one.tell("note", number)
    one.tell("fail")
    one.tell("unknown")
    await one.call("note", 100)
    assert noted == list(range(101))
    assert [record.message for record in caplog.records] == ["fail failed", "unknown failed"]


class NotAllowed:
    pass


class Pair(NamedTuple):
    one: int
    other: int


@dataclass(frozen=True, kw_only=True)
class Described:
    text: str
    pairs: tuple[Pair, ...]

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("there is no text")


@pytest.mark.parametrize(
    "value",
    [NotAllowed(), NotAllowed, len, Pair(1, 2)],
    ids=lambda value: repr(value).partition(" object at")[0],
)
async def test_what_may_not_go_over_a_link_is_refused_where_it_is_sent(
    links: tuple[Link, Link], value: object
) -> None:
    one, other = links
    other.handle("give", lambda *_: value)
    with pytest.raises(TypeError, match="may not go over a link"):
        await one.call("give", value)
    with pytest.raises(RuntimeError, match="may not go over a link"):
        await one.call("give")


async def test_a_class_that_is_allowed_arrives_as_it_was(
    links: tuple[Link, Link], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = links
    monkeypatch.setattr(messages, "_classes", dict(messages._classes))
    monkeypatch.setattr(messages, "_names", dict(messages._names))

    class Local(NamedTuple):
        number: int

    messages.allow(Pair, Described, Local)
    pair = Pair(1, 2)
    value = Described(text="a", pairs=(pair, pair))
    other.handle("same", lambda given: given)
    found = await one.call("same", value)
    assert found == value
    assert type(found) is Described
    assert await one.call("same", Local(1)) == Local(1)
    with pytest.raises(TypeError, match="neither a dataclass nor a named tuple"):
        messages.allow(NotAllowed)


async def test_a_description_that_its_class_does_not_take_ends_the_link(
    raw: tuple[Link, socket.socket],
) -> None:
    link, other = raw
    good = messages.dump(("call", 1, "f", (config.Edge(backlog=77),)))
    other.send(good.replace(b'"backlog":77', b'"backlog":-1'))
    await link.wait_closed()
    with pytest.raises(ConnectionError, match=r"Edge\.backlog = -1: must be"):
        await link.call("any")


@pytest.mark.parametrize(
    "name", ["builtins.print", "penstock.engine.Engine", "tests.workers.test_link.Described"]
)
async def test_a_message_that_names_what_is_not_allowed_ends_the_link(
    raw: tuple[Link, socket.socket], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    link, other = raw
    waiting = asyncio.create_task(link.call("any"))
    await asyncio.get_running_loop().sock_recv(other, 4)
    other.send(framed(json.dumps(["call", 1, "f", [{name: {}}]]).encode()))
    with pytest.raises(ConnectionError, match=f"what is no message: LookupError: it names {name}"):
        await waiting
    with pytest.raises(ConnectionError, match="what is no message"):
        link.tell("any")
    assert link.broken
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_message_that_a_pickle_was_broken_with_breaks_one_link_only() -> None:
    """A pickle could rename what every later message was read by."""
    crafted = (
        b"\x80\x05\x8c\x19penstock.workers.messages\x94\x8c\x05_made\x93N}\x8c\x08__name__\x8c\x01xs\x86b."
    )
    mine, other = socket.socketpair()
    with other:
        async with Link(mine) as link:
            other.setblocking(False)
            other.send(framed(crafted))
            await link.wait_closed()
            assert link.broken
    one, two = (Link(sock) for sock in socket.socketpair())
    async with one, two:
        two.handle("same", lambda given: given)
        assert await one.call("same", config.Edge()) == config.Edge()


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff\xff\xff\xff", "a message of 4294967295 bytes"),
        ((messages.MOST + 1).to_bytes(4), "bytes; a link takes 16777216 at most"),
        (b"\0\0\0\4none", "JSONDecodeError"),
        (b"\0\0\0\0", "JSONDecodeError"),
        (messages.dump(("call", 1, "f", (1,)))[:-1] + b"-", "JSONDecodeError"),
        (messages.dump("text"), "it has another form"),
        (messages.dump(("call", "one", "f", ())), "it has another form"),
        (messages.dump(("call", 1, "f", [])), "it has another form"),
        (messages.dump(("else", 1, "f")), "it has another form"),
    ],
)
async def test_what_is_no_message_ends_the_link(
    raw: tuple[Link, socket.socket], data: bytes, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    link, other = raw
    await asyncio.get_running_loop().sock_sendall(other, data)
    await link.wait_closed()
    with pytest.raises(ConnectionError, match="the other end has sent what is no message") as caught:
        await link.call("any")
    assert says in str(caught.value)
    assert len(caplog.records) == 1


async def test_what_is_too_long_is_refused_where_it_is_sent(links: tuple[Link, Link]) -> None:
    one, other = links
    other.handle("repeat", lambda size: bytes(size))
    # Three bytes are four characters.
    most = messages.MOST // 4 * 3 - 1000
    assert len(await one.call("repeat", most)) == most
    with pytest.raises(RuntimeError, match="16777216 at most"):
        await one.call("repeat", messages.MOST)
    with pytest.raises(ValueError, match="16777216 at most"):
        await one.call("repeat", bytes(messages.MOST))
    assert await one.call("repeat", 1) == b"\0"


@settings(deadline=None, max_examples=50)
@given(data=st.data(), sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=8))
def test_messages_are_the_same_however_they_are_cut(data: st.DataObject, sizes: list[int]) -> None:
    sent = b"".join(messages.dump(("call", None, "note", (bytes(size),))) for size in sizes)
    sent += messages.dump(("call", 7, "note", (b"last",)))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sent) - 1), max_size=30)))

    async def send() -> list[bytes]:
        noted: list[bytes] = []
        mine, other = socket.socketpair()
        other.setblocking(False)
        loop = asyncio.get_running_loop()
        link = Link(mine)
        link.handle("note", noted.append)
        with other:
            async with link:
                for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
                    await loop.sock_sendall(other, sent[start:end])
                    await asyncio.sleep(0)
                answer = messages.dump(("answer", 7, None))
                assert await loop.sock_recv(other, 100) == answer
        return noted

    assert asyncio.run(send()) == [*(bytes(size) for size in sizes), b"last"]


async def test_a_call_ends_with_the_other_end(links: tuple[Link, Link]) -> None:
    one, other = links
    began = asyncio.Event()
    cancelled = asyncio.Event()

    async def for_ever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    other.handle("wait", for_ever)
    calls = [asyncio.create_task(one.call("wait")) for _ in range(3)]
    await in_time(began.wait(), "the call has begun")
    await other.aclose()
    for call in calls:
        with pytest.raises(ConnectionError, match="the other end is gone"):
            await call
    await in_time(cancelled.wait(), "the call is cancelled at the other end")
    await one.wait_closed()
    with pytest.raises(ConnectionError, match="the other end is gone"):
        await one.call("wait")
    with pytest.raises(ConnectionError, match="the link is closed"):
        other.tell("wait")


async def test_half_a_message_is_none(
    raw: tuple[Link, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    link, other = raw
    noted: list[int] = []
    link.handle("note", noted.append)
    other.send(messages.dump(("call", None, "note", (1,)))[:-1])
    other.shutdown(socket.SHUT_WR)
    await link.wait_closed()
    assert noted == []
    assert not caplog.records, "a killed process leaves such a half"


async def test_a_call_that_is_cancelled_is_cancelled_there(links: tuple[Link, Link]) -> None:
    one, other = links
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def for_ever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    other.handle("wait", for_ever)
    other.handle("quick", lambda: 1)
    call = asyncio.create_task(one.call("wait"))
    await in_time(began.wait(), "the call has begun")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await in_time(cancelled.wait(), "the call is cancelled at the other end")
    assert await one.call("quick") == 1, "the link goes on"


async def test_an_answer_without_a_caller_is_dropped(raw: tuple[Link, socket.socket]) -> None:
    link, other = raw
    link.handle("quick", lambda: 1)
    other.send(messages.dump(("answer", 99, None)) + messages.dump(("cancel", 99)))
    other.send(messages.dump(("call", 1, "quick", ())))
    assert await asyncio.get_running_loop().sock_recv(other, 100) == messages.dump(("answer", 1, 1))


async def test_a_link_that_was_never_started_is_closed() -> None:
    one, other = socket.socketpair()
    with other:
        link = Link(one)
        with pytest.raises(ConnectionError):
            link.tell("any")
        await link.aclose()
        await link.aclose()
        await link.wait_closed()


@pytest.fixture
async def blocking(links: tuple[Link, Link]) -> AsyncIterator[tuple[Calls, Link]]:
    """Blocking calls, and the link beside another one that answers them."""
    one, other = socket.socketpair()
    calls = Calls(one)
    async with links[1].beside(other) as beside:
        yield calls, beside
        calls.close()


async def test_a_blocking_call_is_answered_by_what_answers_the_link_beside(
    links: tuple[Link, Link], blocking: tuple[Calls, Link]
) -> None:
    calls, _ = blocking

    async def later(number: int) -> int:
        await asyncio.sleep(0)
        return number

    links[1].handle("later", later)
    links[1].handle("fail", fails(make_error("IO_TIMEOUT", "late")))
    links[1].handle("break", fails(KeyError("key")))
    assert await links[0].call("later", 1) == 1
    assert await asyncio.to_thread(calls.call, "later", 2) == 2
    with pytest.raises(penstock.TimeLimitError, match="IO_TIMEOUT: late"):
        await asyncio.to_thread(calls.call, "fail")
    with pytest.raises(RuntimeError, match="KeyError"):
        await asyncio.to_thread(calls.call, "break")
    with pytest.raises(RuntimeError, match="nothing is called"):
        await asyncio.to_thread(calls.call, "unknown")
    with pytest.raises(TypeError):
        calls.call("later", NotAllowed())
    assert len(await asyncio.to_thread(calls.call, "later", bytes(1 << 20))) == 1 << 20


async def test_threads_take_turns_with_blocking_calls(
    links: tuple[Link, Link], blocking: tuple[Calls, Link]
) -> None:
    calls, _ = blocking
    links[1].handle("double", lambda number: 2 * number)
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(8) as pool:
        answers = await asyncio.gather(
            *(loop.run_in_executor(pool, calls.call, "double", number) for number in range(300))
        )
    assert answers == [2 * number for number in range(300)]


async def test_a_blocking_call_ends_with_the_other_end(
    links: tuple[Link, Link], blocking: tuple[Calls, Link]
) -> None:
    calls, beside = blocking
    began = asyncio.Event()

    async def for_ever() -> None:
        began.set()
        await asyncio.Event().wait()

    links[1].handle("wait", for_ever)
    call = asyncio.create_task(asyncio.to_thread(calls.call, "wait"))
    await in_time(began.wait(), "the call has begun")
    await beside.aclose()
    with pytest.raises(ConnectionError, match="the other end is gone"):
        await call
    with pytest.raises(ConnectionError):
        calls.call("wait")
    calls.close()
    with pytest.raises(ConnectionError, match="the link is closed"):
        calls.call("wait")


def test_a_blocking_call_takes_its_own_answer_alone() -> None:
    one, other = socket.socketpair()
    calls = Calls(one)
    with other:
        other.send(messages.dump(("answer", 0, "of one that was interrupted")))
        other.send(messages.dump(("answer", 1, "its own")))
        assert calls.call("any") == "its own"
        other.send(messages.dump("text"))
        with pytest.raises(ConnectionError, match="what is no message"):
            calls.call("any")
        with pytest.raises(ConnectionError, match="the link is closed"):
            calls.call("any")
