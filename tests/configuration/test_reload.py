"""SIGHUP: new routes for every later request, and none that fails; a file with faults changes nothing."""

import asyncio
import json
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jwt
import trustme
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from penstock.testing import Peer, ScriptedOrigin
from support.certificates import written
from support.client import RawClient, answer, client_of
from support.command import Running, serve
from support.http2 import Http2Client
from support.scraping import Metrics

from .serving import SECRET, URLS, reload

STATUS = re.compile(r"status on http://127.0.0.1:(\d+)/")


def says(body: bytes) -> Callable[[Peer], object]:
    async def origin(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(answer("Cache-Control: max-age=0", f"Content-Length: {len(body)}", body=body))

    return origin


def origin_at(url: str, *, more: str = "") -> str:
    return f'origin = "{url}"\nthreads = 2\nmemory = "16MiB"\n[status]\nlisten = "127.0.0.1:0"\n{more}'


async def metrics(port: int) -> Metrics:
    async with client_of(port) as client:
        return Metrics((await client.ask("/penstock/metrics")).body.decode())


async def body_of(running: Running, target: str = "/") -> bytes:
    async with client_of(running.port) as client:
        return (await client.ask(target)).body


class Clients:
    """Clients that ask again and again, on connections that stay open."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[int, bytes]] = Counter()
        self.is_over = False

    async def http1(self, client: RawClient) -> None:
        while not self.is_over:
            reply = await client.ask("/a")
            assert reply.head.one("Connection") != "close"
            self.answers[reply.head.status, reply.body] += 1

    async def http2(self, client: Http2Client) -> None:
        while not self.is_over:
            streams = [await client.request("/a") for _ in range(4)]
            for stream in streams:
                found = await client.answer(stream)
                self.answers[found.status, bytes(found.body)] += 1

    async def total(self, least: int) -> None:
        async with asyncio.timeout(50):
            while sum(self.answers.values()) < least:
                await asyncio.sleep(0.01)


async def test_thousands_of_requests_while_the_routes_change_are_answered_by_one_of_both_sets(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    cert, key = written(authority, tmp_path, "localhost", "127.0.0.1")
    path = tmp_path / "p.toml"
    secure = f'[[sites]]\nlisten = "127.0.0.1:0"\ntls = {{ cert = "{cert.name}", key = "{key.name}" }}\n'
    async with ScriptedOrigin(says(b"one")) as one, ScriptedOrigin(says(b"two")) as two:
        # The second has its origin by a name, and a route more.
        files = [
            origin_at(one.url, more=f"[cache]\nmemory = '1MiB'\n{secure}"),
            origin_at(one.url, more=f"[cache]\nmemory = '1MiB'\n{secure}")
            + f'[origins.two]\nurls = ["{two.url}"]\nbalance = "least-loaded"\n'
            '[[routes]]\norigin = "two"\ncaching = false\n[[routes]]\nprefix = "/b/"\n',
        ]
        path.write_text(files[0])
        async with serve("--config", str(path), "--no-access-log") as running:
            port = int((await running.wait_for(re.compile(r"listening on https://127.0.0.1:(\d+)")))[1])
            clients = Clients()
            plain = [await RawClient.connect(running.port) for _ in range(4)]
            over_http2 = await Http2Client.connect(port, authority)
            async with asyncio.TaskGroup() as tasks:
                for client in plain:
                    tasks.create_task(clients.http1(client))
                tasks.create_task(clients.http2(over_http2))
                least = 0
                for turn in range(1, 13):
                    path.write_text(files[turn % 2])
                    assert await reload(running)
                    least += 250
                    await clients.total(least)
                clients.is_over = True
            for client in plain:
                client.abort()
            await over_http2.close()
            running.process.send_signal(signal.SIGTERM)
            assert await running.ended() == 0
    assert set(clients.answers) == {(200, b"one"), (200, b"two")}, clients.answers
    assert sum(clients.answers.values()) >= 3000
    assert "WARNING" not in running.log()
    assert "ERROR" not in running.log()


async def test_a_request_in_progress_ends_by_the_routes_that_it_began_with(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def held(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 8", body=b"half"))
        await go_on.wait()
        await peer.send(b"half")
        await peer.request()

    path = tmp_path / "p.toml"
    async with ScriptedOrigin(held) as one, ScriptedOrigin(says(b"two")) as two:
        path.write_text(origin_at(one.url))
        async with serve("--config", str(path)) as running:
            client = await RawClient.connect(running.port)
            await client.get("/held")
            assert (await client.head()).status == 200
            assert await client.reader.readexactly(4) == b"half"
            path.write_text(origin_at(two.url))
            assert await reload(running)
            assert await body_of(running) == b"two"
            go_on.set()
            assert await client.reader.readexactly(4) == b"half"
            # The same connection has the new routes with its next request.
            assert (await client.ask("/")).body == b"two"
            client.abort()


async def test_a_file_with_faults_changes_nothing_and_is_seen_in_the_metrics(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    async with ScriptedOrigin(says(b"one")) as one, ScriptedOrigin(says(b"two")) as two:
        path.write_text(origin_at(one.url))
        async with serve("--config", str(path)) as running:
            pages = int((await running.wait_for(STATUS))[1])
            for faulty in (
                origin_at(two.url) + "\n[[routes]]\ngate = 'none'\n",
                origin_at(two.url) + "x = \n",
                origin_at(two.url) + "[cache]\nmemory = 'much'\n",
            ):
                path.write_text(faulty)
                assert not await reload(running)
                assert await body_of(running) == b"one"
            path.unlink()
            assert not await reload(running)
            found = await metrics(pages)
            assert found.get("configuration_current") == 0
            assert found.get("configuration_reloads_total", result="failed") == 4
            path.write_text(origin_at(two.url))
            assert await reload(running)
            assert await body_of(running) == b"two"
            found = await metrics(pages)
            assert found.get("configuration_current") == 1
            assert found.get("configuration_reloads_total", result="applied") == 1
            assert found.get("configuration_reloads_total", result="failed") == 4
    log = running.log()
    assert f"ERROR penstock.serve: {path}:8:8: routes[0].gate: 'none': there is no [gates.none]" in log
    assert f"{path}:6:5: " in log
    assert f"{path}:7:10: cache.memory: 'much': is no size" in log
    assert f"{path}:1:1: cannot be read: No such file or directory" in log
    assert "Traceback" not in log


async def test_what_takes_a_restart_is_named_and_the_rest_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    async with ScriptedOrigin(says(b"one")) as one, ScriptedOrigin(says(b"two")) as two:
        path.write_text(origin_at(one.url))
        # An option goes before the file, then as now.
        async with serve("--config", str(path), "--drain", "3") as running:
            text = origin_at(two.url).replace("16MiB", "32MiB")
            path.write_text(
                f'drain = 5\nlisten = ":1"\n{text}[cache]\nmemory = "1MiB"\n[[sites]]\nlisten = "127.0.0.1:0"\n'
            )
            assert await reload(running)
            assert await body_of(running) == b"two"
    log = running.log()
    for name in ("pool", "cache", "the site at 127.0.0.1:0"):
        assert f"WARNING penstock.serve: SIGHUP: {name} differs from the start, and takes a restart" in log
    assert "drain differs" not in log
    assert "listen differs" not in log


async def test_gates_are_replaced_and_their_keys_read_again(tmp_path: Path) -> None:
    path, key = tmp_path / "p.toml", tmp_path / "key"
    gate = '[gates.g]\nkind = "signed-url"\nkeys = { file = "key" }\n[[routes]]\ngate = "g"\n'
    url = URLS.sign("/a", lifetime=60)
    async with ScriptedOrigin(says(b"one")) as one:
        path.write_text(origin_at(one.url))
        async with serve("--config", str(path)) as running:
            assert await body_of(running, "/a") == b"one"
            path.write_text(origin_at(one.url, more=gate))
            key.write_text(SECRET)
            assert await reload(running)
            assert await body_of(running, url) == b"one"
            assert b"TOKEN" in await body_of(running, "/a")
            key.write_text("another secret of 32 bytes, from a safe")
            assert await reload(running)
            assert b"TOKEN" in await body_of(running, url)
            key.unlink()
            assert not await reload(running)
            assert b"TOKEN" in await body_of(running, url)
    assert f"{path}:8:8: gates.g.keys: key cannot be read" in running.log()
    assert SECRET not in running.log()


async def test_keys_that_are_published_are_fetched_before_a_new_gate_is_used(tmp_path: Path) -> None:
    private = generate_private_key(SECP256R1())
    jwk = jwt.algorithms.ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    keys = json.dumps({"keys": [jwk | {"kid": "1", "alg": "ES256"}]}).encode()
    asked, given = asyncio.Event(), asyncio.Event()

    async def issuer(peer: Peer) -> None:
        await peer.request()
        asked.set()
        # The server goes on without the keys until it has them.
        await given.wait()
        await peer.send(answer(f"Content-Length: {len(keys)}", body=keys))
        await peer.request()

    token = jwt.encode({"exp": 4102444800}, private, "ES256", {"kid": "1"})
    path = tmp_path / "p.toml"
    async with ScriptedOrigin(says(b"one")) as one, ScriptedOrigin(issuer) as published:
        path.write_text(origin_at(one.url))
        async with serve("--config", str(path)) as running:
            path.write_text(
                origin_at(
                    one.url,
                    more=f'[gates.g]\nkind = "jwt"\njwks = "{published.url}/keys"\n[[routes]]\ngate = "g"\n',
                )
            )
            running.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(30):
                await asked.wait()
            async with client_of(running.port) as client:
                bearer = f"Authorization: Bearer {token}"
                statuses = [(await client.ask("/", bearer)).head.status for _ in range(5)]
            given.set()
            await running.wait_for(re.compile("was read again"))
            async with client_of(running.port) as client:
                statuses.append((await client.ask("/", bearer)).head.status)
            async with client_of(running.port) as client:
                assert (await client.ask("/")).head.status == 401
    assert set(statuses) == {200}


async def test_signals_that_come_together_are_one_reading_more(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    async with ScriptedOrigin(says(b"one")) as one, ScriptedOrigin(says(b"two")) as two:
        path.write_text(origin_at(one.url))
        async with serve("--config", str(path)) as running:
            for turn in range(20):
                # In place of the other, as a whole: a half of it would have faults.
                (tmp_path / "new").write_text(origin_at((one, two)[turn % 2].url))
                (tmp_path / "new").replace(path)
                running.process.send_signal(signal.SIGHUP)
            assert await reload(running)
            async with asyncio.timeout(30):
                while await body_of(running) != b"two":
                    await asyncio.sleep(0.01)
            running.process.send_signal(signal.SIGTERM)
            assert await running.ended() == 0


async def test_with_workers_the_file_is_checked_and_what_has_changed_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os\nfrom aiohttp import web\n\nasync def pid(request):\n"
        "    return web.Response(text=str(os.getpid()))\n\napp = web.Application()\napp.router.add_get('/', pid)\n"
    )
    path = tmp_path / "p.toml"
    text = 'app = "mine:app"\nmemory = "16MiB"\nthreads = 1\n[workers]\ncount = 1\n[status]\nlisten = "127.0.0.1:0"\n'
    path.write_text(text)
    async with serve("--config", "p.toml", directory=tmp_path) as running:
        pages = int((await running.wait_for(STATUS))[1])
        before = await body_of(running)
        path.write_text(text.replace("count = 1", "count = 2").replace("16MiB", "much"))
        running.process.send_signal(signal.SIGHUP)
        await running.wait_for(re.compile(r"p.toml:2:10: pool.memory: 'much': is no size"))
        async with asyncio.timeout(50):
            while await body_of(running) == before:
                await asyncio.sleep(0.05)
        assert (await metrics(pages)).get("configuration_current") == 0
        path.write_text(text.replace("count = 1", "count = 2"))
        running.process.send_signal(signal.SIGHUP)
        await running.wait_for(re.compile("SIGHUP: workers differs from the start, and takes a restart"))
        assert (await metrics(pages)).get("configuration_current") == 1
        running.process.send_signal(signal.SIGTERM)
        assert await running.ended() == 0
