"""Collects a model's answer from its deltas and makes the events. Pure."""

import secrets
from collections import defaultdict
from collections.abc import Container, Sequence
from io import StringIO

import msgspec
from msgspec import UNSET, UnsetType

from chat.stream.events import (
    ContentDelta,
    Event,
    StatusChanged,
    ThinkingContentDelta,
    ToolCallDelta,
)
from chat.turn.usage import usage_of_call
from models_app.cleaning import StreamCleaner, WholeCharacters
from models_app.language_model import (
    AnsweredBy,
    CallArgumentsDelta,
    CallDelta,
    Delta,
    Finished,
    Retrying,
    SchemaLeftOut,
    TextDelta,
    ThinkingDelta,
    Warned,
    WindowGrown,
)
from sessions_app.messages import AssistantMessage, ToolCall, Usage, mark_cancelled
from sessions_app.surrogates import is_unicode, join_surrogates, mend_call, mend_call_id

CALLS_CLIENT = "tool_calls"
"""The ``done_reason`` of an answer that asks for tools of the client."""


class _Trimmed:
    """Passes text on without the white space around it, piece by piece, as it will be saved.

    White space at the end of a piece waits for the next one. A piece of nothing else is shown when
    it comes: it may be a token in the middle, which would be late.
    """

    __slots__ = ("_has_begun", "_tail")

    def __init__(self, shown: str = "") -> None:
        self._has_begun = bool(shown)
        self._tail = ""

    def feed(self, text: str) -> str:
        """Return what is shown now."""
        if not self._has_begun:
            text = text.lstrip()
            self._has_begun = bool(text)
        elif not (self._tail or text[-1].isspace()):
            return text
        kept = text.rstrip() or text
        shown, self._tail = self._tail + kept, text[len(kept) :]
        return shown

    def shown(self, text: str) -> str:
        """Return what is shown of the whole text so far."""
        return text.lstrip().removesuffix(self._tail)


class ModelAnswer:
    """The answer of one model call while it arrives.

    Args:
        message_id: The id that the answer is saved under, fixed before the model is asked.
        first_call_index: The number within the turn of its first tool call.
        call_ids: The ids that calls of the session have; those of new calls are added.

    Attributes:
        message_id: The id that the answer is saved under.
        first_call_index: The number within the turn of the first call.
        calls: The tool calls so far, in order.
        finished: The last delta, once it has arrived.
        context_window: The window that the provider grew to, if it did.
        answered_by: The model that the session's profile names, if it has one.
        asked_at: The time of the request, on a monotonic clock; None before it.
        first_output_at: The time of the first output.
        holds_text: Whether the text is kept back, because it may not fit the answer schema. Beside
            a call it becomes reasoning: clients parse all text as the answer.
        ended_at: The end of the last request.
        parsed: The JSON of the text, once it is known to fit the answer schema.
    """

    __slots__ = (
        "_arguments_of",
        "_before",
        "_call_ids",
        "_cleaner",
        "_ends",
        "_named",
        "_shown_text",
        "_shown_thinking",
        "_text",
        "_thinking",
        "answered_by",
        "asked_at",
        "calls",
        "context_window",
        "ended_at",
        "finished",
        "first_call_index",
        "first_output_at",
        "has_output",
        "holds_text",
        "message_id",
        "parsed",
    )

    def __init__(
        self, message_id: str, first_call_index: int = 0, call_ids: set[str] | None = None
    ) -> None:
        self.message_id = message_id
        self.calls: list[ToolCall] = []
        self.finished: Finished | None = None
        self.context_window: int | None = None
        self.answered_by: str | None = None
        self.has_output = False
        self.holds_text = False
        self.asked_at: float | None = None
        self.first_output_at: float | None = None
        self.ended_at: float | None = None
        self.parsed: msgspec.Raw | UnsetType = UNSET
        self._ends: list[Finished] = []
        self._text = StringIO()
        self._thinking = StringIO()
        self._shown_text, self._shown_thinking = _Trimmed(), _Trimmed()
        self._cleaner = StreamCleaner()
        self._arguments_of: defaultdict[int, WholeCharacters] = defaultdict(WholeCharacters)
        self.first_call_index = first_call_index
        self._before: Finished | None = None
        self._call_ids = set[str]() if call_ids is None else call_ids
        self._named: dict[str, str] = {}

    @property
    def raw_text(self) -> str:
        """The cleaned text so far, including white space, which a model can continue."""
        return self._text.getvalue()

    @property
    def text(self) -> str:
        """The cleaned text so far as it is shown and saved, without the white space around it."""
        text = self._text.getvalue()
        return text.strip() if self.holds_text else self._shown_text.shown(text)

    @property
    def thinking(self) -> str | None:
        """The cleaned reasoning so far; None without any."""
        return self._shown_thinking.shown(self._thinking.getvalue()) or None

    @property
    def is_empty(self) -> bool:
        """Return whether the model stopped by itself without text or calls."""
        by_itself = self.finished is not None and self.finished.done_reason != "length"
        return by_itself and not self.calls and not self.text

    def leave_to_client(self, names: Container[str]) -> None:
        """Mark the calls of these tools as run by the client."""
        self.calls = [
            msgspec.structs.replace(call, client_side=True) if call.name in names else call
            for call in self.calls
        ]

    @property
    def is_left_to_client(self) -> bool:
        """Return whether there are calls and the client runs all of them."""
        return bool(self.calls) and all(call.client_side for call in self.calls)

    @property
    def usage(self) -> Usage | None:
        """Return the usage of the answer so far; None before the request."""
        asked_at = self.asked_at
        if asked_at is None:
            return None
        first, ended = self.first_output_at, self.ended_at
        return usage_of_call(
            self._ends,
            seconds_to_first_token=None if first is None else first - asked_at,
            seconds=None if ended is None else ended - asked_at,
        )

    @property
    def shows_text(self) -> bool:
        """Return whether clients have seen text of the answer."""
        return bool(self.text) and not self.holds_text

    def begin_again(self) -> None:
        """Drop what nobody has seen of an answer that is requested again; reasoning is kept."""
        self._cleaner, self._text, self.calls = StreamCleaner(), StringIO(), []

    def take_up(self, text: str, thinking: str) -> None:
        """Begin with what clients saw of it before its process died."""
        self._text.write(text)
        self._thinking.write(thinking)
        self._shown_text, self._shown_thinking = _Trimmed(text), _Trimmed(thinking)
        self.has_output = True

    def go_on(self) -> None:
        """Continue this answer with the output of another request.

        Reasoning without text is discarded: no model continues from the middle of its reasoning.
        """
        self._before = self.finished if self.text else None

    def absorb(self, batch: Sequence[Delta]) -> list[Event]:
        """Add a batch of deltas and return their events."""
        events: list[Event] = []
        for delta in batch:
            if type(delta) is TextDelta:
                text = delta.text
                if text and self._cleaner.passes(text):
                    self._say(events, text)
                else:
                    self._add(events, *self._cleaner.feed_text(text))
            elif type(delta) is ThinkingDelta:
                self._add(events, "", self._cleaner.feed_thinking(delta.text))
            elif type(delta) is CallArgumentsDelta:
                self.has_output = True
                events += self._set_text_aside()
                events.append(self._arguments(delta))
            elif type(delta) is CallDelta:
                events += self._set_text_aside()
                call = mend_call(delta.call)
                name = self._name_call(call.id)
                del self._named[call.id]  # another call may come with it
                self.calls.append(msgspec.structs.replace(call, id=name))
                self.has_output = True
            elif type(delta) is Finished:
                self._add(events, *self._cleaner.finish())
                if self.calls:
                    events += self._set_text_aside()
                    self.holds_text = False
                self._ends.append(delta)
                self.finished = _together(self._before, delta)
                self.has_output = True
            else:
                events += self._notice(delta)
        return events

    def show_text(self) -> list[Event]:
        """Return the event of the text that was kept back, and keep back no more."""
        held, self.holds_text = self.raw_text if self.holds_text else "", False
        shown = self._shown_text.feed(held) if held else ""
        return [ContentDelta(content=shown)] if shown else []

    def drop_text(self) -> str:
        """Remove the text, and keep back no more; return it. What was shown must be reset."""
        dropped, self._text, self.holds_text = self.text, StringIO(), False
        self._shown_text = _Trimmed()
        self._before = None
        return dropped

    def absorb_text(self, batch: Sequence[Delta]) -> list[Event] | None:
        """Like ``absorb``, but return None and add nothing if a delta is not text."""
        for delta in batch:
            if type(delta) is not TextDelta and type(delta) is not ThinkingDelta:
                return None
        return self.absorb(batch)

    def message(
        self,
        *,
        model: str,
        timestamp: str,
        turn_id: str | None = None,
        cancelled: bool = False,
        interrupted: bool = False,
    ) -> AssistantMessage:
        """Return the message to save. A cancelled one loses its calls, which did not run."""
        finished = self.finished or Finished()
        calls = () if cancelled or interrupted else tuple(self.calls)
        done_reason = finished.done_reason and join_surrogates(finished.done_reason)
        return AssistantMessage(
            content=mark_cancelled(self.text) if cancelled else self.text,
            message_id=self.message_id,
            timestamp=timestamp,
            model=model,
            eval_count=finished.eval_count,
            prompt_eval_count=finished.prompt_eval_count,
            tool_calls=calls,
            thinking=self.thinking,
            done_reason=CALLS_CLIENT if any(it.client_side for it in calls) else done_reason,
            cancelled=cancelled,
            interrupted=interrupted,
            answered_by=self.answered_by,
            turn_id=turn_id,
            usage=self.usage,
        )

    def _set_text_aside(self) -> list[Event]:
        """Make text that is kept back reasoning, and return its event."""
        events: list[Event] = []
        if self.holds_text and self.text:
            said, self._text = self.raw_text, StringIO()
            self._add(events, "", f"\n\n{said}" if self.thinking else said)
        return events

    def _notice(self, delta: Delta) -> list[Event]:
        """Note how the answer comes about, and return the event for the client, if there is one."""
        if type(delta) is WindowGrown:
            self.context_window = delta.context_window
        elif type(delta) is AnsweredBy:
            self.answered_by = delta.model
        elif type(delta) is SchemaLeftOut:
            self.holds_text = True
        elif type(delta) is Retrying:
            return [StatusChanged(state="retrying")]
        elif type(delta) is Warned:
            return [StatusChanged(state="warning", message=delta.message)]
        return []

    def _arguments(self, delta: CallArgumentsDelta) -> ToolCallDelta:
        is_first = delta.call_index not in self._arguments_of
        is_named = is_first and delta.name and is_unicode(delta.name)
        return ToolCallDelta(
            tool_name=delta.name if is_named else UNSET,
            call_index=self.first_call_index + delta.call_index,
            tool_call_id=self._name_call(mend_call_id(delta.call_id)),
            arguments=self._arguments_of[delta.call_index].feed(delta.arguments),
        )

    def _name_call(self, call_id: str) -> str:
        """Return a call's id in the session, as models repeat them (docs/decisions/0113)."""
        if call_id not in self._named:
            name = call_id
            while not name or name in self._call_ids:
                name = f"call_{secrets.token_hex(12)}"
            self._call_ids.add(name)
            self._named[call_id] = name
        return self._named[call_id]

    def _add(self, events: list[Event], text: str, thinking: str) -> None:
        if thinking:
            self._thinking.write(thinking)
            self.has_output = True
            if shown := self._shown_thinking.feed(thinking):
                events.append(ThinkingContentDelta(content=shown))
        if text:
            self._say(events, text)

    def _say(self, events: list[Event], text: str) -> None:
        self._text.write(text)
        self.has_output = True
        if not self.holds_text and (shown := self._shown_text.feed(text)):
            events.append(ContentDelta(content=shown))


def _together(before: Finished | None, last: Finished) -> Finished:
    """Return the combined end of an answer that took two requests, the second continuing the first.

    Prompt tokens are those of the first request, completion tokens those of both.
    """
    if before is None:
        return last
    known = before.eval_count is not None and last.eval_count is not None
    return Finished(
        last.done_reason,
        before.prompt_eval_count,
        (before.eval_count or 0) + (last.eval_count or 0) if known else None,
    )
