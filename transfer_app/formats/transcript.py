"""Assembles messages from the pieces of an export: texts, thoughts, calls. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sessions_app.messages import ToolCall
from transfer_app.formats.conversation import GivenFile, ImportedMessage
from transfer_app.formats.open_calls import OpenCalls
from transfer_app.formats.values import joined


class Transcript:
    """Collects the messages of one branch, oldest first.

    Reasoning is added to the answer that follows. A call is added to the last answer, and a result
    to the call with its id, or else to the first call of its tool without a result.
    """

    def __init__(self) -> None:
        self._messages: list[ImportedMessage] = []
        self._thoughts: list[str] = []
        self._thought_at: tuple[str, str | None] = ("", None)
        self._open = OpenCalls()
        self._calls = 0
        self._joining: list[ToolCall] = []  # the calls of the last message, until another one comes

    def user(
        self, key: str, text: str, at: str | None = None, *, files: Sequence[GivenFile] = ()
    ) -> None:
        """Add a user message, unless it is empty."""
        self._end_thoughts()
        self._open = OpenCalls()
        if text.strip() or files:
            self._add(
                ImportedMessage(role="user", key=key, content=text, timestamp=at, files=files)
            )

    def think(self, key: str, text: str, at: str | None = None) -> None:
        """Add reasoning of a model."""
        if text.strip():
            self._thought_at = (key, at)
            self._thoughts.append(text)

    def answer(
        self,
        key: str,
        text: str,
        at: str | None = None,
        *,
        model: str = "",
        interrupted: bool = False,
    ) -> None:
        """Add an answer of a model, unless it is empty."""
        if text.strip():
            self._add_answer(key, text, at, model=model, interrupted=interrupted)

    def call(
        self,
        key: str,
        name: str,
        arguments: Mapping[str, Any],
        at: str | None = None,
        *,
        call_id: str = "",
        model: str = "",
    ) -> None:
        """Add a tool call."""
        self._calls += 1
        call = ToolCall(id=call_id or f"call_{self._calls}", name=name, arguments=arguments)
        self._open.add(call)
        last = self._messages[-1] if self._messages else None
        if last is None or last.role != "assistant" or self._thoughts:
            self._add_answer(key, "", at, model=model)
        self._joining.append(call)

    def result(
        self,
        key: str,
        name: str,
        text: str,
        at: str | None = None,
        *,
        call_id: str = "",
        failed: bool = False,
        files: Sequence[GivenFile] = (),
    ) -> None:
        """Add the result of a tool call."""
        call = self._open.take(name, call_id)
        self._add(
            ImportedMessage(
                role="tool",
                key=key,
                content=text,
                timestamp=at,
                files=files,
                tool_name=name or (call.name if call else ""),
                tool_call_id=call.id if call else call_id or None,
                failed=failed,
            )
        )

    def messages(self) -> Sequence[ImportedMessage]:
        """Return all messages."""
        self._end_thoughts()
        self._end_calls()
        return tuple(self._messages)

    def _add_answer(
        self, key: str, text: str, at: str | None, *, model: str, interrupted: bool = False
    ) -> None:
        """Add an answer with the reasoning before it."""
        thinking = joined(*self._thoughts)
        self._thoughts.clear()
        self._add(
            ImportedMessage(
                role="assistant",
                key=key,
                content=text,
                timestamp=at,
                model=model,
                thinking=thinking or None,
                interrupted=interrupted,
            )
        )

    def _add(self, message: ImportedMessage) -> None:
        self._end_calls()
        self._messages.append(message)

    def _end_calls(self) -> None:
        """Give the last message its calls: all at once, as they may be many."""
        if self._joining:
            self._messages[-1] = msgspec.structs.replace(
                self._messages[-1], tool_calls=(*self._messages[-1].tool_calls, *self._joining)
            )
            self._joining.clear()

    def _end_thoughts(self) -> None:
        """Turn reasoning without an answer into a message."""
        if self._thoughts:
            key, at = self._thought_at
            self._add(
                ImportedMessage(
                    role="assistant",
                    key=key,
                    content="",
                    timestamp=at,
                    thinking=joined(*self._thoughts),
                )
            )
            self._thoughts.clear()
