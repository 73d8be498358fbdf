"""Starts a tool process and ends whatever it leaves (docs/decisions/0011).

The reaper kills the tool process and all that it has started when the server closes its direction
of the lifeline, on purpose or by being killed. When the tool process ends by itself, the reaper
reports its exit code and kills what is left. It never runs users' code, so only SIGKILL stops it.
"""

import os
import socket
import time
import traceback
from contextlib import suppress
from typing import NoReturn

from tools_app import processes
from tools_app.hosts.messages import Ended, Left, Report, Started, line

# How long to go on killing. What still lives then is stuck in the kernel or has another owner.
_GIVE_UP_SECONDS = 4.0
_LOOK_AGAIN_SECONDS = 0.05


def guard(calls: int, lifeline: int, output: int) -> NoReturn:
    """Run the reaper, in a process that was forked for it.

    Args:
        calls: Descriptor of the tool process's call socket.
        lifeline: Descriptor of the lifeline.
        output: Descriptor of the pipe that takes what the tool process prints.
    """
    try:
        os.setsid()
        processes.become_subreaper()
        processes.keep_only([0, 1, 2, calls, lifeline, output])
        child_ended = processes.ChildSignal()
        reaper = os.getpid()
        tool_process = os.fork()
        if not tool_process:
            _become_tool_process(reaper, calls, output, child_ended)
        os.close(calls)
        os.close(output)
        with socket.socket(fileno=lifeline) as opened:
            _Reaper(opened, child_ended, tool_process).run()
    except BaseException:  # noqa: BLE001 - never go on in the fork server's code
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _become_tool_process(
    reaper: int, calls: int, output: int, child_ended: processes.ChildSignal
) -> NoReturn:
    try:
        child_ended.forget()
        os.setsid()  # signals to "my process group" don't reach the reaper
        processes.die_with(reaper)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        processes.keep_only([0, 1, 2, calls])
        os.set_inheritable(calls, False)

        from tools_app.hosts import tool_process  # noqa: PLC0415 - imports pydantic

        tool_process.work(socket.socket(fileno=calls))
    except BaseException:  # noqa: BLE001 - never go on in the reaper's code
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


class _Reaper:
    def __init__(
        self, lifeline: socket.socket, child_ended: processes.ChildSignal, tool_process: int
    ) -> None:
        self._lifeline = lifeline
        self._child_ended = child_ended
        self._tool_process = tool_process
        self._is_alive = True
        self._childless = False

    def run(self) -> None:
        """Watch the tool process until it ends or is to be ended; returns when nothing is left."""
        self._send(Started(reaper=os.getpid(), tool_process=self._tool_process))
        exit_code = None
        is_closed = False
        while exit_code is None and not is_closed:
            is_closed = bool(self._child_ended.wait(self._lifeline.fileno())) and self._is_closed()
            exit_code = self._reap()
        if exit_code is not None:
            self._send(Ended(exit_code=exit_code))
        self._end_all()

    def _is_closed(self) -> bool:
        try:
            return not self._lifeline.recv(64)
        except ConnectionError:
            return True

    def _reap(self) -> int | None:
        """Reap ended children; return the tool process's exit code if it is among them."""
        exit_code = None
        try:
            for pid, code in processes.reap():
                if pid == self._tool_process and self._is_alive:
                    exit_code = code
                    self._is_alive = False  # from now on the id may be another process's
        except ChildProcessError:
            self._childless = True
        return exit_code

    def _end_all(self) -> None:
        deadline = time.monotonic() + _GIVE_UP_SECONDS
        if self._is_alive:
            # As a rule there is no other process.
            processes.kill([processes.Process(self._tool_process, os.getpid(), self._tool_process)])
            self._child_ended.wait(timeout=_LOOK_AGAIN_SECONDS)
            self._reap()
        while not self._childless:
            # A parent's death makes its children ours: kill the known ones, and list again.
            left = processes.descendants(os.getpid())
            processes.kill(left)
            if time.monotonic() > deadline:
                self._send(Left(pids=[process.pid for process in left]))
                return
            self._child_ended.wait(timeout=_LOOK_AGAIN_SECONDS)
            self._reap()

    def _send(self, report: Report) -> None:
        with suppress(ConnectionError):  # the server was killed
            self._lifeline.sendall(line(report))
