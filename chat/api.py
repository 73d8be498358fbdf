"""The chat routes: parse, call the registry of turns, encode."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from chat import sse
from chat.engine import Outcome
from chat.errors import NoActiveTurn, TurnCrashed
from chat.openapi import STREAM
from chat.preparation import TurnRequest
from chat.schemas import (
    CancelReply,
    ChatReply,
    ChatRequest,
    OpenChatReply,
    OpenChatRequest,
    Stopped,
)
from chat.stream import Subscription
from chat.turn import State
from chat.turns import LiveTurn
from mochi_project.services import get_services
from sessions_app.errors import ValidationFailed
from sessions_app.messages import unmark_cancelled
from sessions_app.schemas import ErrorResponse

router = Router(tags=["chat"])

ERRORS: dict[Any, Any] = {
    (404, 409, 422, 500, 502, 503, 507): ErrorResponse,
}


@router.post(
    "/chat",
    operation_id="chat",
    summary="Chat, and make the session if there is none",
    response={200: OpenChatReply, **ERRORS},
)
async def chat(request: HttpRequest, body: OpenChatRequest) -> OpenChatReply:
    """Send a message and wait for the whole answer. Without `session_id` a session is made."""
    session_id = await _session_of(body)
    reply = await _whole_turn(session_id, body)
    return OpenChatReply(**dict(reply), response=reply.message.content, model=reply.message.model)


@router.post(
    "/chat/stream",
    operation_id="chat_stream",
    summary="Chat as a stream, and make the session if there is none",
    response={200: None, **ERRORS},
    openapi_extra=STREAM,
)
async def chat_stream(request: HttpRequest, body: OpenChatRequest) -> StreamingHttpResponse:
    """Like `POST /chat/{session_id}/stream`; without `session_id` a session is made.

    The first event, `turn_started`, names the session.
    """
    return await _streamed_turn(await _session_of(body), body)


@router.post(
    "/chat/{session_id}",
    operation_id="chat_in_session",
    summary="Chat in a session",
    response={200: ChatReply, **ERRORS},
)
async def chat_in_session(request: HttpRequest, session_id: str, body: ChatRequest) -> ChatReply:
    """Send a message and wait for the whole answer.

    Without a message, the answer to the last user message is made again, or resumed.
    """
    return await _whole_turn(session_id, body)


@router.post(
    "/chat/{session_id}/stream",
    operation_id="chat_stream_in_session",
    summary="Chat in a session as a stream",
    response={200: None, **ERRORS},
    openapi_extra=STREAM,
)
async def chat_stream_in_session(
    request: HttpRequest, session_id: str, body: ChatRequest
) -> StreamingHttpResponse:
    """Send a message and get the answer as server-sent events, token by token.

    What fails before the first event is a plain error; later failures are an `error` event. The
    stream always ends with exactly one `done`.
    """
    return await _streamed_turn(session_id, body)


@router.post(
    "/chat/{session_id}/cancel",
    operation_id="cancel_turn",
    summary="Stop the running turn",
    response={200: CancelReply, (404, 409, 422, 500, 503): ErrorResponse},
)
async def cancel_turn(request: HttpRequest, session_id: str) -> CancelReply:
    """Stop the session's running turn, from any connection, and return what there was of it."""
    turn_id, outcome = await get_services().turns.cancel(session_id)
    if outcome.message is None:
        raise NoActiveTurn(session_id)
    return CancelReply(
        turn_id=turn_id,
        partial_content=unmark_cancelled(outcome.message.content),
        stopped=Stopped(**outcome.stopped),
    )


async def _session_of(body: OpenChatRequest) -> str:
    """Return the request's session, made now if it names none."""
    if body.session_id is not None:
        return body.session_id
    if body.model is None:
        raise ValidationFailed("Name a session_id, or a model for a new session.", field="model")
    if body.message is None:
        raise ValidationFailed("A new session needs a message.", field="message")
    session = await get_services().create_session(model=body.model, tools=body.selected_tools)
    return session.session_id


def _turn_request(body: ChatRequest) -> TurnRequest:
    return TurnRequest(
        message=body.message,
        think=body.think,
        selected_tools=body.selected_tools,
        detached=body.detached,
    )


async def _streamed_turn(session_id: str, body: ChatRequest) -> StreamingHttpResponse:
    turn = await get_services().turns.start(session_id, _turn_request(body))
    subscription = turn.first_subscription
    try:
        await turn.committed()
    except BaseException:
        turn.leave(subscription)
        raise
    response = StreamingHttpResponse(
        _deliver(turn, subscription), content_type="text/event-stream; charset=utf-8"
    )
    response.headers["Cache-Control"] = "no-cache, no-transform"
    response.headers["X-Accel-Buffering"] = "no"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


async def _deliver(turn: LiveTurn, subscription: Subscription) -> AsyncGenerator[bytes, None]:
    """Yield the turn's frames as they come, each chunk with everything that waits."""
    try:
        first = sse.RETRY
        while chunk := await subscription.next():
            yield first + chunk if first else chunk
            first = b""
    finally:
        turn.leave(subscription)


async def _whole_turn(session_id: str, body: ChatRequest) -> ChatReply:
    turn = await get_services().turns.start(session_id, _turn_request(body))
    try:
        outcome = await turn.finished()
    except asyncio.CancelledError:
        turn.leave(turn.first_subscription)
        raise
    finally:
        turn.first_subscription.close()
    return _reply(session_id, outcome)


def _reply(session_id: str, outcome: Outcome) -> ChatReply:
    if outcome.error is not None:
        raise outcome.error
    if outcome.message is None or outcome.state not in {State.COMPLETED, State.CANCELLED}:
        raise TurnCrashed
    message = msgspec.structs.asdict(outcome.message)
    return ChatReply.model_validate(
        {
            "session_id": session_id,
            "message": message,
            "tool_calls_executed": outcome.tool_calls,
            "context_window": outcome.context_window,
        }
    )
