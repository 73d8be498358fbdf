"""The warden: it starts a worker and sees to it that nothing of it outlives it.

It ends the worker, and whatever that has started, when the server closes its direction of the
lifeline, on purpose or by being killed; when the worker ends by itself it says how, and ends what
is left. It never runs users' code, so nothing can keep it from doing so, short of being killed.
"""

import os
import socket
import time
import traceback
from contextlib import suppress
from typing import NoReturn

from tools_app.hosts import processes
from tools_app.hosts.messages import Ended, Left, News, Started, line

# How long to go on killing. What then still lives is stuck in the kernel or runs as somebody else.
_GIVE_UP_SECONDS = 4.0
_LOOK_AGAIN_SECONDS = 0.05


def guard(calls: int, lifeline: int, output: int) -> NoReturn:
    """Be a warden, in a process that was forked for it.

    Args:
        calls: Descriptor of the worker's call socket.
        lifeline: Descriptor of the lifeline.
        output: Descriptor of the pipe that takes what the worker prints.
    """
    try:
        os.setsid()
        processes.become_subreaper()
        processes.keep_only([0, 1, 2, calls, lifeline, output])
        child_ended = processes.ChildSignal()
        warden = os.getpid()
        worker = os.fork()
        if not worker:
            _become_worker(warden, calls, output, child_ended)
        os.close(calls)
        os.close(output)
        with socket.socket(fileno=lifeline) as opened:
            _Warden(opened, child_ended, worker).run()
    except BaseException:  # noqa: BLE001 - whatever it is, it must not run on in the launcher's code
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _become_worker(
    warden: int, calls: int, output: int, child_ended: processes.ChildSignal
) -> NoReturn:
    try:
        child_ended.forget()
        os.setsid()  # signals to "my process group" don't reach the warden
        processes.die_with(warden)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        processes.keep_only([0, 1, 2, calls])
        os.set_inheritable(calls, False)

        from tools_app.hosts import tool_process as worker  # noqa: PLC0415 - it knows pydantic; a warden need not

        worker.work(socket.socket(fileno=calls))
    except BaseException:  # noqa: BLE001 - whatever it is, it must not run on in the warden's code
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


class _Warden:
    def __init__(
        self, lifeline: socket.socket, child_ended: processes.ChildSignal, worker: int
    ) -> None:
        self._lifeline = lifeline
        self._child_ended = child_ended
        self._worker = worker
        self._worker_lives = True
        self._childless = False

    def run(self) -> None:
        """Watch the worker until it ends or shall end; returns when nothing is left of it."""
        self._say(Started(warden=os.getpid(), worker=self._worker))
        exit_code = None
        told = False
        while exit_code is None and not told:
            told = bool(self._child_ended.wait(self._lifeline.fileno())) and self._is_closed()
            exit_code = self._reap()
        if exit_code is not None:
            self._say(Ended(exit_code=exit_code))
        self._end_all()

    def _is_closed(self) -> bool:
        try:
            return not self._lifeline.recv(64)
        except ConnectionError:
            return True

    def _reap(self) -> int | None:
        """Reap all children that ended; return the worker's exit code if it is among them."""
        exit_code = None
        try:
            for pid, code in processes.reap():
                if pid == self._worker and self._worker_lives:
                    exit_code = code
                    self._worker_lives = False  # from now on the number may be somebody else's
        except ChildProcessError:
            self._childless = True
        return exit_code

    def _end_all(self) -> None:
        deadline = time.monotonic() + _GIVE_UP_SECONDS
        if self._worker_lives:
            # As a rule that is all there is.
            processes.kill([processes.Process(self._worker, os.getpid(), self._worker)])
            self._child_ended.wait(timeout=_LOOK_AGAIN_SECONDS)
            self._reap()
        while not self._childless:
            # A parent's death makes its children ours: kill those that are known, and look again.
            left = processes.descendants(os.getpid())
            processes.kill(left)
            if time.monotonic() > deadline:
                self._say(Left(pids=[process.pid for process in left]))
                return
            self._child_ended.wait(timeout=_LOOK_AGAIN_SECONDS)
            self._reap()

    def _say(self, what: News) -> None:
        with suppress(ConnectionError):  # the server was killed
            self._lifeline.sendall(line(what))
