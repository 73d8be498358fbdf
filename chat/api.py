"""Serves the chat routes: parses requests, starts and finds turns, encodes the answers."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import msgspec
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Header, Query, Status

from chat.approvals.schemas import ConfirmationOut
from chat.errors import TurnCrashed
from chat.http.context_schemas import ContextOut
from chat.http.context_view import context_of
from chat.http.event_stream import EventStream, EventStreamBody
from chat.http.openapi import STREAM
from chat.http.request_schemas import ChatIn, IdempotencyKey, OpenChatIn
from chat.http.schemas import (
    BatchMetadata,
    CancelOut,
    ChatOut,
    OpenChatOut,
    SuspendedOut,
)
from chat.http.sse import read_event_id
from chat.http.status import offered_tools, status_of, usage_of_session
from chat.http.status_schemas import StatusOut
from chat.inbox.queued_stream import QueuedStream
from chat.inbox.schemas import QueuedOut
from chat.inbox.service import InboxService, QueuedMessage
from chat.registry import TurnRegistry
from chat.service import ChatRequest
from chat.settings import ChatSettings
from chat.start.preparation import TurnPreparer
from chat.start.turn_request import TurnRequest
from chat.turn.outcome import Outcome
from chat.turn.state_machine import State
from mochi_project.app import service
from mochi_project.http.clients import client_of
from mochi_project.http.large_json import answer_by_reading
from mochi_project.routing import Router, needs
from models_app.catalogue import ModelCatalogue
from models_app.language_model import ModelInfo
from models_app.window_sizes import LoadedWindow
from sessions_app.attachments.intake import resolve
from sessions_app.attachments.service import AttachmentService
from sessions_app.edits import Rewind
from sessions_app.errors import ValidationFailed
from sessions_app.http.error_schemas import ENVELOPE
from sessions_app.ids_and_clock import utc_now
from sessions_app.inbox import WhenBusy
from sessions_app.messages import Attachment, unmark_cancelled, usage_of
from sessions_app.service import SessionManager
from sessions_app.settings import SessionsSettings
from tools_app.available_tools import AvailableTools

router = Router(scope="read", changes="chat", tags=["chat"])

Waits = Status[SuspendedOut] | HttpResponse
"""Answers of turns that wait for a person, and of messages that wait for a turn."""

ERRORS: dict[Any, Any] = {
    (402, 404, 409, 422, 500, 502, 503, 507): ENVELOPE,
}


@router.post(
    "/chat",
    operation_id="chat",
    summary="Chat, and make the session if there is none",
    response={200: OpenChatOut, 202: SuspendedOut | QueuedOut, **ERRORS},
    by_alias=True,
)
async def chat(
    request: HttpRequest, body: OpenChatIn, idempotency_key: IdempotencyKey = None
) -> OpenChatOut | Waits:
    """Send a message and wait for the whole answer. Without `session_id` a session is made.

    `response` repeats the text of `message`, for older clients.

    202: a tool needs approval, or the message waits, as in `POST /chat/{session_id}`.
    """
    asked = await _asked(body, body.session_id, body.model)
    reply = await _whole_turn(request, asked, idempotency_key, body.when_busy)
    if not isinstance(reply, ChatOut):
        return reply
    answer = reply.message
    return OpenChatOut(
        **dict(reply), response=answer.content, model=answer.model, metadata=BatchMetadata()
    )


@router.post(
    "/chat/stream",
    operation_id="chat_stream",
    summary="Chat as a stream, and make the session if there is none",
    response={200: None, 202: QueuedOut, **ERRORS},
    openapi_extra=STREAM,
)
async def chat_stream(
    request: HttpRequest, body: OpenChatIn, idempotency_key: IdempotencyKey = None
) -> HttpResponseBase:
    """Like `POST /chat/{session_id}/stream`; without `session_id` a session is made.

    The first event, `turn_started`, names the session.
    """
    asked = await _asked(body, body.session_id, body.model)
    return await _streamed_turn(request, asked, idempotency_key, body.when_busy)


@router.post(
    "/chat/{session_id}",
    operation_id="chat_in_session",
    summary="Chat in a session",
    response={200: ChatOut, 202: SuspendedOut | QueuedOut, **ERRORS},
    by_alias=True,
)
async def chat_in_session(
    request: HttpRequest,
    session_id: str,
    body: ChatIn,
    idempotency_key: IdempotencyKey = None,
) -> ChatOut | Waits:
    """Send a message and wait for the whole answer.

    Without a message, the answer to the last user message is made again, or resumed. A turn runs
    already: 409 `SESSION_BUSY`, or with `when_busy` 202 with `queued`: the message is saved and
    waits, and `GET /chat/{session_id}/stream?queued=` streams its answer. A tool needs approval:
    202 with `pending_confirmations`, and the turn has ended; answer with `confirm-tool`, then send
    a request without a message.
    """
    asked = await _asked(body, session_id)
    return await _whole_turn(request, asked, idempotency_key, body.when_busy)


@router.post(
    "/chat/{session_id}/stream",
    operation_id="chat_stream_in_session",
    summary="Chat in a session as a stream",
    response={200: None, 202: QueuedOut, **ERRORS},
    openapi_extra=STREAM,
)
async def chat_stream_in_session(
    request: HttpRequest,
    session_id: str,
    body: ChatIn,
    idempotency_key: IdempotencyKey = None,
) -> HttpResponseBase:
    """Send a message and get the answer as server-sent events, token by token.

    What fails before the first event is a plain error; later failures are an `error` event. The
    stream always ends with exactly one `done`. 202: with `when_busy`, the message waits, as in
    `POST /chat/{session_id}`.
    """
    asked = await _asked(body, session_id)
    return await _streamed_turn(request, asked, idempotency_key, body.when_busy)


@router.post(
    "/chat/{session_id}/cancel",
    operation_id="cancel_turn",
    summary="Stop the running turn",
    response={200: CancelOut, (404, 409, 422, 500, 503): ENVELOPE},
)
async def cancel_turn(request: HttpRequest, session_id: str) -> CancelOut:
    """Stop the turn, from any connection and any worker, and return what there was of the answer.

    Answers once the model's connection is closed and the partial answer is saved. 409
    `NO_ACTIVE_TURN`: nothing runs, or the turn ended by itself just now.
    """
    return CancelOut.model_validate(await service(TurnRegistry).cancel(session_id))


@router.get(
    "/chat/{session_id}/stream",
    operation_id="reattach",
    summary="Pick a stream up again",
    response={200: None, 204: None, (404, 422, 500): ENVELOPE},
    openapi_extra=STREAM,
)
@needs(scope="chat")
async def reattach(
    request: HttpRequest,
    session_id: str,
    after: Annotated[
        str | None, Query(description="The id of the last event that was received")
    ] = None,
    queued: Annotated[
        str | None, Query(description="A queued message; its answer is streamed, once it begins")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The same, as a header")
    ] = None,
) -> HttpResponseBase:
    """Send every event after the given one, of the running or else the last turn.

    Without an event id, or with one of another turn, the whole turn is sent. 204: nothing is left
    to send and no message waits to be answered, or there was no turn. 422: the running turn has no
    such event yet. A turn that a client re-attached to goes on without listeners.
    """
    if queued is not None:
        return _stream_of_queued(await service(InboxService).listen(session_id, queued))
    by_header, by_query = _position(last_event_id), _position(after)
    listener = await service(TurnRegistry).attach(
        session_id, by_header if after is None else by_query
    )
    if listener is not None:
        return EventStream(EventStreamBody(listener, listener.close))
    waiting = await service(InboxService).listen_to_next(session_id)
    return HttpResponse(status=204) if waiting is None else _stream_of_queued(waiting)


@router.get(
    "/sessions/{session_id}/status",
    operation_id="get_session_status",
    summary="Status of a session",
    response={200: StatusOut, (404, 500): ENVELOPE},
)
async def get_session_status(request: HttpRequest, session_id: str) -> StatusOut:
    """Return the session's settings, its context window, and the turn that runs on it."""
    session = await asyncio.to_thread(service(SessionManager).get, session_id)
    active = await service(TurnRegistry).active(session_id)
    # A session can be read although its model was removed.
    model = await service(ModelCatalogue).look_up(session.metadata.model, must_exist=False)
    return status_of(
        session,
        active,
        max_context=model.context_length if model else None,
        dynamic_allowed=_may_grow(model),
        active_tools=await offered_tools(session, service(TurnPreparer)),
        usage=await asyncio.to_thread(usage_of_session, session),
    )


@router.get(
    "/sessions/{session_id}/context",
    operation_id="get_session_context",
    summary="What the next request would send",
    response={200: ContextOut, (404, 500, 503): ENVELOPE},
)
async def get_session_context(request: HttpRequest, session_id: str) -> HttpResponseBase:
    """Return which messages would be sent, which not and why, and what that costs.

    Everything but the message that is not written yet. No model is called.
    """
    session = await asyncio.to_thread(service(SessionManager).get, session_id)
    model = await service(ModelCatalogue).look_up(session.metadata.model, must_exist=False)
    loaded = await service(ModelCatalogue).loaded_window(session.metadata.model)
    offered = await service(TurnPreparer).available_tools_of(session, model)
    del session  # read again: it may be large, and its answer may have to wait
    return await answer_by_reading(lambda: _context(session_id, model, offered, loaded))


def _context(
    session_id: str,
    model: ModelInfo | None,
    tools: AvailableTools,
    loaded: LoadedWindow | None,
) -> dict[str, Any]:
    session, preparer = service(SessionManager).get(session_id), service(TurnPreparer)
    rules = preparer.rules(session, model)
    return context_of(
        session,
        rules=msgspec.structs.replace(rules, instructions=tools.system_text),
        tools=tools.specs,
        window_for=partial(preparer.windows.choose, session, model, loaded=loaded),
        now=utc_now(),
    )


def _may_grow(model: ModelInfo | None) -> bool:
    """Return whether the window of a session with this model may grow by itself."""
    allowed = service(ChatSettings).dynamic_context_window_enabled
    return allowed and (model is None or model.takes_window)


def _position(event_id: str | None) -> tuple[str, int] | None:
    """Read an event id; an empty one is none, as browsers send it."""
    if not event_id:
        return None
    position = read_event_id(event_id)
    if position is None:
        raise ValidationFailed(
            "An event id looks like 0199f3a2b4c51f2e3d4c:12; send back one that was received.",
            field="after",
        )
    return position


async def _asked(body: ChatIn, session_id: str | None, model: str | None = None) -> ChatRequest:
    attachments: tuple[Attachment, ...] = ()
    if body.attachments:
        most = service(SessionsSettings).max_attachments
        attachments = await resolve(service(AttachmentService), body.attachments, max_count=most)
    schema = await body.response_format.checked_schema() if body.response_format else None
    turn = TurnRequest(
        message=body.message,
        attachments=attachments,
        think=body.think,
        selected_tools=body.selected_tools,
        detached=bool(body.detached),
        on_crash=body.on_crash,
        answer_schema=schema,
        requires_fit=schema is not None,
    )
    if body.message_id is not None:
        if session_id is None:
            raise ValidationFailed(
                "message_id is a message of a session: send session_id, too.", field="message_id"
            )
        kept = attachments if body.attachments is not None else None
        content = "" if body.message is None and attachments else body.message
        to = Rewind(message_id=body.message_id, content=content, attachments=kept)
        turn = msgspec.structs.replace(turn, message=None, attachments=(), rewind=to)
    return ChatRequest(turn=turn, session_id=session_id, model=model)


async def _streamed_turn(
    request: HttpRequest, chat_request: ChatRequest, key: str | None, when_busy: WhenBusy | None
) -> HttpResponseBase:
    turn = await service(InboxService).open(
        chat_request, key, when_busy=when_busy, client=client_of(request)
    )
    if isinstance(turn, QueuedMessage):
        return _queued(turn)
    return EventStream(EventStreamBody(turn.listener, turn.leave), turn.committed)


def _stream_of_queued(stream: QueuedStream) -> HttpResponseBase:
    return EventStream(EventStreamBody(stream, stream.close))


def _queued(message: QueuedMessage) -> HttpResponse:
    body = QueuedOut.of(message).model_dump_json(exclude_none=True)
    return HttpResponse(body, status=202, content_type="application/json; charset=utf-8")


async def _whole_turn(
    request: HttpRequest, chat_request: ChatRequest, key: str | None, when_busy: WhenBusy | None
) -> ChatOut | Waits:
    suspended = msgspec.structs.replace(chat_request.turn, approvals="suspend")
    unheard = msgspec.structs.replace(chat_request, turn=suspended)
    turn = await service(InboxService).open(
        unheard, key, when_busy=when_busy, client=client_of(request)
    )
    if isinstance(turn, QueuedMessage):
        return _queued(turn)
    turn.listener.close()  # the stream is not read
    try:
        outcome = await turn.finished()
    except asyncio.CancelledError:
        turn.leave()
        raise
    return _reply(turn.session_id, outcome, is_json=chat_request.turn.requires_fit)


def _reply(session_id: str, outcome: Outcome, *, is_json: bool) -> ChatOut | Waits:
    if outcome.error is not None:
        raise outcome.error
    if outcome.state is State.SUSPENDED:
        asked = [ConfirmationOut.of(each) for each in outcome.confirmations]
        suspended = {
            "session_id": session_id,
            "pending_confirmations": asked,
            "tool_calls_executed": outcome.tool_calls,
        }
        return Status(202, SuspendedOut.model_validate(suspended))
    if outcome.message is None or outcome.state not in {State.COMPLETED, State.CANCELLED}:
        raise TurnCrashed
    message = msgspec.structs.asdict(outcome.message) | {"usage": usage_of(outcome.message)}
    if is_json and outcome.has_answer:
        with suppress(msgspec.DecodeError):  # a request sent again, whose answer was edited since
            message["parsed"] = msgspec.json.decode(outcome.message.content)
    if outcome.message.cancelled:
        message["content"] = unmark_cancelled(outcome.message.content)
    return ChatOut.model_validate(
        {
            "session_id": session_id,
            "message": message,
            "tool_calls_executed": outcome.tool_calls,
            "context_window": outcome.context_window,
            "cancelled": outcome.state is State.CANCELLED,
            "turn_usage": outcome.usage,
        }
    )
