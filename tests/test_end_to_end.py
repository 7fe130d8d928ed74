"""The fields that a handler passes on, beside a reference by the letter of RFC 9110, section 7.6.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

import penstock
from penstock import end_to_end
from penstock.testing import Peer, ScriptedOrigin

OF_A_CONNECTION = {
    *(
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
    ),
    *("proxy-authenticate", "proxy-authentication-info", "proxy-authorization"),
}
NAMES = st.sampled_from(
    [*sorted(OF_A_CONNECTION), "accept", "x-one", "x-two", "host", "expect", "etag", "content-type", "close"]
)
CASED = st.builds(lambda name, change: change(name), NAMES, st.sampled_from([str, str.title, str.upper]))
OPTIONS = st.lists(CASED | st.sampled_from(["", " ", "\t"]), max_size=4).map(" ,".join)
FIELDS = st.lists(st.tuples(CASED, OPTIONS | st.text()), max_size=8)


def passed(fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What the rule leaves of `fields`."""
    options = [value for name, value in fields if name.lower() == "connection"]
    named = {option.strip(" \t").lower() for value in options for option in value.split(",")}
    left_out = OF_A_CONNECTION | {"host", "expect"} | named - {"close", "keep-alive"}
    return [(name, value) for name, value in fields if name.lower() not in left_out]


@given(FIELDS)
def test_what_is_of_one_connection_is_left_out_of_any_form_of_fields(fields: list[tuple[str, str]]) -> None:
    wanted = passed(fields)
    several = CIMultiDict(fields)
    for form in (
        fields,
        tuple(fields),
        iter(fields),
        [list(pair) for pair in fields],
        several,
        CIMultiDictProxy(several),
    ):
        assert end_to_end(form) == wanted
    plain = dict(fields)
    assert end_to_end(plain) == passed(list(plain.items()))


@pytest.mark.parametrize("name", ["Transfer_Encoding", "Content_Length", "Proxy_Connection"])
def test_what_an_application_takes_for_a_field_of_the_framing_is_left_out(name: str) -> None:
    assert end_to_end({name: "1", "Content-Length": "2"}) == [("Content-Length", "2")]


def test_an_option_beside_one_that_is_no_text_is_left_out() -> None:
    fields = {"Connection": "\udcff, X-Secret", "x-secret": "a", "X-\udcff": "b"}
    assert end_to_end(fields) == [("X-\udcff", "b")]


@pytest.mark.parametrize("given", [7, "A: b", b"A: b", [("A",)], [("A", 1)], {"A": b"b"}, [7], object()])
def test_what_has_no_fields_is_refused(given: object) -> None:
    with pytest.raises(penstock.RequestError) as caught:
        end_to_end(given)
    assert (caught.value.name, "message" in str(caught.value)) == ("BAD_REQUEST", True)


async def test_a_handler_passes_on_what_a_relay_passes_on() -> None:
    asked = []

    async def answer(peer: Peer) -> None:
        asked.append(await peer.request())
        await peer.send(
            b"HTTP/1.1 200 OK\r\nConnection: X-Gone, keep-alive\r\nKeep-Alive: 1\r\nX-Gone: a\r\nX-Latin: \xe9\r\n"
            b"Set-Cookie: a\r\nset-cookie: b\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n"
            b"Transfer_Encoding: chunked\r\n\r\nok"
        )

    async with ScriptedOrigin(answer) as origin, penstock.Engine(memory="4MiB", threads=1) as engine:
        fields = {"Connection": "close, X-Gone", "TE": "trailers", "X-Gone": "a", "X-Here": "b"}
        response = engine.get(origin.url + "/", headers=end_to_end(fields))
        with pytest.raises(AttributeError, match="await it"):
            end_to_end(response)
        async with response:
            assert end_to_end(response) == [
                ("X-Latin", "é"),
                ("Set-Cookie", "a"),
                ("set-cookie", "b"),
                ("Content-Length", "2"),
            ]
            assert await response.bytes() == b"ok"
    assert [name for name, _ in asked[0].fields] == ["Host", "X-Here"]
