"""Starts the fork server by exec, and requests hosts from it."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from sessions_app.deadline import CLOSE_SECONDS, NEVER, Deadline
from sessions_app.shielding import to_the_end
from tools_app.hosts.fork_server import REQUEST
from tools_app.hosts.host import HostConnections

logger = logging.getLogger("tools_app.hosts")

# ``-m`` would put the working directory first on the path, where a user's ``json.py`` would hide
# Python's; a path in the environment would be inherited by whatever a tool starts.
_BOOTSTRAP = """\
import sys
sys.path.append(sys.argv.pop())
from tools_app.hosts.fork_server import main
main()
"""
_ROOT = Path(__file__).parents[2]


class ForkServerUnavailable(Exception):
    """No tool process can be started; the message says why."""


class KeyNames(Protocol):
    """Names the variables that hold keys, which no tool sees."""

    def __call__(self) -> Collection[str]:
        """Return the names in upper case. Blocks."""


class ForkServerClient:
    """The fork server of this process: started for the first host, and again after it died.

    Args:
        directory: The working directory of tools.
        env_file: The variables of ``.env``, which tools get like those of the environment.
        added: Returns the variables that tools get whatever their names, as for the owner of data
            that they are called for; processes are reused only for the same ones.
        keys: Returns the names of variables that hold keys, in upper case; called in a thread.
        passed: Variables that tools get although they hold keys.
        deadline: The deadline of this process, once it stops.

    Attributes:
        added: The same.
        deadline: The same.
    """

    def __init__(
        self,
        directory: Path,
        *,
        env_file: Mapping[str, str] | None = None,
        added: Callable[[], Mapping[str, str]] = dict,
        keys: KeyNames = tuple,
        passed: Collection[str] = (),
        deadline: Deadline = NEVER,
    ) -> None:
        self.added = added
        self.deadline = deadline
        self._directory = directory
        self._env_file = env_file or {}
        self._keys = keys
        self._passed = passed
        self._inherited: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._starting: asyncio.Task[None] | None = None

    @property
    def process_id(self) -> int | None:
        """Return the fork server's process id, if one was started."""
        return self._process.pid if self._process else None

    async def open(self) -> HostConnections:
        """Request a host and return the connections to it; it may not run yet.

        Raises:
            ForkServerUnavailable: No fork server runs, and none can be started.
        """
        for _ in range(2):  # a dead one is noticed, at the latest, by the request
            await self._running()
            if (ends := self._ask()) is not None:
                return ends
            self._abandon()
        raise ForkServerUnavailable(
            "The process that starts tools ended as soon as it was started."
        )

    def abandon(self, process_id: int) -> None:
        """Stop using the fork server with this id; running hosts are not touched."""
        if process_id == self.process_id:
            self._abandon()

    def _abandon(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    async def aclose(self) -> None:
        """End the fork server. Close the pools first: it lives until its last host has ended."""
        if self._starting is not None and not self._starting.done():
            with suppress(ForkServerUnavailable):
                await to_the_end(self._starting)
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            await to_the_end(
                asyncio.create_task(asyncio.to_thread(_stop, self._process, self.deadline))
            )
            self._process = None

    async def _running(self) -> None:
        if self._control is not None and self._process and self._process.poll() is None:
            if not await asyncio.to_thread(self._has_keys):
                return
            self._abandon()  # since its start a profile has named one of its variables as a key
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())
        await to_the_end(self._starting)

    async def _start(self) -> None:
        if self._process is not None:  # the previous one
            logger.warning("the process that starts tools has ended; starting another")
            self._abandon()
            await asyncio.to_thread(self._process.wait)
        try:
            await asyncio.to_thread(self._exec)
        except OSError as error:
            raise ForkServerUnavailable(f"No process can be started: {error}") from error

    def _exec(self) -> None:
        """Start the process, in a thread that runs to its end: a cancellation can't lose it."""
        control, theirs = socket.socketpair()
        control.setblocking(False)
        with theirs:
            try:
                self._process = self._start_process(theirs)
            except BaseException:
                control.close()
                raise
        self._control = control

    def _has_keys(self) -> bool:
        keys = self._keys()
        return any(self._is_withheld(name, keys) for name in self._inherited)

    def environment(self) -> dict[str, str]:
        """Return the environment of tools. Blocks."""
        keys, named = self._keys(), {**self._env_file, **os.environ}
        inherited = {n: v for n, v in named.items() if not self._is_withheld(n, keys)}
        return {**inherited, **self.added()}

    def _is_withheld(self, name: str, keys: Collection[str]) -> bool:
        is_ours = name.upper().startswith(_SERVERS_OWN) or name.upper() in keys
        return is_ours and name not in self._passed

    def _start_process(self, control: socket.socket) -> subprocess.Popen[bytes]:
        environment = self.environment()
        self._inherited = environment.keys() - self.added().keys()
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-c", _BOOTSTRAP, str(control.fileno()), str(_ROOT)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            close_fds=True,
            pass_fds=[control.fileno()],
            start_new_session=True,
            cwd=self._directory,
            env=environment,
        )

    def _ask(self) -> HostConnections | None:
        """Send the fork server its ends of a new host's connections; return None if it is gone."""
        if self._control is None or self._process is None:
            return None
        calls, their_calls = socket.socketpair()
        lifeline, their_lifeline = socket.socketpair()
        output, their_output = os.pipe()
        theirs = [their_calls.fileno(), their_lifeline.fileno(), their_output]
        try:
            socket.send_fds(self._control, [REQUEST], theirs)
        except OSError:  # it has ended, or has not read for very long
            calls.close()
            lifeline.close()
            os.close(output)
            return None
        finally:
            their_calls.close()
            their_lifeline.close()
            os.close(their_output)
        return HostConnections(calls, lifeline, output, self._process.pid)


def _stop(process: subprocess.Popen[bytes], deadline: Deadline) -> None:
    try:
        process.wait(deadline.within(CLOSE_SECONDS, CLOSE_SECONDS))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# The server's configuration, some of which is secret.
# With the last one, tools that count would count among the server's metrics.
_SERVERS_OWN = ("MOCHI_", "_MOCHI_", "DJANGO_", "PROMETHEUS_MULTIPROC_DIR")
