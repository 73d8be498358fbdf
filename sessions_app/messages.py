"""Declares messages: frozen values with a role.

Fields are declared only here: the file format (``format/messages.py``), HTTP responses and their
schema (``http/schemas.py``) are derived from the declaration (docs/decisions/0046). A struct used
as a field's type needs ``forbid_unknown_fields=True``, so that values of newer servers are
preserved, and a schema in ``http/schemas.py``.

Messages are not tracked by the garbage collector (``gc=False``): JSON values have no cycles, and a
collection over a session of 100,000 messages paused all threads for 150 ms, several times a read.
"""

import secrets
import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, get_args

import msgspec
from msgspec import Meta

PREVIEW_LENGTH = 100
FIRST_TITLE_LENGTH = 60
_ELLIPSIS = " …"

CANCELLED_MARKER = "[cancelled]"
INTERRUPTED_RESULT = "interrupted, not run again"
"""The text of a lost tool result: saved by an interrupted turn, otherwise only sent."""
_CHANGED = "(The user changed the arguments to "
NO_EXTRA: Mapping[str, Any] = MappingProxyType({})
DEPRECATED: dict[str, Any] = {"deprecated": True}
"""Marks fields that have a successor, which clients should read instead."""
_NO_KEY = secrets.token_hex(16)
"""The key of fields without one; random for each process, so that no file contains it."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A model's request to run a tool.

    Attributes:
        id: The provider's id of the call, or a generated one.
        name: The tool's name, as the model wrote it.
        arguments: The arguments as a JSON object.
        client_side: Whether a client runs the tool instead of the server.
        extra: Unknown keys of the file, kept for the next write; those of the ``function``
            object are under ``"function"``.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]
    client_side: bool = False
    extra: Mapping[str, Any] = NO_EXTRA


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as offered to a model; ``parameters`` is its JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Usage(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """The cost of model calls, as far as it is known.

    Attributes:
        input_tokens: Tokens of the requests, those included that the provider had cached.
        output_tokens: Tokens of the answers, reasoning included.
        cached_tokens: Tokens of the requests that the provider had cached, where it says so.
        cache_write_tokens: Tokens of the requests that it put into its cache, where it says so.
        reasoning_tokens: Tokens of the answers that were reasoning, where it says so.
        first_token_ms: From the request to the first output, in milliseconds.
        total_ms: From the request to the end of the answer, in milliseconds.
        cost_usd: The cost in US dollars by the prices of that time: a decimal number.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    first_token_ms: int | None = None
    total_ms: int | None = None
    cost_usd: str | None = None


class Attachment(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """A reference to an image or a file; its bytes are in the ``AttachmentStore``.

    Attributes:
        id: ``sha256:`` and the hexadecimal digest of the bytes.
        name: How people call it; never a path.
        media_type: What the bytes are, as the server found; not what a client said.
        size: In bytes.
        width: Of an image in pixels, where its header says so.
        height: Of an image in pixels, where its header says so.
    """

    id: str
    name: str
    media_type: str
    size: int
    width: int | None = None
    height: int | None = None


class _MessageBase(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    tag_field="role",
    forbid_unknown_fields=True,
):
    """The fields of all messages; a field's annotation is its documentation for clients, too.

    ``format/`` decodes them from JSON, with msgspec alone if no conversion is needed.
    """

    content: str
    message_id: str
    timestamp: Annotated[str, Meta(description="UTC, ISO 8601 with microseconds")]
    turn_id: Annotated[str | None, Meta(description="the turn that it belongs to")] = None
    extra: Mapping[str, Any] = msgspec.field(default=NO_EXTRA, name=_NO_KEY)
    """Unknown keys of the file, kept for the next write."""


class UserMessage(_MessageBase, frozen=True, kw_only=True, gc=False, tag="user"):
    """A message of a person."""

    role: ClassVar[str] = "user"
    attachments: Annotated[tuple[Attachment, ...], Meta(description="images and files")] = ()
    hidden: Annotated[bool | None, Meta(description="not sent to the model")] = None


class SystemMessage(_MessageBase, frozen=True, kw_only=True, gc=False, tag="system"):
    """The system prompt."""

    role: ClassVar[str] = "system"
    attachments: ClassVar[tuple[Attachment, ...]] = ()
    hidden: ClassVar[bool | None] = None
    source_file: Annotated[str | None, Meta(description="the prompt file")] = None


class AssistantMessage(_MessageBase, frozen=True, kw_only=True, gc=False, tag="assistant"):
    """A message of a model."""

    role: ClassVar[str] = "assistant"
    attachments: ClassVar[tuple[Attachment, ...]] = ()
    model: Annotated[str, Meta(description="the model that answered")] = ""
    eval_count: Annotated[
        int | None, Meta(description="`output_tokens` of `usage`", extra_json_schema=DEPRECATED)
    ] = None
    prompt_eval_count: Annotated[
        int | None, Meta(description="`input_tokens` of `usage`", extra_json_schema=DEPRECATED)
    ] = None
    tool_calls: Annotated[Sequence[ToolCall], Meta(description="tools asked for")] = ()
    thinking: Annotated[str | None, Meta(description="the reasoning")] = None
    done_reason: Annotated[str | None, Meta(description="why the model stopped")] = None
    cancelled: Annotated[bool, Meta(description="stopped by a person")] = False
    interrupted: Annotated[bool, Meta(description="broken off")] = False
    answered_by: Annotated[str | None, Meta(description="the model that a profile named")] = None
    usage: Annotated[Usage | None, Meta(description="what the model call cost")] = None
    hidden: Annotated[bool | None, Meta(description="not sent to the model")] = None
    variants: "Sequence[Variant]" = ()
    """The answers that this one replaced, newest first; see ``variants.py``."""

    @property
    def is_complete(self) -> bool:
        """Return whether this is a finished answer: neither interrupted nor with tool calls."""
        return not (self.cancelled or self.interrupted or self.tool_calls)


class ToolMessage(_MessageBase, frozen=True, kw_only=True, gc=False, tag="tool"):
    """The result of a tool call, as text for the model."""

    role: ClassVar[str] = "tool"
    tool_name: Annotated[str, Meta(description="which tool")] = ""
    tool_call_id: Annotated[str | None, Meta(description="the call that this answers")] = None
    failed: Annotated[bool, Meta(description="the tool failed, or did not run")] = False
    error_code: Annotated[str | None, Meta(description="why, for programs")] = None
    arguments: Annotated[
        Mapping[str, Any] | None, Meta(description="what it ran with, if a person changed that")
    ] = None
    confirmation_id: Annotated[
        str | None, Meta(description="the question that was answered about the call")
    ] = None
    attachments: Annotated[tuple[Attachment, ...], Meta(description="images and files")] = ()
    links: Annotated[
        tuple[str, ...], Meta(description="resources of the tool's MCP server that it names")
    ] = ()
    hidden: Annotated[bool | None, Meta(description="not sent to the model")] = None


Message = UserMessage | SystemMessage | AssistantMessage | ToolMessage
MESSAGE_TYPES: Sequence[type[Message]] = get_args(Message)

Variant = Sequence[Message]
"""A replaced answer: its messages, oldest first, without variants of their own."""


def preview_of(messages: Sequence[Message]) -> str | None:
    """Return the beginning of the first user message, or None if there is none."""
    for message in messages:
        if isinstance(message, UserMessage):
            said = message.content or ", ".join(one.name for one in message.attachments)
            return said[:PREVIEW_LENGTH]
    return None


def title_of(preview: str | None) -> str | None:
    """Return the beginning of a first message as a title, or None if it has no words."""
    words = (preview or "").split()
    if not words:
        return None
    title = textwrap.shorten(" ".join(words), FIRST_TITLE_LENGTH, placeholder=_ELLIPSIS)
    return words[0][:FIRST_TITLE_LENGTH] if title == _ELLIPSIS.strip() else title


def usage_of(message: AssistantMessage) -> Usage | None:
    """Return what a message cost; those of older files have only its two counts."""
    asked, answered = message.prompt_eval_count, message.eval_count
    if message.usage is not None or (asked is None and answered is None):
        return message.usage
    return Usage(input_tokens=asked, output_tokens=answered)


def mark_changed(content: str, arguments: Mapping[str, Any]) -> str:
    """Add a note for the model to a call's result: a person changed the call's arguments."""
    return f"{_CHANGED}{msgspec.json.encode(arguments, enc_hook=dict).decode()}.)\n{content}"


def as_it_ran(call: ToolCall, result: ToolMessage | None) -> ToolCall:
    """Return a call with the arguments it was run with, which a person may have changed."""
    if result is None or result.arguments is None:
        return call
    return msgspec.structs.replace(call, arguments=result.arguments)


def result_content(result: ToolMessage) -> str:
    """Return a tool's result without the note of ``mark_changed``."""
    is_marked = result.arguments is not None and result.content.startswith(_CHANGED)
    return result.content.partition("\n")[2] if is_marked else result.content


def shown(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages that are not hidden from models."""
    found = [message for message in messages if not message.hidden]
    return messages if len(found) == len(messages) else found


def unhide(message: Message) -> Message:
    """Return the message as one that is sent to models."""
    return msgspec.structs.replace(message, hidden=None) if message.hidden else message


def mark_cancelled(content: str) -> str:
    """Append the marker of a cancelled answer to its text, for saving."""
    return f"{content}\n\n{CANCELLED_MARKER}" if content else CANCELLED_MARKER


def unmark_cancelled(content: str) -> str:
    """Remove the marker of ``mark_cancelled``, for sending the history to a model."""
    if content == CANCELLED_MARKER:
        return ""
    return content.removesuffix(f"\n\n{CANCELLED_MARKER}")
