"""Messages: frozen values with a role. No identity is made here, nothing is read or written.

The garbage collector does not watch them (``gc=False``): values made of JSON hold no cycles, and a
pass over a session of 100,000 messages stopped all threads for 150 ms, several times a reading.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

CANCELLED_MARKER = "[cancelled]"
INTERRUPTED_CALL = "The call was interrupted. It was not run again."
"""The result that is saved for a call whose turn died."""
INTERRUPTED_RESULT = "interrupted, not run again"
"""The result that a model is sent for a call that has none in the session."""
NO_EXTRA: Mapping[str, Any] = MappingProxyType({})


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A model's request to run a tool.

    Attributes:
        id: The provider's id of the call, or one that we made where it gave none.
        name: The tool's name, as the model wrote it.
        arguments: The arguments as a JSON object.
        extra: Unknown keys of the file, kept for the next write; those of the ``function``
            object lie under ``"function"``.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]
    extra: Mapping[str, Any] = NO_EXTRA


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as it is offered to a model; ``parameters`` is its whole JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class _MessageBase(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What all messages have: text, an id, and when (UTC, ISO 8601 with microseconds).

    ``extra`` holds the unknown keys of the file, kept for the next write.
    """

    content: str
    message_id: str
    timestamp: str
    extra: Mapping[str, Any] = NO_EXTRA


class UserMessage(_MessageBase, frozen=True, kw_only=True, gc=False):
    """What a person said."""

    role: ClassVar[str] = "user"


class SystemMessage(_MessageBase, frozen=True, kw_only=True, gc=False):
    """The system prompt; ``source_file`` names the prompt file it came from, if any."""

    role: ClassVar[str] = "system"
    source_file: str | None = None


class AssistantMessage(_MessageBase, frozen=True, kw_only=True, gc=False):
    """What a model answered.

    Attributes:
        model: The model that answered.
        eval_count: Tokens generated, as the provider counted them.
        prompt_eval_count: Tokens of the request, as the provider counted them.
        tool_calls: The calls the model asked for.
        thinking: The model's reasoning, where it was streamed.
        done_reason: Why the model stopped (``stop``, ``length``, ...).
        cancelled: A person stopped the answer; ``content`` ends in the marker.
        interrupted: The answer broke off (error, crash, shutdown).
        variants: What the answer that begins here replaced, newest first; see ``variants.py``.
    """

    role: ClassVar[str] = "assistant"
    model: str = ""
    eval_count: int | None = None
    prompt_eval_count: int | None = None
    tool_calls: Sequence[ToolCall] = ()
    thinking: str | None = None
    done_reason: str | None = None
    cancelled: bool = False
    interrupted: bool = False
    variants: "Sequence[Variant]" = ()

    @property
    def is_complete(self) -> bool:
        """Whether this is a finished answer: neither broken off nor asking for tools."""
        return not (self.cancelled or self.interrupted or self.tool_calls)


class ToolMessage(_MessageBase, frozen=True, kw_only=True, gc=False):
    """What a tool returned, as text for the model."""

    role: ClassVar[str] = "tool"
    tool_name: str = ""
    tool_call_id: str | None = None


Message = UserMessage | SystemMessage | AssistantMessage | ToolMessage

Variant = Sequence[Message]
"""An answer that is not the answer: its messages, oldest first, none of which holds variants."""


def mark_cancelled(content: str) -> str:
    """Return the text of a cancelled answer as it is saved: with the marker at its end."""
    return f"{content}\n\n{CANCELLED_MARKER}" if content else CANCELLED_MARKER


def unmark_cancelled(content: str) -> str:
    """Take the marker of ``mark_cancelled`` off again, as history is sent to a model."""
    if content == CANCELLED_MARKER:
        return ""
    return content.removesuffix(f"\n\n{CANCELLED_MARKER}")
