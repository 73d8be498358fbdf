"""Forks hosts in a small process of its own, so that a new one costs milliseconds.

The server starts it by exec and passes it the *control socket*. Each byte received there with
three descriptors (call socket, lifeline, output pipe) requests one host. The process may fork: it
has a single thread, holds no locks, has imported what every host needs and never runs users' code.

It also backs up the reapers (docs/decisions/0011): it keeps every lifeline open until the reaper,
and whatever a killed reaper left behind, has ended. So the server's end of a lifeline reads as
closed only when nothing is left.
"""

import gc
import importlib
import os
import signal
import socket
import sys

from tools_app import processes
from tools_app.hosts import reaper

REQUEST = b"h"
_PRELOADED = (
    "asyncio",
    "tools_app.functions.loading",
    "tools_app.functions.schema",
    "tools_app.hosts.tool_process",
)


class ForkServer:
    """Forks hosts until the server's end of the control socket closes and the last host ended."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._ended = processes.ChildSignal()
        self._lifelines: dict[int, int] = {}  # by the id of the living reaper
        self._closing: list[int] = []  # of ended reapers that may have left processes
        self._beyond: set[int] = set()  # adopted processes that we may not kill

    def run(self) -> None:
        """Serve requests; returns when there is nothing left to do."""
        listening = [self._control.fileno()]
        while listening or self._lifelines or self._closing:
            if self._ended.wait(*listening) and not self._start():
                listening.clear()
            self._look()

    def _start(self) -> bool:
        try:
            said, descriptors, _, _ = socket.recv_fds(self._control, len(REQUEST), 3)
        except ConnectionError:
            return False
        if not said:
            return False
        calls, lifeline, output = descriptors
        try:
            pid = os.fork()
        except OSError as error:
            print(f"mochi tool hosts: no process can be forked: {error}", file=sys.stderr)  # noqa: T201
            os.close(lifeline)  # which tells the server
        else:
            if not pid:
                self._ended.forget()
                reaper.guard(calls, lifeline, output)
            self._lifelines[pid] = lifeline
        os.close(calls)
        os.close(output)
        return True

    def _look(self) -> None:
        """Reap children, kill what killed reapers left, then close the lifelines."""
        try:
            for pid, _ in processes.reap():
                self._beyond.discard(pid)
                if lifeline := self._lifelines.pop(pid, None):
                    self._closing.append(lifeline)
        except ChildProcessError:  # no child is left
            pass
        else:
            if self._closing and self._ends_strangers():
                return  # look again when they have ended
        for lifeline in self._closing:
            os.close(lifeline)
        self._closing.clear()

    def _ends_strangers(self) -> bool:
        """Kill processes adopted from killed reapers; return whether there were any."""
        known = self._lifelines.keys() | self._beyond
        me = os.getpid()
        strangers = [
            process
            for process in processes.descendants(me)
            if process.parent == me and process.pid not in known
        ]
        refused = processes.kill(strangers)
        self._beyond |= refused
        return len(refused) < len(strangers)


def main() -> None:
    """Run the fork server; the first argument is the descriptor of the control socket."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    sys.argv = ["mochi-tools"]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have set it to ignored
    processes.become_subreaper()
    _preload()
    gc.collect()
    gc.freeze()  # a collection in a child would copy the shared pages
    with control:
        ForkServer(control).run()


def _preload() -> None:
    """Import what tool processes need, also what pydantic and others import lazily."""
    for name in _PRELOADED:
        importlib.import_module(name)
    from tools_app.functions.schema import describe  # noqa: PLC0415
    from tools_app.hosts.answers import answer  # noqa: PLC0415 - not needed to serve requests

    describe(_example, name="example")
    answer("example", _example, {"text": "x"})


def _example(text: str, numbers: list[float] | None = None) -> dict[str, object]:
    """Do what a tool does.

    Args:
        text: A text.
        numbers: Some numbers.
    """
    return {"text": text, "numbers": numbers}


if __name__ == "__main__":
    main()
