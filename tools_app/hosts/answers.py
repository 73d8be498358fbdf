"""Calls a function and turns its result or exception into an answer. Used in tool processes."""

import asyncio
import inspect
import os
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sessions_app.surrogates import join_surrogates
from tools_app.errors import EXECUTION_FAILED, INVALID_ARGUMENTS, ArgumentsInvalid
from tools_app.hosts.messages import MAX_FILES_BYTES, Answer, Failed, FileHead, Loaded, Returned
from tools_app.hosts.returned_files import text_and_files
from tools_app.output_limit import cut, whole_of
from tools_app.text import words_of

MAX_MESSAGE_CHARS = 2000
MAX_TRACEBACK_CHARS = 16_000
_CALLERS = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, asyncio.__file__))


class Reply(NamedTuple):
    """An answer, and the bytes of its files."""

    answer: Loaded | Answer
    files: Sequence[bytes] = ()


def answer(name: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Reply:
    """Call the function, which may be a coroutine function; never raises."""
    from tools_app.functions.schema import bind  # noqa: PLC0415 - preloaded

    try:
        bound = bind(function, arguments)
    except ArgumentsInvalid as error:
        return Reply(Failed(message=join_surrogates(str(error)), code=INVALID_ARGUMENTS))
    except BaseException as error:  # noqa: BLE001 - a validator of the user's own
        return Reply(failure(error))
    try:
        value = function(**bound)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        text, files = text_and_files(value, name)
        with_whole = [*files, *whole_of(text)]
        if sum(len(file.data) for file in with_whole) <= MAX_FILES_BYTES:
            files = with_whole
        heads = tuple(FileHead(name=file.name, size=len(file.data)) for file in files)
        return Reply(Returned(text=cut(text), files=heads), [file.data for file in files])
    except BaseException as error:  # noqa: BLE001 - sys.exit() in a tool, too, is a failure
        return Reply(failure(error))


def failure(error: BaseException) -> Failed:
    """Return an exception as a failure, for the model and the log."""
    worn = isinstance(error, MemoryError)
    if worn:
        traceback.clear_frames(error.__traceback__)  # which hold the objects that fill the memory
    return Failed(
        message=join_surrogates(words_of(error))[:MAX_MESSAGE_CHARS],
        code=EXECUTION_FAILED,
        traceback=join_surrogates(_traceback(error))[-MAX_TRACEBACK_CHARS:],
        worn=worn,
    )


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _traceback(error: BaseException) -> str:
    """Return the traceback from the first frame on that is not of what called the function."""
    begin = error.__traceback__
    while begin is not None and begin.tb_frame.f_code.co_filename.startswith(_CALLERS):
        begin = begin.tb_next
    try:
        begin = begin or error.__traceback__
        return "".join(traceback.format_exception(type(error), error, begin))
    except Exception as broken:  # noqa: BLE001 - an exception class of the user
        return f"(no traceback: {type(broken).__name__})"
