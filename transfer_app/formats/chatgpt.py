"""Reads conversations of ChatGPT's data export: trees of nodes. Pure."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sessions_app.export import fenced
from transfer_app.formats.conversation import (
    GivenFile,
    ImportedConversation,
    ImportedMessage,
    UnusableEntry,
)
from transfer_app.formats.transcript import Transcript
from transfer_app.formats.tree import branches_of, path_to
from transfer_app.formats.values import (
    as_arguments,
    as_list,
    as_object,
    as_text,
    as_time,
    first_text,
    joined,
    objects,
)

SOURCE = "chatgpt"

_INSTRUCTIONS = "user_editable_context"
_PASSED_OVER = frozenset({_INSTRUCTIONS, "model_editable_context", "app_pairing_content"})
_THOUGHTS = frozenset({"thoughts", "reasoning_recap"})
_TO_ALL = frozenset({"", "all"})
_POINTER = "asset_pointer"
_ANY_MODEL = "auto"


def recognises(entry: Mapping[str, Any]) -> bool:
    """Return whether this is a conversation of ChatGPT."""
    return "mapping" in entry


def parse(entry: Mapping[str, Any], *, all_branches: bool = False) -> ImportedConversation:
    """Return a conversation.

    Raises:
        UnusableEntry: It has no nodes, or no name.
    """
    nodes = entry.get("mapping")
    if not isinstance(nodes, dict):
        raise UnusableEntry("it has no mapping of messages")
    conversation_id = first_text(entry.get("conversation_id"), entry.get("id"))
    if not conversation_id:
        raise UnusableEntry("it has no conversation_id")
    parents = {
        node_id: as_text(node.get("parent")) or None
        for node_id, node in nodes.items()
        if isinstance(node, dict)
    }
    branches, left_out = branches_of(
        parents,
        entry.get("current_node"),
        partial(_messages, nodes),
        all_branches=all_branches,
    )
    answers = [each.model for branch in branches[:1] for each in reversed(branch.messages)]
    default = as_text(entry.get("default_model_slug"))
    return ImportedConversation(
        source=SOURCE,
        id=conversation_id,
        branches=branches,
        title=as_text(entry.get("title")),
        created_at=as_time(entry.get("create_time")),
        updated_at=as_time(entry.get("update_time")),
        model=first_text("" if default == _ANY_MODEL else default, *answers),
        instructions=_instructions(nodes, parents, entry.get("current_node")),
        archived=entry.get("is_archived") is True,
        pinned=entry.get("is_starred") is True or as_time(entry.get("pinned_time")) is not None,
        branches_left_out=left_out,
    )


def _messages(nodes: Mapping[str, Any], path: Sequence[str]) -> Sequence[ImportedMessage]:
    transcript = Transcript()
    for node_id in path:
        message = as_object(nodes[node_id].get("message"))
        metadata = as_object(message.get("metadata"))
        if message and metadata.get("is_visually_hidden_from_conversation") is not True:
            _add(transcript, node_id, message, metadata)
    return transcript.messages()


def _add(
    transcript: Transcript, key: str, message: Mapping[str, Any], metadata: Mapping[str, Any]
) -> None:
    author = as_object(message.get("author"))
    content = as_object(message.get("content"))
    kind = as_text(content.get("content_type"))
    at = as_time(message.get("create_time"))
    if kind in _PASSED_OVER:
        return
    match author.get("role"):
        case "user":
            files = _files(content, metadata)
            transcript.user(key, _text(content), at, files=files)
        case "assistant":
            _add_answer(transcript, key, message, content, model=_model(metadata))
        case "tool":
            transcript.result(
                key,
                as_text(author.get("name")),
                _text(content),
                at,
                failed=kind == "system_error",
                files=_files(content, metadata),
            )


def _add_answer(
    transcript: Transcript,
    key: str,
    message: Mapping[str, Any],
    content: Mapping[str, Any],
    *,
    model: str,
) -> None:
    at = as_time(message.get("create_time"))
    kind, recipient = content.get("content_type"), as_text(message.get("recipient"))
    if kind in _THOUGHTS or message.get("channel") == "analysis":
        transcript.think(key, _thoughts(content), at)
    elif recipient not in _TO_ALL:
        transcript.call(key, recipient, as_arguments(_text(content)), at, model=model)
    else:
        text = _text(content)
        if kind == "code" and text.strip():
            text = fenced(text, as_text(content.get("language")).replace("unknown", ""))
        metadata = as_object(message.get("metadata"))
        ending = as_object(metadata.get("finish_details")).get("type")
        transcript.answer(key, text, at, model=model, interrupted=ending == "interrupted")


def _model(metadata: Mapping[str, Any]) -> str:
    return as_text(metadata.get("model_slug"))


def _text(content: Mapping[str, Any]) -> str:
    """Return the text of a message, whatever kind of content it has."""
    parts = [_part(part) for part in as_list(content.get("parts"))]
    return joined(
        *parts,
        *(as_text(content.get(key)) for key in ("title", "url", "text", "result")),
        between="\n",
    )


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    return as_text(as_object(part).get("text"))  # what was said aloud


def _thoughts(content: Mapping[str, Any]) -> str:
    thoughts = objects(content.get("thoughts"))
    return joined(
        *(
            joined(as_text(each.get("summary")), as_text(each.get("content")), between="\n")
            for each in thoughts
        ),
        as_text(content.get("content")),
        _text(content),
    )


def _files(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> Sequence[GivenFile]:
    """Return the images in a message and the files beside it, each once."""
    names = {
        as_text(each.get("id")): as_text(each.get("name"))
        for each in objects(metadata.get("attachments"))
    }
    pointers = [
        as_text(part.get(_POINTER)).rpartition("://")[2]
        for part in objects(content.get("parts"))
        if as_text(part.get(_POINTER))
    ]
    return tuple(
        GivenFile(name=names.get(pointer) or pointer, pointer=pointer)
        for pointer in dict.fromkeys((*pointers, *names))
        if pointer
    )


def _instructions(
    nodes: Mapping[str, Any], parents: Mapping[str, str | None], current: object
) -> str:
    """Return the person's custom instructions in this conversation."""
    path = path_to(current, parents) if isinstance(current, str) else ()
    for node_id in path or parents:
        content = as_object(as_object(nodes[node_id].get("message")).get("content"))
        if content.get("content_type") == _INSTRUCTIONS:
            return joined(
                as_text(content.get("user_profile")), as_text(content.get("user_instructions"))
            )
    return ""
