"""What the server and a host say to each other, and how it is written.

On the *call socket*, between server and worker: frames of a length (4 bytes, big-endian) and that
many bytes of JSON. On the *lifeline*, from the warden to the server: lines of JSON; the server
says nothing there but closes its direction when the host shall end.
"""

import struct
from collections.abc import Mapping
from typing import Any

import msgspec

from tools_app.hosts.limits import MEBIBYTE

MAX_REQUEST_BYTES = 4 * MEBIBYTE
MAX_ANSWER_BYTES = 1 * MEBIBYTE
MAX_REPORT_BYTES = 8 * MEBIBYTE

HEADER = struct.Struct("!I")


class Load(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """Import the folder's modules. The first request to a worker.

    Attributes:
        folder: The folder's path.
        skip: Modules that must not be imported, and why: ``{module: reason}``.
        memory_bytes: Limit of the address space; None for none.
        report: Whether the answer shall describe what is there.
    """

    folder: str
    skip: Mapping[str, str] = msgspec.field(default_factory=dict)
    memory_bytes: int | None = None
    report: bool = False


class Call(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    """Call a function with arguments as the model wrote them."""

    function: str
    arguments: Mapping[str, Any]


class Loading(msgspec.Struct, frozen=True, kw_only=True, tag="loading"):
    """The worker is about to import this module."""

    module: str


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag="loaded"):
    """The folder is loaded; ``report`` is JSON, if it was asked for."""

    report: msgspec.Raw = msgspec.Raw(b"null")


class Returned(msgspec.Struct, frozen=True, kw_only=True, tag="returned"):
    """The function returned this text."""

    text: str


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The function, or what it was asked, failed.

    Attributes:
        message: A sentence for the model.
        code: The ``error_code`` of the result.
        traceback: For the log.
        worn: Whether the worker should do no more work: it has run out of memory.
    """

    message: str
    code: str
    traceback: str = ""
    worn: bool = False


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The host's process ids; the worker leads a process group of its own."""

    warden: int
    worker: int


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """The worker ended by itself: ``exit_code``, or minus the number of the signal."""

    exit_code: int


class Left(msgspec.Struct, frozen=True, kw_only=True, tag="left"):
    """Processes that the warden may not or could not kill."""

    pids: list[int]


Request = Load | Call
Answer = Returned | Failed
News = Started | Ended | Left

requests = msgspec.json.Decoder(Load | Call)
answers = msgspec.json.Decoder(Loading | Loaded | Returned | Failed)
news = msgspec.json.Decoder(Started | Ended | Left)


def frame(message: msgspec.Struct) -> bytes:
    """Return the message as a frame.

    Raises:
        UnicodeEncodeError: A text of the message is not Unicode: a lone surrogate.
        TypeError: The message contains something that is not JSON.
        RecursionError: It is nested too deeply.
    """
    body = msgspec.json.encode(message)
    return HEADER.pack(len(body)) + body


def line(message: News) -> bytes:
    """Return the message as a line."""
    return msgspec.json.encode(message) + b"\n"
