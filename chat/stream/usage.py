"""Declares what model calls cost, as events tell it: by the names that saved messages have."""

from typing import Annotated, TypeVar

from msgspec import UNSET, Meta, UnsetType

from sessions_app.messages import DEPRECATED, Usage

Value = TypeVar("Value")
Deprecated = Annotated[Value, Meta(extra_json_schema=DEPRECATED)]
"""The type of a field that has a successor."""


class TurnUsage(Usage, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=False):
    """The cost of a turn: the sums over its model calls, and the time to the first token of all.

    What is not known is left out. Agents' turns are counted in their own sessions.
    """


class CallUsage(Usage, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=False):
    """The usage of the saved answer, and deprecated names of its tokens.

    What is not known is left out. There is no ``cost_usd`` in this release.
    """

    prompt_tokens: Deprecated[int | None] | UnsetType = UNSET
    completion_tokens: Deprecated[int | None] | UnsetType = UNSET
    total_tokens: Deprecated[int] | UnsetType = UNSET
