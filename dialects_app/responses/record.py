"""Declares the record of a response: the parameters of its request. Pure.

A session's file has the messages, but not the request's parameters, such as a limit of tokens or
the offered tools, which a response must repeat (docs/decisions/0061, 0149).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dialects_app.responses.tool_forms import NO_FORMS, ToolForms
from sessions_app.messages import NO_EXTRA

AGENT_EVENTS = "mochi.agent_events"
"""Of ``include``: the client wants to see what agents do, by events that OpenAI does not have."""
SEALED_REASONING = "reasoning.encrypted_content"
"""Of ``include``: the client sends reasoning back as it came."""


class ResponseRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parameters of a response's request that appear in its events and its resource.

    Attributes:
        echo: Parameters that the resource repeats, by name.
        background: Whether it runs without a client.
        include: The additional output that the client requested.
        forms: The forms of the client's tools that are not plain functions.
    """

    echo: Mapping[str, Any] = NO_EXTRA
    background: bool = False
    include: Sequence[str] = ()
    forms: ToolForms = NO_FORMS

    @property
    def shows_agents(self) -> bool:
        """Return whether the client requested the events of agents."""
        return AGENT_EVENTS in self.include

    @property
    def seals_reasoning(self) -> bool:
        """Return whether the client requested sealed reasoning."""
        return SEALED_REASONING in self.include


class ResponseEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts about the end of a turn that a session's file lacks.

    Attributes:
        error_code: Our code of the error that ended it, if any.
        error_message: The error message.
        is_retryable: Whether a retry may help after that error.
        questions: The pending confirmations, by call id.
    """

    error_code: str | None = None
    error_message: str = ""
    is_retryable: bool = True
    questions: Mapping[str, str] = NO_EXTRA


NO_RECORD = ResponseRecord()
"""Of a turn that was no response: of another protocol, or one whose record was lost."""
NO_END = ResponseEnd()
