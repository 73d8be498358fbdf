"""Serves the routes of a session's messages: lists them, edits them, chooses variants."""

from typing import Annotated, Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router

from mochi_project.http.large_json import answer, answer_by_reading
from mochi_project.wiring.services import get_services
from sessions_app.attachments.intake import resolve
from sessions_app.format.message_format import message_to_json
from sessions_app.format.to_json import many_messages
from sessions_app.http.error_schemas import ENVELOPE
from sessions_app.http.request_schemas import MessageEditIn, VariantIn
from sessions_app.http.schemas import MessageEditOut, MessagesOut, VariantOut

router = Router(tags=["sessions"])


@router.get(
    "/sessions/{session_id}/messages",
    response={200: MessagesOut, (404, 422, 500, 503): ENVELOPE},
    summary="Get a session's messages",
    description=(
        "Oldest first, the system prompt included. An answer that replaced others says how many in "
        "`variant_count`; with `?variants=true` they are there too, newest first, each as the list "
        "of its messages."
    ),
    operation_id="list_messages",
)
async def list_messages(
    request: HttpRequest,
    session_id: str,
    variants: Annotated[bool, Query(description="Whether to return `variants` too")] = False,
) -> HttpResponseBase:
    """Return the messages of a session."""
    sessions = get_services().sessions
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
        "Replaces the text of a user message and cuts off every message after it. The index "
        "counts all messages from 0, the system prompt included. Then send a chat request "
        "without a message to have it answered."
    ),
    operation_id="edit_message",
)
async def edit_message(
    request: HttpRequest, session_id: str, message_index: int, body: MessageEditIn
) -> HttpResponseBase:
    """Edit a user message and cut off what came after it."""
    services = get_services()
    sessions, attachments = services.sessions, None
    if body.attachments is not None:
        attachments = await resolve(
            services.attachments, body.attachments, max_count=services.settings.max_attachments
        )

    def work() -> dict[str, Any]:
        edit = sessions.edit_message(
            session_id,
            message_index,
            body.content,
            message_id=body.message_id,
            attachments=attachments,
        )
        return {
            "session_id": edit.session_id,
            "message_index": edit.message_index,
            "message": message_to_json(edit.message),
            "message_count": edit.message_count,
            "removed": edit.removed,
        }

    return await answer(work)


@router.put(
    "/sessions/{session_id}/messages/{message_index}/variant",
    response={200: VariantOut, (400, 404, 409, 422, 500, 507): ENVELOPE},
    summary="Choose a variant of the last answer",
    description=(
        "Makes an answer that was replaced the answer again; the present one becomes a variant. "
        "The index is that of the message with the variants. Only the last answer can be "
        "exchanged, because what follows an older one was said in reply to it: fork the session "
        "for that. Doing it twice is doing it once."
    ),
    operation_id="choose_variant",
)
async def choose_variant(
    request: HttpRequest, session_id: str, message_index: int, body: VariantIn
) -> HttpResponseBase:
    """Make a variant of the last answer the answer."""
    sessions = get_services().sessions

    def work() -> dict[str, Any]:
        choice = sessions.choose_variant(session_id, message_index, body.message_id)
        return {
            "session_id": choice.session_id,
            "message_index": choice.message_index,
            "messages": many_messages(choice.messages),
            "message_count": choice.message_count,
        }

    return await answer(work)
