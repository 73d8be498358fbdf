"""Notifies tasks that their worker is stopping, so that they start no further work.

django-q2 waits for the running task without notifying it. The processes share a byte instead of a
lock, which a killed process could leave locked (docs/decisions/0014).
"""

import mmap

_flag: mmap.mmap | None = None


def share() -> None:
    """Create the flag shared with all processes forked from now on."""
    global _flag  # noqa: PLW0603 - forked processes have no other way to it
    _flag = mmap.mmap(-1, 1)


def begin() -> None:
    """Set the flag: the worker is stopping."""
    if _flag is not None:
        _flag[0] = 1


def is_stopping() -> bool:
    """Return whether the worker of this process is stopping."""
    return _flag is not None and _flag[0] == 1
