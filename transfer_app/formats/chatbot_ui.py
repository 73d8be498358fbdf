"""Reads the history that chatbot-ui exports: plain lists of messages. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from transfer_app.formats.conversation import Branch, ImportedConversation, UnusableEntry
from transfer_app.formats.transcript import Transcript
from transfer_app.formats.values import as_object, as_text, first_text, objects, text_of

SOURCE = "chatbot_ui"


def recognises(entry: Mapping[str, Any]) -> bool:
    """Return whether this is a conversation of chatbot-ui."""
    if not isinstance(entry.get("messages"), list) or "conversationId" in entry:
        return False
    messages = objects(entry["messages"])
    return "role" in messages[0] if messages else "name" in entry


def parse(entry: Mapping[str, Any], *, all_branches: bool = False) -> ImportedConversation:  # noqa: ARG001 - it has one
    """Return a conversation; without an id, it is identified by its contents.

    Raises:
        UnusableEntry: It has no messages.
    """
    if not isinstance(entry.get("messages"), list):
        raise UnusableEntry("it has no list of messages")
    transcript, system = Transcript(), []
    model = first_text(as_object(entry.get("model")).get("id"), entry.get("model"))
    for index, message in enumerate(objects(entry["messages"])):
        text = text_of(message.get("content"))
        match message.get("role"):
            case "user":
                transcript.user(str(index), text)
            case "assistant":
                transcript.answer(str(index), text, model=model)
            case "system":
                system.append(text)
    return ImportedConversation(
        source=SOURCE,
        id=as_text(entry.get("id")) or _digest(entry),
        branches=[Branch(messages=transcript.messages())],
        title=as_text(entry.get("name")),
        model=model,
        instructions=first_text(entry.get("prompt"), *system),
    )


def _digest(entry: Mapping[str, Any]) -> str:
    said = [
        (as_text(each.get("role")), text_of(each.get("content")))
        for each in objects(entry["messages"])
    ]
    content = msgspec.json.encode([as_text(entry.get("name")), said])
    return hashlib.sha256(content).hexdigest()[:32]
