"""A disk that fails at the system calls, for files under one directory: full, or read-only."""

import errno
import os
import posix
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_SWITCHES = {"full": errno.ENOSPC, "readonly": errno.EROFS}
_CALLS = (
    *("write", "symlink", "link", "mkdir"),
    *("unlink", "rename", "replace", "rmdir", "truncate", "ftruncate"),
)
_LINKS = frozenset({"symlink", "link"})
# Names can still be made and removed on a full disk; what needs a block can't.
_NEEDS_SPACE = frozenset({"write", "symlink", "mkdir"})


class FailingDisk:
    """Makes the writes below a directory fail with an error number, while told to.

    Works for root too, whom permissions do not stop, and needs no right to mount anything.

    Args:
        root: The directory.
        switches: While there is a file ``full`` or ``readonly`` here, it is; for processes under
            test.
    """

    def __init__(self, root: Path, switches: Path | None = None) -> None:
        self._root = os.fspath(root)
        self._switches = [
            (f"{switches}/{name}", error) for name, error in _SWITCHES.items() if switches
        ]
        self._told = 0
        self._real = {name: getattr(os, name) for name in ("open", *_CALLS)}

    def fill(self) -> None:
        """Let no block be written any more; files can be removed, and made without content."""
        self._told = errno.ENOSPC

    def turn_read_only(self) -> None:
        """Let nothing be changed any more."""
        self._told = errno.EROFS

    def mend(self) -> None:
        """Work again."""
        self._told = 0

    @property
    def _error(self) -> int:
        for path, error in self._switches:
            if posix.access(path, posix.F_OK):
                return error
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
        for name in _CALLS:
            setattr(os, name, self._guard(name))

    def _open(self, path, flags, *rest, **keys):
        if flags & _WRITES:
            self._refuse(path, full=False)
        return self._real["open"](path, flags, *rest, **keys)

    def _guard(self, name: str) -> Callable[..., Any]:
        def call(*arguments, **keys):
            # What a link leads to is not touched.
            self._refuse(arguments[name in _LINKS], full=name in _NEEDS_SPACE)
            return self._real[name](*arguments, **keys)

        return call

    def _refuse(self, where, *, full: bool) -> None:
        error = self._error
        if (error == errno.EROFS or (error and full)) and self._is_below(where):
            raise OSError(error, os.strerror(error))

    def _is_below(self, where) -> bool:
        if isinstance(where, int):
            # Not by `os`, which watches who blocks the loop.
            try:
                where = posix.readlink(f"/proc/self/fd/{where}")
            except OSError:  # closed: the call itself will say so
                return False
        return os.fsdecode(where).startswith(self._root)
