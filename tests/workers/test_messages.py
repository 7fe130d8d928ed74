"""What may be sent over a link, and what the reader makes of anything else: an error, whatever the bytes are."""

import base64
import contextlib
import json
import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock import _shapes as shapes
from penstock import config, tokens
from penstock.exceptions import make_error
from penstock.origins import Place
from penstock.serving.relay_spec import HeaderEdits
from penstock.stats import Timings
from penstock.web import Inspected, RelayEnd
from penstock.web.decisions import Allow, Deny
from penstock.workers import messages, plans
from penstock.workers.descriptions import Code, Reference, SpecDescription
from penstock.workers.ends import Account, Ended, Orphan
from penstock.workers.registration import Registration, RouteDescription


def loads(text: str | bytes) -> Any:
    return messages.load(text.encode() if isinstance(text, str) else text)


def copied(value: object) -> Any:
    return messages.load(messages.dump(value)[messages.LENGTH :])


def kinds(value: object) -> object:
    """The types of a value, and of what is in it in order."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return type(value), [kinds(each) for each in inner]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.sets(st.integers() | st.text())
        | st.frozensets(st.binary())
    ),
    max_leaves=30,
)


@given(PLAIN)
def test_plain_data_arrives_as_it_was(value: object) -> None:
    found = copied(value)
    assert found == value
    assert kinds(found) == kinds(value)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 3000 + "\udcff,,,",
        "\udcff",
        math.inf,
        1 << 200,
        Registration((RouteDescription("relay", "/", {"host": None, "list": [1]}),), (Reference(3),)),
        Reference(3),
        Code("mine.authorise"),
        HeaderEdits((("A", "b"), ("C", None)), ()),
        Place("http", "origin", 80, ""),
        plans.Relay(3, SpecDescription({"origin": Place("http", "o", 80, ""), "caching": config.Caching()})),
        plans.Topics(3, config.Subscriptions(join=3)),
        Allow("tenant", 3, config.TenantLimits(streams=2)),
        Deny(402, "pay"),
        Ended((None, "/"), RelayEnd(200, 3, Timings(0, 0, 0, 0, 1.5, None, False), None, "GET", "/")),
        Orphan(
            b"account",
            3,
            None,
            True,
            Timings(0, 0, 0, 0, 1.5, None, False),
            Inspected("json", True, 3, 4, None, 1.0, 2.0, {}, None),
        ),
        Account("mine", "told", "GET", "/", None, None, 200),
        config.Edge(max_body="1MiB"),
        tokens.SignedUrl({"1": b"0123456789abcdef0123456789abcdef"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_allowed_arrives_as_it_was(value: object) -> None:
    found = copied(value)
    assert found == value
    assert type(found) is type(value)


def test_an_error_is_its_code_and_its_text() -> None:
    error = copied(make_error("IO_TIMEOUT", "late", "http://origin"))
    assert isinstance(error, penstock.TimeLimitError)
    assert (error.name, error.detail, error.origin) == ("IO_TIMEOUT", "late", "http://origin")


@settings(max_examples=500)
@given(st.binary())
def test_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        found = loads(data)
    except messages.UnreadableError:
        return
    assert copied(found) == found or found != found  # noqa: PLR0124 (NaN)


# Whatever is JSON, with what the format has in it.
TAGS = st.sampled_from(
    [
        *messages._READERS,
        *messages._classes,
        "builtins.print",
        "os.system",
        "__class__",
        "penstock.Engine",
        "",
    ]
)
FIELDS = st.text() | st.sampled_from(
    [
        "number",
        "name",
        "kind",
        "prefix",
        "fields",
        "hub",
        "lifetime",
        "keys",
        "__class__",
        "_handle",
        "self",
        "cls",
    ]
)
NODES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | TAGS,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(TAGS, inner, max_size=2)
        | st.dictionaries(TAGS, st.dictionaries(FIELDS, inner), min_size=1, max_size=1)
    ),
    max_leaves=25,
)


@settings(max_examples=1000)
@given(NODES)
def test_json_is_a_message_or_refused(node: object) -> None:
    before = dict(messages._classes), dict(messages._names), messages._READERS
    try:
        found = loads(json.dumps(node))
    except messages.UnreadableError:
        pass
    else:
        assert json.loads(messages.dump(found)[messages.LENGTH :]) is not ...
    assert (messages._classes, messages._names, messages._READERS) == before


@settings(max_examples=500)
@given(st.data())
def test_a_message_with_bytes_changed_is_a_message_or_refused(data: st.DataObject) -> None:
    good = bytearray(
        messages.dump(
            (
                "call",
                1,
                "register",
                (Registration((RouteDescription("relay", "/", {"host": "a"}),), (Reference(3),)),),
            )
        )[messages.LENGTH :]
    )
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(messages.UnreadableError):
        loads(bytes(good))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"penstock.workers.descriptions.Reference":{"number":"3"}}', "Reference.number is a str"),
        ('{"penstock.workers.descriptions.Reference":{"number":true}}', "Reference.number is a bool"),
        ('{"penstock.workers.descriptions.Reference":{}}', "missing 1 required"),
        ('{"penstock.workers.descriptions.Reference":{"number":3,"__class__":4}}', "unexpected keyword"),
        ('{"penstock.workers.descriptions.Reference":[3]}', "where fields stand"),
        ('{"penstock.workers.registration.Registration":{"routes":[],"kept":[3]}}', "kept is a tuple"),
        ('{"penstock.origins.Place":{"scheme":1,"host":"","port":1,"base":""}}', "Place.scheme is a int"),
        ('{"penstock.config.edge.Edge":{"backlog":0}}', "must be"),
        ('{"penstock.web.decisions.Deny":{"status":200}}', "Deny.status"),
        ('{"penstock.config.origins.OriginTls":{"nothing":0}}', "unexpected keyword"),
        ('{"builtins.print":{}}', "it names builtins.print"),
        ('{"penstock.workers.messages._made":{}}', "it names"),
        ('{"error":["NOTHING","",null]}', "KeyError"),
        ('{"error":["IO_TIMEOUT",3,null]}', "are texts"),
        ('{"error":[{"list":[]},"",null]}', "unhashable"),
        ('{"bytes":"no base64"}', "Error"),
        ('{"bytes":3}', "TypeError"),
        ('{"set":[{"list":[]}]}', "unhashable"),
        ('{"dict":[[1]]}', "ValueError"),
        ('{"list":"abc"}', "where a list stands"),
        ('{"list":[],"set":[]}', "ValueError"),
        ("{}", "ValueError"),
        ("", "JSONDecodeError"),
        ("1 2", "JSONDecodeError"),
        (b"\x80\x05\x8c\x02os", "UnicodeDecodeError"),
        ("9" * 5000, "ValueError"),
        ("[" * 65 + "]" * 65, "more than 64 levels"),
        ("[" * 100_000, "RecursionError"),
        ('{"list":' * 100_000, "RecursionError"),
        ("[" + "[]," * (messages.VALUES // 2) + "0]", "too long"),
        (b" " * (messages.MOST + 1), "too long"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_is_refused(text: str | bytes, says: str) -> None:
    with pytest.raises(messages.UnreadableError) as caught:
        loads(text)
    assert says in str(caught.value)


def test_a_refused_message_takes_little_memory() -> None:
    """The lists of 16 MiB of brackets would be half a GiB."""
    bomb = b"[" + b"[]," * 5_000_000 + b"0]"
    tracemalloc.start()
    try:
        with pytest.raises(messages.UnreadableError, match="too long"):
            messages.load(bomb)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_what_is_too_deep_or_has_too_many_values_is_refused_where_it_is_sent() -> None:
    deep: object = ()
    for _ in range(messages.DEPTH):
        deep = (deep,)
    with pytest.raises(ValueError, match="more than 64 levels"):
        messages.dump(deep)
    with pytest.raises(ValueError, match="a link takes 1048576 at most"):
        messages.dump((0,) * (messages.VALUES + 1))
    assert copied("," * (2 * messages.VALUES)) == "," * (2 * messages.VALUES), "a text is one value"


def test_a_long_text_is_written_as_bytes() -> None:
    text = "a,b" * 1000
    assert json.loads(messages.dump(text)[messages.LENGTH :]) == {
        "text": base64.b64encode(text.encode()).decode()
    }


def test_every_class_that_may_be_sent_can_be_checked() -> None:
    for cls in messages._classes.values():
        if not hasattr(cls, "__post_init__"):
            assert shapes._checks(cls), cls
