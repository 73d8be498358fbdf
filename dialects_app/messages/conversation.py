"""Converts the messages of a request to session messages. Pure.

Providers want every call to have its result, and every result its call. A call without one, whose
client was interrupted, gets one that says so; a refusal would end the conversation for good.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from chat.start.preparation import given_up_result
from dialects_app.messages.blocks import Content, read_content
from dialects_app.messages.body import Block, Blocks, MessageIn
from dialects_app.shared import parsed_request
from dialects_app.shared.fields import refuse, required
from dialects_app.shared.files import GivenFile
from dialects_app.shared.sealed import Unsealer
from dialects_app.shared.transcript_merging import own_words
from models_app.call_arguments import arguments_of
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

_BILLING = "x-anthropic-billing-header:"
"""Begins a system block of Claude Code that differs in each request, and would spoil caches of
prompts (https://github.com/ollama/ollama/issues/14918)."""

_LATE_SYSTEM = "<system-reminder>\n{}\n</system-reminder>"
"""The form in which Claude Code itself reminds a model of something."""


class Conversation(parsed_request.Conversation, frozen=True, kw_only=True):
    """The messages of a request.

    Attributes:
        references: The deferred tools that the model was told of.
        left_out: A warning for each part that was left out.
        words: What a person said, without what the client added, by the ids of messages.
    """

    prompt_path: str = "system"
    references: frozenset[str]
    left_out: Sequence[str]
    words: Mapping[str, str]

    def what_follows(self) -> Self:
        """Return the messages after the last one of the assistant; a session has the others."""
        at = [i for i, each in enumerate(self.messages) if isinstance(each, AssistantMessage)]
        first = at[-1] + 1 if at else 0
        if first == len(self.messages):
            refuse(
                "messages",
                "Nothing follows the last message of the assistant, so there is nothing to answer.",
            )
        return replace(self, messages=self.messages[first:], paths=self.paths[first:])


def read_conversation(
    messages: Sequence[MessageIn], system: Blocks | None, *, continues: bool = False
) -> Conversation:
    """Return the messages of a request.

    Args:
        messages: The messages.
        system: The system prompt.
        continues: Whether a session has earlier messages, whose calls these may answer.

    Raises:
        ValidationFailed: A message is invalid; ``field`` is its path.
    """
    reader = _Reader(continues=continues)
    reader.add_system(system, "system")
    for index, message in enumerate(messages):
        reader.read(message, f"messages[{index}]")
    return reader.conversation()


class _Answer(msgspec.Struct):
    """An answer in one or more messages in a row; the path is that of the first."""

    path: str = ""
    texts: list[str] = []
    calls: list[ToolCall] = []
    seals: list[str] = []


class _Reader:
    """Reads messages in order; those between two of the assistant make a group."""

    def __init__(self, *, continues: bool) -> None:
        self._system: list[str] = []
        self._messages: list[Message] = []
        self._paths: list[str] = []
        self._files: list[GivenFile] = []
        self._references: set[str] = set()
        self._left_out: list[str] = []
        self._words: dict[str, str] = {}
        self._continues = continues
        self._now = utc_now()
        self._has_answer = False
        self._open: dict[str, str] = {}
        self._results: dict[str, tuple[ToolMessage, str]] = {}
        self._said: list[tuple[UserMessage, str]] = []
        self._answer = _Answer()
        self._seals: dict[int, list[str]] = {}

    def read(self, message: MessageIn, path: str) -> None:
        """Read the next message."""
        if message.role == "assistant":
            self._end_group()
            self._read_answer(message.content, f"{path}.content")
        elif message.role == "system" and not self._has_answer:
            self.add_system(message.content, f"{path}.content")
        elif message.role == "system":
            content = self._content(message.content, f"{path}.content")
            content.texts[:] = [_LATE_SYSTEM.format(content.text)]
            self._say(content, path)
        else:
            self._read_user(message.content, f"{path}.content", path)

    def add_system(self, content: Blocks | None, path: str) -> None:
        """Add to the system prompt."""
        found = self._content(content, path)
        if found.files:
            refuse(path, "A system prompt is made of texts.")
        self._system += [text for text in found.texts if text and not text.startswith(_BILLING)]

    def conversation(self) -> Conversation:
        """Return what was read."""
        self._end_group(is_last=True)
        unsealer = Unsealer()
        for at, seals in self._seals.items():
            if thoughts := [text for seal in seals if (text := unsealer.open(seal))]:
                self._messages[at] = replace(self._messages[at], thinking="\n\n".join(thoughts))
        return Conversation(
            system="\n\n".join(self._system) if self._system else None,
            messages=self._messages,
            paths=self._paths,
            files=self._files,
            references=frozenset(self._references),
            left_out=self._left_out,
            words=self._words,
        )

    def _read_user(self, blocks: Blocks, path: str, message_path: str) -> None:
        if not isinstance(blocks, str):
            for index, block in enumerate(blocks):
                if block.get("type") == "tool_result":
                    self._add_result(block, f"{path}[{index}]")
        content = self._content(blocks, path, but=("tool_result",))
        if content.text or content.files:
            self._say(content, message_path)

    def _say(self, content: Content, path: str) -> None:
        files = tuple(file.placeholder() for file in content.files)
        said = UserMessage(content=content.text, attachments=files, **_identity(self._now))
        words = replace(content, texts=own_words(content.texts))
        self._words[said.message_id] = words.text
        self._said.append((said, path))

    def _add_result(self, block: Block, path: str) -> None:
        call_id = required(block, "tool_use_id", path)
        if call_id in self._results:
            refuse(f"{path}.tool_use_id", f"The call {call_id[:100]!r} has two results.")
        if call_id not in self._open and not (self._continues and not self._has_answer):
            refuse(
                f"{path}.tool_use_id",
                f"The message of the assistant before it has no call {call_id[:100]!r}.",
                tool_call_id=call_id,
            )
        content = self._content(block.get("content"), f"{path}.content")
        result = ToolMessage(
            content=content.text,
            tool_name=self._open.pop(call_id, ""),
            tool_call_id=call_id,
            attachments=tuple(file.placeholder() for file in content.files),
            failed=block.get("is_error") is True,
            **_identity(self._now),
        )
        self._results[call_id] = (result, path)

    def _read_answer(self, blocks: Blocks, path: str) -> None:
        content = self._content(blocks, path, but=("tool_use",))
        answer, self._has_answer = self._answer, True
        answer.texts.append(content.text)
        answer.path = answer.path or path.removesuffix(".content")
        for index, block in enumerate(() if isinstance(blocks, str) else blocks):
            if block.get("type") == "tool_use":
                answer.calls.append(self._call(block, f"{path}[{index}]"))
            elif block.get("type") == "thinking" and isinstance(block.get("signature"), str):
                answer.seals.append(block["signature"])

    def _end_answer(self) -> None:
        answer, self._answer = self._answer, _Answer()
        if not answer.path:
            return
        self._seals[len(self._messages)] = answer.seals
        self._messages.append(
            AssistantMessage(
                content="\n\n".join(filter(None, answer.texts)),
                tool_calls=tuple(answer.calls),
                **_identity(self._now),
            )
        )
        self._paths.append(answer.path)

    def _call(self, block: Block, path: str) -> ToolCall:
        call_id, name = required(block, "id", path), required(block, "name", path)
        if call_id in self._open:
            refuse(f"{path}.id", f"Two calls have the id {call_id[:100]!r}.")
        self._open[call_id] = name
        arguments = block.get("input")
        if not isinstance(arguments, Mapping):
            refuse(f"{path}.input", f"Invalid type for '{path}.input': expected an object.")
        return ToolCall(id=call_id, name=name, arguments=arguments_of(arguments), client_side=True)

    def _content(self, blocks: Any, path: str, *, but: Sequence[str] = ()) -> Content:
        if blocks is not None and not isinstance(blocks, str | Sequence):
            refuse(path, f"Invalid type for '{path}': expected a text or blocks.")
        content = read_content(blocks, path, but=but)
        self._files += content.files
        self._references.update(content.references)
        self._left_out += content.left_out
        return content

    def _end_group(self, *, is_last: bool = False) -> None:
        """Add results, those of calls that have none included, and then what the user says.

        An answer of the assistant right after another one is the rest of it, and ends no group.
        """
        if not self._results and not self._said and not is_last:
            return
        self._end_answer()
        if self._said and not self._results:  # what a person says ends the tool loop
            self._seals.clear()
        for call_id, name in self._open.items():
            result = given_up_result(ToolCall(id=call_id, name=name, arguments={}))
            self._results[call_id] = (result, self._paths[-1])
        added: list[tuple[Message, str]] = [*self._results.values(), *self._said]
        self._messages += [message for message, _ in added]
        self._paths += [path for _, path in added]
        self._open, self._results, self._said = {}, {}, []


def _identity(now: str) -> dict[str, Any]:
    return {"message_id": new_message_id(), "timestamp": now}
