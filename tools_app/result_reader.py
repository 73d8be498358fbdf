"""Implements `read_result`, by which models read long results that are kept whole."""

import asyncio
import json
import logging
import signal
import subprocess
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sessions_app.attachments.service import AttachmentService
from sessions_app.decoding import convert_to
from sessions_app.errors import AttachmentNotFound
from sessions_app.messages import ToolSpec
from sessions_app.short_process import answer_of
from tools_app import result_parts
from tools_app.errors import INVALID_ARGUMENTS, UNAVAILABLE, ToolNotFound
from tools_app.output_limit import result_id
from tools_app.toolset import ToolInvocation, ToolListing, ToolResult, ToolSelection

logger = logging.getLogger(__name__)


class ReadResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `read_result`."""

    id: Annotated[str, Meta(description="the id that the result names")]
    from_line: Annotated[int, Meta(ge=1, description="the first line, from 1")] | UnsetType = UNSET
    lines: Annotated[int, Meta(ge=1, le=2000, description="how many lines")] = 200
    from_byte: Annotated[int, Meta(ge=0, description="the first byte, from 0")] | UnsetType = UNSET
    bytes: Annotated[int, Meta(ge=1, le=result_parts.MOST_BYTES)] = result_parts.MOST_BYTES
    search: (
        Annotated[str, Meta(min_length=1, max_length=1000, description="a regular expression")]
        | UnsetType
    ) = UNSET
    context: Annotated[int, Meta(ge=0, le=10, description="lines around each match")] = 0


_OUT_OF_TIME = (-signal.SIGPROF, -signal.SIGXCPU)
_WAYS = ("from_line", "from_byte", "search")

READ_RESULT = ToolSpec(
    name="read_result",
    description=(
        "Read parts of a long result of a tool, of which only the beginning and the end were "
        "shown. Give from_line or from_byte to read on from there, or search for the lines that "
        "match a regular expression."
    ),
    parameters=msgspec.json.schema_components([ReadResult])[1]["ReadResult"],
)


class ResultReader:
    """A toolset of `read_result` alone, which is called and never listed.

    Args:
        files: The attachments, which the results are among.
    """

    def __init__(self, files: AttachmentService) -> None:
        self._files = files

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:  # noqa: ARG002
        """Return no tools: turns offer it by themselves."""
        return ToolListing()

    async def call_tool(self, invocation: ToolInvocation) -> ToolResult:
        """Read a part of one of the invocation's results.

        Raises:
            ToolNotFound: Another tool is called.
            StorageError: The result can't be read.
        """
        if invocation.results is None:
            raise ToolNotFound(invocation.name)
        try:
            arguments = convert_to(invocation.arguments, ReadResult)
        except msgspec.ValidationError as error:
            return _failed(f"{error}.")
        question = msgspec.to_builtins(arguments)
        if len(question.keys() & _WAYS) > 1:
            return _failed(f"Give only one of {', '.join(_WAYS)}.")
        if not question.keys() & set(_WAYS):
            question["from_line"] = 1
        for attachment in invocation.results:
            if result_id(attachment.id) == arguments.id:
                try:
                    data = await self._files.read(attachment.id)
                except AttachmentNotFound:
                    return _failed("This result is not kept any more: call its tool again.")
                return await asyncio.to_thread(_read, question, data)
        known = ", ".join(dict.fromkeys(result_id(each.id) for each in invocation.results))
        return _failed(f"This session has no result {arguments.id!r}; it has: {known or 'none'}.")


def _read(question: dict[str, object], data: bytes) -> ToolResult:
    """Read in a process, which a pattern can't hold up for long. Blocks."""
    try:
        head = json.dumps(question).encode()
        answer = json.loads(answer_of(result_parts.__name__, head + b"\n" + data))
    except (OSError, subprocess.SubprocessError) as error:
        is_late = isinstance(error, subprocess.TimeoutExpired)
        if is_late or getattr(error, "returncode", 0) in _OUT_OF_TIME:
            return _failed("The search took longer than a second: use a simpler pattern.")
        logger.warning("a long result could not be read: %s", error)
        return _failed("The result can't be read just now. Try again.", UNAVAILABLE)
    if "fault" in answer:
        return _failed(answer["fault"])
    return ToolResult(success=True, result=answer["part"])


def _failed(message: str, code: str = INVALID_ARGUMENTS) -> ToolResult:
    return ToolResult(success=False, error_message=message[:2000], error_code=code)
