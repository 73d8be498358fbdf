"""Declares conversations read from exports, before conversion to sessions. Pure."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from sessions_app.messages import ToolCall


class UnusableEntry(Exception):
    """Raised for an entry of an export that can't be imported; the message says why."""


class GivenFile(msgspec.Struct, frozen=True, kw_only=True):
    """An image or a file of a message.

    Attributes:
        name: The display name.
        pointer: The export's reference to a separate file, if any.
        data: The bytes, if the conversation itself contains them.
    """

    name: str
    pointer: str | None = None
    data: bytes | None = None


class ImportedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of an export.

    Attributes:
        role: The role.
        key: The id within the conversation, the same in every export.
        content: The text.
        timestamp: The time (UTC, ISO 8601), if known.
        files: The images and files.
        model: The model that answered.
        thinking: The reasoning of an answer.
        tool_calls: The tool calls of an answer.
        interrupted: Whether the answer was interrupted.
        tool_name: The tool of a result.
        tool_call_id: The call of a result.
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
    """A branch of a conversation, from its beginning to a leaf.

    Attributes:
        messages: The messages, oldest first.
        leaf: The id of the leaf; empty for the shown branch.
        shared: The number of messages shared with the shown branch.
    """

    messages: Sequence[ImportedMessage]
    leaf: str = ""
    shared: int = 0


class ImportedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation of an export.

    Attributes:
        source: The program that wrote the export.
        id: The conversation's id in that program.
        branches: The shown branch, then others if requested.
        title: The title.
        created_at: When it began (UTC, ISO 8601), if known.
        updated_at: When it was last changed (UTC, ISO 8601), if known.
        model: That program's name of the model.
        instructions: The system prompt, or the person's own instructions.
        archived: Whether a person archived it.
        pinned: Whether a person pinned it.
        branches_left_out: The number of branches above the limit.
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
