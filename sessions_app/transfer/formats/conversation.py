"""Declares conversations as they are read from exports, before they become sessions. Pure."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from sessions_app.messages import ToolCall


class UnusableEntry(Exception):
    """An entry of an export is no conversation that can be taken in; its text says why."""


class GivenFile(msgspec.Struct, frozen=True, kw_only=True):
    """An image or a file of a message.

    Attributes:
        name: What people call it.
        pointer: What the export calls it, where its bytes may lie beside the conversations.
        data: Its bytes, where the conversation itself has them.
    """

    name: str
    pointer: str | None = None
    data: bytes | None = None


class ImportedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of an export.

    Attributes:
        role: Who says it.
        key: Names it within its conversation, the same in every export.
        content: Its text.
        timestamp: When it was said (UTC, ISO 8601), where that is known.
        files: Its images and files.
        model: The model that answered.
        thinking: The reasoning of an answer.
        tool_calls: The calls of an answer.
        interrupted: Whether the answer was broken off.
        tool_name: The tool whose result this is.
        tool_call_id: The call that this answers.
        failed: Whether the tool failed.
    """

    role: Literal["user", "assistant", "tool"]
    key: str
    content: str
    timestamp: str | None = None
    files: Sequence[GivenFile] = ()
    model: str = ""
    thinking: str | None = None
    tool_calls: Sequence[ToolCall] = ()
    interrupted: bool = False
    tool_name: str = ""
    tool_call_id: str | None = None
    failed: bool = False


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """One way through a conversation, from its beginning to an end.

    Attributes:
        messages: What was said, oldest first.
        leaf: Names the end within the conversation; empty for the branch that is shown.
        shared: How many messages it has in common with the branch that is shown.
    """

    messages: Sequence[ImportedMessage]
    leaf: str = ""
    shared: int = 0


class ImportedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation of an export.

    Attributes:
        source: The program that wrote the export.
        id: Names the conversation there.
        branches: The branch that is shown, then the others that were asked for.
        title: How it is called.
        created_at: When it began (UTC, ISO 8601), where that is known.
        updated_at: When it was last changed (UTC, ISO 8601), where that is known.
        model: The model that answers, as that program calls it.
        instructions: The system prompt, or the person's own instructions.
        archived: Whether a person put it away.
        pinned: Whether a person pinned it.
        branches_left_out: How many branches are beyond what is taken.
    """

    source: str
    id: str
    branches: Sequence[Branch]
    title: str = ""
    created_at: str | None = None
    updated_at: str | None = None
    model: str = ""
    instructions: str = ""
    archived: bool = False
    pinned: bool = False
    branches_left_out: int = 0
