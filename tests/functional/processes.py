"""Starts servers and commands as processes of their own, from the fork server where it can."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal, Self

from tests import orphans
from tests.functional import fork_server
from tests.functional.fork_server import MANAGE, MODULE, PATCHES, ROOT, take_terminal
from tests.warm.plugin import FORK_SERVERS

Stream = int | IO[Any]

_MODULES = (["-m", MODULE], ["-m", "uvicorn"])
START = """\
import sys
sys.path.append(sys.argv.pop())
from tools_app.hosts.fork_server import main
main()
"""
"""What the interpreter runs that forks tools."""


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

    def __init__(self, kind: Literal["servers", "vendors", "tools"]) -> None:
        self._kind = kind
        self._control: socket.socket | None = None
        self._lock = threading.Lock()

    def start(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        streams: Sequence[Stream],
        takes_terminal: bool = False,
        has_zygote: bool = False,
        pass_fds: Sequence[int] = (),
        new_session: bool = False,
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
        given += [os.dup(descriptor) for descriptor in pass_fds]
        request = {
            "command": list(command[1:]),
            "env": dict(env),
            "cwd": str(cwd),
            "takes_terminal": takes_terminal,
            "has_zygote": has_zygote,
            "numbers": [0, 1, 2, *pass_fds],
            "new_session": new_session,
        }
        data, descriptors = json.dumps(request).encode(), [theirs.fileno(), *given]
        with self._lock:
            socket.send_fds(self._connected(), [data], descriptors)
        theirs.close()
        for descriptor in given:
            os.close(descriptor)
        forked = ForkedProcess(command, ours, int(ours.recv(64)))
        orphans.watch(forked.pid)
        _, forked.stdout, forked.stderr = pipes
        return forked

    def _connected(self) -> socket.socket:
        """Return the connection to the program, which reads its end when pytest has gone."""
        if self._control is None and self._kind != "tools" and FORK_SERVERS in os.environ:
            self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._control.connect(f"{os.environ[FORK_SERVERS]}/{self._kind}")
            atexit.register(self._control.close)
        if self._control is None:
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            kept = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}
            program = subprocess.Popen(
                [sys.executable, "-P", fork_server.__file__, str(theirs.fileno()), self._kind],
                env={**kept, "PYTHONPATH": str(ROOT)},
                pass_fds=[theirs.fileno()],
            )
            theirs.close()
            atexit.register(_end, self._control, program)
        return self._control


def _end(control: socket.socket, program: "subprocess.Popen[bytes]") -> None:
    control.close()
    program.wait()


_FORK_SERVER = ForkServer("servers")
_VENDOR_FORK_SERVER = ForkServer("vendors")
"""Has imported the vendors' clients as well, for servers that may ask them."""
_TOOL_FORK_SERVER = ForkServer("tools")


class ForkedToolServer(subprocess.Popen[Any]):
    """Stands in for ``subprocess.Popen``: forks what forks tools, and starts all else as it is.

    For tests that use tools; how a server starts what forks them is tested with the interpreter.
    """

    def __new__(cls, args: Any, **options: Any) -> Any:
        if sys.platform != "linux" or not (isinstance(args, list) and START in args[3:4]):
            return super().__new__(cls)
        return _TOOL_FORK_SERVER.start(
            args,
            env=options["env"],
            cwd=options["cwd"],
            streams=(options["stdin"], options["stdout"], 2),
            pass_fds=options["pass_fds"],
            new_session=options["start_new_session"],
        )


def can_fork(command: Sequence[str], env: Mapping[str, str], *, forks_code: bool = False) -> bool:
    """Return whether the fork server can start the command; code (``-c``) only if it shall."""
    if not set(env.get("PYTHONPATH", "").split(os.pathsep)) <= {"", str(ROOT), *PATCHES}:
        return False
    if sys.platform != "linux" or command[0] != sys.executable:
        return False
    if forks_code and command[1] == "-c":
        return True
    return [each for each in command[1:4] if each != "-P"][:2] in _MODULES or command[1] == MANAGE


def _may_ask_vendors(env: Mapping[str, str]) -> bool:
    """Return whether a server would import vendors' clients, and a warm process has."""
    return FORK_SERVERS in os.environ and any("_PROVIDERS__" in name for name in env)


def start_process(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
    takes_terminal: bool = False,
    has_zygote: bool = False,
    forks_code: bool = False,
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
        has_zygote: Whether it forks its web processes, too.
        forks_code: Whether code (``-c``) is run by a fork as well, which has imported the server.
    """
    if can_fork(command, env, forks_code=forks_code):
        server = _VENDOR_FORK_SERVER if _may_ask_vendors(env) else _FORK_SERVER
        return server.start(
            command,
            env=env,
            cwd=cwd,
            streams=(stdin, stdout, stderr),
            takes_terminal=takes_terminal,
            has_zygote=has_zygote,
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
    forks_code: bool = False,
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
            command,
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            forks_code=forks_code,
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
