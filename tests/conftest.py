"""What every test is held to: real sockets, and nothing left: no slab, no descriptor, no task."""

import logging
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

import penstock
from penstock.config import OriginLimits
from support import leaks

# A shell has what it starts in the background ignore SIGINT, and nohup has it ignore SIGHUP. The programs under test
# would inherit that.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# The first engine of a process opens the signal pipe that tokio keeps for good; it is no test's.
penstock.Engine(memory="1MiB").close()


@pytest.fixture(scope="session", autouse=True)
def programs_find_one_root_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Programs that tests start find one root certificate in place of the system's.

    An import of aiohttp parses all of them, which takes a third of the time that `penstock serve` needs to start. No
    test trusts a public authority.
    """
    path: Path = tmp_path_factory.mktemp("roots") / "root.pem"
    trustme.CA().cert_pem.write_to_path(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(path))
        patch.setenv("SSL_CERT_DIR", str(path.parent / "none"))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_test_keeps_what_it_compiles() -> Iterator[None]:
    """Tests write programs anew, perhaps in the same second and of the same size, by which Python would not know it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        patch.setattr(sys, "dont_write_bytecode", True)
        yield


@pytest.fixture(scope="session", autouse=True)
def programs_keep_temporary_files_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What programs leave when they are killed goes with the files of the tests. No other run leaves anything there."""
    directory = tmp_path_factory.mktemp("programs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(directory))
        patch.delenv("XDG_RUNTIME_DIR", raising=False)
        yield directory


@pytest.fixture(autouse=True)
def leaves_no_directory_of_workers(programs_keep_temporary_files_apart: Path) -> Iterator[None]:
    with leaks.no_directory_is_left(programs_keep_temporary_files_apart):
        yield


@pytest.fixture(autouse=True)
def logs_keep_the_text_of_errors_alone() -> Iterator[None]:
    """pytest keeps log records; one with a traceback would keep its frames alive, and they the engine."""
    make = logging.getLogRecordFactory()

    def record(*args: Any, **named: Any) -> logging.LogRecord:
        record = make(*args, **named)
        if record.exc_info:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        if any(isinstance(value, BaseException) for value in record.args or ()):
            record.msg, record.args = record.getMessage(), ()
        return record

    logging.setLogRecordFactory(record)
    yield
    logging.setLogRecordFactory(make)


@pytest.fixture(autouse=True)
def leaves_no_descriptor(request: pytest.FixtureRequest) -> Iterator[None]:
    with leaks.no_descriptor_is_left(request):
        yield


@pytest.fixture
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[penstock.Engine]:
    """A small engine.

    A connection is taken with the head of a request, so that tests can step through its body: tests/overload have the
    default.
    """
    async with leaks.engine_under_test(request, limits=OriginLimits(upload_part=0)) as engine:
        yield engine
