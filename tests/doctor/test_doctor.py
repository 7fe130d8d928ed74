"""`penstock doctor`: each check is provoked, by files of a machine that are made for it, or by what the test does."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner

from penstock import config
from penstock.cli import main
from penstock.doctor.files import check_files
from penstock.doctor.finding import Finding
from penstock.doctor.kernel import check_machine
from penstock.doctor.machine import Machine
from penstock.doctor.plan import Plan
from penstock.doctor.report import as_json, as_text, status
from penstock.testing import Peer, ScriptedOrigin
from support.certificates import written
from support.client import answer
from support.command import COMMAND, free_port, run

MIB = 1 << 20
FILES = {
    "proc/meminfo": "MemTotal: 8388608 kB\n",
    "proc/self/cgroup": "0::/pods/one\n",
    "proc/sys/net/core/somaxconn": "4096\n",
    "proc/sys/net/ipv4/tcp_max_syn_backlog": "4096\n",
    "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
    "proc/sys/net/ipv4/tcp_wmem": "4096\t16384\t4194304\n",
    "proc/sys/net/ipv4/tcp_slow_start_after_idle": "0\n",
    "proc/sys/kernel/osrelease": "6.1.0-13-amd64\n",
    "proc/net/netstat": "TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 0 0\nIpExt: A\nIpExt: 0\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/fs/cgroup/pods/one/memory.max": "max\n",
    "sys/fs/cgroup/pods/one/cpu.max": "max 100000\n",
    "sys/fs/cgroup/pods/one/cpu.stat": "usage_usec 1\nnr_throttled 0\n",
}


def machine(root: Path, **changed: str | None) -> Machine:
    """A machine that is fit, but for the files that are `changed`; None: there is no such file."""
    for name, text in (FILES | {name.replace("__", "/"): text for name, text in changed.items()}).items():
        path = root / name
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return Machine(root)


def plan(**options: Any) -> Plan:
    settings = {"clients": 10, "listen": ("127.0.0.1", 0), "edge": config.Edge(backlog=1024)}
    return Plan(**settings | {"connections": 100, "threads": 1, "memory": 256 * MIB} | options)


def found(findings: Any, check: str) -> Finding:
    (one,) = [finding for finding in findings if finding.check.startswith(check)]
    assert isinstance(one, Finding)
    if one.state in {"warning", "failure"}:
        assert one.wanted
        assert one.why
    return one


def test_a_machine_that_is_fit_has_no_complaints(tmp_path: Path) -> None:
    findings = list(check_machine(machine(tmp_path), plan()))
    assert {finding.state for finding in findings if finding.check != "clock"} == {"ok"}


@pytest.mark.parametrize(
    ("check", "file", "text", "state"),
    [
        ("memory", "sys__fs__cgroup__pods__one__memory.max", str(300 * MIB), "failure"),
        ("memory", "sys__fs__cgroup__pods__one__memory.max", str(390 * MIB), "warning"),
        ("memory", "sys__fs__cgroup__pods__memory.max", str(300 * MIB), "failure"),
        ("memory", "proc__meminfo", "MemTotal: 307200 kB\n", "failure"),
        ("memory", "proc__meminfo", "", "unknown"),
        ("processor", "sys__fs__cgroup__pods__one__cpu.max", "50000 100000", "warning"),
        ("processor", "sys__fs__cgroup__pods__one__cpu.stat", "nr_throttled 7\n", "warning"),
        ("backlog", "proc__sys__net__core__somaxconn", "128", "warning"),
        ("backlog", "proc__sys__net__ipv4__tcp_max_syn_backlog", "128", "warning"),
        ("dropped", "proc__net__netstat", "TcpExt: ListenOverflows\nTcpExt: 3\n", "warning"),
        ("dropped", "proc__net__netstat", "TcpExt: Other\nTcpExt: 3\n", "unknown"),
        ("local ports", "proc__sys__net__ipv4__ip_local_port_range", "60000 60010", "warning"),
        ("local ports", "proc__sys__net__ipv4__ip_local_port_range", "nonsense", "unknown"),
        ("send buffer", "proc__sys__net__ipv4__tcp_wmem", "4096 16384 65536", "warning"),
        ("slow start", "proc__sys__net__ipv4__tcp_slow_start_after_idle", "1", "warning"),
        ("huge pages", "sys__kernel__mm__transparent_hugepage__enabled", "always madvise [never]", "warning"),
        ("kernel", "proc__sys__kernel__osrelease", "5.10.0", "warning"),
        ("kernel", "proc__sys__kernel__osrelease", "strange", "unknown"),
    ],
)
def test_what_the_machine_lacks_is_said(tmp_path: Path, check: str, file: str, text: str, state: str) -> None:
    findings = list(check_machine(machine(tmp_path, **{file: text}), plan()))
    assert found(findings, check).state == state
    rest = {
        finding.state for finding in findings if finding.check not in {"clock", found(findings, check).check}
    }
    assert rest == {"ok"}


def test_a_machine_that_says_nothing_is_unknown(tmp_path: Path) -> None:
    findings = list(check_machine(Machine(tmp_path), plan()))
    assert {finding.state for finding in findings} <= {"ok", "unknown", "warning"}
    assert found(findings, "memory").state == "unknown"


@pytest.mark.parametrize(
    ("answer", "status", "state"),
    [(0, 0, "ok"), (0, 0x40, "warning"), (5, 0x40, "warning"), (-1, 0, "unknown")],
)
def test_a_clock_that_is_not_synchronised_is_said(
    tmp_path: Path, answer: int, status: int, state: str
) -> None:
    def adjtimex(words: Any) -> int:
        # Of `struct timex`: the clock's status.
        words[10] = status
        return answer

    machine(tmp_path)
    findings = check_machine(Machine(tmp_path, adjtimex), plan())
    assert found(findings, "clock").state == state


MODES = {"PYTHONASYNCIODEBUG": "1", "PYTHONTRACEMALLOC": "1", "PYTHONMALLOC": "pymalloc_debug"}


@pytest.mark.parametrize(
    ("what", "options", "variables", "warnings"),
    [
        ("a:b", (), {}, {}),
        ("a:b", ("-X", "dev"), {}, {"Python's modes": "development mode"}),
        ("a:b", (), MODES, {"Python's modes": ", ".join(f"{name}={value}" for name, value in MODES.items())}),
        ("a:b", (), {"AIOHTTP_NO_EXTENSIONS": "1"}, {"aiohttp": "with its parser in Python"}),
        ("--origin=http://127.0.0.1:1", (), MODES, None),
    ],
    ids=["nothing", "dev", "variables", "parser", "no application"],
)
def test_what_makes_python_slow_is_said_where_there_is_an_application(
    what: str, options: tuple[str, ...], variables: dict[str, str], warnings: dict[str, str] | None
) -> None:
    command = (sys.executable, *options, "-m", "penstock", "doctor", what, "--listen=127.0.0.1:0", "--json")
    environment = {**os.environ, **variables}
    said = subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout
    findings = {each["check"]: each for each in json.loads(said)["checks"]}
    assert findings["Python"]["state"] == "ok"
    if warnings is None:
        assert not findings.keys() & {"aiohttp", "Python's modes"}
        return
    for check in ("aiohttp", "Python's modes"):
        finding = findings[check]
        assert finding["state"] == ("warning" if check in warnings else "ok")
        assert warnings.get(check, "") in finding["seen"]
        assert check not in warnings or all(finding[part] for part in ("wanted", "why", "how"))


def test_workers_count(tmp_path: Path) -> None:
    few = machine(tmp_path, **{"sys__fs__cgroup__pods__one__memory.max": str(1024 * MIB)})
    assert found(check_machine(few, plan()), "memory").state == "ok"
    many = plan(workers=8, worker_memory=64 * MIB)
    assert found(check_machine(few, many), "memory").state == "failure"


def test_few_descriptors_are_a_failure() -> None:
    text = subprocess.run(
        ["sh", "-c", f"ulimit -n 256 && exec {' '.join(COMMAND)} doctor --origin http://127.0.0.1:1 --json"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    (finding,) = [check for check in json.loads(text)["checks"] if check["check"] == "descriptors"]
    assert (finding["state"], finding["seen"]) == ("failure", "256")
    assert "2025" in finding["wanted"]


def certified(tmp_path: Path, days: float, mode: int = 0o600) -> Finding:
    """What is said of a certificate that expires in so many days."""
    authority = trustme.CA()
    until = datetime.now(UTC) + timedelta(days=days)
    pair = authority.issue_cert("localhost", not_after=until)
    cert, key = tmp_path / "a.pem", tmp_path / "a.key"
    pair.cert_chain_pems[0].write_to_path(str(cert))
    pair.private_key_pem.write_to_path(str(key))
    key.chmod(mode)
    tls = config.TLS(cert, key)
    return found(
        [
            finding
            for finding in check_files(Machine(), plan(edge=config.Edge(tls=tls)))
            if finding.check.startswith(("cert", "key"))
        ],
        "",
    )


@pytest.mark.parametrize(
    ("days", "mode", "check", "state"),
    [
        (60, 0o600, "certificate", "ok"),
        (60, 0o640, "certificate", "ok"),
        (5, 0o600, "certificate", "warning"),
        (-1, 0o600, "certificate", "failure"),
        (60, 0o644, "key", "warning"),
    ],
)
def test_a_certificate_is_looked_at(tmp_path: Path, days: float, mode: int, check: str, state: str) -> None:
    finding = certified(tmp_path, days, mode)
    assert (finding.check.partition(" ")[0], finding.state) == (check, state)


def test_a_key_of_another_certificate_is_a_failure(tmp_path: Path) -> None:
    cert, _ = written(trustme.CA(), tmp_path, "localhost")
    other = tmp_path / "other"
    other.mkdir()
    _, key = written(trustme.CA(), other, "localhost")
    tls = config.TLS(cert, key)
    assert found(check_files(Machine(), plan(edge=config.Edge(tls=tls))), "certificate").state == "failure"


def test_each_certificate_of_a_directory_is_looked_at(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    tls = config.TLS(directory=empty)
    assert found(check_files(Machine(), plan(edge=config.Edge(tls=tls))), "certificate").state == "failure"
    for name in ("a.example", "b.example"):
        folder = tmp_path / "live" / name
        folder.mkdir(parents=True)
        cert, key = written(trustme.CA(), folder, name)
        cert.rename(folder / "fullchain.pem")
        key.rename(folder / "privkey.pem")
        (folder / "privkey.pem").chmod(0o600)
    tls = config.TLS(directory=tmp_path / "live")
    findings = check_files(Machine(), plan(edge=config.Edge(tls=tls)))
    assert [finding.state for finding in findings if finding.check.startswith("certificate")] == ["ok", "ok"]


def test_an_address_that_is_taken_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        finding = found(check_files(Machine(), plan(listen=("127.0.0.1", port))), "--listen")
        assert (finding.state, f":{port}" in finding.seen) == ("failure", True)
        status_pages = config.Status(listen=f"127.0.0.1:{port}")
        assert found(check_files(Machine(), plan(status=status_pages)), "--status-listen").state == "failure"
    assert found(check_files(Machine(), plan(listen=("127.0.0.1", free_port()))), "--listen").state == "ok"


def test_a_socket_needs_a_directory(tmp_path: Path) -> None:
    there, lost = str(tmp_path / "a.sock"), str(tmp_path / "none" / "a.sock")
    assert found(check_files(Machine(), plan(listen=there)), "--listen").state == "ok"
    assert found(check_files(Machine(), plan(listen=lost)), "--listen").state == "failure"


def test_a_socket_of_the_service_manager_is_not_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('origin = "http://127.0.0.1:9"\nlisten = "fd:web"\n')
    said = CliRunner().invoke(main, ["doctor", "--config", str(path), "--json"]).output
    (finding,) = [each for each in json.loads(said)["checks"] if each["check"] == "--listen"]
    assert (finding["state"], finding["seen"]) == (
        "ok",
        "fd:web: the service manager has it, and is not asked",
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_rights_is_told_of_them(tmp_path: Path) -> None:
    """As another user, in directories of root."""
    log, disk, root = tmp_path / "logs" / "a.log", tmp_path / "cache", tmp_path / "machine"
    machine(root, proc__sys__net__ipv4__ip_unprivileged_port_start="1024")
    log.parent.mkdir(mode=0o755)
    disk.mkdir(mode=0o755)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == 0 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    code = f"""
import os
from pathlib import Path
from penstock.doctor.files import check_files
from penstock.doctor.machine import Machine
from penstock.doctor.plan import Plan
from penstock import config
os.setuid(65534)
plan = Plan(
    clients=1,
    listen=("127.0.0.1", 80),
    edge=config.Edge(),
    cache_disk=Path({str(disk)!r}),
    cache_disk_size=1 << 20,
    log=config.AccessLog(path={str(log)!r}),
)
machine = Machine(Path({str(root)!r}))
print([finding.check.split(" ")[0] for finding in check_files(machine, plan) if finding.state == "failure"])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.stdout.strip() == "['cache', 'access', '--listen']", said.stderr


def test_a_cache_directory_has_room_on_a_disk(tmp_path: Path) -> None:
    def disk(size: int, kind: str) -> list[str]:
        mounts = {"proc__self__mounts": f"/dev/a / ext4 rw 0 0\n/dev/b {tmp_path} {kind} rw 0 0\n"}
        found_there = check_files(
            machine(tmp_path / "root", **mounts), plan(cache_disk=tmp_path / "cache", cache_disk_size=size)
        )
        return [finding.state for finding in found_there if finding.check.startswith("cache")]

    assert disk(MIB, "ext4") == ["ok"]
    assert disk(1 << 60, "ext4") == ["warning"]
    assert disk(MIB, "tmpfs") == ["ok", "warning"]


async def test_origins_are_asked(tmp_path: Path) -> None:
    async def ok(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 0"))

    async def fail(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer("Content-Length: 0", status="503 Service Unavailable"))

    async with ScriptedOrigin(ok) as good, ScriptedOrigin(fail) as bad:
        lost = f"http://127.0.0.1:{free_port()}"
        origins = [f"--origin={url}" for url in (good.url, bad.url, lost)]
        said = await asyncio.to_thread(
            run, "doctor", *origins, "--listen", "127.0.0.1:0", "--probe", "--json"
        )
    states = {check["check"]: check["state"] for check in json.loads(said.stdout)["checks"]}
    assert [states[f"origin {url}"] for url in (good.url, bad.url, lost)] == ["ok", "warning", "failure"]
    assert said.returncode == 2


def test_the_report_says_what_to_do() -> None:
    findings = [
        Finding("a", "ok", "1"),
        Finding("b", "warning", "2", "3", "because", "do it"),
        Finding("c", "unknown", "?"),
    ]
    assert as_text(findings).splitlines() == [
        "ok       a: 1",
        "WARNING  b: 2",
        "         wanted: 3",
        "         why:    because",
        "         how:    do it",
        "unknown  c: ?",
        "",
        "0 failures, 1 warnings, 3 checks",
    ]
    assert json.loads(as_json(findings))["checks"][1]["how"] == "do it"
    assert [status(findings[:1]), status(findings), status([*findings, Finding("d", "failure", "4")])] == [
        0,
        1,
        2,
    ]


def test_the_command_takes_the_options_of_serve() -> None:
    begun = time.monotonic()
    said = run("doctor", "--origin", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--memory", "64MiB")
    assert said.returncode in {0, 1}, said.stdout + said.stderr
    assert "ok       --listen: 127.0.0.1:0 is free" in said.stdout
    assert time.monotonic() - begun < 30
    said = run("doctor", "--origin", "http://127.0.0.1:1", "--memory", "nonsense")
    assert (said.returncode, "'--memory'" in said.stderr) == (2, True)
    said = run("doctor", "a:b", "--probe")
    assert (said.returncode, "--probe: only with --origin" in said.stderr) == (2, True)
