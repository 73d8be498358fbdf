"""Forks the web processes of a forked server, so that they need not import everything anew.

A zygote is a copy of the server's process from before the server ran. The server asks it for each
web process where it would start an interpreter; what it gets is a child of its own, which begins as
one does: own environment, the descriptors it is passed, nothing of the server's memory.
Tests of how web processes start and end (``tests/functional/starting``) start interpreters.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

NAME = "zygote"
"""The name of its process, by which it is told from the web processes."""

WEB_PROCESS = ["-P", "-m", "mochi_project.process.web_workers"]

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_LONGEST_REQUEST = 1 << 20
_MOST_DESCRIPTORS = 64
_ABOVE_ALL = 512


def prepare(closed: Sequence[int]) -> dict[str, Any] | None:
    """Make the zygote of this process, a server's.

    Args:
        closed: Descriptors of the server that the zygote must not keep open.

    Returns:
        None in the server; in each web process that the zygote forks, what it is asked to be.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        for descriptor in closed:
            os.close(descriptor)
        _take_name(NAME)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return _serve(theirs)
    theirs.close()
    _WebProcess.control = ours
    subprocess.Popen = _Popen  # type: ignore[misc]
    return None


def _take_name(name: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def _serve(control: socket.socket) -> dict[str, Any]:
    """Fork for every request until the server is gone; return the request in the web process."""
    while True:
        data, received, _, _ = socket.recv_fds(control, _LONGEST_REQUEST, _MOST_DESCRIPTORS)
        if not data:
            os._exit(0)
        waiting, begin = os.pipe()
        middle = os.fork()
        if middle == 0:
            web_process = os.fork()
            if web_process == 0:
                return _awake(json.loads(data), control, received, waiting, begin)
            with suppress(OSError):  # the server may have been killed
                control.send(str(web_process).encode())
            os._exit(0)  # the web process becomes the child of the nearest that adopts: the server
        for descriptor in (waiting, *received):
            os.close(descriptor)
        os.waitpid(middle, 0)
        with suppress(OSError):
            control.send(b"adopted")
        os.close(begin)


def _awake(
    request: dict[str, Any],
    control: socket.socket,
    received: Sequence[int],
    waiting: int,
    begin: int,
) -> dict[str, Any]:
    """Wait until the server has adopted this process, which keeps only what it was given."""
    os.setpgid(0, 0)
    _take_name("python")
    os.close(begin)
    os.read(waiting, 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    control.detach()
    kept = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _ABOVE_ALL) for descriptor in received]
    os.closerange(3, _ABOVE_ALL)
    return {**request, "descriptors": kept}


class _WebProcess:
    """Shows a forked web process as ``Popen`` does, to the server whose child it is."""

    control: socket.socket

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], pass_fds: Sequence[int]
    ) -> None:
        self.args = command
        self.returncode: int | None = None
        numbers = [0, 1, 2, *pass_fds]
        request = {
            "command": list(command[1:]),
            "env": dict(env),
            "cwd": os.getcwd(),
            "takes_terminal": False,
            "numbers": numbers,
        }
        system = ctypes.CDLL(None)
        system.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        socket.send_fds(self.control, [json.dumps(request).encode()], numbers)
        self.pid = int(self.control.recv(64))
        self.control.recv(64)
        system.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def poll(self) -> int | None:
        """Return how the process ended, or None."""
        return self._look(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for the end."""
        return self._look(0)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _look(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class _Popen(subprocess.Popen[Any]):
    """Starts web processes from the zygote, and everything else as it is."""

    def __new__(cls, args: Any, **options: Any) -> Any:
        if list(args[: len(WEB_PROCESS) + 1]) == [sys.executable, *WEB_PROCESS]:
            return _WebProcess(args, options["env"], options["pass_fds"])
        return super().__new__(cls)
