"""Starts ``mochi-server`` and ``manage.py`` from a process that has imported what they need.

Importing Django, pydantic and our own modules takes most of the processor time of a short command,
and tests start hundreds. This program imports them once for each pytest process, and forks: what it
starts is a process of its own with its own environment, directory, files and end. Tests of the
start itself, and of memory, start the interpreter (``subprocess``).
"""

import atexit
import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

ROOT = Path(__file__).parents[2]
MODULE = "mochi_server"
MANAGE = str(ROOT / "manage.py")
Stream = int | IO[Any]
MODULES = (
    "django.core.management",
    "django.http",
    "django.urls",
    "django.views.debug",
    "httpx",
    "httptools",
    "jsonschema",
    "mochi_project.process.server",
    "mochi_project.terminal.chat_loop",
    "mochi_project.wiring.services",
    "models_app.scripted.server",
    "msgspec.json",
    "ollama",
    "orjson",
    "prompt_toolkit",
    "psutil",
    "pydantic",
    "rich.markdown",
    "rich.table",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
    "yaml",
)
"""What is imported beforehand. No settings: they can't be read here, where Django has none."""

_LONGEST_REQUEST = 1 << 20
_MODULE = ["-m", MODULE]


class ForkedProcess:
    """A process that the fork server started, as ``subprocess.Popen`` shows one.

    Attributes:
        args: The command.
        pid: The process.
        returncode: How it ended, as ``Popen`` has it; None while it runs.
        stdout: What it prints, if that was asked for.
        stderr: What it reports, if that was asked for.
    """

    def __init__(self, args: Sequence[str], connection: socket.socket, pid: int) -> None:
        self.args = args
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        self._connection = connection

    def poll(self) -> int | None:
        """Return how the process ended, or None."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end.

        Raises:
            subprocess.TimeoutExpired: It still runs after so many seconds.
        """
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                answer = self._connection.recv(64)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._connection.close()
            self.returncode = int(answer) if answer else -signal.SIGKILL
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end and return the rest of what it printed and reported."""
        said: list[str] = ["", ""]

        def read(index: int, pipe: IO[str] | None) -> None:
            if pipe is not None and not pipe.closed:
                with pipe:
                    said[index] = pipe.read()

        readers = [
            threading.Thread(target=read, args=(index, pipe))
            for index, pipe in enumerate((self.stdout, self.stderr))
        ]
        for reader in readers:
            reader.start()
        try:
            self.wait(timeout)
        except BaseException:
            self.kill()
            raise
        finally:
            for reader in readers:
                reader.join()
        return said[0], said[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


Process = ForkedProcess | subprocess.Popen[str]


class ForkServer:
    """Starts processes; the program behind it begins with the first one and ends with pytest."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None

    def start(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        streams: Sequence[Stream],
        takes_terminal: bool,
    ) -> ForkedProcess:
        """Start a command for which ``can_fork`` is true; ``start_process`` has the arguments."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipes: list[IO[str] | None] = []
        given: list[int] = []
        for stream, mode in zip(streams, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True):
            if stream == subprocess.PIPE:
                reader, writer = os.pipe()
                pipes.append(open(reader, encoding="utf-8"))  # noqa: SIM115 - closed by its owner
                given.append(writer)
                continue
            pipes.append(None)
            if stream == subprocess.DEVNULL:
                given.append(os.open(os.devnull, mode))
            else:
                given.append(os.dup(stream if isinstance(stream, int) else stream.fileno()))
        request = {
            "command": list(command[1:]),
            "env": dict(env),
            "cwd": str(cwd),
            "takes_terminal": takes_terminal,
        }
        data, descriptors = json.dumps(request).encode(), [theirs.fileno(), *given]
        socket.send_fds(self._connected(), [data], descriptors)
        theirs.close()
        for descriptor in given:
            os.close(descriptor)
        forked = ForkedProcess(command, ours, int(ours.recv(64)))
        _, forked.stdout, forked.stderr = pipes
        return forked

    def _connected(self) -> socket.socket:
        """Return the connection to the program, which reads its end when pytest has gone."""
        if self._control is None:
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            kept = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}
            program = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                env={**kept, "PYTHONPATH": str(ROOT)},
                pass_fds=[theirs.fileno()],
            )
            theirs.close()
            atexit.register(_end, self._control, program)
        return self._control


def _end(control: socket.socket, program: "subprocess.Popen[bytes]") -> None:
    control.close()
    program.wait()


_FORK_SERVER = ForkServer()


def can_fork(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Return whether the fork server can start the command."""
    if env.get("PYTHONPATH", str(ROOT)) != str(ROOT):
        return False
    if sys.platform != "linux" or command[0] != sys.executable:
        return False
    return [each for each in command[1:4] if each != "-P"][:2] == _MODULE or command[1] == MANAGE


def start_process(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
    takes_terminal: bool = False,
) -> Process:
    """Start a command, from the fork server if it can.

    Args:
        command: The command.
        env: The whole environment.
        cwd: The directory.
        stdin: A file or a descriptor, as for ``subprocess.Popen``.
        stdout: A file or a descriptor, or ``PIPE``.
        stderr: A file or a descriptor, or ``PIPE``.
        takes_terminal: Whether stdin is a terminal that shall be the process's own.
    """
    if can_fork(command, env):
        return _FORK_SERVER.start(
            command,
            env=env,
            cwd=cwd,
            streams=(stdin, stdout, stderr),
            takes_terminal=takes_terminal,
        )
    return subprocess.Popen(
        command,
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=True,
        preexec_fn=take_terminal if takes_terminal else None,  # noqa: PLW1509 - no thread of a test holds a lock of fork
    )


def run_process(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    given: str = "",
    timeout: float = 60,
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, with this on stdin, and return what it printed.

    Raises:
        subprocess.TimeoutExpired: It takes longer; it has been killed.
    """
    with (
        tempfile.TemporaryFile("w+") as stdin,
        tempfile.TemporaryFile("w+") as stdout,
        tempfile.TemporaryFile("w+") as stderr,
    ):
        stdin.write(given)
        stdin.seek(0)
        process = start_process(
            command, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr
        )
        try:
            code = process.wait(timeout=timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(command, code, stdout.read(), stderr.read())


def take_terminal() -> None:
    """Make stdin, a terminal, this process's own: CTRL-C is for it."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for every request; return the request in the child, None when pytest has ended."""
    running: dict[int, socket.socket] = {}
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is woken:
                woken.recv(4096)
                _report_ends(running)
                continue
            data, descriptors, _, _ = socket.recv_fds(control, _LONGEST_REQUEST, 4)
            if not data:
                return None
            connection = socket.socket(fileno=descriptors[0])
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                selector.close()
                for each in (control, woken, wake, connection, *running.values()):
                    each.close()
                return {**json.loads(data), "descriptors": descriptors[1:]}
            for descriptor in descriptors[1:]:
                os.close(descriptor)
            running[pid] = connection
            connection.send(str(pid).encode())


def _report_ends(running: dict[int, socket.socket]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        with running.pop(pid) as connection, suppress(OSError):  # nobody may wait for it
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(request: dict[str, Any]) -> None:
    """Give this process what the request asks for, and run its command."""
    for number, descriptor in enumerate(request["descriptors"]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["takes_terminal"]:
        take_terminal()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            open(number, mode),  # noqa: SIM115 - closed by the interpreter
            encoding="utf-8",
            errors="backslashreplace" if number == 2 else "surrogateescape",
            line_buffering=number == 2 or os.isatty(number),
        )
        for number, mode in ((0, "rb"), (1, "wb"), (2, "wb"))
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    command: list[str] = request["command"]
    if command[0] == MANAGE:
        sys.argv = command
        runpy.run_path(MANAGE, run_name="__main__")
        return
    if command[0] == "-P":
        del command[0]
    else:
        sys.path.insert(0, request["cwd"])
    sys.argv = [MODULE, *command[2:]]
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


def main() -> None:
    """Import the libraries, then serve."""
    gc.disable()
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()
    control = socket.socket(fileno=int(sys.argv[1]))
    request = serve(control)
    if request is not None:
        gc.enable()
        become(request)


if __name__ == "__main__":
    main()
