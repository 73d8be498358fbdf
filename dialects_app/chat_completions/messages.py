"""Converts the messages of a request to session messages. Pure.

Every call needs a result and every result a call, as providers demand. Fields of our own answers
that clients send back (reasoning, refusals, nulls) are accepted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from chat.errors import MissingToolResult
from dialects_app.chat_completions.body import MessageIn, PartIn, ToolCallIn
from dialects_app.shared.fields import refuse
from dialects_app.shared.files import GivenFile, given_file
from dialects_app.shared.parsed_request import Conversation
from models_app.call_arguments import arguments_of
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

_SYSTEM_ROLES = frozenset({"system", "developer"})
_FILE_PARTS = ("image_url", "file")
_PARTS_OF = {
    "assistant": ("text", "refusal"),
    "user": ("text", *_FILE_PARTS),
    "tool": ("text", *_FILE_PARTS),
}
_ONLY_TEXT = ("text",)


def whole_conversation(messages: Sequence[MessageIn]) -> Conversation:
    """Parse the messages of a request with its whole history.

    Raises:
        ValidationFailed: A message is invalid; ``field`` is its path.
        MissingToolResult: A call has no result.
    """
    return _read(messages, calls_before=None)


def rest_of_conversation(messages: Sequence[MessageIn], first: int) -> Conversation:
    """Parse the messages from an index on; a copied session has the earlier ones.

    Raises:
        ValidationFailed, MissingToolResult: As for a whole conversation.
    """
    return _read(messages, first=first, calls_before=_calls_of(messages[first - 1]) or None)


def what_follows(messages: Sequence[MessageIn]) -> Conversation:
    """Parse the messages after the last assistant message; the session has the earlier ones.

    Raises:
        ValidationFailed: A message is invalid, or the last one is the assistant's.
        MissingToolResult: A call has no result.
    """
    last = max((i for i, each in enumerate(messages) if each.role == "assistant"), default=-1)
    if last == len(messages) - 1:
        refuse(
            "messages",
            "Nothing follows the last message of the assistant, so there is nothing to answer.",
        )
    calls = _calls_of(messages[last]) if last >= 0 else {}
    return _read(messages, first=last + 1, calls_before=calls)


def _calls_of(message: MessageIn) -> Mapping[str, str]:
    """Return the tools of a message's calls, by call id."""
    return {call.id: call.function.name for call in message.tool_calls or ()}


def _read(
    messages: Sequence[MessageIn], *, first: int = 0, calls_before: Mapping[str, str] | None
) -> Conversation:
    reader = _Reader(calls_before=calls_before)
    for index in range(first, len(messages)):
        reader.read(messages[index], f"messages[{index}]")
    reader.require_no_open_calls()
    return Conversation(
        system="\n\n".join(reader.system) if reader.system else None,
        messages=reader.messages,
        paths=reader.paths,
        files=reader.files,
    )


class _Reader:
    """Parses messages in order and pairs calls with their results.

    Args:
        calls_before: The tools of calls before the first message, by call id; the session
            knows which are open. None for a whole conversation.
    """

    def __init__(self, *, calls_before: Mapping[str, str] | None) -> None:
        self.system: list[str] = []
        self.messages: list[Message] = []
        self.paths: list[str] = []
        self.files: list[GivenFile] = []
        self._calls_before = calls_before
        self._open: dict[str, tuple[str, str]] = {}
        self._answered: set[str] = set()
        self._now = utc_now()

    def read(self, message: MessageIn, path: str) -> None:
        """Parse the next message."""
        if message.role in _SYSTEM_ROLES:
            self.system.append(_required_text(message, path))
        else:
            self.messages.append(self._message(message, path))
            self.paths.append(path)

    def _message(self, message: MessageIn, path: str) -> Message:
        if message.role == "tool":
            return self._result(message, path)
        self.require_no_open_calls()
        if message.role == "user":
            return UserMessage(
                content=_required_text(message, path),
                attachments=self._attachments(message, path),
                **self._identity(),
            )
        return self._answer(message, path)

    def require_no_open_calls(self) -> None:
        """Refuse calls without results."""
        for call_id, (_, path) in self._open.items():
            error = MissingToolResult(call_id)
            error.details["field"] = path
            raise error

    def _answer(self, message: MessageIn, path: str) -> AssistantMessage:
        if message.function_call is not None:
            refuse(f"{path}.function_call", "The old form of calls is not taken; use 'tool_calls'.")
        calls: list[ToolCall] = []
        for index, call in enumerate(message.tool_calls or ()):
            place = f"{path}.tool_calls[{index}]"
            calls.append(_call(call))
            if call.id in self._open:
                refuse(f"{place}.id", f"Two calls have the id {call.id[:100]!r}.")
            self._open[call.id] = (call.function.name, place)
        self._answered.clear()
        return AssistantMessage(
            content=_text(message, path) or message.refusal or "",
            tool_calls=tuple(calls),
            thinking=_reasoning(message),
            **self._identity(),
        )

    def _result(self, message: MessageIn, path: str) -> ToolMessage:
        call_id = message.tool_call_id
        if call_id is None:
            refuse(
                f"{path}.tool_call_id",
                "A message with the role 'tool' must say which call it answers.",
            )
        content = _required_text(message, path)
        return ToolMessage(
            content=content,
            tool_name=self._called(call_id, f"{path}.tool_call_id"),
            tool_call_id=call_id,
            attachments=self._attachments(message, path),
            **self._identity(),
        )

    def _attachments(self, message: MessageIn, path: str) -> tuple[Attachment, ...]:
        """Return placeholders for a message's images and files, and record the files."""
        if message.content is None or isinstance(message.content, str):
            return ()
        files = [
            given_file(msgspec.structs.asdict(part), f"{path}.content[{index}]")
            for index, part in enumerate(message.content)
            if part.type in _FILE_PARTS
        ]
        self.files += files
        return tuple(file.placeholder() for file in files)

    def _called(self, call_id: str, path: str) -> str:
        """Return the tool of an open call; "" if only the session knows it."""
        if call_id in self._answered:
            refuse(path, f"The call {call_id[:100]!r} has two results.")
        self._answered.add(call_id)
        if (opened := self._open.pop(call_id, None)) is not None:
            return opened[0]
        if self._calls_before is None:
            refuse(
                path,
                "A message with the role 'tool' must answer a call of the assistant's message "
                f"before it; there is no call {call_id[:100]!r}.",
                tool_call_id=call_id,
            )
        return self._calls_before.get(call_id, "")

    def _identity(self) -> dict[str, Any]:
        return {"message_id": new_message_id(), "timestamp": self._now}


def _call(call: ToolCallIn) -> ToolCall:
    arguments = arguments_of(call.function.arguments)
    return ToolCall(id=call.id, name=call.function.name, arguments=arguments, client_side=True)


def _reasoning(message: MessageIn) -> str | None:
    for reasoning in (message.reasoning_content, message.reasoning):
        if isinstance(reasoning, str) and reasoning:
            return reasoning
    return None


def _required_text(message: MessageIn, path: str) -> str:
    text = _text(message, path)
    if text is None:
        refuse(
            f"{path}.content",
            f"Invalid value for '{path}.content': expected a string, got null.",
        )
    return text


def _text(message: MessageIn, path: str) -> str | None:
    """Return the text of a message, one line per part; None without text."""
    content = message.content
    if content is None or isinstance(content, str):
        return content
    allowed = _PARTS_OF.get(message.role, _ONLY_TEXT)
    texts = [
        _text_of(part, f"{path}.content[{index}]", allowed)
        for index, part in enumerate(content)
        if part.type not in _FILE_PARTS or part.type not in allowed
    ]
    return "\n".join(texts)


def _text_of(part: PartIn, path: str, allowed: Sequence[str]) -> str:
    if part.type not in allowed:
        refuse(
            f"{path}.type" if part.type not in _KNOWN_PARTS else path,
            f"Parts of the type {part.type[:40]!r} can't be taken here, only "
            f"{' and '.join(allowed)}.",
        )
    text = part.refusal if part.type == "refusal" else part.text
    if text is None:
        field = f"{path}.{part.type}"
        refuse(field, f"Missing required parameter: '{field}'.")
    return text


_KNOWN_PARTS = frozenset({"text", "refusal", "image_url", "input_audio", "file"})
