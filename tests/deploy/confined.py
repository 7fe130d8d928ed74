"""Runs a command with what a unit takes away: system calls, memory that is written and run, and new privileges.

python confined.py UNIT COMMAND...

systemd is asked which system calls the groups of `SystemCallFilter=` have, and libseccomp refuses all others.
"""

import ctypes
import ctypes.util
import errno
import os
import subprocess
import sys
from pathlib import Path

_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NO_NEW_PRIVILEGES, _SET_MDWE, _REFUSE_EXEC_GAIN = 38, 65, 1


def setting(unit: str, name: str) -> list[str]:
    lines = Path(unit).read_text().splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{name}=")]


def calls_of(group: str) -> set[str]:
    """The names of the system calls of a group, with those of the groups in it."""
    shown = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", group], capture_output=True, text=True, check=True
    ).stdout
    found: set[str] = set()
    for line in shown.splitlines()[1:]:
        name = line.strip()
        if name.startswith("@"):
            found |= calls_of(name)
        elif name and not name.startswith("#"):
            found.add(name)
    return found


def allowed(unit: str) -> set[str]:
    """The system calls that the unit leaves."""
    # systemd leaves these to every service.
    calls = calls_of("@default")
    for value in setting(unit, "SystemCallFilter"):
        for group in value.removeprefix("~").split():
            calls = calls - calls_of(group) if value.startswith("~") else calls | calls_of(group)
    return calls | calls_of("@default")


def confine(unit: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    if setting(unit, "MemoryDenyWriteExecute") == ["yes"]:
        # From Linux 6.3 on.
        assert libc.prctl(_SET_MDWE, _REFUSE_EXEC_GAIN, 0, 0, 0) == 0 or ctypes.get_errno() == errno.EINVAL
    seccomp = ctypes.CDLL(ctypes.util.find_library("seccomp") or "libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(seccomp.seccomp_init(_REFUSE))
    for name in allowed(unit):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        # Of another architecture, or newer than the library.
        if number >= 0:
            assert seccomp.seccomp_rule_add(rules, _ALLOW, number, 0) == 0, name
    assert seccomp.seccomp_load(rules) == 0


unit, *command = sys.argv[1:]
confine(unit)
os.execv(command[0], command)
