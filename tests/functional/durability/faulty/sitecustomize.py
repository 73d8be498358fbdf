"""Makes the disk under a server full or read-only while a test says so.

Python imports this first where its folder is on ``PYTHONPATH``. A file system that can be filled or
remounted needs rights that tests do not have; the process is root in some places, whom no mode bits
stop. So the calls that change files fail here, with what the system would say, for everything below
``MOCHI_DATA_DIR``, while ``$MOCHI_E2E_FAULTS/full`` or ``.../readonly`` is there.
"""

import errno
import functools
import os
import stat
from collections.abc import Callable
from typing import Any

FAULTS = os.environ.get("MOCHI_E2E_FAULTS", "")
DATA = os.path.realpath(os.environ.get("MOCHI_DATA_DIR", "/nonexistent"))
# On a full disk names can still be made and removed; what needs a block can't.
NEEDS_SPACE = {"write", "mkdir", "symlink"}
CHANGES = ("write", "mkdir", "symlink", "link", "unlink", "rename", "replace", "rmdir", "truncate")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_stat, _readlink, _fstat = os.stat, os.readlink, os.fstat


def _is(fault: str) -> bool:
    try:
        _stat(f"{FAULTS}/{fault}")
    except OSError:
        return False
    return True


def _is_ours(where: Any) -> bool:
    if isinstance(where, int):
        try:
            if not stat.S_ISREG(_fstat(where).st_mode):
                return False
            where = _readlink(f"/proc/self/fd/{where}")
        except OSError:
            return False
    return os.path.realpath(os.fspath(where)).startswith(DATA)


def _refuse(name: str, where: Any, *, needs_space: bool) -> None:
    if _is("readonly") and _is_ours(where):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), None if name == "write" else where)
    if needs_space and _is("full") and _is_ours(where):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _guarded(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def guarded(*args: Any, **options: Any) -> Any:
        made = args[1] if name in {"symlink", "link"} else args[0]
        _refuse(name, made, needs_space=name in NEEDS_SPACE)
        return call(*args, **options)

    return guarded


def _guarded_open(call: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(call)
    def guarded(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & WRITING:
            _refuse("open", path, needs_space=False)
        return call(path, flags, *args, **options)

    return guarded


if FAULTS:
    for _name in CHANGES:
        setattr(os, _name, _guarded(_name, getattr(os, _name)))
    os.open = _guarded_open(os.open)
