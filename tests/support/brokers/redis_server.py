"""A real redis-server, which tests kill, stop, empty and start again."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from support.programs import require
from support.waiting import until


class RedisServer:
    """One that has written all that it confirms. It listens on a Unix socket, so that no port can be taken."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # Paths of sockets are short.
        self.socket = directory / "r"
        self._second = directory / "s"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def second_url(self) -> str:
        """Another way to it, which stays when the first is cut off."""
        return f"unix://{self._second}"

    async def start(self, *options: str) -> None:
        program = require("redis-server", package="redis-server")
        command = [program, "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.directory)]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--save", "", *options]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        await until(self._answers, "Redis is there")
        os.link(self.socket, self._second)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.socket.unlink(missing_ok=True)
        self._second.unlink(missing_ok=True)
        self._process = None

    def cut_off(self) -> None:
        """It can be reached by its second URL alone."""
        self.socket.unlink()
        for kind in ("normal", "pubsub"):
            self.call("CLIENT", "KILL", "TYPE", kind)

    def let_in(self) -> None:
        os.link(self._second, self.socket)

    def forget(self) -> None:
        """What it has written is gone. Not while it runs."""
        shutil.rmtree(self.directory / "appendonlydir")

    def stop(self) -> None:
        """It hangs, and its connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def call(self, *command: Any, **options: Any) -> Any:
        """What an operator does to it."""
        path = self.socket if self.socket.exists() else self._second
        once = Retry(NoBackoff(), 0)
        with redis.Redis(unix_socket_path=str(path), retry=once, **options) as client:
            return client.execute_command(*command)

    def end(self) -> None:
        if self._process is not None:
            self.kill()

    def _answers(self) -> bool:
        try:
            self.call("PING")
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False
        return True


@asynccontextmanager
async def a_redis() -> AsyncIterator[RedisServer]:
    """A Redis of the block's own, which runs."""
    # pytest's own directories have longer names than sockets may.
    with tempfile.TemporaryDirectory(prefix="r") as directory:
        server = RedisServer(Path(directory))
        await server.start()
        yield server
        server.end()
