"""Runs one command and sees to it that nothing of it outlives the server that wanted it.

A program of its own (``reaper_command`` says how it is started) that imports next to nothing. The
command gets this process's stdin, stdout and stderr untouched. When stdin's other end is closed,
which is also what ``kill -9`` of the parent does, the command has ``GRACE_SECONDS`` to end by
itself; then, or at SIGTERM, everything that came of it gets SIGTERM, and SIGKILL after
``TERM_SECONDS``. When the command ends by itself, what it left behind ends too. On Linux this
process adopts orphaned grandchildren, so that none can slip away; elsewhere those that put
themselves into a session of their own can.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from tools_app.hosts.processes import become_subreaper, descendants, die_with

GRACE_SECONDS = 2.0
TERM_SECONDS = 1.0
NOT_STARTED = 127

_ROOT = Path(__file__).parents[2]
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from tools_app.mcp import reaper; reaper.run()"
)
_POLL_SECONDS = 0.02
_LONGEST_KILLING_SECONDS = 5.0


def reaper_command(command: Sequence[str]) -> list[str]:
    """Return the command line that runs ``command`` under a reaper, as a child of this process.

    The interpreter is isolated: neither variables that the command gets nor the directory it
    starts in reach the reaper.
    """
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_ROOT), str(os.getpid()), *command]


def run() -> NoReturn:
    """Run what ``reaper_command`` put into the arguments, and exit as it exits."""
    code = _guard(int(sys.argv[2]), sys.argv[3:])
    os._exit(code if code >= 0 else 128 - code)


def _guard(parent: int, command: list[str]) -> int:
    """Run the command; return its exit code, or minus the signal that ended it."""
    signals = _signal_pipe()
    become_subreaper()
    if os.getppid() != parent:
        return NOT_STARTED
    child = _start(command)
    # Stdout's reader shall see its end as soon as the command has closed it.
    os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), 1)
    status = _wait(child, signals)
    _end_tree(child)
    return -signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)


def _signal_pipe() -> int:
    """Return a descriptor that is readable when a signal has come."""
    reader, writer = os.pipe()  # not inherited through exec (PEP 446)
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reader


def _start(command: list[str]) -> int:
    reaper = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        die_with(reaper)
        os.execvp(command[0], command)  # noqa: S606 - a command without a shell is the point
    except OSError as error:
        os.write(2, f"{command[0]} can't be started: {error.strerror}\n".encode())
    finally:
        os._exit(NOT_STARTED)


def _wait(child: int, signals: int) -> int | None:
    """Wait for the command's end, or until it must end; return its status if it has one."""
    poller = select.poll()
    poller.register(signals, select.POLLIN)
    poller.register(0, 0)  # nothing but that the other end is closed
    deadline: float | None = None
    while True:
        status = _reap(child)
        if status is not None:
            return status
        if deadline is not None and time.monotonic() >= deadline:
            return None
        wait = None if deadline is None else (deadline - time.monotonic()) * 1000
        for descriptor, _ in poller.poll(wait):
            if descriptor == 0:
                poller.unregister(0)
                deadline = time.monotonic() + GRACE_SECONDS
            elif signal.SIGTERM in os.read(signals, 4096):
                return None


def _reap(child: int) -> int | None:
    """Collect whoever ended; return the command's status if it was among them."""
    found = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                found = ended[1]
    return found


def _end_tree(child: int) -> None:
    """End the command and all that came of it: politely, then not."""
    _signal_tree(child, signal.SIGTERM)
    if _all_gone_within(TERM_SECONDS):
        return
    deadline = time.monotonic() + _LONGEST_KILLING_SECONDS
    while time.monotonic() < deadline:
        _signal_tree(child, signal.SIGKILL)
        if _all_gone_within(_POLL_SECONDS):
            return


def _all_gone_within(seconds: float) -> bool:
    """Wait until no child is left, adopted ones included."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)


def _signal_tree(child: int, number: int) -> None:
    # The command's group too: where nothing is adopted, it is what can be found of it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, number)
    for process in descendants(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)
