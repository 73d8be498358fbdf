"""Declares the record of a response, kept beside its session: what its client asked for. Pure.

A session's file holds what was said. That the client wanted no more than 100 tokens, or which
tools it offered, is nowhere in it, and a response repeats all that (docs/decisions/0061).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sessions_app.messages import NO_EXTRA

AGENT_EVENTS = "mochi.agent_events"
"""Of ``include``: the client wants to see what agents do, by events that OpenAI does not have."""


class ResumedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that an earlier response left open, and that this one runs.

    Attributes:
        name: The tool.
        arguments: Its arguments.
        confirmation_id: The question that was answered about it; None where nobody was asked.
    """

    name: str
    arguments: Mapping[str, Any]
    confirmation_id: str | None = None


class ResponseRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Holds what a response's client asked for, as far as its events and its resource show it.

    Attributes:
        echo: Parameters that the resource repeats, by their names there.
        background: Whether it runs without a listener.
        include: What the client wants to see beyond the usual.
        resumed: The calls that it resumes, by their ids.
    """

    echo: Mapping[str, Any] = NO_EXTRA
    background: bool = False
    include: Sequence[str] = ()
    resumed: Mapping[str, ResumedCall] = NO_EXTRA

    @property
    def shows_agents(self) -> bool:
        """Return whether the client wants to see what agents do."""
        return AGENT_EVENTS in self.include


class ResponseEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Holds what a session's file does not say of the end of a turn.

    Attributes:
        error_code: Our code of the error that ended it, if one did.
        error_message: Its words.
        questions: The confirmations that it waits for, by the ids of the calls.
    """

    error_code: str | None = None
    error_message: str = ""
    questions: Mapping[str, str] = NO_EXTRA


NO_RECORD = ResponseRecord()
"""Of a turn that was no response: of another protocol, or one whose record was lost."""
NO_END = ResponseEnd()
