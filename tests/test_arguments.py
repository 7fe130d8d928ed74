"""Arguments of a wrong type: each is refused where it is given, by an error that names it and says what to write."""

import asyncio
import dataclasses
import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

import penstock
from penstock import _native, config, framing, tokens
from penstock.web import Allow, Decisions, Deny, Gateway, Site, run_app

ORIGIN = "http://127.0.0.1:9"
SECRET = "x" * 32


class Thing:
    """What no argument may be."""

    def __repr__(self) -> str:
        return "<a thing>"


THING = Thing()
SETTINGS = (30, "16MiB", True, [], {}, THING)
"""What is given in place of settings."""
TEXT = (7, True, b"text", [], THING)
NUMBER = ("7", [], THING, float("nan"))
WHOLE = ("7", 1.5, True, [], THING, -1)
FLAG = (1, "yes", [], THING)
PATH = (7, True, [], THING)
FRAMING = ("lines", 7, True, framing.Lines, THING)
CALL = (7, "f", [], THING)
ENGINE = SETTINGS
ORIGINS = (7, True, b"http://a", {}, THING)
HEADERS = ("A: b", 7, True, THING, ["A: b"], {"A": 1}, {1: "a"}, [("A", "b", "c")])

Wrong = Mapping[str, tuple[object, ...]]


class Case:
    """A call: what is called, by what it is good, and what is wrong for each argument."""

    def __init__(self, call: Callable[..., Any], good: Mapping[str, Any], wrong: Wrong) -> None:
        self.call, self.good, self.wrong = call, good, wrong


def relay(gateway: Gateway) -> Callable[..., Any]:
    request = make_mocked_request("GET", "/")

    async def call(**options: Any) -> None:
        await gateway.relay(options.pop("request", request), **options)

    return call


def request_of(engine: penstock.Engine) -> Callable[..., Any]:
    async def call(**options: Any) -> None:
        async with engine.request(**{"method": "GET", "url": ORIGIN, **options}):
            pass

    return call


@pytest.fixture
async def cases() -> AsyncIterator[dict[str, Case]]:
    async with penstock.Engine(memory="4MiB", threads=1, cache=config.Cache(memory="1MiB")) as engine:
        gateway = Gateway(ORIGIN, engine=engine)
        runner = web.AppRunner(web.Application())
        await runner.setup()
        signed = tokens.SignedUrl(SECRET)
        assert engine.cache is not None
        hub = penstock.Hub(engine=engine)

        async def publish(**options: Any) -> None:
            await hub.publish(**options)

        yield {
            "Engine": Case(
                penstock.Engine,
                {},
                {
                    "memory": (1.5, True, [], THING, "much"),
                    "threads": (*WHOLE, 0),
                    **dict.fromkeys(
                        ("pool", "flow", "reads", "timeouts", "limits", "tls", "cache"), SETTINGS
                    ),
                },
            ),
            "Engine.request": Case(
                request_of(engine),
                {},
                {
                    "method": (*TEXT, None),
                    "url": (7, True, [], None, THING),
                    "headers": HEADERS,
                    "body": ("text", {"a": 1}, [b"a"], 7, True, THING, iter([b"a"])),
                    "framing": FRAMING,
                    "unix": PATH,
                    **dict.fromkeys(("timeouts", "caching", "overrides"), SETTINGS),
                    "origins": ("http://a", ["http://a"], 7, THING),
                },
            ),
            "Gateway": Case(
                Gateway,
                {"origin": ORIGIN, "engine": engine},
                {
                    "origin": (*ORIGINS, None, ["http://a"]),
                    "engine": ENGINE,
                    "prefix": (*TEXT, None),
                    "max_event": (1.5, True, [], None, THING, "long"),
                    "unix": PATH,
                    **dict.fromkeys(("forwarding", "timeouts", "caching", "events", "inspect"), SETTINGS),
                },
            ),
            "Gateway.relay": Case(
                relay(gateway),
                {},
                {
                    "request": ("GET", 7, None, THING),
                    "path": TEXT,
                    "origin": ORIGINS,
                    "headers": HEADERS,
                    "tenant": TEXT,
                    "on_complete": CALL,
                    "topic": TEXT,
                    "hub": ENGINE,
                    **dict.fromkeys(
                        ("timeouts", "caching", "overrides", "events", "inspect", "subscriptions"), SETTINGS
                    ),
                },
            ),
            "Gateway.native": Case(
                gateway.native,
                {"prefix": "/"},
                {
                    **dict.fromkeys(("host", "rewrite", "tenant", "name"), TEXT),
                    "prefix": (*TEXT, None),
                    "origin": ORIGINS,
                    "headers": HEADERS,
                    "response_headers": HEADERS,
                    "add_headers": HEADERS,
                    "add_response_headers": HEADERS,
                    "drain": (1.5, True, [], THING, "much"),
                    "on_complete": CALL,
                    "authorise": (7, "f", [], THING),
                    "decision_key": (7, THING, ["header"], True),
                    "lifetime": NUMBER,
                    **dict.fromkeys(
                        ("timeouts", "limits", "events", "caching", "inspect", "access"), SETTINGS
                    ),
                },
            ),
            "Site": Case(
                Site,
                {"runner": runner},
                {
                    "runner": (web.Application(), None, THING),
                    "host": (7, b"a", ["a"], THING),
                    "port": ("8080", 1.5, True, THING, -1),
                    "path": PATH,
                    "sock": (7, "a", THING),
                    "engine": ENGINE,
                    "edge": SETTINGS,
                    "access_log": PATH,
                    "status": SETTINGS,
                },
            ),
            "run_app": Case(
                run_app,
                {"app": web.Application(), "loop": 7},
                {"engine": ENGINE, "edge": SETTINGS, "status": SETTINGS},
            ),
            "Origins": Case(
                penstock.Origins,
                {"origins": [ORIGIN]},
                {
                    "origins": (ORIGIN, 7, None, [7], [THING], THING, [], {"a": "b"}),
                    "balance": ("random", 7, [], THING, None),
                    "key": (*TEXT, None, "field:"),
                    "name": TEXT,
                    **dict.fromkeys(("health", "check", "retries"), SETTINGS),
                },
            ),
            "Hub": Case(
                penstock.Hub,
                {"engine": engine},
                {"engine": ENGINE, "history": SETTINGS, "log": ("redis://localhost", 7, THING)},
            ),
            "Hub.publish": Case(
                publish,
                {"topic": "a", "data": "b"},
                {
                    "topic": (7, None, THING),
                    "data": (7, {"a": 1}, [1], THING),
                    **dict.fromkeys(("event", "id", "key"), (7, [], THING)),
                    "retry": ("7", THING, -1),
                },
            ),
            "Hub.subscribe": Case(
                hub.subscribe, {"topic": "a"}, {"topic": (7, None, THING), "after": (7, [], THING)}
            ),
            "Hub.native": Case(
                hub.native,
                {"prefix": "/"},
                {
                    "prefix": (*TEXT, None),
                    **dict.fromkeys(("host", "name"), TEXT),
                    "response_headers": HEADERS,
                    "add_response_headers": HEADERS,
                    "authorise": (7, "f", [], THING),
                    "decision_key": (7, THING, ["header"], True),
                    "lifetime": NUMBER,
                    **dict.fromkeys(("subscriptions", "limits", "access"), SETTINGS),
                },
            ),
            "Hub.feed": Case(
                hub.feed,
                {"topic": "a", "response": None},
                {
                    "topic": (7, None, THING),
                    "response": ("http://a", None, 7, THING),
                    "error_event": (7, None, THING),
                },
            ),
            "SignedUrl": Case(
                tokens.SignedUrl,
                {"keys": SECRET},
                {
                    "keys": (7, None, [7], {"a": 7}, THING, "short", []),
                    "name": (*TEXT, None),
                    "places": (7, ["body"], THING, None),
                    "forward": FLAG,
                },
            ),
            "SignedUrl.sign": Case(
                signed.sign,
                {"url": "http://a/b", "lifetime": 60},
                {
                    "url": (7, None, THING),
                    "paths": (7, [7], THING, "/a/*"),
                    "prefix": (7, True, THING),
                    "lifetime": (*NUMBER, True),
                    "begins": (*NUMBER, True),
                    "address": (7, THING, "a"),
                    "tenant": (7, [], THING),
                },
            ),
            "Key": Case(
                tokens.Key,
                {"algorithm": "HS256", "key": SECRET},
                {"algorithm": (7, [], None, THING, "none"), "key": (7, None, THING), "id": (7, [], THING)},
            ),
            "Jwt": Case(
                tokens.Jwt,
                {"keys": (tokens.Key("HS256", SECRET),)},
                {
                    "keys": (7, SECRET, [7], THING, None),
                    "jwks": (7, [], THING),
                    **dict.fromkeys(("issuers", "audiences", "required"), (7, [7], THING, None)),
                    **dict.fromkeys(("type", "tenant", "paths"), (7, [], THING)),
                    "leeway": NUMBER,
                    "name": (7, None, THING),
                    "places": (7, ["body"], THING, None),
                    "forward": FLAG,
                    "max_bytes": WHOLE,
                },
            ),
            "Jwks": Case(
                tokens.Jwks,
                {"url": "https://a/b"},
                {
                    "url": (7, None, THING, "a"),
                    "algorithms": (7, "RS256", ["none"], [[]], THING, None),
                    **dict.fromkeys(("least", "usual", "most", "pause", "keep", "timeout"), NUMBER),
                    "max_bytes": (1.5, True, THING),
                    "max_keys": WHOLE,
                    "insecure": FLAG,
                },
            ),
            "open_file": Case(
                penstock.open_file,
                {"path": __file__, "engine": engine},
                {
                    "path": (7, None, [], THING),
                    "offset": (*WHOLE, None),
                    "length": WHOLE,
                    "framing": (*FRAMING, None),
                    "engine": ENGINE,
                },
            ),
            "open_fd": Case(
                penstock.open_fd,
                {"descriptor": -1, "engine": engine},
                {"descriptor": ("7", 1.5, True, None, THING)},
            ),
            "open_process": Case(
                penstock.open_process,
                {"arguments": ["true"], "engine": engine},
                {
                    "arguments": ("a b", b"a b", 7, None, [], [7], ["true", None], THING, {"a": 1}),
                    "directory": PATH,
                    "environment": ("A=b", 7, ["A=b"], {"A": 1}, {1: "a"}, THING),
                    "framing": (*FRAMING, None),
                    "engine": ENGINE,
                },
            ),
            "Cache.purge": Case(
                engine.cache.purge,
                {"tag": "a"},
                {"url": (7, [], THING), "prefix": (7, [], THING), "tag": (7, [], THING), "soft": FLAG},
            ),
            "Cache.list": Case(
                engine.cache.list,
                {},
                {"prefix": (7, [], THING), "after": (7, [], THING), "limit": (*WHOLE, None, 0)},
            ),
            "encode_event": Case(
                penstock.encode_event,
                {"data": "a"},
                {
                    "data": (7, {"a": 1}, THING),
                    **dict.fromkeys(("event", "id", "comment"), (7, b"a", [], THING)),
                    "retry": ("7", 1.5, True, THING, -1),
                },
            ),
            "end_to_end": Case(
                penstock.end_to_end, {"message": {}}, {"message": (7, "a", [7], {"A": 1}, THING)}
            ),
            "Decisions": Case(
                Decisions,
                {"authorise": lambda _: True, "key": "address"},
                {"authorise": (7, "f", None, THING), "key": (7, True, THING, ["header"]), "access": SETTINGS},
            ),
            "Allow": Case(
                Allow, {"tenant": "a"}, {"tenant": (7, "", THING), "lifetime": NUMBER, "limits": SETTINGS}
            ),
            "Deny": Case(
                Deny,
                {},
                {
                    "status": (200, "403", None, THING, []),
                    "detail": (7, [], THING),
                    "lifetime": NUMBER,
                    "challenge": (7, THING),
                },
            ),
            "framing.Fixed": Case(framing.Fixed, {"size": 1}, {"size": (*WHOLE, None, 0)}),
            "framing.LengthPrefixed": Case(
                framing.LengthPrefixed,
                {},
                {
                    "width": (3, "4", None, [], True, THING),
                    "byteorder": ("up", 7, None, [], THING),
                    "max_frame": (1.5, True, None, [], THING, 0),
                },
            ),
            "framing.Lines": Case(framing.Lines, {}, {"max_frame": (1.5, True, None, [], THING, 0)}),
            "framing.Events": Case(
                framing.Events, {}, {"max_frame": (1.5, True, None, [], THING, 0), "blocks": FLAG}
            ),
        }
        hub.close()
        await runner.cleanup()


NAMES = [
    *("Hub.native", "Hub.feed"),
    *(
        "Engine",
        "Engine.request",
        "Gateway",
        "Gateway.relay",
        "Gateway.native",
        "Site",
        "run_app",
        "Origins",
        "Hub",
    ),
    *(
        "Hub.publish",
        "Hub.subscribe",
        "SignedUrl",
        "SignedUrl.sign",
        "Key",
        "Jwt",
        "Jwks",
        "open_file",
        "open_fd",
    ),
    *(
        "open_process",
        "Cache.purge",
        "Cache.list",
        "encode_event",
        "end_to_end",
        "Decisions",
        "Allow",
        "Deny",
        "framing.Fixed",
    ),
    *("framing.LengthPrefixed", "framing.Lines", "framing.Events"),
]


async def refusal(call: Callable[..., Any], arguments: Mapping[str, Any]) -> BaseException | None:
    try:
        made = call(**arguments)
        if inspect.isawaitable(made):
            await asyncio.wait_for(made, 5)
    except (Exception, SystemExit) as error:
        return error.with_traceback(None)
    return None


@pytest.mark.parametrize("name", NAMES)
async def test_an_argument_of_a_wrong_type_is_refused_by_its_name(cases: dict[str, Case], name: str) -> None:
    assert set(cases) == set(NAMES)
    case, faults = cases[name], []
    for argument, values in case.wrong.items():
        for value in values:
            error = await refusal(case.call, {**case.good, argument: value})
            shown = f"{argument}={value!r}: {error!r}"
            if not isinstance(error, TypeError | ValueError) or argument not in str(error):
                faults.append(shown)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", sorted(config.__all__))
def test_a_setting_of_a_wrong_type_is_refused_by_its_name(name: str) -> None:
    kind = getattr(config, name)
    if not dataclasses.is_dataclass(kind):
        return
    needed = {
        "Check": {"path": "/"},
        "ClientCertificate": {"cert": "cert.pem"},
        "Origin": {"url": ORIGIN},
        "RedisLog": {"url": "redis://a"},
        "ServerOrigin": {"urls": ORIGIN},
        "ServerSite": {"listen": ":1"},
        "TLS": {"cert": "cert.pem"},
        "Workers": {"count": 1},
    }
    needed |= {"KafkaLog": {"servers": "a:1", "topics": ["a"]}}
    good = needed.get(name, {})
    faults = []
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        for value in (THING, [THING], {1: THING}, 1.5j):
            try:
                kind(**{**good, field.name: value})
            except (TypeError, ValueError) as error:
                if field.name not in str(error) and "unexpected keyword" not in str(error):
                    faults.append(f"{field.name}={value!r}: {error!r}")
            except Exception as error:
                faults.append(f"{field.name}={value!r}: {error!r}")
            else:
                faults.append(f"{field.name}={value!r} is accepted")
    assert not faults, "\n".join(faults)


async def test_what_to_write_is_said() -> None:
    async with penstock.Engine(memory="4MiB", threads=1) as engine:
        gateway = Gateway(ORIGIN, engine=engine)

        def said(call: Callable[..., Any], *given: Any, **options: Any) -> str:
            with pytest.raises(penstock.PenstockError) as caught:
                call(*given, **options)
            return str(caught.value)

        for text, wanted in (
            (said(Gateway, ORIGIN, timeouts=30), "timeouts=penstock.config.Timeouts(total=30)"),
            (said(penstock.Engine, cache="16MiB"), "cache=penstock.config.Cache(memory='16MiB')"),
            (said(engine.get, ORIGIN, caching=True), "caching=penstock.config.Caching()"),
            (said(gateway.native, "/", limits=5), "limits=penstock.config.RouteLimits(concurrency=5)"),
            (said(engine.get, ORIGIN, body="text"), "body='text'.encode()"),
            (said(engine.get, ORIGIN, body={"a": 1}), "body=json.dumps(...).encode()"),
            (said(engine.get, ORIGIN, headers="A: b"), "headers={'X-Name': 'value'}"),
            (said(engine.get, ORIGIN, headers={"A": 1}), "write '1'"),
            (said(penstock.open_process, "ls -l 'a b'"), "['ls', '-l', 'a b']"),
            (said(penstock.Origins, ORIGIN), f"write ['{ORIGIN}']"),
            (said(penstock.encode_event, {"a": 1}), "json.dumps(data)"),
        ):
            assert wanted in text, text


async def test_pairs_are_header_fields_wherever_fields_are_given() -> None:
    """As aiohttp and httpx take them."""
    async with penstock.Engine(memory="4MiB", threads=1) as engine:
        gateway = Gateway(ORIGIN, engine=engine)
        for headers in ([], (), {}, [("A", "b")], (("A", "b"),), {"A": "b"}):
            route = gateway.native("/", headers=headers, add_headers=headers, response_headers=headers)
            assert json.dumps(route.spec.request.set) in ("[]", '[["A", "b"]]')
            with pytest.raises(penstock.PenstockError) as caught:
                await engine.get(ORIGIN, headers=headers)
            assert caught.value.name == "CONNECT_FAILED"


def _odd(settings: Any, name: str, value: object) -> Any:
    """`settings` as `penstock.config` would refuse them."""
    object.__setattr__(settings, name, value)
    return settings


def _members() -> list[tuple[_native.Endpoint, config.Origin]]:
    return [(_native.Endpoint("http", "a", 80, None), config.Origin("http://a"))]


def _upstream(balance: str = "hash", key: str = "path", **retries: Any) -> _native.Upstream:
    odd = config.Retries()
    for name, value in retries.items():
        _odd(odd, name, value)
    identity = _native.Endpoint("http", "a", 80, None)
    return _native.Upstream(identity, _members(), balance, key, config.Health(), None, odd)


def _terms(engine: penstock.Engine, name: str, value: object) -> object:
    hub = _native.Hub(engine.native, config.History(memory="1MiB"), False, None)
    return hub.plan(_odd(config.Subscriptions(), name, value))


def _caching(engine: penstock.Engine, name: str, value: object) -> object:
    cache = _native.Cache(engine.native, 1 << 20, 1, None)
    return _native.Caching(cache, _odd(config.Caching(), name, value), "")


@pytest.mark.parametrize(
    "call",
    [
        lambda _: _upstream(balance="odd"),
        lambda _: _upstream(key="odd"),
        lambda _: _upstream(hedge="odd"),
        lambda engine: _terms(engine, "join", "odd"),
        lambda engine: _terms(engine, "slow", "odd"),
        lambda engine: _caching(engine, "languages", "odd"),
        lambda engine: _caching(engine, "range_fill", "odd"),
        lambda engine: _caching(engine, "unread", 101),
        lambda _: _native.signed_url([(None, b"x" * 32)], ("token", ["odd"], False)),
        lambda _: _native.Gate(_native.Decisions(config.Access()), "", "", [("odd", "")], None, 1.0),
    ],
    ids=["balance", "key", "hedge", "join", "slow", "languages", "range_fill", "unread", "place", "part"],
)
async def test_the_engine_refuses_words_that_it_does_not_know(
    call: Callable[[penstock.Engine], object],
) -> None:
    """It has no defaults: what the checks in front of it let through by mistake is not taken for something else."""
    async with penstock.Engine(memory="8MiB") as engine:
        with pytest.raises(penstock.ConfigurationError, match=r"odd|101"):
            call(engine)
