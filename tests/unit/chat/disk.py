"""A disk that fails at the system calls, for files under one directory: full, or read-only."""

import errno
import os
import posix
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_ADDS = ("symlink", "link", "mkdir")
_TAKES = ("unlink", "rename", "replace", "rmdir", "truncate", "ftruncate")


class FailingDisk:
    """Makes the writes below a directory fail with an error number, while told to.

    Works for root too, whom permissions do not stop, and needs no right to mount anything.

    Args:
        root: The directory.
        switch: While there is a file here, it is read-only; for processes under test.
    """

    def __init__(self, root: Path, switch: str | None = None) -> None:
        self._root = os.fspath(root)
        self._switch = switch
        self._told = 0
        self._real = {
            name: getattr(os, name) for name in ("open", "write", "fsync", *_ADDS, *_TAKES)
        }

    def fill(self) -> None:
        """Let nothing be added any more; what is there can be removed."""
        self._told = errno.ENOSPC

    def turn_read_only(self) -> None:
        """Let nothing be changed any more."""
        self._told = errno.EROFS

    def mend(self) -> None:
        """Work again."""
        self._told = 0

    @property
    def _error(self) -> int:
        if self._switch is not None and posix.access(self._switch, posix.F_OK):
            return errno.EROFS
        return self._told

    @contextmanager
    def installed(self):
        """Stand between everybody and the system calls, for a while."""
        self.install()
        try:
            yield self
        finally:
            for name, call in self._real.items():
                setattr(os, name, call)

    def install(self) -> None:
        """Stand between everybody and the system calls."""
        os.open = self._open
        os.write = self._guard("write", self._is_mine)
        for name in _ADDS:
            setattr(os, name, self._guard(name, self._is_below))
        for name in _TAKES:
            setattr(os, name, self._guard(name, self._is_locked))

    def _open(self, path, flags, *rest, **keys):
        makes = flags & os.O_CREAT and not os.path.lexists(path)
        if self._is_below(path) and (makes or (flags & _WRITES and self._error == errno.EROFS)):
            raise OSError(self._error, os.strerror(self._error), os.fspath(path))
        return self._real["open"](path, flags, *rest, **keys)

    def _guard(self, name: str, refuses: Callable[..., bool]) -> Callable[..., Any]:
        def call(*arguments, **keys):
            if any(refuses(each) for each in arguments[:2]):
                raise OSError(self._error, os.strerror(self._error))
            return self._real[name](*arguments, **keys)

        return call

    def _is_below(self, path) -> bool:
        return bool(self._error) and os.fsdecode(path).startswith(self._root)

    def _is_mine(self, descriptor) -> bool:
        if not self._error or not isinstance(descriptor, int):
            return False
        # Not by `os`, which watches who blocks the loop.
        return self._is_below(posix.readlink(f"/proc/self/fd/{descriptor}"))

    def _is_locked(self, where) -> bool:
        if self._error != errno.EROFS:
            return False
        if isinstance(where, int):
            return self._is_mine(where)
        return isinstance(where, str | Path) and self._is_below(where)
