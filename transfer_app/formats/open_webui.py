"""Reads chats that Open WebUI exports: trees of messages. Pure."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
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
    as_list,
    as_object,
    as_text,
    as_time,
    bytes_of_url,
    first_text,
    joined,
    objects,
    text_of,
)

SOURCE = "open_webui"

_OPENING = re.compile(r'<details type="(reasoning|tool_calls|code_interpreter)"')
_CLOSING = "</details>"
_ATTRIBUTE = re.compile(r'\b(id|name|arguments|result)="([^"]*)"')
_SUMMARY = re.compile(r"<summary>[^<]*</summary>")
_QUOTED = re.compile(r"^> ?", re.MULTILINE)


def recognises(entry: Mapping[str, Any]) -> bool:
    """Return whether this is a chat of Open WebUI, or what is in one."""
    if "chat" in entry:
        return not {"history", "messages"}.isdisjoint(as_object(entry["chat"]))
    return isinstance(as_object(entry.get("history")).get("messages"), dict)


def parse(entry: Mapping[str, Any], *, all_branches: bool = False) -> ImportedConversation:
    """Return a chat.

    Raises:
        UnusableEntry: It has no messages, or no name.
    """
    chat = as_object(entry["chat"]) if "chat" in entry else entry
    nodes, parents, current = _nodes(chat)
    chat_id = first_text(entry.get("id"), chat.get("id"), *nodes)
    if not chat_id:
        raise UnusableEntry("it has no id")
    branches, left_out = branches_of(
        parents, current, partial(_messages, nodes, {}), all_branches=all_branches
    )
    system = [
        text_of(each.get("content")) for each in nodes.values() if each.get("role") == "system"
    ]
    return ImportedConversation(
        source=SOURCE,
        id=chat_id,
        branches=branches,
        title=first_text(entry.get("title"), chat.get("title")),
        created_at=as_time(entry.get("created_at")) or as_time(chat.get("timestamp")),
        updated_at=as_time(entry.get("updated_at")),
        model=first_text(*as_list(chat.get("models"))),
        instructions=first_text(as_object(chat.get("params")).get("system"), *system),
        archived=entry.get("archived") is True,
        pinned=entry.get("pinned") is True,
        branches_left_out=left_out,
    )


def _nodes(
    chat: Mapping[str, Any],
) -> tuple[Mapping[str, Mapping[str, Any]], Mapping[str, str | None], object]:
    """Return the messages by id, the parent of each, and the last one shown."""
    history = as_object(chat.get("history"))
    tree = history.get("messages")
    if isinstance(tree, dict):
        nodes = {key: each for key, each in tree.items() if isinstance(each, dict)}
        parents = {key: as_text(each.get("parentId")) or None for key, each in nodes.items()}
        return nodes, parents, history.get("currentId")
    if not isinstance(chat.get("messages"), list):
        raise UnusableEntry("it has no chat.history.messages")
    listed = nodes_of(chat["messages"], "id")
    return listed, parents_of(listed, "parentId"), next(reversed(listed), None)


def _messages(
    nodes: Mapping[str, Mapping[str, Any]],
    files: dict[str, Sequence[GivenFile]],
    path: Sequence[str],
) -> Sequence[ImportedMessage]:
    """Return the messages of a path; ``files`` holds those that other paths share with it."""
    transcript = Transcript()
    for key in path:
        message = nodes[key]
        at = as_time(message.get("timestamp"))
        text = text_of(message.get("content"))
        match message.get("role"):
            case "user":
                if key not in files:
                    files[key] = _files(message)
                transcript.user(key, text, at, files=files[key])
            case "assistant":
                _add_answer(transcript, key, message, at)
            case "tool":
                transcript.result(key, as_text(message.get("name")), text, at)
    return transcript.messages()


def _add_answer(
    transcript: Transcript, key: str, message: Mapping[str, Any], at: str | None
) -> None:
    model = as_text(message.get("model"))
    output = objects(message.get("output"))
    for index, item in enumerate(output):
        _add_item(transcript, f"{key}/{index}" if index else key, item, at, model=model)
    if output:
        return
    shown = []
    for index, (kind, attributes, text) in enumerate(_blocks(text_of(message.get("content")))):
        if kind == "reasoning":
            thought = _QUOTED.sub("", _unescaped(_SUMMARY.sub("", text)).strip())
            transcript.think(key, thought, at)
        elif kind == "tool_calls":
            call_id, name = attributes.get("id", ""), attributes.get("name", "")
            arguments = as_arguments(attributes.get("arguments"))
            transcript.call(f"{key}/{index}", name, arguments, at, call_id=call_id, model=model)
            result = attributes.get("result", "")
            transcript.result(f"{key}/{index}/result", name, result, at, call_id=call_id)
        elif kind == "text":
            shown.append(text)
    unfinished = message.get("done") is False
    transcript.answer(key, joined(*shown).strip(), at, model=model, interrupted=unfinished)


def _add_item(
    transcript: Transcript, key: str, item: Mapping[str, Any], at: str | None, *, model: str
) -> None:
    """Add an item of an answer, in the form of OpenAI's Responses."""
    call_id = as_text(item.get("call_id"))
    match item.get("type"):
        case "reasoning":
            transcript.think(key, text_of(item.get("content")) or text_of(item.get("summary")), at)
        case "function_call":
            name, arguments = as_text(item.get("name")), as_arguments(item.get("arguments"))
            transcript.call(key, name, arguments, at, call_id=call_id, model=model)
        case "function_call_output":
            transcript.result(key, "", text_of(item.get("output")), at, call_id=call_id)
        case "message":
            transcript.answer(key, text_of(item.get("content")), at, model=model)


def _blocks(content: str) -> Iterator[tuple[str, Mapping[str, str], str]]:
    """Yield the texts of an answer, and its blocks with reasoning and tool calls."""
    start = 0
    while opening := _OPENING.search(content, start):
        # Not in the expression: it would look for the ">" anew after each tag that has none.
        begin = content.find(">", opening.end()) + 1
        end = content.find(_CLOSING, begin) if begin else -1
        if end < 0:
            break
        yield "text", {}, content[start : opening.start()]
        attributes = _ATTRIBUTE.findall(content, opening.end(), begin - 1)
        found = {name: _unescaped(value) for name, value in attributes}
        yield opening[1], found, content[begin:end]
        start = end + len(_CLOSING)
    yield "text", {}, content[start:]


def _unescaped(text: str) -> str:
    """Return a text with characters for its references; as it is if one has no such number."""
    try:
        return html.unescape(text)
    except ValueError:  # Python converts numbers of up to 4,300 digits
        return text


def _files(message: Mapping[str, Any]) -> Sequence[GivenFile]:
    files = []
    images = [
        {"url": as_object(part.get("image_url")).get("url"), "type": "image"}
        for part in objects(message.get("content"))
        if part.get("type") == "image_url"
    ]
    for each in (*objects(message.get("files")), *images):
        url = as_text(each.get("url"))
        inner = as_object(each.get("file"))
        name = first_text(each.get("name"), inner.get("filename"), each.get("id"))
        kind = first_text(each.get("type"), "file")
        files.append(GivenFile(name=name or kind, pointer=name or None, data=bytes_of_url(url)))
    return files
