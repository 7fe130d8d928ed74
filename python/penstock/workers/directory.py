"""The directory of the workers' sockets: made anew by each parent, and removed with it, or after it if it was killed."""

import fcntl
import os
import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from penstock.serving.shutdown import last_act

__all__ = ["PREFIX", "Directory", "remove_left"]

PREFIX: Final = "penstock-workers-"


class Directory:
    """A new directory for the sockets of workers, which no other user may enter. It is removed with the block.

    A process that is killed leaves its own. The kernel takes the lock on it then, by which the next one knows that it
    may remove it.
    """

    def __enter__(self) -> Path:
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        # su and sudo leave another user's in the environment.
        usable = runtime is not None and os.access(runtime, os.W_OK | os.X_OK)
        within = Path(runtime if runtime is not None and usable else tempfile.gettempdir())
        remove_left(within)
        lock = None
        # Another process may have taken it for one that was left.
        while lock is None:
            self._path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=within))
            lock = _locked(self._path, fcntl.LOCK_EX)
        self._lock: int = lock
        self._last = ExitStack()
        self._last.enter_context(last_act(lambda: _remove(self._path)))
        return self._path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._last.close()
        _remove(self._path)
        os.close(self._lock)


def remove_left(within: Path) -> list[Path]:
    """Remove the directories of this user's processes that were killed. Returns them."""
    removed = []
    for path in within.glob(f"{PREFIX}*"):
        lock = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is not None:
            try:
                _remove(path)
            finally:
                os.close(lock)
            removed.append(path)
    return removed


def _remove(path: Path) -> None:
    # Another program may have removed temporary files.
    with suppress(FileNotFoundError):
        shutil.rmtree(path)


def _locked(path: Path, how: int) -> int | None:
    """A descriptor that has the lock on a directory of this user; None if another process has it, or it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    try:
        fcntl.flock(descriptor, how)
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid() and os.path.samestat(found, path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
