"""Calls a function for the model and tells what came of it. Runs in workers only."""

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sessions_app.surrogates import join_surrogates
from tools_app.errors import EXECUTION_FAILED
from tools_app.hosts.messages import Answer, Failed, Returned
from tools_app.text import cut, text_of, words_of

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


def failure(error: BaseException) -> Failed:
    """Return what the model and the log are told of an exception."""
    worn = isinstance(error, MemoryError)
    if worn:
        traceback.clear_frames(error.__traceback__)  # which hold what filled the memory
    return Failed(
        message=join_surrogates(words_of(error))[:MAX_MESSAGE_CHARS],
        code=EXECUTION_FAILED,
        traceback=join_surrogates(_traceback(error))[-MAX_TRACEBACK_CHARS:],
        worn=worn,
    )


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, limit=-20))
    except Exception as broken:  # noqa: BLE001 - an exception class of somebody else
        return f"(no traceback: {type(broken).__name__})"
