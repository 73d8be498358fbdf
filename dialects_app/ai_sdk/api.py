"""Serves the routes for the AI SDK (``useChat``): parses, calls, encodes."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from ninja import Path

from chat.http.request_schemas import IdempotencyKey
from dialects_app.ai_sdk import openapi
from dialects_app.ai_sdk.body import CHAT_ID_PATTERN, UIChatIn
from dialects_app.shared.assembly import assembled
from dialects_app.shared.body import read_body
from mochi_project.errors.statuses import ERROR_HEADER, seconds_before_retry, status_of_error
from mochi_project.http.clients import client_of
from mochi_project.routing import Router, needs
from sessions_app.errors import MochiError
from sessions_app.http.error_schemas import ENVELOPE

if TYPE_CHECKING:
    from dialects_app.ai_sdk.chats import UIChats

router = Router(scope="read", changes="chat", tags=["AI SDK"])

ChatId = Annotated[
    str,
    Path(pattern=CHAT_ID_PATTERN, description="The id of a chat, as its page made it"),
]


@router.post(
    "/ui/chat",
    response={200: None, (402, 404, 408, 409, 413, 502, 503, 507): ENVELOPE},
    summary="Chat as the AI SDK's useChat does",
    operation_id="ui_chat",
    openapi_extra=openapi.CHAT,
)
@needs(limit="max_history_bytes")
async def ui_chat(request: HttpRequest, idempotency_key: IdempotencyKey = None) -> HttpResponseBase:
    """Answer the last message of a chat with a UI message stream; the turn survives a disconnect.

    `trigger` and `messageId` regenerate and edit; a last message with approvals decides them. The
    session is authoritative: earlier messages are compared with it, and 409 `CHAT_DIFFERS` reports
    a difference. A new chat uses `model`, or the default model, and may have the settings of
    `POST /sessions` in `session`, which existing chats ignore. An error before the stream is a
    sentence in plain text, which pages display, unless the request explicitly accepts
    `application/json`.
    """
    return await _with_text_errors(request, _answer(request, idempotency_key))


@router.get(
    "/ui/chat/{chat_id}/stream",
    response={(200, 204): None, (502, 503): ENVELOPE},
    summary="Resume the stream of a chat",
    operation_id="ui_resume_stream",
    openapi_extra=openapi.RESUME,
)
@needs(scope="chat")
async def ui_resume_stream(request: HttpRequest, chat_id: ChatId) -> HttpResponseBase:
    """Stream the running turn from its beginning, from any worker; 204 if none is running."""
    return await _chats().stream(chat_id) or HttpResponse(status=204)


@router.post(
    "/ui/chat/{chat_id}/stop",
    response={200: None, (502, 503): ENVELOPE},
    summary="Stop a chat's turn",
    operation_id="ui_stop",
    openapi_extra=openapi.STOP,
)
async def ui_stop(request: HttpRequest, chat_id: ChatId) -> HttpResponse:
    """Stop the running turn; the page's `stop()` alone only disconnects."""
    await _chats().stop(chat_id)
    return JsonResponse({"success": True})


@router.get(
    "/ui/chat/{chat_id}/messages",
    response={200: None, (500, 503): ENVELOPE},
    summary="Get a chat's messages for useChat",
    operation_id="ui_messages",
    openapi_extra=openapi.MESSAGES,
)
async def ui_list_messages(request: HttpRequest, chat_id: ChatId) -> HttpResponse:
    """Return the session as AI SDK messages, one per answer; none for a new chat."""
    from dialects_app.shared.streams import json_response  # noqa: PLC0415 - not for the start

    return json_response(await _chats().messages(chat_id))


async def _answer(request: HttpRequest, key: str | None) -> HttpResponseBase:
    body = await read_body(request, UIChatIn)
    return await _chats().answer(body, key=key, client=client_of(request))


async def _with_text_errors(
    request: HttpRequest, answer: Awaitable[HttpResponseBase]
) -> HttpResponseBase:
    """Return the response, with an error as a sentence that the AI SDK displays."""
    try:
        return await answer
    except MochiError as error:
        if "application/json" in request.headers.get("accept", ""):
            raise
        seconds = seconds_before_retry(error.code, error.details)
        return HttpResponse(
            str(error),
            status=status_of_error(error.code, error.details),
            content_type="text/plain; charset=utf-8",
            headers={ERROR_HEADER: error.code}
            | ({} if seconds is None else {"Retry-After": str(seconds)}),
        )


def _chats() -> "UIChats":
    from dialects_app.ai_sdk.chats import UIChats  # noqa: PLC0415 - not for the start

    return assembled(UIChats)
