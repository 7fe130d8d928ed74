"""Where a site listens: TCP of both families, Unix sockets, and sockets that another program has made."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

import penstock
from penstock import _native
from penstock.config import Edge
from penstock.testing import ScriptedOrigin
from support.client import RawClient
from support.edges import Edges, Served
from support.origins import Recorder
from support.waiting import until


async def test_a_unix_socket(edge: Edges, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with ScriptedOrigin(Recorder()) as origin:
        site = edge.site([edge.gateway(origin.url).native("/")])
        site.listen_unix(str(path))
        client = RawClient(*await asyncio.open_unix_connection(path))
        edge.keep(client)
        assert (await client.ask()).body == b"ok"
        # There is no address to be told of.
        assert origin.requests[0].get("X-Forwarded-For") == "unknown"


async def test_a_unix_socket_without_a_listener_is_replaced(edge: Edges, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with ScriptedOrigin(Recorder()) as origin:
        site = edge.site([edge.gateway(origin.url).native("/")])
        site.listen_unix(str(path))
        client = RawClient(*await asyncio.open_unix_connection(path))
        edge.keep(client)
        assert (await client.ask()).body == b"ok"


async def test_a_unix_socket_in_use_is_left_alone(edge: Edges, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as used:
        used.bind(str(path))
        used.listen()
        with pytest.raises(penstock.PenstockError) as raised:
            edge.site([]).listen_unix(str(path))
        assert raised.value.name == "LISTEN_FAILED"
        assert path.is_socket()


async def test_a_file_in_the_place_of_a_unix_socket_is_left_alone(edge: Edges, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("precious")
    with pytest.raises(penstock.PenstockError) as raised:
        edge.site([]).listen_unix(str(path))
    assert raised.value.name == "LISTEN_FAILED"
    assert path.read_text() == "precious"


@pytest.mark.parametrize("listens", [False, True], ids=["bound", "listening"])
async def test_a_socket_that_is_passed_in(edge: Edges, listens: bool) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        site = edge.site([edge.gateway(origin.url).native("/")])
        with socket.socket() as own:
            own.bind(("127.0.0.1", 0))
            if listens:
                own.listen()
            port = own.getsockname()[1]
            site.listen_fd(own.fileno())
        client = await edge.connect(Served(port, site))
        assert (await client.ask()).body == b"ok"


async def test_a_unix_socket_that_is_passed_in(edge: Edges, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with ScriptedOrigin(Recorder()) as origin:
        site = edge.site([edge.gateway(origin.url).native("/")])
        with socket.socket(socket.AF_UNIX) as own:
            own.bind(str(path))
            own.listen()
            site.listen_fd(own.fileno())
        client = RawClient(*await asyncio.open_unix_connection(path))
        edge.keep(client)
        assert (await client.ask()).body == b"ok"


async def test_a_descriptor_that_cannot_listen_is_refused(edge: Edges) -> None:
    with open(os.memfd_create("x")) as file, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        for made in (file, datagrams):
            with pytest.raises(penstock.PenstockError) as raised:
                edge.site([]).listen_fd(made.fileno())
            assert raised.value.name == "LISTEN_FAILED"
            os.fstat(made.fileno())


@pytest.mark.parametrize("number", [-1, 1_000_000])
async def test_a_number_that_is_no_descriptor_is_refused(edge: Edges, number: int) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        edge.site([]).listen_fd(number)


def listen_on_both(site: _native.Site) -> int:
    """A port of both families. One that is free in the one may be another's in the other."""
    for _ in range(20):
        address, port = site.listen_tcp("::1", 0)
        assert address == "::1"
        try:
            assert site.listen_tcp("127.0.0.1", port) == ("127.0.0.1", port)
        except penstock.PenstockError as error:
            if error.name != "LISTEN_FAILED":
                raise
        else:
            return port
    pytest.fail("no port is free in both families")


async def test_both_families_side_by_side(edge: Edges) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    async with ScriptedOrigin(Recorder()) as origin:
        site = edge.site([edge.gateway(origin.url).native("/")])
        port = listen_on_both(site)
        for host in ("::1", "127.0.0.1"):
            client = RawClient(*await asyncio.open_connection(host, port))
            edge.keep(client)
            assert (await client.ask()).body == b"ok"
            assert origin.requests[-1].get("X-Forwarded-For") == host


async def test_an_address_in_use_is_refused_unless_it_is_shared(edge: Edges) -> None:
    first = edge.site([])
    _, port = first.listen_tcp("127.0.0.1", 0)
    with pytest.raises(penstock.PenstockError) as raised:
        edge.site([]).listen_tcp("127.0.0.1", port)
    assert raised.value.name == "LISTEN_FAILED"
    assert str(port) in str(raised.value)
    shared = Edge(reuse_port=True)
    _, port = edge.site([], edge=shared).listen_tcp("127.0.0.1", 0)
    assert edge.site([], edge=shared).listen_tcp("127.0.0.1", port) == ("127.0.0.1", port)


async def test_what_is_no_address_is_refused(edge: Edges) -> None:
    with pytest.raises(penstock.ConfigurationError):
        edge.site([]).listen_tcp("localhost", 0)


async def test_connections_are_spread_over_the_threads_and_counted(edge: Edges) -> None:
    async with ScriptedOrigin(Recorder()) as origin:
        served = await edge.relay(origin.url)
        clients = [await edge.connect(served) for _ in range(6)]
        for client in clients:
            assert (await client.ask()).body == b"ok"
        counts = served.native.counts()
        assert (counts.connections, counts.accepted, counts.requests, counts.refused) == (6, 6, 6, 0)
        for client in clients[:4]:
            client.abort()
        await until(lambda: served.connections == 2, "four have left")
        counts = served.native.counts()
        assert (counts.connections, counts.accepted, counts.requests, counts.refused) == (2, 6, 6, 0)


async def test_a_site_without_routes_answers_404(edge: Edges) -> None:
    client = await edge.connect(await edge.serve([]))
    assert (await client.ask()).head.status == 404


async def test_two_routes_of_one_pattern_are_refused(edge: Edges) -> None:
    gateway = edge.gateway("http://127.0.0.1:1")
    served = await edge.serve([gateway.native("/")])
    twice = [gateway.native("/vod/"), gateway.native("/vod/", name="again")]
    with pytest.raises(penstock.ConfigurationError):
        served.native.set_routes(edge.natives(twice))
    # Another host is another pattern.
    served.native.set_routes(edge.natives([*twice[:1], gateway.native("/vod/", host="a.test")]))
