"""Runs several web processes on the same listening sockets, and replaces those that die.

They are started by exec, never by fork (docs/decisions/0005). Each has one end of a socket pair,
its lifeline: it sends a byte when it listens, its closing tells the parent that it has ended, and
the closing of the parent's end (even by ``kill -9``) stops it.
"""

import asyncio
import contextlib
import faulthandler
import gc
import itertools
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from mochi_project.configuration.child_environment import with_own_code
from mochi_project.configuration.loading import load_settings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process.graceful_stop import STOP_SIGNALS
from mochi_project.process.model_check import WEB_PROCESS_VARIABLE
from mochi_project.process.server import WebServer, server_config
from sessions_app.deadline import KILL_SECONDS, Deadline

logger = logging.getLogger(__name__)

LISTENING = b"."
SHORTEST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
KILL_AGAIN_SECONDS = 0.05
HEALTHY_SECONDS = 60.0
"""The lifetime after which a worker's start counts as successful, which resets the pauses."""


def _do_nothing(*_: object) -> None:
    """Replace the default action of a signal, which is received by the wake-up descriptor."""


class _WebProcess:
    """A started web process with the parent's end of its lifeline and its restart pauses."""

    def __init__(
        self, sockets: Sequence[socket.socket], pauses: "RestartPauses", *, number: int
    ) -> None:
        self.lifeline, theirs = socket.socketpair()
        self.listens = False
        self.started = time.monotonic()
        self.pauses = pauses
        descriptors = [theirs.fileno(), *(opened.fileno() for opened in sockets)]
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "mochi_project.process.web_workers",
                    *map(str, descriptors),
                ],
                env={**with_own_code(os.environ), WEB_PROCESS_VARIABLE: str(number)},
                pass_fds=descriptors,
                process_group=0,  # CTRL-C goes to the parent only, which passes it on
            )


class RestartPauses:
    """Computes the pause before each restart, with exponential backoff.

    It is half a second at first and doubles up to 30 s, until a worker has lived for a minute.
    """

    def __init__(self) -> None:
        self._next = SHORTEST_PAUSE_SECONDS

    def after(self, lived_seconds: float) -> float:
        """Return the seconds to wait after the death of a worker that lived this long."""
        if lived_seconds >= HEALTHY_SECONDS:
            self._next = SHORTEST_PAUSE_SECONDS
        pause = self._next
        self._next = min(pause * 2, LONGEST_PAUSE_SECONDS)
        return pause


class WebProcessPool:
    """Keeps ``count`` web processes running until a signal stops them.

    A process that ends unexpectedly is replaced after a pause (``RestartPauses``), also if its
    replacement can't start; only when the server starts is that an error. After a signal
    their turns get ``grace_seconds``, and those that have not ended ``KILL_SECONDS`` later are
    killed. A second signal makes them not wait for running turns, a third one kills them.
    ``on_death`` is called with the id of each process that did not end cleanly, and must return
    immediately.
    """

    def __init__(
        self,
        count: int,
        sockets: Sequence[socket.socket],
        *,
        on_listening: Callable[[], None],
        grace_seconds: float,
        on_death: Callable[[int], None] = _do_nothing,
    ) -> None:
        self._count = count
        self._sockets = sockets
        self._on_listening = on_listening
        self._grace_seconds = grace_seconds
        self._on_death = on_death
        self._workers: list[_WebProcess] = []
        self._numbers = itertools.count()
        self._restarts: list[tuple[float, RestartPauses]] = []
        self._selector = selectors.DefaultSelector()

    def run(self) -> int:
        """Run until SIGINT or SIGTERM; call ``on_listening`` once, when every worker listens.

        Returns:
            The exit code: 1 if a worker could not start at the server's start, or had to be killed.
        """
        with self._selector, _stop_signals() as signals:
            self._selector.register(signals, selectors.EVENT_READ)
            try:
                for _ in range(self._count):
                    self._start(RestartPauses())
                code = self._supervise()
            except BaseException:
                self._stop()
                raise
            return max(code, self._stop())

    def _start(self, pauses: RestartPauses) -> None:
        worker = _WebProcess(self._sockets, pauses, number=next(self._numbers))
        self._workers.append(worker)
        self._selector.register(worker.lifeline, selectors.EVENT_READ, worker)

    def _supervise(self) -> int:
        announced = False
        while True:
            signalled, ended = self._wait(self._until_restart())
            if signalled:
                return 0
            for worker in ended:
                if not (announced or worker.listens or worker.process.returncode < 0):
                    logger.error("a web worker could not start; stopping")
                    return 1
                self._plan_restart(worker)
            self._start_what_is_due()
            if not announced and self._all_listen():
                announced = True
                self._on_listening()

    def _all_listen(self) -> bool:
        return not self._restarts and all(worker.listens for worker in self._workers)

    def _plan_restart(self, worker: _WebProcess) -> None:
        now = time.monotonic()
        pause = worker.pauses.after(now - worker.started)
        logger.error(
            "a web worker %s (%s); restarting in %g s",
            "ended unexpectedly" if worker.listens else "could not start",
            _how_it_ended(worker.process.returncode),
            pause,
        )
        self._restarts.append((now + pause, worker.pauses))

    def _until_restart(self) -> float | None:
        """Return the seconds until the next restart; None when none is planned."""
        if not self._restarts:
            return None
        return max(0.0, min(moment for moment, _ in self._restarts) - time.monotonic())

    def _start_what_is_due(self) -> None:
        now = time.monotonic()
        due = [restart for restart in self._restarts if restart[0] <= now]
        self._restarts = [restart for restart in self._restarts if restart[0] > now]
        for _, pauses in due:
            self._start(pauses)

    def _wait(self, timeout: float | None) -> tuple[bool, list[_WebProcess]]:
        """Wait for events; return whether a signal came, and which workers have ended."""
        signalled = False
        ended = []
        for key, _ in self._selector.select(timeout):
            assert isinstance(key.fileobj, socket.socket)  # noqa: S101 - all that is registered
            word = key.fileobj.recv(64)
            worker: _WebProcess | None = key.data
            if worker is None:
                signalled = True
            elif word:
                worker.listens = True
            else:
                self._selector.unregister(worker.lifeline)
                worker.lifeline.close()
                if worker.process.wait():
                    self._on_death(worker.process.pid)
                self._workers.remove(worker)
                ended.append(worker)
        return signalled, ended

    def _stop(self) -> int:
        """Stop all workers; return the exit code: 1 if one had to be killed."""
        for opened in self._sockets:
            opened.close()
        self._tell(signal.SIGTERM)
        deadline = Deadline()
        deadline.set(self._grace_seconds)
        signals = 1
        killed: set[int] = set()
        while self._workers:
            left = deadline.within(self._grace_seconds + KILL_SECONDS, KILL_SECONDS)
            signalled, _ = self._wait(left or KILL_AGAIN_SECONDS)
            signals += signalled
            running = {worker.process.pid for worker in self._workers}
            if running and (left <= 0 or signals > 2):
                if running - killed:
                    logger.error("killing web workers that did not stop: %s", sorted(running))
                    killed |= running
                self._tell(signal.SIGKILL)
            elif signalled:
                deadline.set(0)
                self._tell(signal.SIGINT)  # equal pending signals are delivered once
        return 1 if killed else 0

    def _tell(self, number: signal.Signals) -> None:
        for worker in self._workers:
            worker.process.send_signal(number)


def _how_it_ended(code: int) -> str:
    """Return how a process ended: the name of a signal, or the exit code."""
    return signal.strsignal(-code) or f"signal {-code}" if code < 0 else f"exit code {code}"


@contextlib.contextmanager
def _stop_signals() -> Iterator[socket.socket]:
    """Yield a socket that becomes readable on SIGINT or SIGTERM."""
    readable, wakeup = socket.socketpair()
    with readable, wakeup:
        wakeup.setblocking(False)
        previous_wakeup = signal.set_wakeup_fd(wakeup.fileno())
        previous = {number: signal.signal(number, _do_nothing) for number in STOP_SIGNALS}
        try:
            yield readable
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(previous_wakeup)


class PooledServer(WebServer):
    """Serves in a web process, whose parent kills it if it does not end in time."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's
        """Stop cleanly, also on SIGINT, which a parent sends as a second signal."""
        super().handle_exit(signal.SIGTERM, frame)


def work(lifeline: socket.socket, sockets: list[socket.socket]) -> None:
    """Serve on inherited sockets until stopped, or until the parent ends."""

    def stop_with_parent() -> None:
        asyncio.get_running_loop().remove_reader(lifeline)
        os.kill(os.getpid(), signal.SIGTERM)  # as for any other stop

    def on_listening() -> None:
        asyncio.get_running_loop().add_reader(lifeline, stop_with_parent)
        with contextlib.suppress(
            BrokenPipeError
        ):  # the parent has ended, which the reader notices too
            lifeline.send(LISTENING)

    gc.disable()  # until it listens, as in the parent command
    PooledServer(server_config(load_settings()), on_listening=on_listening).run(sockets=sockets)


def main() -> None:
    """Run one worker; the arguments are the descriptors of its lifeline and its sockets."""
    inherited = [socket.socket(fileno=int(argument)) for argument in sys.argv[1:]]
    for opened in inherited:
        opened.set_inheritable(False)
    faulthandler.enable()  # otherwise a crash would not be logged
    try:
        work(inherited[0], inherited[1:])
    except ConfigurationError as error:  # the settings have changed since the server's start
        sys.exit(f"mochi-server: {error}")
    # The application has closed everything. Finalizing the interpreter in several workers takes
    # much of a second of CPU, most of the time to stop.
    logging.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
