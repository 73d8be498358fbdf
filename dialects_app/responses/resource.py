"""Builds the resource of a response, with every field that Open Responses requires. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from chat.turn.usage import cost_of
from dialects_app.responses.ending import Ending
from dialects_app.responses.record import ResponseRecord
from dialects_app.shared.ids import created_at, response_id
from sessions_app.messages import Usage

Resource = dict[str, Any]

_ECHOED: Mapping[str, Any] = {
    "background": False,
    "conversation": None,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Values of parameters that a client did not send; Open Responses allows no null for numbers."""


class InputTokensOut(msgspec.Struct, kw_only=True):
    """The estimated number of tokens of a request."""

    object: str = "response.input_tokens"
    input_tokens: int


class ResponseDeletedOut(msgspec.Struct, kw_only=True):
    """Confirms the deletion of a response."""

    id: str
    object: str = "response"
    deleted: bool = True


def resource_of(
    record: ResponseRecord,
    *,
    session_id: str,
    turn_id: str,
    model: str,
    ending: Ending,
    output: Sequence[Any] = (),
    usage: Mapping[str, Any] | None = None,
    completed_at: int | None = None,
) -> Resource:
    """Return the resource of a response.

    Args:
        record: The parameters of its request.
        session_id: Its session.
        turn_id: Its turn.
        model: The session's model, used unless the record has another name.
        ending: Its end, or that it is running.
        output: Its items, ready for encoding.
        usage: ``usage_of``; None if unknown yet.
        completed_at: When its last answer was saved; shown if it is complete.
    """
    cut_by = ending.cut_by
    return {
        "id": response_id(session_id, turn_id),
        "object": "response",
        "created_at": created_at(turn_id),
        "status": ending.status,
        "completed_at": completed_at if ending.is_whole else None,
        "error": ending.error,
        "incomplete_details": None if cut_by is None else {"reason": cut_by},
        "model": model,
        **_ECHOED,
        **record.echo,
        "background": record.background,
        "output": output,
        "usage": usage,
    }


def usage_of(usage: Usage) -> dict[str, Any]:
    """Return the usage of a response; unknown numbers are 0.

    ``cost`` is in US dollars, as in OpenRouter's API; left out if unknown.
    """
    asked, answered = usage.input_tokens or 0, usage.output_tokens or 0
    shown: dict[str, Any] = {
        "input_tokens": asked,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": asked + answered,
    }
    cost = cost_of(usage)
    return shown if cost is None else {**shown, "cost": float(cost)}


def seconds_of(timestamp: str) -> int:
    """Return a session's or a message's time in seconds since 1970."""
    return int(datetime.fromisoformat(timestamp).timestamp())
