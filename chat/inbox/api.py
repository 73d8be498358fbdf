"""Serves the routes of a session's inbox: what waits for its next turns, and changes of it."""

from typing import Any

from django.http import HttpRequest

from chat.inbox.schemas import InboxEditIn, InboxOut, QueuedOut
from chat.inbox.service import InboxService
from mochi_project.app import service
from mochi_project.routing import Router
from sessions_app.attachments.intake import resolve
from sessions_app.attachments.service import AttachmentService
from sessions_app.http.error_schemas import ENVELOPE
from sessions_app.settings import SessionsSettings

router = Router(scope="read", changes="chat", tags=["chat"])

_ERRORS: dict[Any, Any] = {(404, 409, 422, 500, 503, 507): ENVELOPE}


@router.get(
    "/chat/{session_id}/inbox",
    operation_id="get_inbox",
    summary="What waits for the next turns",
    response={200: InboxOut, (404, 500): ENVELOPE},
)
async def get_inbox(request: HttpRequest, session_id: str) -> InboxOut:
    """Return the messages that were sent with `when_busy` and that no turn has taken yet."""
    return InboxOut.of(await service(InboxService).listing(session_id))


@router.post(
    "/chat/{session_id}/inbox/resume",
    operation_id="resume_inbox",
    summary="Answer what waits",
    response={200: InboxOut, **_ERRORS},
)
async def resume_inbox(request: HttpRequest, session_id: str) -> InboxOut:
    """Answer the messages of an inbox that is paused: after a stop, or a failure."""
    return InboxOut.of(await service(InboxService).resume(session_id))


@router.put(
    "/chat/{session_id}/inbox/{message_id}",
    operation_id="edit_queued_message",
    summary="Change a message that waits",
    response={200: QueuedOut, **_ERRORS},
    exclude_none=True,
)
async def edit_queued_message(
    request: HttpRequest, session_id: str, message_id: str, body: InboxEditIn
) -> QueuedOut:
    """Change its text, its files, how it waits, or its place.

    409 `QUEUED_MESSAGE_TAKEN`: a turn has it; `details.turn_id` names the turn.
    """
    changes = body.model_dump(include={"content", "when_busy"}, exclude_none=True)
    if body.attachments is not None:
        most = service(SessionsSettings).max_attachments
        attachments = service(AttachmentService)
        changes["attachments"] = await resolve(attachments, body.attachments, max_count=most)
    return QueuedOut.of(
        await service(InboxService).edit(session_id, message_id, position=body.position, **changes)
    )


@router.delete(
    "/chat/{session_id}/inbox/{message_id}",
    operation_id="delete_queued_message",
    summary="Remove a message that waits",
    response={200: InboxOut, **_ERRORS},
)
async def delete_queued_message(request: HttpRequest, session_id: str, message_id: str) -> InboxOut:
    """Remove it before a turn takes it, and return what still waits.

    409 `QUEUED_MESSAGE_TAKEN`: a turn has it; `details.turn_id` names the turn.
    """
    return InboxOut.of(await service(InboxService).delete(session_id, message_id))


@router.delete(
    "/chat/{session_id}/inbox",
    operation_id="delete_queued_messages",
    summary="Remove all messages that wait",
    response={200: InboxOut, **_ERRORS},
)
async def delete_queued_messages(request: HttpRequest, session_id: str) -> InboxOut:
    """Remove every message that no turn has taken."""
    return InboxOut.of(await service(InboxService).delete(session_id))
