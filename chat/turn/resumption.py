"""Defines how a turn goes on that another process began, as a value (docs/decisions/0179)."""

from collections.abc import Sequence

import msgspec

from chat.approvals.decided_calls import NumberedCall
from chat.stream.events import FinishedCall, MessageTaken, ResumeReason
from sessions_app.messages import AssistantMessage


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """Describes how a turn goes on.

    Attributes:
        attempt: How often it goes on, from 1.
        reason: Why it goes on here.
        last_number: The number of its newest event; 0 if it begins with ``turn_started``.
        first_message_id: The user message that it answers, or else its first answer.
        begun: The answer that the model goes on with; None to ask anew.
        discarded_id: The answer that clients saw a part of, and that is void now.
        discarded: The texts that clients saw and that are void, oldest first; they become variants
            of the answer that replaces them (docs/decisions/0180).
        calls: The open calls, with their numbers.
        next_index: The number of the next call.
        unclear: The ids of open calls that may have run; they run only if a person approves them.
        lost: The ids of open calls that may have run, and don't run again.
        rounds: How many answers are saved.
        executed: The calls that ended before.
        taken: The messages that it took, of which its clients don't know.
    """

    attempt: int
    reason: ResumeReason
    last_number: int
    first_message_id: str | None
    begun: AssistantMessage | None = None
    discarded_id: str | None = None
    discarded: Sequence[AssistantMessage] = ()
    calls: Sequence[NumberedCall] = ()
    next_index: int = 0
    unclear: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    rounds: int = 0
    executed: Sequence[FinishedCall] = ()
    taken: Sequence[MessageTaken] = ()
