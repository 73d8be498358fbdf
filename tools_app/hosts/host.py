"""Drives one host: a tool process that loads a folder and runs one call at a time."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from sessions_app.attachments.references import WHOLE_RESULT
from sessions_app.deadline import CLOSE_SECONDS, Deadline
from sessions_app.shielding import to_the_end
from tools_app.errors import EXECUTION_FAILED, INVALID_ARGUMENTS, TIMED_OUT
from tools_app.file_names import clean_name, file_name
from tools_app.hosts.descriptors import CallSocket, ConnectionLost, Lifeline, ProtocolError
from tools_app.hosts.messages import (
    HEADER,
    MAX_ANSWER_BYTES,
    MAX_FILES,
    MAX_FILES_BYTES,
    MAX_REPORT_BYTES,
    MAX_REQUEST_BYTES,
    Answer,
    Call,
    Failed,
    Load,
    Loaded,
    Loading,
    Returned,
    answers,
    frame,
)
from tools_app.hosts.output_log import OutputLog, printable, printable_end
from tools_app.limits import KIBIBYTE, MAX_OUTPUT_BYTES, HostLimits, ToolFolder
from tools_app.output_limit import cut
from tools_app.toolset import OnProgress, ToolFile, ToolProgress, ToolResult

logger = logging.getLogger("tools_app.hosts")

# A tool process closes its sockets a moment before its reaper learns that it has ended.
_LAST_WORDS_SECONDS = 0.5
_LAST_RESORT_SECONDS = 1.0
_MAX_MESSAGE_CHARS = 2000


class HostConnections(NamedTuple):
    """The server's ends of a host's two sockets and of its output pipe.

    ``fork_server`` is the process id of the fork server that made it.
    """

    calls: socket.socket
    lifeline: socket.socket
    output: int
    fork_server: int


class LoadFailed(Exception):
    """A tool process could not load the folder, and has ended.

    Attributes:
        module: The module that failed; None when it was none in particular.
        reason: What happened, as a sentence for people.
        started: Whether the tool process had started.
    """

    def __init__(self, module: str | None, reason: str, *, started: bool = True) -> None:
        super().__init__(reason)
        self.module = module
        self.reason = reason
        self.started = started


class Host:
    """A tool process with its reaper. However it ends, no process of it is left.

    Attributes:
        fork_server: The process id of the fork server that made it.
        generation: The pool's number of the state of the folder that it has loaded.
        idle_since: When it was last used, by the loop's clock.
        variables: The variables that it has beside the fork server's.
    """

    def __init__(
        self, ends: HostConnections, folder: ToolFolder, limits: HostLimits, deadline: Deadline
    ) -> None:
        self._deadline = deadline
        self.generation = 0
        self.idle_since = 0.0
        self.variables: Mapping[str, str] = {}
        self.fork_server = ends.fork_server
        self._folder = folder
        self._limits = limits
        self._calls = CallSocket(ends.calls)
        self._output = OutputLog(ends.output, folder.name, limits)
        self._lifeline = Lifeline(
            ends.lifeline, on_tool_process_ended=self._calls.finish, on_closed=self._close
        )
        self._ending: asyncio.Task[None] | None = None
        self._worn = False

    @property
    def is_usable(self) -> bool:
        """Return whether it can take another call."""
        is_there = self._ending is None and not self._calls.is_closed
        return is_there and self._calls.is_quiet and not self._worn

    @property
    def process_ids(self) -> tuple[int, int] | None:
        """Return the process ids of reaper and tool process, once they run."""
        started = self._lifeline.started
        return (started.reaper, started.tool_process) if started else None

    async def load(self, skip: Mapping[str, str], *, report: bool, deadline: float) -> msgspec.Raw:
        """Import the folder's modules.

        Args:
            skip: Modules that are not imported, and why.
            report: Whether to describe the tools.
            deadline: When to give up, by the loop's clock, however quick each module is.

        Returns:
            The report, as JSON.

        Raises:
            LoadFailed: The folder could not be loaded; the host has ended.
        """
        request = Load(
            folder=str(self._folder.path),
            skip=skip,
            memory_bytes=self._limits.memory_bytes,
            report=report,
            variables=self.variables,
        )
        module: list[str] = [""]
        try:
            return await self._loaded(request, module, deadline)
        except TimeoutError:
            await self.end()
            reason = "It takes too long to load."
            if module[0]:
                limit = _seconds(self._limits.import_seconds)
                reason = (
                    f"Importing it takes longer than {limit}: move what it does into its functions."
                )
        except ConnectionLost:
            reason = f"While it was imported, its process {await self._end_of_tool_process()}."
        except ProtocolError as error:
            await self.end()
            reason = f"Its process answered something that can't be understood: {error}."
        except BaseException:
            await self.end()
            raise
        started = self._lifeline.started is not None
        raise LoadFailed(module[0] or None, reason, started=started)

    async def _loaded(self, request: Load, module: list[str], deadline: float) -> msgspec.Raw:
        """Send the request and wait; ``module[0]`` is the module being imported."""
        async with asyncio.timeout_at(min(deadline, self._in(self._limits.start_seconds))) as limit:
            await self._calls.send(frame(request))
            while True:
                answer = _decoded(await self._calls.receive(MAX_REPORT_BYTES))
                if isinstance(answer, Loaded):
                    return answer.report
                if isinstance(answer, Failed):
                    raise LoadFailed(None, answer.message)
                if not isinstance(answer, Loading):
                    raise ProtocolError("an answer before the question")
                module[0] = answer.module
                limit.reschedule(min(deadline, self._in(self._limits.import_seconds)))

    async def call(
        self, function: str, arguments: Mapping[str, Any], timeout: float, report: OnProgress
    ) -> ToolResult:
        """Call a function; failures are results, and may have ended the host.

        A cancellation ends the host, with all that the call has started.
        """
        try:
            request = frame(Call(function=function, arguments=dict(arguments)))
        except (UnicodeEncodeError, TypeError, ValueError, RecursionError) as error:
            return _failed(f"The arguments are not JSON: {error}", INVALID_ARGUMENTS)
        if len(request) > MAX_REQUEST_BYTES:
            most = f"{MAX_REQUEST_BYTES:,} bytes"
            return _failed(f"The arguments are larger than {most}.", INVALID_ARGUMENTS)
        self._output.begin(function)
        try:
            async with asyncio.timeout(timeout):
                await self._calls.send(request)
                answer = _decoded(await self._calls.receive(MAX_ANSWER_BYTES))
                while isinstance(answer, ToolProgress):
                    report(answer)
                    answer = _decoded(await self._calls.receive(MAX_ANSWER_BYTES))
                files = await self._files(function, answer)
            return self._result(function, answer, files)
        except TimeoutError:
            await self.end()
            return _failed(
                f"{function} took longer than {_seconds(timeout)} and was stopped", TIMED_OUT
            )
        except ConnectionLost:
            return _failed(f"{function} failed: the tool {await self._end_of_tool_process()}")
        except ProtocolError as error:
            await self.end()
            logger.warning("%s, %s: its tool process sent %s", self._folder.name, function, error)
            return _failed(f"{function} failed: the tool broke its connection to the server")
        except BaseException:
            await self.end()
            raise
        finally:
            if not self._output.is_closed:
                self._output.finish()

    async def end(self) -> None:
        """End all of its processes; returns when none is left, even when cancelled."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await to_the_end(self._ending)

    async def _end(self) -> None:
        self._lifeline.shut()
        seconds = self._deadline.within(self._limits.kill_seconds, CLOSE_SECONDS)
        if not await self._lifeline.closed(seconds):
            logger.error("%s: a host does not end; killing what is known", self._folder.name)
            self._kill()
            await self._lifeline.closed(_LAST_RESORT_SECONDS)
        if self._lifeline.left:
            pids = ", ".join(map(str, self._lifeline.left))
            logger.error(
                "%s: a tool left processes that can't be ended: %s", self._folder.name, pids
            )
        self._close()

    def _kill(self) -> None:
        if ids := self.process_ids:
            for kill, pid in ((os.kill, ids[0]), (os.killpg, ids[1])):
                with suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)

    def _close(self) -> None:
        self._lifeline.close()
        self._calls.finish()
        if not self._output.is_closed:
            self._output.finish()
            self._output.close()

    async def _end_of_tool_process(self) -> str:
        """End the host, whose tool process is gone, and say how it ended."""
        if self._ending is None:
            try:
                await self._lifeline.tool_process_ended(_LAST_WORDS_SECONDS)
            finally:
                await self.end()
            return _ending(self._lifeline)
        await self.end()
        return "was ended by the server"

    async def _files(self, function: str, answer: object) -> Sequence[ToolFile]:
        """Receive the files of an answer."""
        if not isinstance(answer, Returned) or not answer.files:
            return ()
        heads = answer.files
        sizes = [head.size for head in heads]
        most = MAX_FILES + (heads[-1].name == WHOLE_RESULT)
        if len(heads) > most or min(sizes) < 0 or sum(sizes) > MAX_FILES_BYTES:
            raise ProtocolError("more files than it may")
        self._calls.expect(sum(sizes) + HEADER.size * len(sizes))
        files = []
        for number, head in enumerate(heads, 1):
            data = await self._calls.receive(head.size)
            if len(data) != head.size:
                raise ProtocolError("a file of another size than it announced")
            name = head.name if head.name == WHOLE_RESULT else clean_name(head.name)
            files.append(ToolFile(name=name or file_name(function, number, data), data=data))
        self._calls.expect(0)
        return files

    def _result(self, function: str, answer: object, files: Sequence[ToolFile]) -> ToolResult:
        if isinstance(answer, Returned):
            # A tool process cuts it, unless the tool has taken the process over.
            text = cut(answer.text, limit=MAX_OUTPUT_BYTES + KIBIBYTE)
            return ToolResult(success=True, result=text, files=files)
        if not isinstance(answer, Failed) or answer.code not in (
            EXECUTION_FAILED,
            INVALID_ARGUMENTS,
        ):
            raise ProtocolError("no answer")
        self._worn = answer.worn
        if answer.traceback:
            words = printable_end(answer.traceback)
            logger.warning("%s, %s failed:\n%s", self._folder.name, function, words)
        return _failed(answer.message, answer.code)

    def _in(self, seconds: float) -> float:
        return asyncio.get_running_loop().time() + seconds


def _decoded(body: bytes) -> Loading | Loaded | Answer | ToolProgress:
    try:
        answer: Loading | Loaded | Answer | ToolProgress = answers.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(printable(str(error))) from error
    return answer


def _failed(message: str, code: str = EXECUTION_FAILED) -> ToolResult:
    return ToolResult(success=False, error_message=message[:_MAX_MESSAGE_CHARS], error_code=code)


def _seconds(number: float) -> str:
    return f"{number:g} second{'' if number == 1 else 's'}"


def _ending(lifeline: Lifeline) -> str:
    code = lifeline.exit_code
    if code is None:
        # Also when the reaper was killed: the tool process dies with it.
        return "broke its connection to the server"
    if code >= 0:
        return f"ended its process (exit code {code})"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal
        name = f"signal {-code}"
    if name == "SIGKILL":
        return "was killed (SIGKILL), perhaps because the memory ran out"
    return f"crashed ({name})"
