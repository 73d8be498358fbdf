"""Reads the questions of servers, finds the calls that they belong to, and writes the answers.

Importing this module imports the SDK.
"""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp.client.session import ClientRequestContext

from tools_app.elicitation import (
    MAX_STATE_BYTES,
    AskPerson,
    ElicitationRefused,
    InputAnswer,
    InputNeeded,
    InputRequest,
    flat_schema,
    safe_url,
)
from tools_app.mcp.remote import RemoteError, mapping

CALL = "mochi-server/call"
"""The key, in the ``_meta`` of a question, of the id of the request in whose answer it came."""
_MAX_REQUESTS = 100
NOT_OFFERED = {"sampling/createMessage": "sampling", "roots/list": "roots"}
"""The requests of servers that are not offered, by method."""


class _OpenCall:
    """Represents a call that runs, and the questions of its server about it.

    They are asked in the context of the call, and end with it.
    """

    def __init__(self, ask: AskPerson) -> None:
        self._ask = ask
        self._context = contextvars.copy_context()
        self._questions: set[asyncio.Task[InputAnswer]] = set()
        self.ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """When it ends: whether it was cancelled, maybe while a question waited for its answer."""

    async def ask(self, request: InputRequest) -> InputAnswer:
        if self.ended.done():
            return InputAnswer(action="cancel")
        task = asyncio.create_task(self._ask(request), context=self._context)
        self._questions.add(task)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            self._questions.discard(task)
        return InputAnswer(action="cancel") if task.cancelled() else task.result()

    def end(self, *, is_cancelled: bool) -> None:
        self.ended.set_result(is_cancelled)
        for task in self._questions:
            task.cancel()


_CURRENT: contextvars.ContextVar[_OpenCall | None] = contextvars.ContextVar("call", default=None)


class OpenCalls:
    """Knows the calls that run on a connection, by the ids of their requests.

    Attributes:
        refused: How often the server has asked for what is not offered.
    """

    def __init__(self) -> None:
        self.refused = Counter[str]()
        self._calls: dict[str, _OpenCall] = {}

    @contextmanager
    def running(self, ask: AskPerson) -> Iterator[None]:
        """Let the server ask a person during the call in the body."""
        call = _OpenCall(ask)
        token, is_cancelled = _CURRENT.set(call), False
        try:
            yield
        except asyncio.CancelledError:
            is_cancelled = True
            raise
        finally:
            _CURRENT.reset(token)
            self._calls = {key: each for key, each in self._calls.items() if each is not call}
            call.end(is_cancelled=is_cancelled)

    def sent(self, request_id: object) -> None:
        """Note the id of the request for the call of the current task."""
        if (call := _CURRENT.get()) is not None:
            self._calls[str(request_id)] = call

    async def answer(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Ask a person for the server of a running call, and return the answer."""
        try:
            request = _request(params.model_dump(by_alias=True))
        except ElicitationRefused as refused:
            return types.ErrorData(code=types.INVALID_PARAMS, message=str(refused))
        call = await self._asking(str(mapping(context.meta).get(CALL, "")))
        return result_of_answer(
            InputAnswer(action="cancel") if call is None else await call.ask(request)
        )

    async def _asking(self, request_id: str) -> _OpenCall | None:
        """Return the call with a question, so that no other session's person is asked.

        Programs don't say which one it is. It does not end by itself before it has its answer, so
        it is the last one of those that ran when the question came; unknown once one is cancelled.
        """
        if request_id:
            return self._calls.get(request_id)
        calls = set(self._calls.values())
        while len(calls) > 1:
            ends = [each.ended for each in calls]
            done, _ = await asyncio.wait(ends, return_when="FIRST_COMPLETED")
            if any(end.result() for end in done):
                return None
            calls = {each for each in calls if not each.ended.done()}
        return calls.pop() if calls else None


def refusals(features: Iterable[str]) -> list[str]:
    """Return a sentence for each feature that a server asked for, and is not offered."""
    return [f"It asked for {each}, which is not offered." for each in dict.fromkeys(features)]


def result_of_answer(answer: InputAnswer) -> types.ElicitResult:
    """Return an answer as servers get it."""
    content = None if answer.content is None else dict(answer.content)
    return types.ElicitResult(action=answer.action, content=content)


def needed_by_result(result: Mapping[str, Any]) -> InputNeeded:
    """Return what a call needs that has ended with ``input_required`` (from 2026-07-28 on).

    Raises:
        RemoteError: It needs something that is not offered.
    """
    state, requests = result.get("requestState"), mapping(result.get("inputRequests"))
    if state is not None and not isinstance(state, str):
        raise RemoteError("It asks for input with a state that is no text.")
    if len((state or "").encode(errors="replace")) > MAX_STATE_BYTES:
        raise RemoteError("It asks for input with a state that is too large.")
    if (not requests and state is None) or len(requests) > _MAX_REQUESTS:
        raise RemoteError(f"It asks for input, and sends {len(requests)} questions.")
    for raw in requests.values():
        method = str(mapping(raw).get("method"))
        if method != "elicitation/create":
            raise RemoteError(*refusals([NOT_OFFERED.get(method, "something unknown")]))
    return InputNeeded(
        requests=_requests({key: mapping(raw).get("params") for key, raw in requests.items()}),
        request_state=state,
    )


def needed_by_error(data: object) -> InputNeeded:
    """Return the addresses that a person has to open before a call works (-32042).

    Raises:
        RemoteError: It names none, or such as people are not shown.
    """
    asked = mapping(data).get("elicitations")
    if not isinstance(asked, list) or not 0 < len(asked) <= _MAX_REQUESTS:
        raise RemoteError("It asks to open an address, and names none.")
    by_number = {str(number): {**mapping(each), "mode": "url"} for number, each in enumerate(asked)}
    return InputNeeded(requests=_requests(by_number), repeats_plainly=True)


def _requests(params: Mapping[str, object]) -> Mapping[str, InputRequest]:
    try:
        return {key: _request(mapping(each)) for key, each in params.items()}
    except ElicitationRefused as refused:
        raise RemoteError(str(refused)) from refused


def _request(params: Mapping[str, Any]) -> InputRequest:
    message = params.get("message")
    message = message if isinstance(message, str) else ""
    if params.get("mode") == "url":
        return InputRequest(message=message, url=safe_url(params.get("url")))
    return InputRequest(message=message, schema=flat_schema(params.get("requestedSchema")))
