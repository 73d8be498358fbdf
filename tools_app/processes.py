"""Finds, limits and kills processes, with their descendants.

On Linux a process can become the *subreaper* of its descendants (prctl(2)): each that loses its
parent becomes its child, across any number of forks and sessions. Elsewhere a process in a session
of its own that has lost its parent can't be found again.
"""

import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ON_LINUX = sys.platform == "linux"

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_OOM_SCORE = "500"  # of 1000: killed before the server and the desktop


def become_subreaper() -> None:
    """Adopt all descendants that lose their parents, on Linux."""
    if ON_LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Have this process killed when its parent dies, on Linux."""
    if ON_LINUX:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it has died already
            os.kill(os.getpid(), signal.SIGKILL)


def limit_resources(memory_bytes: int | None) -> None:
    """Limit the address space, disable core dumps, and be killed first when memory runs out."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY:
            memory_bytes = min(memory_bytes, most)
        with suppress(ValueError, OSError):  # macOS does not enforce the limit
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    if ON_LINUX:
        with suppress(OSError):  # missing in some sandboxes
            Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")


def keep_only(descriptors: Iterable[int]) -> None:
    """Close every file descriptor but these."""
    lowest = 0
    for kept in [*sorted(descriptors), _most_descriptors()]:
        if lowest < kept:  # os.closerange(0, 0) closes everything
            os.closerange(lowest, kept)
        lowest = kept + 1


class Process(NamedTuple):
    """The ids of a process: its own, its parent's, its process group's."""

    pid: int
    parent: int
    group: int


def descendants(pid: int) -> list[Process]:
    """Return the process's children, their children and so on, zombies included."""
    by_parent = defaultdict(list)
    for process in _processes_by_proc() if ON_LINUX else _processes_by_ps():
        by_parent[process.parent].append(process)
    found: list[Process] = []
    waiting = [pid]
    while waiting:
        born = by_parent.pop(waiting.pop(), [])
        found += born
        waiting += [process.pid for process in born]
    return found


def kill(doomed: Iterable[Process]) -> set[int]:
    """Kill processes and their groups; return the ids that we have no permission to kill.

    The signal to the group also reaches a process that forks faster than it can be listed.
    """
    refused = set()
    own_group = os.getpgrp()
    for process in doomed:
        with suppress(ProcessLookupError, PermissionError):
            if process.group not in (0, own_group):
                os.killpg(process.group, signal.SIGKILL)
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:
            refused.add(process.pid)
    return refused


class ChildSignal:
    """Wakes up a single-threaded process when one of its children ends."""

    def __init__(self) -> None:
        self._readable, self._wakeup = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._wakeup, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the wake-up descriptor delivers it
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)

    def wait(self, *others: int, timeout: float | None = None) -> list[int]:
        """Wait for the signal or one of the other descriptors; return those that are readable."""
        poller = select.poll()  # select() takes no descriptor above 1,023, and many can be open
        for descriptor in (self._readable, *others):
            poller.register(descriptor, select.POLLIN)
        ready = [found for found, _ in poller.poll(None if timeout is None else timeout * 1000)]
        if self._readable in ready:
            ready.remove(self._readable)
            with suppress(BlockingIOError):
                while os.read(self._readable, 512):
                    pass
        return ready

    def forget(self) -> None:
        """Restore the default handling, in a forked child."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._readable)
        os.close(self._wakeup)


def reap() -> Iterable[tuple[int, int]]:
    """Yield the id and the exit code (minus the signal's number) of each child that ended.

    Raises:
        ChildProcessError: At the end, when there are no more children.
    """
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")


def _most_descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def _processes_by_proc() -> Iterable[Process]:
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):  # ended meanwhile
                # proc(5): "pid (comm) state ppid pgrp ..."
                fields = (path / "stat").read_bytes().rpartition(b")")[2].split()
                yield Process(int(path.name), int(fields[1]), int(fields[2]))


def _processes_by_ps() -> Iterable[Process]:
    listed = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid=,pgid="],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
    )
    for row in listed.stdout.splitlines():
        pid, parent, group = row.split()
        yield Process(int(pid), int(parent), int(group))
