"""Runs aiohttp's own suites of its server against penstock's Site: `make test-aiohttp`.

Fetches the source of the installed version of aiohttp into a temporary directory, has its test server listen through
a Site, and compares what does not pass with EXPECTED, which must say exactly that. Then once more over TLS, where what
does not pass besides must be OVER_TLS, or by chance BY_CHANCE_OVER_TLS; and the suites BY_HTTP2 through nghttpx, a
client of HTTP/2 (`apt-get install nghttp2-proxy`), where it must be OVER_HTTP2, or by chance BY_CHANCE_OVER_HTTP2.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme

# All of aiohttp's files about its server, but for gunicorn's worker, which listens by itself.
SUITES: Final = (
    "route_def",
    "run_app",
    "urldispatch",
    "web_app",
    "web_cli",
    "web_exceptions",
    "web_functional",
    "web_log",
    "web_middleware",
    "web_protocol",
    "web_request",
    "web_request_handler",
    "web_response",
    "web_runner",
    "web_sendfile",
    "web_sendfile_functional",
    "web_server",
    "web_urldispatcher",
    "web_websocket",
    "web_websocket_functional",
)

# What aiohttp's tests import besides what penstock's do.
NEEDED: Final = ("pytest-mock", "freezegun", "isal", "zlib_ng", "re_assert", "blockbuster", "forbiddenfruit")

_QUEUED_IN_THE_ENGINE: Final = (
    "looks into the protocol for requests or bytes that wait while another is answered; "
    "they wait in the engine, which bounds them itself"
)
_UNASKED: Final = (
    "answers 101 to a client that has not asked for another protocol, which the engine cuts off "
    "(RFC 9110, section 7.8): what follows would be read as a tunnel by one side alone"
)

_ROOT: Final = "needs a user whom permissions hold; root reads everything, on aiohttp's server too"

EXPECTED: Final = {
    "test_trickled_headers_closed_at_first_request_deadline": (
        "a head that comes in drops has a deadline of its own here, Edge.head_timeout, and no protocol hears of a "
        "client before its request is whole"
    ),
    "test_heartbeat_connection_closed": (
        "replaces a method of the transport; the engine's take no attributes, as uvloop's do not"
    ),
    "test_http1_pipelined_requests_are_count_limited": _QUEUED_IN_THE_ENGINE,
    "test_http1_pipelined_queue_resumes_after_drain": _QUEUED_IN_THE_ENGINE,
    "test_upgrade_tail_is_byte_limited": _QUEUED_IN_THE_ENGINE,
    "test_upgrade_tail_resumes_reading_after_websocket_prepare": _QUEUED_IN_THE_ENGINE,
    "test_response_101_204_no_content_length_http11[101]": _UNASKED,
    "test_no_body_for_1xx_204_304_responses[version0-101]": _UNASKED,
    "test_no_body_for_1xx_204_304_responses[version1-101]": _UNASKED,
    "test_keepalive_expires_on_time on uvloop": (
        "replaces loop.time, which uvloop's timers do not ask; it does not pass on aiohttp's transport either"
    ),
}

OVER_TLS: Final = {
    "test_request_tracing": "asks by an http URL, and is refused",
    "test_absolute_form_target_does_not_spoof_scheme": "expects the scheme http of a server that speaks TLS",
}

# May pass: over TLS a client is told at once that the server has closed, and this one sends at that moment.
BY_CHANCE_OVER_TLS: Final = {
    "test_abnormal_closure_when_server_does_not_receive": "sends while the server closes the connection",
    "test_http1_pipelined_behind_declined_upgrade_served_once": "closes the connection when the last handler is called, "
    "and Python's ssl fails where the answer comes after its close_notify",
}

# Those of them that ask a server which listens. WebSocket has no part in HTTP/2 here.
BY_HTTP2: Final = (
    "web_functional",
    "web_middleware",
    "web_sendfile_functional",
    "web_server",
    "web_urldispatcher",
)

_FIELD: Final = "asks by HTTP/1.0 and reads the field Connection, which is nghttpx's own"
_UPGRADE: Final = "asks for another protocol, which HTTP/2 has not; nghttpx waits for it to begin"
_OTHER_END: Final = (
    "waits for the server to close the connection of the client, which is nghttpx's; another test has it"
)

OVER_HTTP2: Final = {
    "test_http10_keep_alive_default": _FIELD,
    "test_http10_keep_alive_with_headers": _FIELD,
    "test_http10_keep_alive_with_headers_close": _FIELD,
    "test_http1_pipelined_behind_declined_upgrade_served_once": _UPGRADE,
    "test_bad_pipelined_data_behind_declined_upgrade_answers_400": _UPGRADE,
    "test_declined_websocket_upgrade_reads_body": _UPGRADE,
    "test_bad_method_for_c_http_parser_not_hangs": "sends what nghttpx refuses by itself",
    "test_idle_connection_closed_before_first_request": _OTHER_END,
    "test_keepalive_timeout_zero_no_first_request_deadline": _OTHER_END,
    **{
        f"test_open_redirects[{options}]": "asks for //google.com, which nghttpx asks the server for as /"
        for options in ("True-False", "False-True", "False-False")
    },
}

BY_CHANCE_OVER_HTTP2: Final = {
    "test_unread_compressed_body_drain_is_bounded": "waits for aiohttp to read a body after its response, of which by "
    "HTTP/2 no more is taken then (RST_STREAM with NO_ERROR, RFC 9113, section 8.1)",
}

# The hosts that the tests ask for: with any other the certificate does not cover it, and that is 421.
_HOSTS: Final = ("localhost", "127.0.0.1", "a", "example.com", "different.example.com", "trusted.example")

_INI: Final = """
[pytest]
filterwarnings =
    error
    ignore:Unclosed client session:ResourceWarning
    ignore:aiohttp.pytest_plugin will be removed in v4:DeprecationWarning
    ignore:'asyncio.AbstractEventLoopPolicy' is deprecated:DeprecationWarning:uvloop
timeout = 30
markers =
    skip_blockbuster
    dev_mode
    internal
    autobahn
"""


if os.geteuid() == 0:
    EXPECTED.update(
        {
            "test_static_directory_without_read_permission[]": _ROOT,
            "test_static_directory_without_read_permission[my_file.txt]": _ROOT,
            "test_static_file_without_read_permission": _ROOT,
        }
    )


def fetch(target: Path) -> None:
    """Leave the tests of the installed aiohttp in `target`, and in `target/packages` what they need."""
    version = importlib.metadata.version("aiohttp")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    subprocess.run(
        (*pip, "download", "--no-deps", "--no-binary", "aiohttp", "-d", target, f"aiohttp=={version}"),
        check=True,
    )
    subprocess.run((*pip, "install", "--no-deps", "--target", target / "packages", *NEEDED), check=True)
    with tarfile.open(target / f"aiohttp-{version}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    source = target / f"aiohttp-{version}"
    # One suite looks for a file outside of the directory of the tests.
    for name in ("tests", "README.rst"):
        (source / name).rename(target / name)
    (target / "pytest.ini").write_text(_INI)


@dataclass(frozen=True)
class Way:
    """How the suites reach the servers, and what does not pass then."""

    name: str
    environment: dict[str, str]
    suites: Iterable[str]
    loops: str
    may_fail: Iterable[str]
    fail: Iterable[str]


def run(target: Path, way: Way) -> tuple[set[str], str]:
    """Run the suites; the names of the tests that did not pass, and pytest's last line."""
    here = Path(__file__).parent
    command = (
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "-p", "no:cacheprovider"),
        *("-p", "penstock_server", f"--aiohttp-loop={way.loops}", "--tb=short"),
        *(f"tests/test_{suite}.py" for suite in way.suites),
    )
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{target / 'packages'}:{here}", **way.environment}
    result = subprocess.run(
        command,
        cwd=target,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode not in {0, 1}:
        sys.exit(result.stdout[-5000:])
    failed = re.findall(r"^DID-NOT-PASS \S+::(\S.*)$", result.stdout, re.MULTILINE)
    (target.parent / "aiohttp_suites.log").write_text(result.stdout)
    return set(failed), result.stdout.rstrip().rpartition("\n")[2]


def expected(test: str, names: Iterable[str]) -> str | None:
    """Which of `names` a test has that may fail. Its loop is one of its parameters."""
    name, _, parameters = test.rstrip("]").partition("[")
    others = [parameter for parameter in parameters.split("-") if parameter not in {"pyloop", "uvloop"}]
    plain = f"{name}[{'-'.join(others)}]" if others else name
    on_uvloop = f"{plain} on uvloop" if "uvloop" in parameters.split("-") else plain
    return next((known for known in (plain, on_uvloop) if known in names), None)


def compare(failed: set[str], names: Iterable[str], needed: Iterable[str]) -> list[str]:
    """What is otherwise than it should be: of `names` all may fail, and the `needed` ones do."""
    found = {test: expected(test, names) for test in failed}
    wrong = [f"did not pass: {test}" for test, name in sorted(found.items()) if name is None]
    stale = sorted(set(needed) - set(found.values()))
    return wrong + [f"passes now, take it out: {name}" for name in stale]


def ways(pair: Path, nghttpx: str) -> list[Way]:
    """The ways that are run; `pair` is a certificate and its key."""
    tls, over_tls = {"PENSTOCK_TLS": str(pair)}, {**EXPECTED, **OVER_TLS}
    http2 = {**tls, "PENSTOCK_NGHTTPX": nghttpx}
    return [
        Way("plain HTTP", {}, SUITES, "all", EXPECTED, EXPECTED),
        Way("TLS", tls, SUITES, "all", {**over_tls, **BY_CHANCE_OVER_TLS}, OVER_TLS),
        Way(
            "HTTP/2",
            http2,
            BY_HTTP2,
            "pyloop",
            {**over_tls, **OVER_HTTP2, **BY_CHANCE_OVER_HTTP2},
            OVER_HTTP2,
        ),
    ]


def main() -> None:
    """Fetch, run, compare."""
    nghttpx = shutil.which("nghttpx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nghttpx is None:
        sys.exit("this takes nghttpx: install it, as by 'apt-get install nghttp2-proxy'")
    with tempfile.TemporaryDirectory() as directory:
        target, pair = Path(directory) / "aiohttp", Path(directory) / "pair.pem"
        target.mkdir()
        fetch(target)
        leaf = trustme.CA().issue_cert(*_HOSTS)
        leaf.private_key_and_cert_chain_pem.write_to_path(str(pair))
        wrong = []
        for way in ways(pair, nghttpx):
            failed, summary = run(target, way)
            print(f"{way.name}: {summary}", flush=True)
            surprises = compare(failed, way.may_fail, way.fail)
            wrong += [f"{way.name}: {surprise}" for surprise in surprises]
            if surprises:
                log = Path(tempfile.gettempdir()) / "penstock_aiohttp_suites.log"
                log.write_text((Path(directory) / "aiohttp_suites.log").read_text())
                print(f"output: {log}")
    for line in wrong:
        print(line)
    if wrong:
        sys.exit(1)
    print(
        f"all but {len(EXPECTED)} tests pass, over TLS all but {len(OVER_TLS)} more, by HTTP/2 all but "
        f"{len(OVER_HTTP2)} more, and they are expected to fail:"
    )
    for name, reason in (*EXPECTED.items(), *OVER_TLS.items(), *OVER_HTTP2.items()):
        print(f"  {name}: {reason}")


if __name__ == "__main__":
    main()
