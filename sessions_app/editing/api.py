"""Serves the routes of a session's messages: lists, edits, deletes, hides, chooses variants."""

import re
from typing import Annotated, Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Path, Query

from mochi_project.app import service
from mochi_project.http.large_json import answer, answer_by_reading
from mochi_project.routing import Router
from sessions_app.attachments.intake import resolve
from sessions_app.attachments.service import AttachmentService
from sessions_app.edits import index_of
from sessions_app.format.message_format import message_to_json
from sessions_app.format.to_json import many_messages
from sessions_app.http.deletion_schemas import MessageDeletedOut, MessageHiddenOut
from sessions_app.http.error_schemas import ENVELOPE
from sessions_app.http.request_schemas import MessageEditIn, MessageHiddenIn, VariantIn
from sessions_app.http.schemas import MessageEditOut, MessagesOut, VariantOut
from sessions_app.message_editor import MessageChange
from sessions_app.service import SessionManager
from sessions_app.settings import SessionsSettings
from sessions_app.variants import VariantChoice

router = Router(scope="read", changes="write", tags=["sessions"])

MessagePlace = Annotated[
    int | str,
    Path(description="The `message_id`, or the index among all messages, from 0"),
]


def _index_or_id(named: int | str) -> int | str:
    """Return what a path names: ids have ten characters, so up to nine digits are an index."""
    text = str(named)
    return int(text) if re.fullmatch("-?[0-9]{1,9}", text, re.ASCII) else text


def _place(session_id: str, named: int | str, guard: str | None) -> tuple[int, str | None]:
    """Return the index of a message that a path names, and the id that it must have. Blocks."""
    place = _index_or_id(named)
    if isinstance(place, int):
        return place, guard
    return index_of(service(SessionManager).messages(session_id), place), guard or place


@router.get(
    "/sessions/{session_id}/messages",
    response={200: MessagesOut, (404, 422, 500, 503): ENVELOPE},
    summary="Get a session's messages",
    description=(
        "Oldest first, the system prompt included. `variant_count` is the number of answers that "
        "an answer replaced; with `?variants=true` these are included, newest first, each as the "
        "list of its messages."
    ),
    operation_id="list_messages",
)
async def list_messages(
    request: HttpRequest,
    session_id: str,
    variants: Annotated[bool, Query(description="Whether to return `variants` too")] = False,
) -> HttpResponseBase:
    """Return the messages of a session."""
    sessions = service(SessionManager)
    return await answer_by_reading(
        lambda: {
            "session_id": session_id,
            "messages": many_messages(sessions.messages(session_id), variants=variants),
        }
    )


@router.put(
    "/sessions/{session_id}/messages/{message_index}",
    response={200: MessageEditOut, (400, 404, 409, 422, 500, 507): ENVELOPE},
    summary="Edit a user message",
    description=(
        "Replaces the text of a user message and cuts off every message after it. To have it "
        "answered in the same request, and the old messages back if that fails, send a chat "
        "request with `message_id` instead."
    ),
    operation_id="edit_message",
)
async def edit_message(
    request: HttpRequest, session_id: str, message_index: MessagePlace, body: MessageEditIn
) -> HttpResponseBase:
    """Edit a user message and remove all messages after it."""
    sessions, attachments = service(SessionManager), None
    if body.attachments is not None:
        attachments = await resolve(
            service(AttachmentService),
            body.attachments,
            max_count=service(SessionsSettings).max_attachments,
        )

    def work() -> dict[str, Any]:
        index, guard = _place(session_id, message_index, body.message_id)
        edit = sessions.edit_message(
            session_id, index, body.content, message_id=guard, attachments=attachments
        )
        return {
            "session_id": edit.session_id,
            "message_index": edit.message_index,
            "message": message_to_json(edit.message),
            "message_count": edit.message_count,
            "removed": edit.removed,
        }

    return await answer(work)


@router.delete(
    "/sessions/{session_id}/messages/{message_index}",
    response={200: MessageDeletedOut, (400, 404, 409, 422, 500, 507): ENVELOPE},
    summary="Delete a message",
    description=(
        "Deletes a message permanently, with its variants; all other messages stay. An assistant "
        "message with tool calls and the results of these calls are deleted together, whichever "
        "is given. Summaries are deleted and written again, because they may mention the message. "
        "The system prompt has a route of its own. 409 while a turn runs."
    ),
    operation_id="delete_message",
)
async def delete_message(
    request: HttpRequest,
    session_id: str,
    message_index: MessagePlace,
    message_id: Annotated[
        str | None,
        Query(description="Expected `message_id`; 409 if the index has another message"),
    ] = None,
) -> HttpResponseBase:
    """Delete a message, with the calls or results that belong to it."""
    sessions = service(SessionManager)

    def work() -> dict[str, Any]:
        index, guard = _place(session_id, message_index, message_id)
        change = sessions.delete_message(session_id, index, message_id=guard)
        return {
            "session_id": change.session_id,
            "message_index": change.message_index,
            "deleted": [message.message_id for message in change.messages],
            "message_count": change.message_count,
        }

    return await answer(work)


@router.patch(
    "/sessions/{session_id}/messages/{message_index}",
    response={200: MessageHiddenOut, (400, 404, 409, 422, 500, 507): ENVELOPE},
    summary="Hide a message from the model, or show it again",
    description=(
        "A `hidden` message stays in the session and in lists, but is not sent to models, neither "
        "in requests nor for summaries. An assistant message with tool calls and the results of "
        "these calls are hidden together, whichever is given. Idempotent. 409 while a turn runs."
    ),
    operation_id="hide_message",
)
async def hide_message(
    request: HttpRequest, session_id: str, message_index: MessagePlace, body: MessageHiddenIn
) -> HttpResponseBase:
    """Hide a message from models, or show it to them again."""
    sessions = service(SessionManager)

    def hide() -> MessageChange:
        index, guard = _place(session_id, message_index, body.message_id)
        return sessions.hide_message(session_id, index, hidden=body.hidden, message_id=guard)

    return await answer(lambda: _changed(hide()))


@router.put(
    "/sessions/{session_id}/messages/{message_index}/variant",
    response={200: VariantOut, (400, 404, 409, 422, 500, 507): ENVELOPE},
    summary="Choose a variant of the last answer",
    description=(
        "Restores a replaced answer; the current answer becomes a variant. "
        "The path names the message with the variants. Only the last answer can be "
        "exchanged, because later messages reply to an older one: fork the session for that. "
        "Idempotent."
    ),
    operation_id="choose_variant",
)
async def choose_variant(
    request: HttpRequest, session_id: str, message_index: MessagePlace, body: VariantIn
) -> HttpResponseBase:
    """Make a variant of the last answer the answer."""
    sessions = service(SessionManager)

    place = _index_or_id(message_index)
    return await answer(
        lambda: _changed(sessions.choose_variant(session_id, place, body.message_id))
    )


def _changed(change: MessageChange | VariantChoice) -> dict[str, Any]:
    return {
        "session_id": change.session_id,
        "message_index": change.message_index,
        "messages": many_messages(change.messages),
        "message_count": change.message_count,
    }
