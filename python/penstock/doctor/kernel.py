"""Checks of the machine: limits of the process and of its control group, and settings of the kernel."""

import os
import re
from collections.abc import Iterator
from typing import Final

from penstock.config.checks import in_words

from .finding import FAILURE, OK, UNKNOWN, WARNING, Finding
from .machine import Machine
from .plan import Plan

__all__ = ["check_machine"]

# Of the limit on memory: the rest is the kernel's, for sockets and files.
_SHARE: Final = 0.8
_SEND_BUFFER: Final = 4 << 20
# MADV_POPULATE_WRITE.
_POPULATES: Final = (5, 14)


def check_machine(machine: Machine, plan: Plan) -> Iterator[Finding]:
    """What the machine allows, beside what is to be served."""
    yield _descriptors(machine, plan)
    yield _memory(machine, plan)
    yield _processor(machine, plan)
    yield _backlog(machine, plan)
    yield _overflows(machine)
    yield _ports(machine, plan)
    yield _send_buffer(machine)
    yield _slow_start(machine)
    yield _huge_pages(machine)
    yield _clock(machine)
    yield _version(machine)


def _descriptors(machine: Machine, plan: Plan) -> Finding:
    limit, most = machine.descriptors()
    wanted = plan.descriptors
    said = {
        "seen": str(limit),
        "wanted": f"{wanted} for {plan.clients} clients, each with a socket to an origin",
    }
    if limit >= wanted:
        return Finding("descriptors", OK, **said)
    how = f"ulimit -n {wanted}" if most >= wanted else "raise the hard limit"
    return Finding(
        "descriptors",
        FAILURE,
        **said,
        why="a process that has no descriptor left accepts no client and reaches no origin",
        how=f"{how}; in a unit of systemd LimitNOFILE={max(wanted, 32768)}",
    )


def _memory(machine: Machine, plan: Plan) -> Finding:
    limit, whose = machine.memory()
    if not limit:
        return Finding("memory", UNKNOWN, "the kernel does not say")
    share = plan.bytes / limit
    workers = f" and {plan.workers} workers" if plan.workers else ""
    said = {
        "seen": f"{in_words(limit)} {whose}",
        "wanted": f"{plan.bytes >> 20} MiB for --memory{workers} and the processes, at most 80 %",
    }
    if share <= _SHARE:
        return Finding("memory", OK, **said)
    return Finding(
        "memory",
        FAILURE if share > 1 else WARNING,
        **said,
        why="the kernel ends a process that takes more, and what it keeps for sockets counts too",
        how="lower --memory, --worker-memory or --workers, or raise the limit",
    )


def _processor(machine: Machine, plan: Plan) -> Finding:
    cores = len(os.sched_getaffinity(0))
    quotas = [text.split() for text in machine.group_files("cpu.max")]
    allowed = min(
        (int(quota) / int(period) for quota, period in quotas if quota != "max"), default=float(cores)
    )
    throttled = machine.throttled()
    wanted = plan.threads + 1 + plan.workers
    seen = f"{min(allowed, cores):g} cores" + (f", throttled {throttled} times so far" if throttled else "")
    said = {
        "seen": seen,
        "wanted": f"a core for each of {plan.threads} engine threads and {wanted - plan.threads} loops",
    }
    if throttled or allowed < min(plan.threads, cores):
        return Finding(
            "processor",
            WARNING,
            **said,
            why="a group that has used up its quota stands still for up to 100 ms: all clients wait",
            how="raise the quota (in Kubernetes: no CPU limit), or lower --threads",
        )
    return Finding("processor", OK, **said)


def _backlog(machine: Machine, plan: Plan) -> Finding:
    wanted = plan.edge.backlog
    names = ("net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog")
    found = {name: machine.setting(name) for name in names}
    seen = ", ".join(f"{name} = {'?' if value is None else value}" for name, value in found.items())
    low = [name for name, value in found.items() if value is not None and value < wanted]
    if not low:
        return Finding("backlog", OK, seen, f"{wanted} at least")
    return Finding(
        "backlog",
        WARNING,
        seen,
        f"{wanted} at least, the backlog of a listener",
        "connections that come in a burst are dropped, and each waits a second and more",
        "; ".join(f"sysctl -w {name}={wanted}" for name in low),
    )


def _overflows(machine: Machine) -> Finding:
    count = machine.counter("TcpExt", "ListenOverflows")
    if count is None:
        return Finding("dropped connections", UNKNOWN, "the kernel does not say")
    if not count:
        return Finding("dropped connections", OK, "none since the start of the machine")
    return Finding(
        "dropped connections",
        WARNING,
        f"{count} since the start of the machine",
        "none",
        "a listener of this machine did not accept in time, or its backlog was too short",
        "look for a process that is stopped or throttled; compare the number again under load",
    )


def _ports(machine: Machine, plan: Plan) -> Finding:
    first, last = (machine.number("/proc/sys/net/ipv4/ip_local_port_range", place) for place in (0, 1))
    if first is None or last is None:
        return Finding("local ports", UNKNOWN, "the kernel does not say")
    count, wanted = last - first + 1, plan.connections * plan.threads
    said = {
        "seen": f"{count} ports ({first} to {last})",
        "wanted": f"{wanted}: --connections for each engine thread",
    }
    if count >= wanted:
        return Finding("local ports", OK, **said)
    return Finding(
        "local ports",
        WARNING,
        **said,
        why="connections to one origin need a port each, and one that closes each connection keeps it for a minute",
        how='sysctl -w net.ipv4.ip_local_port_range="1024 65535", or lower --connections',
    )


def _send_buffer(machine: Machine) -> Finding:
    most = machine.number("/proc/sys/net/ipv4/tcp_wmem", 2)
    if most is None:
        return Finding("send buffer", UNKNOWN, "the kernel does not say")
    if most >= _SEND_BUFFER:
        return Finding("send buffer", OK, f"net.ipv4.tcp_wmem up to {most}")
    return Finding(
        "send buffer",
        WARNING,
        f"net.ipv4.tcp_wmem up to {most}",
        f"{_SEND_BUFFER} at least",
        "a client far away gets at most a buffer in each round trip: 4 MiB in 100 ms are 335 Mbit/s",
        f'sysctl -w net.ipv4.tcp_wmem="4096 16384 {_SEND_BUFFER}"',
    )


def _slow_start(machine: Machine) -> Finding:
    value = machine.setting("net.ipv4.tcp_slow_start_after_idle")
    if value is None:
        return Finding("slow start", UNKNOWN, "the kernel does not say")
    if value == 0:
        return Finding("slow start", OK, "net.ipv4.tcp_slow_start_after_idle = 0")
    return Finding(
        "slow start",
        WARNING,
        f"net.ipv4.tcp_slow_start_after_idle = {value}",
        "0",
        "a player that pauses between two segments, and an event stream, begin slowly again each time",
        "sysctl -w net.ipv4.tcp_slow_start_after_idle=0",
    )


def _huge_pages(machine: Machine) -> Finding:
    text = machine.text("/sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", text or "")
    if chosen is None:
        return Finding("huge pages", UNKNOWN, "the kernel has none")
    if chosen[1] != "never":
        return Finding("huge pages", OK, chosen[1])
    return Finding(
        "huge pages",
        WARNING,
        "never",
        "madvise, or always",
        "a large hit in a large cache costs a fifth more without them",
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    )


def _clock(machine: Machine) -> Finding:
    is_set = machine.is_clock_set()
    if is_set is None:
        return Finding("clock", UNKNOWN, "the kernel does not say")
    if is_set:
        return Finding("clock", OK, "synchronised")
    return Finding(
        "clock",
        WARNING,
        "not synchronised",
        "synchronised",
        "tokens, certificates and caches go by the time of day; traces of several machines do not fit together",
        "run chrony or systemd-timesyncd; in a container the host's clock counts",
    )


def _version(machine: Machine) -> Finding:
    text = machine.text("/proc/sys/kernel/osrelease") or ""
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None:
        return Finding("kernel", UNKNOWN, "the kernel does not say")
    if (int(found[1]), int(found[2])) >= _POPULATES:
        return Finding("kernel", OK, text)
    return Finding(
        "kernel",
        WARNING,
        text,
        "5.14 at least",
        "without MADV_POPULATE_WRITE memory is not made present ahead of need: the first use of each page takes longer",
        "use a later kernel",
    )
