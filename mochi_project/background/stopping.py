"""Tells tasks that their worker is stopping, so that they begin nothing that can wait.

django-q2 waits for the task that runs, and tells it nothing. What the processes share is a byte and
no lock, which one that is killed could keep (docs/decisions/0014).
"""

import mmap

_flag: mmap.mmap | None = None


def share() -> None:
    """Make what is shared with all processes that are forked from now on."""
    global _flag  # noqa: PLW0603 - forked processes have no other way to it
    _flag = mmap.mmap(-1, 1)


def begin() -> None:
    """Say that the worker is to stop."""
    if _flag is not None:
        _flag[0] = 1


def is_stopping() -> bool:
    """Return whether the worker of this process is to stop."""
    return _flag is not None and _flag[0] == 1
