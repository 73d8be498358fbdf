"""Reads conversations that LibreChat exports: lists or trees of messages. Pure."""

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
from transfer_app.formats.tree import branches_of, free_key, leaves_of, parents_of
from transfer_app.formats.values import (
    as_arguments,
    as_list,
    as_object,
    as_text,
    as_time,
    first_text,
    objects,
    text_of,
)

SOURCE = "librechat"
_PARENT = "parentMessageId"


def recognises(entry: Mapping[str, Any]) -> bool:
    """Return whether this is a conversation of LibreChat."""
    return "conversationId" in entry and ("messages" in entry or "messagesTree" in entry)


def parse(entry: Mapping[str, Any], *, all_branches: bool = False) -> ImportedConversation:
    """Return a conversation.

    Raises:
        UnusableEntry: It has no messages, or no name.
    """
    listed = entry.get("messages") or entry.get("messagesTree")
    if not isinstance(listed, list):
        raise UnusableEntry("it has no list of messages")
    conversation_id = as_text(entry.get("conversationId"))
    if not conversation_id:
        raise UnusableEntry("it has no conversationId")
    nodes, parents = _nodes(listed)
    branches, left_out = branches_of(
        parents, _newest(nodes, parents), partial(_messages, nodes), all_branches=all_branches
    )
    options = as_object(entry.get("options"))
    models = [as_text(each.get("model")) for each in nodes.values() if not _is_of_user(each)]
    return ImportedConversation(
        source=SOURCE,
        id=conversation_id,
        branches=branches,
        title=as_text(entry.get("title")),
        created_at=as_time(entry.get("createdAt")),
        updated_at=as_time(entry.get("updatedAt")),
        model=first_text(options.get("model"), *reversed(models)),
        instructions=first_text(options.get("promptPrefix"), options.get("system")),
        archived=entry.get("isArchived") is True,
        branches_left_out=left_out,
    )


def _nodes(
    listed: Sequence[Any],
) -> tuple[Mapping[str, Mapping[str, Any]], Mapping[str, str | None]]:
    """Return the messages and the parent of each, whether they are nested or in a list."""
    nodes: dict[str, Mapping[str, Any]] = {}
    holders: dict[str, str | None] = {}
    waiting: list[tuple[Mapping[str, Any], str | None]] = [
        (each, None) for each in reversed(objects(listed))
    ]
    while waiting:
        message, holder = waiting.pop()
        key = as_text(message.get("messageId")) or f"#{len(nodes)}"
        if key in nodes and _text(nodes[key]) == _text(message):
            continue
        key = free_key(key, nodes)
        nodes[key], holders[key] = message, holder
        waiting += [(each, key) for each in reversed(objects(message.get("children")))]
    if not any("children" in each for each in nodes.values()):
        return nodes, parents_of(nodes, _PARENT)
    return nodes, {key: as_text(nodes[key].get(_PARENT)) or holders[key] for key in nodes}


def _newest(
    nodes: Mapping[str, Mapping[str, Any]], parents: Mapping[str, str | None]
) -> str | None:
    """Return the leaf with the newest message, the later one of two with the same time.

    A message without a time is as old as the one it follows.
    """
    times: dict[str, str] = {}
    for key in nodes:
        without: list[str] = []
        at: str | None = key
        while at is not None and at in nodes and at not in times:
            times[at] = as_time(nodes[at].get("createdAt")) or ""
            if times[at]:
                break
            without.append(at)
            at = parents[at]
        times.update(dict.fromkeys(without, times.get(at or "", "")))
    return max(reversed(leaves_of(parents)), key=times.__getitem__, default=None)


def _is_of_user(message: Mapping[str, Any]) -> bool:
    said = message.get("isCreatedByUser")
    return said if isinstance(said, bool) else as_text(message.get("sender")).lower() == "user"


def _messages(
    nodes: Mapping[str, Mapping[str, Any]], path: Sequence[str]
) -> Sequence[ImportedMessage]:
    transcript = Transcript()
    for key in path:
        message = nodes[key]
        if message.get("error") is True:
            continue
        at = as_time(message.get("createdAt"))
        if _is_of_user(message):
            transcript.user(key, _text(message), at, files=_files(message))
            continue
        model, parts = as_text(message.get("model")), objects(message.get("content"))
        interrupted = message.get("unfinished") is True
        if not parts:
            text = _text(message)
            transcript.answer(key, text, at, model=model, interrupted=interrupted)
        for index, part in enumerate(parts):
            name = f"{key}/{index}" if index else key
            ends = interrupted and index == len(parts) - 1
            _add(transcript, name, part, at, model=model, interrupted=ends)
    return transcript.messages()


def _add(
    transcript: Transcript,
    key: str,
    part: Mapping[str, Any],
    at: str | None,
    *,
    model: str,
    interrupted: bool,
) -> None:
    match part.get("type"):
        case "text":
            text = text_of(part)
            transcript.answer(key, text, at, model=model, interrupted=interrupted)
        case "think":
            transcript.think(key, text_of({"text": part.get("think")}), at)
        case "tool_call":
            call = as_object(part.get("tool_call"))
            call_id, name = as_text(call.get("id")), as_text(call.get("name"))
            arguments = as_arguments(call.get("args"))
            transcript.call(key, name, arguments, at, call_id=call_id, model=model)
            if isinstance(call.get("output"), str):
                transcript.result(f"{key}/result", name, call["output"], at, call_id=call_id)


def _text(message: Mapping[str, Any]) -> str:
    return first_text(message.get("text"), text_of(message.get("content")))


def _files(message: Mapping[str, Any]) -> Sequence[GivenFile]:
    return tuple(
        GivenFile(name=name, pointer=as_text(each.get("file_id")) or name)
        for each in map(as_object, as_list(message.get("files")))
        if (name := first_text(each.get("filename"), each.get("file_id")))
    )
