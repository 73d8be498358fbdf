"""Defines the messages between the server and a host, and their encoding.

*Call socket*, between server and tool process: frames of a length (4 bytes, big-endian) and that
many bytes of JSON; the files of an answer follow it, each in a frame of its bare bytes.
*Lifeline*, from the reaper to the server: lines of JSON; the server sends nothing, and closes its
direction to end the host.
"""

import struct
from collections.abc import Mapping
from typing import Any

import msgspec

from sessions_app.decoding import decoder_of
from tools_app.limits import MEBIBYTE
from tools_app.toolset import ToolProgress

MAX_REQUEST_BYTES = 4 * MEBIBYTE
MAX_ANSWER_BYTES = 1 * MEBIBYTE
MAX_REPORT_BYTES = 8 * MEBIBYTE
MAX_FILES = 100
MAX_FILES_BYTES = 32 * MEBIBYTE
"""The files of one answer together, with the whole of a long text."""

HEADER = struct.Struct("!I")


class Load(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """Import the folder's modules. The first request to a tool process.

    Attributes:
        folder: The folder's path.
        skip: Modules that must not be imported, and why: ``{module: reason}``.
        memory_bytes: Limit of the address space; None for none.
        report: Whether the answer shall describe the tools.
        variables: Environment variables in addition to the fork server's.
    """

    folder: str
    skip: Mapping[str, str] = msgspec.field(default_factory=dict)
    memory_bytes: int | None = None
    report: bool = False
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)


class Call(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    """Call a function with the arguments that the model passed."""

    function: str
    arguments: Mapping[str, Any]


class Loading(msgspec.Struct, frozen=True, kw_only=True, tag="loading"):
    """The tool process begins to import this module."""

    module: str


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag="loaded"):
    """The folder is loaded; ``report`` is JSON, if it was asked for."""

    report: msgspec.Raw = msgspec.Raw(b"null")


class FileHead(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an answer; its bytes follow the answer."""

    name: str
    size: int


class Returned(msgspec.Struct, frozen=True, kw_only=True, tag="returned", omit_defaults=True):
    """The function returned this text, cut if it is long, and these files."""

    text: str
    files: tuple[FileHead, ...] = ()


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The request failed, or the function did.

    Attributes:
        message: A sentence for the model.
        code: The ``error_code`` of the result.
        traceback: For the log.
        worn: Whether the tool process must not be used again: it ran out of memory.
    """

    message: str
    code: str
    traceback: str = ""
    worn: bool = False


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The host's process ids; the tool process leads a process group of its own."""

    reaper: int
    tool_process: int


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """The tool process ended by itself: ``exit_code``, or minus the number of the signal."""

    exit_code: int


class Left(msgspec.Struct, frozen=True, kw_only=True, tag="left"):
    """Some processes could not be killed, or belong to another user."""

    pids: list[int]


Request = Load | Call
Answer = Returned | Failed
Report = Started | Ended | Left

requests = decoder_of(Load | Call)
answers = decoder_of(Loading | Loaded | Returned | Failed | ToolProgress)
reports = decoder_of(Started | Ended | Left)


def frame(message: msgspec.Struct) -> bytes:
    """Return the message as a frame.

    Raises:
        UnicodeEncodeError: A text of the message is not Unicode: a lone surrogate.
        TypeError: The message contains a value that is not JSON.
        RecursionError: It is nested too deeply.
    """
    body = msgspec.json.encode(message)
    return HEADER.pack(len(body)) + body


def line(message: Report) -> bytes:
    """Return the message as a line."""
    return msgspec.json.encode(message) + b"\n"
