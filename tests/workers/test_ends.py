"""`on_complete` runs in a live worker, wherever the request was, and whichever process has died meanwhile."""

import logging

import pytest

from penstock import config
from penstock.exceptions import make_error
from penstock.stats import Timings
from penstock.testing import ScriptedOrigin
from penstock.web import Gateway, Inspected, RelayEnd
from penstock.web.handover import Asked
from penstock.workers import messages
from penstock.workers.ends import Account, Ended, Orphan, account_of
from support.client import answer
from support.family import Family
from support.origins import Recorder, refusing
from support.waiting import until

_told: list[RelayEnd] = []


def told(end: RelayEnd) -> None:
    """What another worker finds by its name."""
    _told.append(end)


class Application:
    ends: list[RelayEnd]

    def method(self, end: RelayEnd) -> None:
        self.ends.append(end)

    @staticmethod
    def static(end: RelayEnd) -> None:
        _told.append(end)


async def test_a_native_route_tells_a_worker(family: Family) -> None:
    ends: list[RelayEnd] = []
    events = b'data: {"usage": {"total_tokens": 7}}\n\n'
    fields = ("Content-Type: text/event-stream", f"Content-Length: {len(events)}")
    worker = await family.worker()
    async with ScriptedOrigin(Recorder(response=answer(*fields, body=events))) as upstream:
        with worker.inside():
            gateway = Gateway(upstream.url)
            route = gateway.native("/", on_complete=ends.append, tenant="t", inspect=config.Inspection())
        await family.serve(worker, route)
        assert (await (await family.connect()).ask("/a?b=c")).body == events
        await until(lambda: ends, "the end is told")
    (end,) = ends
    assert (end.status, end.bytes, end.error) == (200, len(events), None)
    assert (end.method, end.path, end.client, end.tenant) == ("GET", "/a?b=c", "127.0.0.1", "t")
    assert isinstance(end.timings, Timings)
    assert end.inspected is not None
    assert end.inspected.usage == {"total_tokens": 7}


async def test_an_error_is_told_by_its_code(family: Family) -> None:
    ends: list[RelayEnd] = []
    worker = await family.worker()
    with refusing() as url:
        with worker.inside():
            route = Gateway(url).native("/", on_complete=ends.append)
        await family.serve(worker, route)
        assert (await (await family.connect()).ask()).head.status == 502
    await until(lambda: ends, "the end is told")
    error = ends[0].error
    assert error is not None
    assert (type(error).__name__, error.name, error.origin) == (
        "ConnectionFailedError",
        "CONNECT_FAILED",
        url,
    )  # type: ignore[attr-defined]


async def test_ends_wait_for_a_worker(family: Family) -> None:
    ends: list[RelayEnd] = []
    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        with worker.inside():
            route = Gateway(upstream.url).native("/", on_complete=ends.append)
        await family.serve(worker, route)
        await family.lose(worker)
        client = await family.connect()
        for number in range(3):
            assert (await client.ask(f"/{number}")).body == b"ok"
        worker = await family.worker()
        with worker.inside():
            route = Gateway(upstream.url).native("/", on_complete=ends.append)
        await family.serve(worker, route)
        await until(lambda: len(ends) == 3, "all are told")
        assert [end.path for end in ends] == ["/0", "/1", "/2"]


async def test_what_has_no_room_is_dropped_and_counted(
    family: Family, caplog: pytest.LogCaptureFixture
) -> None:
    end = RelayEnd(200, 0, None, None, "GET", "/" + "x" * 100_000)
    for _ in range(15):
        family.declarations._tell((None, "/"), end)
    seen: list[list[Ended]] = []
    worker = await family.worker()
    worker.link.handle("ended", seen.append)
    family.ready(worker)
    await until(lambda: "dropped" in caplog.text, "it is said")
    assert sum(len(batch) for batch in seen) == 10
    assert "5 ends of requests were dropped" in caplog.text


async def test_a_callable_that_fails_keeps_nothing_from_others(
    family: Family, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[RelayEnd] = []

    def fails(end: RelayEnd) -> None:
        ends.append(end)
        raise OSError("no database")

    worker = await family.worker()
    async with ScriptedOrigin(Recorder()) as upstream:
        with worker.inside():
            route = Gateway(upstream.url).native("/", on_complete=fails)
        await family.serve(worker, route)
        client = await family.connect()
        for _ in range(2):
            await client.ask()
        await until(lambda: len(ends) == 2, "both are told")
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1, "as both failed alike"


ASKED = Asked("GET", "/a?b", "192.0.2.1", "tenant", None)


@pytest.mark.parametrize("on_complete", [told, Application.static], ids=["function", "static"])
async def test_the_end_of_an_orphan_is_told_by_name(family: Family, on_complete: object) -> None:
    family.ready(await family.worker())
    _told.clear()
    account = account_of(on_complete, ASKED, 200)  # type: ignore[arg-type]
    assert account is not None
    timings = Timings(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, True)
    error = make_error("BODY_TRUNCATED", "half of it", "http://origin")
    seen = Inspected("events", True, 3, 90, 0.5, 0.25, 2.0, {"total_tokens": 7}, None)
    family.declarations.ends.add(Orphan(account, 7, error, True, timings, seen))
    family.declarations.ends.add(Orphan(account, 0, None, False, None, None))
    await until(lambda: len(_told) == 2, "both are told")
    first, second = _told
    assert (first.status, first.bytes, first.timings) == (200, 7, timings)
    assert str(first.error) == str(error)
    assert (first.method, first.path, first.client, first.tenant) == ASKED[:4]
    assert first.inspected == seen
    assert (second.status, second.error, second.timings, second.inspected) == (None, None, None, None)


@pytest.mark.parametrize(
    "on_complete",
    [None, Application().method, lambda _: None, _told.append],
    ids=["none", "bound", "lambda", "builtin"],
)
async def test_what_has_no_name_has_no_account(on_complete: object) -> None:
    assert account_of(on_complete, ASKED, 200) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "account",
    [
        b"\x80\x05\x8c\x08builtins\x8c\x05print\x93.",
        messages.dump(("os", "abort", "GET", "/", None, None, 200))[messages.LENGTH :],
        messages.dump(Account(__name__, "until", "GET", "/", None, None, 200))[messages.LENGTH :],
        messages.dump(Account(__name__, "_told.append", "GET", "/", None, None, 200))[messages.LENGTH :],
    ],
    ids=["pickle", "row", "imported", "method"],
)
async def test_an_account_names_functions_of_the_application_alone(
    family: Family, caplog: pytest.LogCaptureFixture, account: bytes
) -> None:
    """A worker that was taken over could say anything."""
    family.ready(await family.worker())
    _told.clear()
    family.declarations.ends.add(Orphan(account, 0, None, False, None, None))
    await until(lambda: "an on_complete cannot be called" in caplog.text, "it is refused")
    assert not _told
