"""Converts a turn's events for clients that follow a thread, and need its messages. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from chat.stream.agent_events import AgentComplete, AgentStarted
from chat.stream.encoding import text_literal
from chat.stream.events import (
    ClientToolCall,
    ContentDelta,
    ContentReset,
    MessageTaken,
    ThinkingContentDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolResultReceived,
    TurnResumed,
    TurnStarted,
)
from chat.stream.numbered_event import NumberedEvent
from dialects_app.ag_ui.calls import ResumedCalls
from dialects_app.ag_ui.projector import RunProjector
from dialects_app.ag_ui.snapshot import shown_messages
from dialects_app.shared.shown_calls import FAILED, agent_arguments, result_text
from dialects_app.shared.spoken import text_in
from dialects_app.shared.turn_fold import TurnFold
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

_TEXTS = (ContentDelta.event, ThinkingContentDelta.event)


class FollowedRunProjector(RunProjector):
    """Also sends messages: those before the turn, and all again without what was discarded.

    Args:
        thread_id: The client's name of the session.
        before: The messages before the turn.
        shown: The same in AG-UI's form.
        resumed: Calls of an earlier turn that this turn runs.
    """

    def __init__(
        self,
        thread_id: str,
        before: Sequence[Message],
        shown: Sequence[Mapping[str, Any]],
        *,
        resumed: ResumedCalls,
    ) -> None:
        super().__init__(thread_id, resumed=resumed)
        self._before = before
        self._shown = shown
        self._turn = TurnMessages(resumed.calls)

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        """Return the run's events for these events. The hot path."""
        if len(events) > 1 and any(event.name == TurnResumed.event for event in events):
            return b"".join(self.feed((event,)) for event in events)
        for event in events:
            self._turn.follow(event)
        return super().feed(events)

    def _on_turn_started(self, started: TurnStarted) -> None:
        super()._on_turn_started(started)
        self._frames.add("MESSAGES_SNAPSHOT", messages=self._shown)

    def _discard(self) -> None:
        shown = shown_messages([*self._before, *self._turn.messages])
        self._frames.add("MESSAGES_SNAPSHOT", messages=shown)


class _Answer(msgspec.Struct, kw_only=True):
    message_id: str
    text: str = ""
    thinking: str = ""
    calls: list[ToolCall] = []


class TurnMessages(TurnFold):
    """Gathers the messages of a turn, as its session has them.

    Args:
        known: The ids of calls of earlier turns, whose messages are there.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        super().__init__()
        self._calls = set(known)
        self._entries: list[_Answer | Message] = []
        self._kind = ""
        self._pieces: list[str] = []

    @property
    def messages(self) -> Sequence[Message]:
        """The messages so far."""
        return [
            self._message(each) if isinstance(each, _Answer) else each for each in self._entries
        ]

    def _message(self, answer: _Answer) -> AssistantMessage:
        return AssistantMessage(
            content=answer.text.strip(),
            message_id=answer.message_id,
            timestamp="",
            model=self.model,
            thinking=answer.thinking.strip() or None,
            tool_calls=tuple(answer.calls),
            turn_id=self.turn_id,
        )

    def _answer(self) -> _Answer:
        for each in reversed(self._entries):
            if isinstance(each, _Answer) and each.message_id == self.message_id:
                return each
        self._entries.append(answer := _Answer(message_id=self.message_id))
        return answer

    def follow(self, event: NumberedEvent) -> None:
        """Take an event of a stream; pieces of a text are joined when something else comes."""
        name = event.name
        if name not in _TEXTS:
            self._join()
            super().follow(event)
            return
        if name != self._kind:
            self._join()
            self._kind = name
        self._pieces.append(text_literal(event.data)[1:-1])

    def _join(self) -> None:
        if not self._pieces:
            return
        text = text_in(self._pieces)
        self._pieces.clear()
        if self._kind == ContentDelta.event:
            self._answer().text += text
        else:
            self._answer().thinking += text

    def _on_content_reset(self, _: ContentReset) -> None:
        self._answer().text = ""

    def _on_turn_resumed(self, resumed: TurnResumed) -> None:
        super()._on_turn_resumed(resumed)
        void = resumed.discarded or ()
        self._entries = [each for each in self._entries if each.message_id not in void]

    def _on_message_taken(self, taken: MessageTaken) -> None:
        self._entries.append(
            UserMessage(
                content=taken.content,
                attachments=taken.attachments or (),
                message_id=taken.message_id,
                timestamp="",
                turn_id=self.turn_id,
            )
        )

    # Calls

    def _call(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> None:
        if call_id not in self._calls:
            self._calls.add(call_id)
            self._answer().calls.append(ToolCall(id=call_id, name=name, arguments=arguments))

    def _on_tool_call(
        self, call: ToolCallStarted | ClientToolCall | ToolConfirmationRequired
    ) -> None:
        self._call(call.tool_call_id, call.tool_name, call.arguments)

    _on_client_tool_call = _on_tool_call

    def _on_tool_call_confirmation_required(self, question: ToolConfirmationRequired) -> None:
        if not question.agent_name:
            self._on_tool_call(question)

    def _on_agent_start(self, started: AgentStarted) -> None:
        self._call(started.tool_call_id, started.agent_name, agent_arguments(started.instruction))

    def _on_tool_result(self, result: ToolResultReceived) -> None:
        self._call(result.tool_call_id, result.tool_name, result.arguments or {})
        self._result(result, result_text(result), result.attachments, failed=not result.success)

    def _on_agent_complete(self, complete: AgentComplete) -> None:
        self._result(complete, complete.output, failed=complete.output.startswith(FAILED))

    def _result(
        self,
        event: ToolResultReceived | AgentComplete,
        content: str,
        attachments: Sequence[Attachment] = (),
        *,
        failed: bool,
    ) -> None:
        self._entries.append(
            ToolMessage(
                content=content,
                attachments=tuple(attachments),
                message_id=event.tool_call_id,
                timestamp="",
                tool_name="",
                tool_call_id=event.tool_call_id,
                failed=failed,
                turn_id=self.turn_id,
            )
        )
