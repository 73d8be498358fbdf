"""Converts other programs' conversations to sessions. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sessions_app.ids_and_clock import ID_LENGTH
from sessions_app.labels import TITLE_LENGTH, titled_by_message
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from sessions_app.session import MODEL_NAME_LENGTH, Session, make_session, with_messages
from transfer_app.formats.conversation import (
    Branch,
    GivenFile,
    ImportedConversation,
    ImportedMessage,
)

_NAME_LENGTH = 200


def session_id_of(conversation: ImportedConversation, branch: Branch, attempt: int) -> str:
    """Return a session id derived deterministically from a conversation.

    Args:
        conversation: The conversation.
        branch: The branch.
        attempt: The number of earlier ids that were taken by other sessions.
    """
    return _digest(conversation.source, conversation.id, branch.leaf, str(attempt))


def origin_of(conversation: ImportedConversation, branch: Branch) -> Mapping[str, Any]:
    """Return the origin of a session, for its metadata."""
    origin = {"source": conversation.source, "id": conversation.id}
    return {**origin, "branch": branch.leaf} if branch.leaf else origin


def message_ids(conversation: ImportedConversation, branch: Branch) -> Sequence[str]:
    """Return message ids derived deterministically from a branch."""
    return [
        _digest(conversation.source, conversation.id, message.key) for message in branch.messages
    ]


def session_of(
    conversation: ImportedConversation,
    branch: Branch,
    attachments: Mapping[GivenFile, Attachment],
    *,
    session_id: str,
    model: str,
    now: str,
    forked_from: str | None = None,
) -> Session:
    """Convert a branch of a conversation to a session.

    Args:
        conversation: The conversation.
        branch: The branch.
        attachments: The stored files; messages mention the others as text.
        session_id: The id of the session.
        model: The model that answers.
        now: The time to use if there is none.
        forked_from: The session of the shown branch, if this is another branch.
    """
    began = conversation.created_at or next(
        (each.timestamp for each in branch.messages if each.timestamp), now
    )
    messages = list(_messages(conversation, branch, attachments, began=began))
    system = bool(conversation.instructions.strip())
    if system:
        prompt = SystemMessage(
            content=conversation.instructions,
            message_id=_digest(conversation.source, conversation.id, "instructions", ""),
            timestamp=began,
        )
        messages = [prompt, *messages]
    title = " ".join(conversation.title.split())[:TITLE_LENGTH].strip()
    labels: dict[str, Any] = {"title": title, "titled_by": "person"} if title else {}
    if branch.leaf and branch.shared and forked_from is not None:
        index = branch.shared - 1 + system
        labels["forked_from"] = {"session_id": forked_from, "message_index": index}
    session = make_session(
        session_id,
        model[:MODEL_NAME_LENGTH],
        now=began,
        imported_from=origin_of(conversation, branch),
        pinned=(conversation.pinned and not branch.leaf) or None,
        archived=conversation.archived or None,
        **labels,
    )
    ended = conversation.updated_at or messages[-1].timestamp
    return titled_by_message(with_messages(session, messages, now=max(began, ended)))


def _messages(
    conversation: ImportedConversation,
    branch: Branch,
    attachments: Mapping[GivenFile, Attachment],
    *,
    began: str,
) -> Sequence[Message]:
    messages = []
    time = began
    for message, message_id in zip(branch.messages, message_ids(conversation, branch), strict=True):
        time = message.timestamp or time
        messages.append(_message(message, message_id, time, attachments, conversation.model))
    return messages


def _message(
    message: ImportedMessage,
    message_id: str,
    time: str,
    attachments: Mapping[GivenFile, Attachment],
    model: str,
) -> Message:
    if message.role == "assistant":
        return AssistantMessage(
            content=message.content,
            message_id=message_id,
            timestamp=time,
            model=message.model or model,
            thinking=message.thinking,
            tool_calls=message.tool_calls,
            interrupted=message.interrupted,
        )
    kept = tuple(attachments[file] for file in message.files if file in attachments)
    lost = [_mention(file) for file in message.files if file not in attachments]
    content = "\n".join([*filter(None, [message.content]), *lost])
    if message.role == "user":
        return UserMessage(content=content, message_id=message_id, timestamp=time, attachments=kept)
    return ToolMessage(
        content=content,
        message_id=message_id,
        timestamp=time,
        attachments=kept,
        tool_name=message.tool_name,
        tool_call_id=message.tool_call_id,
        failed=message.failed,
    )


def _mention(file: GivenFile) -> str:
    """Return the text that replaces a missing file."""
    name = "".join(letter for letter in file.name if letter.isprintable())[:_NAME_LENGTH]
    return f"[file {name} left out]"


def _digest(*parts: str) -> str:
    """Return a digest of the texts as ten hex digits."""
    said = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass")
        said.update(len(data).to_bytes(8, "big") + data)
    return said.hexdigest()[:ID_LENGTH]
