"""Starts the launcher program by exec, and asks it for hosts."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

from sessions_app.shielding import to_the_end
from tools_app.hosts.environment import is_withheld, tool_environment
from tools_app.hosts.fork_server import REQUEST
from tools_app.hosts.host import HostEnds

logger = logging.getLogger("tools_app.hosts")

_STOP_SECONDS = 5.0
# ``-m`` would put the directory it starts in first on the path, where a person's ``json.py`` would
# hide Python's; a path in the environment would reach whatever a tool starts.
_BOOTSTRAP = """\
import sys
sys.path.append(sys.argv.pop())
from tools_app.hosts.fork_server import main
main()
"""
_ROOT = Path(__file__).parents[2]


class LauncherUnavailable(Exception):
    """No process for tools can be started; the message says why."""


class HostLauncher:
    """The one launcher of this process: started when the first host is needed, and when it died.

    Args:
        directory: Where tools run: what relative paths in them are relative to.
        added: Variables that they see beside the environment's, whatever their names are.
        keys: Returns the variables that hold keys, in upper case; called in a thread.
        passed: Variables that they see although these hold keys.
    """

    def __init__(
        self,
        directory: Path,
        *,
        added: Mapping[str, str] | None = None,
        keys: Callable[[], Collection[str]] = tuple,
        passed: Collection[str] = (),
    ) -> None:
        self._directory = directory
        self._added = added or {}
        self._keys = keys
        self._passed = passed
        self._inherited: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._starting: asyncio.Task[None] | None = None

    @property
    def process_id(self) -> int | None:
        """The launcher's process id, if one was started."""
        return self._process.pid if self._process else None

    async def open(self) -> HostEnds:
        """Ask for a host and return what leads to it; it may not run yet.

        Raises:
            LauncherUnavailable: There is no launcher to ask, and none can be started.
        """
        for _ in range(2):  # one that died is noticed, at the latest, when it is asked
            await self._running()
            if (ends := self._ask()) is not None:
                return ends
            self._abandon()
        raise LauncherUnavailable("The process that starts tools ended as soon as it was started.")

    def abandon(self, process_id: int) -> None:
        """Have no more hosts come from this launcher; hosts that run are not touched."""
        if process_id == self.process_id:
            self._abandon()

    def _abandon(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    async def aclose(self) -> None:
        """End the launcher. Close the pools before: it lives until its last host has ended."""
        if self._starting is not None and not self._starting.done():
            with suppress(LauncherUnavailable):
                await to_the_end(self._starting)
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            await to_the_end(asyncio.create_task(asyncio.to_thread(_stop, self._process)))
            self._process = None

    async def _running(self) -> None:
        if self._control is not None and self._process and self._process.poll() is None:
            if not await asyncio.to_thread(self._has_keys):
                return
            self._abandon()  # a profile names a variable as a key that was none when it started
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())
        await to_the_end(self._starting)

    async def _start(self) -> None:
        if self._process is not None:  # a former one
            logger.warning("the process that starts tools has ended; starting another")
            self._abandon()
            await asyncio.to_thread(self._process.wait)
        try:
            await asyncio.to_thread(self._exec)
        except OSError as error:
            raise LauncherUnavailable(f"No process can be started: {error}") from error

    def _exec(self) -> None:
        """Start the process. A thread runs to its end: what it starts is known, and is closed."""
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
        return any(is_withheld(name, keys=keys, passed=self._passed) for name in self._inherited)

    def _start_process(self, control: socket.socket) -> subprocess.Popen[bytes]:
        self._inherited = tool_environment(os.environ, keys=self._keys(), passed=self._passed)
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-c", _BOOTSTRAP, str(control.fileno()), str(_ROOT)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            close_fds=True,
            pass_fds=[control.fileno()],
            start_new_session=True,
            cwd=self._directory,
            env={**self._inherited, **self._added},
        )

    def _ask(self) -> HostEnds | None:
        """Send the launcher its ends of a new host's connections; None when it is gone."""
        if self._control is None or self._process is None:
            return None
        calls, their_calls = socket.socketpair()
        lifeline, their_lifeline = socket.socketpair()
        output, their_output = os.pipe()
        theirs = [their_calls.fileno(), their_lifeline.fileno(), their_output]
        try:
            socket.send_fds(self._control, [REQUEST], theirs)
        except OSError:  # it has ended, or has not listened for very long
            calls.close()
            lifeline.close()
            os.close(output)
            return None
        finally:
            their_calls.close()
            their_lifeline.close()
            os.close(their_output)
        return HostEnds(calls, lifeline, output, self._process.pid)


def _stop(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
