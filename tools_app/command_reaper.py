"""Runs one command, and ends it with all its descendants when the server closes its stdin or dies.

A program of its own, started with ``reaper_command``, that imports next to nothing. The command
inherits stdin, stdout and stderr. When the other end of stdin is closed, as by ``kill -9`` of the
parent, the command has ``GRACE_SECONDS`` to end by itself; then, or at SIGTERM, all descendants get
SIGTERM, and SIGKILL after ``TERM_SECONDS``. They also end when the command ends by itself. On Linux
this process adopts orphaned grandchildren, so none escapes; elsewhere those with a session of their
own do.
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

from tools_app.processes import become_subreaper, descendants, die_with, reap

GRACE_SECONDS = 2.0
TERM_SECONDS = 1.0
NOT_STARTED = 127

_ROOT = Path(__file__).parents[1]
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from tools_app.command_reaper import run; run()"
)
_POLL_SECONDS = 0.02
_LONGEST_KILLING_SECONDS = 5.0


def reaper_command(command: Sequence[str]) -> list[str]:
    """Return the command line that runs ``command`` under a reaper, as a child of this process.

    The reaper's interpreter is isolated from the command's environment and directory.
    """
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_ROOT), str(os.getpid()), *command]


def run() -> NoReturn:
    """Run the command from the arguments, and exit with its exit code."""
    code = _guard(int(sys.argv[2]), sys.argv[3:])
    os._exit(code if code >= 0 else 128 - code)


def _guard(parent: int, command: list[str]) -> int:
    """Run the command; return its exit code, or minus the signal that ended it."""
    signals = _signal_pipe()
    become_subreaper()
    if os.getppid() != parent:
        return NOT_STARTED
    child = _start(command)
    # Stdout must reach its end as soon as the command has closed it.
    os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), 1)
    code = _wait(child, signals)
    _end_tree(child)
    return -signal.SIGKILL if code is None else code


def _signal_pipe() -> int:
    """Return a descriptor that is readable after a signal."""
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
    """Wait until the command has ended or must end; return its exit code if it has ended."""
    poller = select.poll()
    poller.register(signals, select.POLLIN)
    poller.register(0, 0)  # only for the close of the other end
    deadline: float | None = None
    while True:
        code = _reap(child)
        if code is not None:
            return code
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
    """Reap ended children; return the command's exit code if it is among them."""
    found = None
    with suppress(ChildProcessError):
        for pid, code in reap():
            if pid == child:
                found = code
    return found


def _end_tree(child: int) -> None:
    """End the command and its descendants, first by SIGTERM, then by SIGKILL."""
    _signal_tree(child, signal.SIGTERM)
    if _all_gone_within(TERM_SECONDS):
        return
    deadline = time.monotonic() + _LONGEST_KILLING_SECONDS
    while time.monotonic() < deadline:
        _signal_tree(child, signal.SIGKILL)
        if _all_gone_within(_POLL_SECONDS):
            return


def _all_gone_within(seconds: float) -> bool:
    """Wait until no child is left, adopted ones included; return False after so long."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            for _ in reap():
                pass
        except ChildProcessError:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)


def _signal_tree(child: int, number: int) -> None:
    # The command's group, too: on systems without adoption that is all that can be found.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, number)
    for process in descendants(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)
