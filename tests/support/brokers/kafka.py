"""A broker of Apache Kafka for tests: its own jars from Maven Central, one process, no ZooKeeper, ports that are free.

`python broker.py DIRECTORY` runs one until it is interrupted, and prints its address. Needs Java 17 and Maven
(`apt install maven`); the jars, 43 MB, are fetched once, into Maven's own cache. A start takes some two seconds.
"""

import asyncio
import hashlib
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_POM = Path(__file__).with_name("kafka.pom.xml")
# A small heap, one collector thread, and no second compiler: what a test has of it is its start.
_JAVA = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG = "-Dorg.apache.logging.log4j.level=INFO"
_CLUSTER = "4L6g3nShT-eMCtK--X86sw"
_SECONDS = 60.0
_FETCH_SECONDS = 600.0
# The controller's comes first: a broker without one cannot be reached.
_LISTENING = re.compile(rb"DataPlaneAcceptor - Awaiting socket connections on ([\d.]+:\d+)")
_STARTED = b"Kafka Server started"
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:1
listeners=CLIENTS://{clients},CONTROLLER://127.0.0.1:0
listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENTS
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
# After a kill the broker that was is waited for this long, before it may come again.
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=250
# What a broker has acknowledged is on its disk.
log.flush.interval.messages=1
# What can be compacted is, at once.
log.cleaner.backoff.ms=100
log.cleaner.dedupe.buffer.size=4194304
# A test makes what it means to have.
auto.create.topics.enable=false
# Fifty take a second to make.
transaction.state.log.num.partitions=1
"""


def missing() -> str | None:
    """What has to be installed before a broker can be run; None if nothing."""
    for program, package in (("java", "default-jre-headless"), ("mvn", "maven")):
        if shutil.which(program) is None:
            return f"{program} not found: install the package '{package}'"
    return None


async def classpath() -> str:
    """The jars, as Java is told of them. Has Maven fetch them where it has not before."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-tests"
    known = cache / f"kafka-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:16]}"
    if not known.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cache) as file:
            goal = ("dependency:build-classpath", f"-Dmdep.outputFile={file.name}")
            await _run("mvn", "-q", "-B", "-f", str(_POM), *goal, seconds=_FETCH_SECONDS)
            # Whole, or not there.
            os.link(file.name, f"{known}.{os.getpid()}")
            os.replace(f"{known}.{os.getpid()}", known)
    return known.read_text().strip()


async def _run(*command: str, seconds: float) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"{command[0]} ended with {process.returncode}: {said.decode()[-2000:]}"


class Broker:
    """One broker on the directory `data`: `start`, and `stop` or `kill`, as often as a test likes.

    It has the same `address` each time, so that clients find it again.
    """

    def __init__(self, data: Path) -> None:
        self.address = "127.0.0.1:0"
        """HOST:PORT, once it has been started."""
        self._data = data
        self._properties = data.with_name(f"{data.name}.properties")
        self._process: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[bytes] | None = None

    async def start(self) -> None:
        """Return when clients are served.

        Raises:
            AssertionError: it ended before that. TimeoutError: it took too long.
        """
        self._properties.write_text(_PROPERTIES.format(clients=self.address, data=self._data))
        java = ("java", *_JAVA, _LOG, "-cp", await classpath())
        if not self._data.exists():
            given = ("--standalone", "-t", _CLUSTER, "-c", str(self._properties))
            await _run(*java, "kafka.tools.StorageTool", "format", *given, seconds=_SECONDS)
        self._process = await asyncio.create_subprocess_exec(
            *java, "kafka.Kafka", str(self._properties), stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(_SECONDS):
            self.address = await self._announced(self._process.stdout)
        # Heard to the end, so that a full pipe cannot hold it up.
        self._hearing = asyncio.create_task(self._process.stdout.read())

    @staticmethod
    async def _announced(stdout: asyncio.StreamReader) -> str:
        said: list[bytes] = []
        listening: list[str] = []
        async for line in stdout:
            said.append(line)
            if found := _LISTENING.search(line):
                listening.append(found[1].decode())
            elif _STARTED in line:
                return listening[1]
        raise AssertionError(f"the broker ended: {b''.join(said[-20:]).decode(errors='replace')}")

    async def stop(self) -> None:
        """End it as an operator does."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
        await self._ended()

    async def kill(self) -> None:
        """End it as a power cut does."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        await self._ended()

    async def _ended(self) -> None:
        if self._process is not None:
            await self._process.wait()
        if self._hearing is not None:
            await self._hearing


@asynccontextmanager
async def running_broker(directory: Path) -> AsyncIterator[Broker]:
    """A broker that is served by the time that the block begins, and gone after it."""
    broker = Broker(directory / "kafka")
    try:
        await broker.start()
        yield broker
    finally:
        await broker.kill()


async def _main(directory: Path) -> None:
    if reason := missing():
        sys.exit(reason)
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    async with running_broker(directory) as broker:
        print(broker.address, flush=True)  # noqa: T201 (how it tells its port)
        await over.wait()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
