"""Files that hang: an opening of one waits for an answer of the kernel's file notification, which never comes."""

import ctypes
import os
import struct
from pathlib import Path
from typing import Final

import pytest

from .disk import files

_CLASS_CONTENT: Final = 0x04
_CLOEXEC: Final = 0x01
_MARK_ADD: Final = 0x01
_OPEN_PERM: Final = 0x10000
_AT_FDCWD: Final = -100

_libc: Final = ctypes.CDLL(None, use_errno=True)


class Hang:
    """An opening of one of `paths` waits until `let_go`, and then succeeds. Needs CAP_SYS_ADMIN."""

    def __init__(self, *paths: Path) -> None:
        self._group = _libc.fanotify_init(_CLASS_CONTENT | _CLOEXEC, os.O_RDONLY)
        if self._group < 0:
            pytest.skip(f"fanotify: {os.strerror(ctypes.get_errno())}")
        for path in paths:
            mask = ctypes.c_uint64(_OPEN_PERM)
            if _libc.fanotify_mark(self._group, _MARK_ADD, mask, _AT_FDCWD, os.fsencode(path)) < 0:
                error = os.strerror(ctypes.get_errno())
                self.let_go()
                pytest.skip(f"fanotify: {error}")

    def wait(self) -> None:
        """Returns once an opening waits."""
        (*_, descriptor, _pid) = struct.unpack_from("=IBBHQii", os.read(self._group, 4096))
        os.close(descriptor)

    def let_go(self) -> None:
        if self._group >= 0:
            # The kernel lets all who wait have the file.
            os.close(self._group)
            self._group = -1

    def __del__(self) -> None:
        self.let_go()


def holding(directory: Path, *urls: str) -> list[Path]:
    """The files that hold one of these URLs, or all."""
    texts = [url.encode() for url in urls] or [b""]
    return [path for path in files(directory) if any(text in path.read_bytes()[:4096] for text in texts)]
