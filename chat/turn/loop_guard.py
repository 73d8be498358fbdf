"""Notices models that repeat a call whose result stays the same (docs/decisions/0141). Pure."""

from collections.abc import Sequence

import msgspec

from chat.errors import ToolLoop
from sessions_app.calls import results_of, round_of
from sessions_app.messages import AssistantMessage, Message, ToolCall, ToolMessage

FIRST_NOTED = 3
"""The round from which on the model is told that it repeats a call."""

_NOTE = (
    "\n\n[Note: the same call with the same result, {} times now. Repeating it changes nothing. "
    "Use what you have, try something else, or answer.]"
)
_CallKey = tuple[str, bytes]


class LoopGuard:
    """Counts for each call of a turn the rounds in which it had its latest result.

    Results are compared, not hashed: the session holds them anyway, and a comparison costs less.

    Args:
        limit: After this many rounds with the same result a call must not run again; 0 for no
            limit, and no notes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._latest: dict[_CallKey, tuple[ToolMessage, int]] = {}
        self._notes: dict[str, str] = {}

    def watch(self, messages: Sequence[Message]) -> None:
        """Count the calls of the round at the end of the history, if it ends with results."""
        last = messages[-1] if messages else None
        if not self._limit or not isinstance(last, ToolMessage):
            return
        start = round_of(messages, len(messages) - 1).start
        asking = messages[start]
        calls = asking.tool_calls if isinstance(asking, AssistantMessage) else ()
        results = dict(zip(map(_key, calls), results_of(messages, start), strict=True))
        for key, result in results.items():  # the same call twice in one round counts once
            if result is None:
                continue
            before, rounds = self._latest.get(key, (result, 0))
            rounds = rounds + 1 if _facts_of(before) == _facts_of(result) else 1
            self._latest[key] = result, rounds
            if rounds >= FIRST_NOTED:
                self._notes[result.message_id] = _NOTE.format(rounds)

    def noted(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages for the model, with the notes on repeated results of this turn."""
        if not self._notes:
            return messages
        return [
            msgspec.structs.replace(message, content=message.content + self._notes[name])
            if (name := message.message_id) in self._notes
            else message
            for message in messages
        ]

    def require_progress(self, calls: Sequence[ToolCall]) -> None:
        """Check that none of the calls had the same result as often as it may.

        Raises:
            ToolLoop: One had.
        """
        for call in calls:
            _, rounds = self._latest.get(_key(call), (None, 0))
            if self._limit and rounds >= self._limit:
                raise ToolLoop(call.name, rounds + 1)


def _key(call: ToolCall) -> _CallKey:
    return call.name, msgspec.json.encode(call.arguments, enc_hook=dict, order="deterministic")


def _facts_of(result: ToolMessage) -> tuple[object, ...]:
    return result.content, result.failed, *(each.id for each in result.attachments)
