"""Reads conversations of Claude's data export. Pure."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from transfer_app.formats.conversation import (
    GivenFile,
    ImportedConversation,
    ImportedMessage,
    UnusableEntry,
)
from transfer_app.formats.transcript import Transcript
from transfer_app.formats.tree import branches_of, nodes_of, parents_of
from transfer_app.formats.values import (
    as_arguments,
    as_text,
    as_time,
    objects,
    text_of,
)

SOURCE = "claude"


def recognises(entry: Mapping[str, Any]) -> bool:
    """Return whether this is a conversation of Claude."""
    return "chat_messages" in entry


def parse(entry: Mapping[str, Any], *, all_branches: bool = False) -> ImportedConversation:
    """Return a conversation.

    Raises:
        UnusableEntry: It has no messages, or no name.
    """
    if not isinstance(entry.get("chat_messages"), list):
        raise UnusableEntry("it has no list of chat_messages")
    conversation_id = as_text(entry.get("uuid"))
    if not conversation_id:
        raise UnusableEntry("it has no uuid")
    nodes = nodes_of(entry["chat_messages"], "uuid")
    branches, left_out = branches_of(
        parents_of(nodes, "parent_message_uuid"),
        next(reversed(nodes), None),
        partial(_messages, nodes),
        all_branches=all_branches,
    )
    return ImportedConversation(
        source=SOURCE,
        id=conversation_id,
        branches=branches,
        title=as_text(entry.get("name")),
        created_at=as_time(entry.get("created_at")),
        updated_at=as_time(entry.get("updated_at")),
        model=as_text(entry.get("model")),
        pinned=entry.get("is_starred") is True,
        branches_left_out=left_out,
    )


def _messages(
    nodes: Mapping[str, Mapping[str, Any]], path: Sequence[str]
) -> Sequence[ImportedMessage]:
    transcript = Transcript()
    for key in path:
        message = nodes[key]
        at = as_time(message.get("created_at"))
        blocks = objects(message.get("content"))
        if message.get("sender") == "human":
            text = text_of(message.get("content")) or text_of(message.get("text"))
            transcript.user(key, text, at, files=_files(message))
        else:
            for index, block in enumerate(blocks):
                _add(transcript, f"{key}/{index}" if index else key, block, at)
            if not blocks:
                text = text_of(message.get("content")) or text_of(message.get("text"))
                transcript.answer(key, text, at)
    return transcript.messages()


def _add(transcript: Transcript, key: str, block: Mapping[str, Any], at: str | None) -> None:
    match block.get("type"):
        case "thinking":
            transcript.think(key, as_text(block.get("thinking")), at)
        case "tool_use":
            call_id, name = as_text(block.get("id")), as_text(block.get("name"))
            arguments = as_arguments(block.get("input"))
            transcript.call(key, name, arguments, at, call_id=call_id)
        case "tool_result":
            transcript.result(
                key,
                as_text(block.get("name")),
                text_of(block.get("content")),
                at,
                call_id=as_text(block.get("tool_use_id")),
                failed=block.get("is_error") is True,
            )
        case _:
            transcript.answer(key, as_text(block.get("text")), at)


def _files(message: Mapping[str, Any]) -> Sequence[GivenFile]:
    """Return the texts that were attached, and the names of the files that were."""
    attached = [
        GivenFile(
            name=as_text(each.get("file_name")),
            data=as_text(each.get("extracted_content")).encode(errors="replace") or None,
        )
        for each in objects(message.get("attachments"))
    ]
    known = {file.name for file in attached}
    names = dict.fromkeys(as_text(each.get("file_name")) for each in objects(message.get("files")))
    others = [GivenFile(name=name, pointer=name) for name in names if name not in known]
    return (*attached, *(file for file in others if file.name))
