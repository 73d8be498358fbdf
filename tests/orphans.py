"""Kills what a process of the suite has started and left running, once that process is gone.

An interrupted run closes no fixture: its servers, nodes, Redis and fork servers would run on. A
program beside each process of the suite is told what that starts (``Popen``, and ``watch`` for what
is started in other ways). It reads the end of its input when the process is gone, however it went,
and kills what still runs then, with all descendants.
"""

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import psutil

_Popen: type["subprocess.Popen[Any]"] = subprocess.Popen


class Popen(_Popen):
    """A ``subprocess.Popen`` whose process does not outlive this one."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        watch(self.pid)


class _Watcher:
    """The program beside this process, which begins with the first process that is watched."""

    def __init__(self) -> None:
        self._input: int | None = None
        self._lock = threading.Lock()

    def watch(self, pid: int) -> None:
        with self._lock:
            if self._input is None:
                self._input = self._start()
        with suppress(BrokenPipeError):  # whoever kills everything may kill it before us
            os.write(self._input, f"{pid}\n".encode())

    def _start(self) -> int:
        reader, writer = os.pipe()
        program = _Popen(
            [sys.executable, "-P", __file__],
            stdin=reader,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # CTRL-C is for us
        )
        os.close(reader)
        os.set_blocking(writer, False)  # tests also start processes on an event loop
        atexit.register(self._stop, writer, program)
        return writer

    def _stop(self, writer: int, program: "subprocess.Popen[Any]") -> None:
        os.close(writer)
        program.wait()


_WATCHER = _Watcher()
watch = _WATCHER.watch


def _with_descendants(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those that still run, with what they have started."""
    family: list[psutil.Process] = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            family += [process, *process.children(recursive=True)]
    return family


def main() -> None:
    """Read numbers of processes until their end, then kill the processes."""
    processes: list[psutil.Process] = []
    for line in sys.stdin:
        with suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(int(line)))
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped, none starts another one
        for process in _with_descendants(processes):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


if __name__ == "__main__":
    main()
