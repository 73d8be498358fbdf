"""Declares the notes that a turn journals for other processes, which are never sent."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from chat.stream.events import FinishedCall, ResumeReason


class RoundBegan(msgspec.Struct, frozen=True, kw_only=True):
    """A model call begins; its answer is saved under this id, and may replace another one.

    Its first tool call has the number ``first_call_index`` within the turn.
    """

    event: ClassVar[str] = "round"
    message_id: str
    model: str = ""
    replaced_id: str | UnsetType | None = UNSET
    first_call_index: int = 0


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """The turn was cancelled while these operations were running."""

    event: ClassVar[str] = "stopped"
    upstream: bool
    tools: Sequence[str]
    agents: Sequence[str]


class Suspended(msgspec.Struct, frozen=True, kw_only=True):
    """The turn ended because calls wait for an approval and no client listens."""

    event: ClassVar[str] = "suspended"
    message_id: str | None
    confirmations: Sequence[Mapping[str, Any]]
    tool_calls: Sequence[FinishedCall]


class HandedOver(msgspec.Struct, frozen=True):
    """The process stops and lets go of the turn, with which another one goes on."""

    event: ClassVar[str] = "handed_over"


class JobNoted(msgspec.Struct, frozen=True, kw_only=True):
    """The turn's request, without what is saved elsewhere: another process can go on with it.

    Written before the first event, and again once the turn is detached: the last one counts.
    """

    event: ClassVar[str] = "job"
    v: int = 1
    detached: bool
    keyed: bool
    request: Mapping[str, Any]

    @property
    def is_wanted(self) -> bool:
        """Return whether anybody can come back for the turn."""
        return self.detached or self.keyed


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """Another process goes on with the turn; written before anything of the turn runs there."""

    event: ClassVar[str] = "resumed"
    attempt: int
    owner: str
    reason: ResumeReason


Note = RoundBegan | Stopped | Suspended | HandedOver | JobNoted | Resumed
