"""Runs a function for the model and makes text of what comes of it. Runs in workers only."""

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tools_app.errors import EXECUTION_FAILED
from tools_app.hosts.messages import Answer, Failed, Returned
from tools_app.output import cut

MAX_MESSAGE_CHARS = 2000
MAX_TRACEBACK_CHARS = 16_000


def answer(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Answer:
    """Call the function, coroutine functions too, and tell what came of it. Never raises."""
    try:
        value = function(**arguments)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        return Returned(text=cut(text_of(value)))
    except BaseException as error:  # noqa: BLE001 - sys.exit() in a tool is a failure of the tool
        return failure(error)


def text_of(value: object) -> str:
    """Return what a function returned as text: a text as it is, anything else as JSON.

    What is no JSON is written as Python's ``str`` writes it. Raises what the value's own methods
    raise.
    """
    if not isinstance(value, str):
        value = _decoded(value) if isinstance(value, _BYTES) else _json(value)
    return clean(value)


def clean(text: str) -> str:
    """Return the text as Unicode: a lone surrogate is replaced by ``?``."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def failure(error: BaseException) -> Failed:
    """Return what the model and the log are told of an exception."""
    worn = isinstance(error, MemoryError)
    if worn:
        traceback.clear_frames(error.__traceback__)  # which hold what filled the memory
    return Failed(
        message=clean(_words(error))[:MAX_MESSAGE_CHARS],
        code=EXECUTION_FAILED,
        traceback=clean(_traceback(error))[-MAX_TRACEBACK_CHARS:],
        worn=worn,
    )


_BYTES = (bytes, bytearray, memoryview)


def _decoded(data: bytes | bytearray | memoryview) -> str:
    return bytes(data).decode("utf-8", errors="replace")


def _json(value: object) -> str:
    from pydantic_core import PydanticSerializationError, to_json  # noqa: PLC0415 - preloaded

    try:
        return to_json(value, serialize_unknown=True).decode("utf-8")
    # Bytes that are no UTF-8, a lone surrogate, a list that contains itself.
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return str(value)


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _words(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        words = str(error)
    except Exception as broken:  # noqa: BLE001 - an exception class of somebody else
        return f"{kind} (whose text can't be shown: {type(broken).__name__})"
    return f"{kind}: {words}" if words else kind


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, limit=-20))
    except Exception as broken:  # noqa: BLE001 - an exception class of somebody else
        return f"(no traceback: {type(broken).__name__})"
