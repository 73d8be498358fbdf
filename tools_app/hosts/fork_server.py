"""The launcher: a small process that forks hosts, so that a new one costs milliseconds.

The server starts it by exec and hands it the *control socket*. Each byte that comes there with
three descriptors (call socket, lifeline, output pipe) asks for one host. It has a single thread,
holds no locks, has imported what every host needs and never runs users' code: it may fork.

It is also the second line behind the wardens. It keeps every lifeline open until the warden has
ended and what a killed warden left behind has ended too; so the server's end of a lifeline says
"closed" only when nothing is left.
"""

import gc
import importlib
import os
import signal
import socket
import sys

from tools_app.hosts import processes, reaper

REQUEST = b"h"
_PRELOADED = (
    "asyncio",
    "tools_app.functions.loading",
    "tools_app.functions.schema",
    "tools_app.hosts.tool_process",
)


class Launcher:
    """Forks hosts until the server's end of the control socket closes and the last host ended."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._ended = processes.ChildSignal()
        self._lifelines: dict[int, int] = {}  # by the id of the warden that lives
        self._closing: list[int] = []  # of wardens that ended, while something may be left of them
        self._beyond: set[int] = set()  # what we may not kill

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
        """Reap what ended, end what killed wardens left, and tell the server when that is done."""
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
        """Kill what was adopted from wardens that were killed; whether there was something."""
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
    """Run the launcher; the first argument is the descriptor of the control socket."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    sys.argv = ["mochi-tools"]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had us ignore it
    processes.become_subreaper()
    _preload()
    gc.collect()
    gc.freeze()  # a collection in a child would copy the pages that it shares with us
    with control:
        Launcher(control).run()


def _preload() -> None:
    """Import what workers need, also what pydantic and others import on first use."""
    for name in _PRELOADED:
        importlib.import_module(name)
    from tools_app.functions.schema import bind, describe  # noqa: PLC0415
    from tools_app.hosts.answers import answer  # noqa: PLC0415 - not needed to serve requests

    describe(_example, name="example")
    answer(_example, bind(_example, {"text": "x"}))


def _example(text: str, numbers: list[float] | None = None) -> dict[str, object]:
    """Do what tools do.

    Args:
        text: A text.
        numbers: Some numbers.
    """
    return {"text": text, "numbers": numbers}


if __name__ == "__main__":
    main()
