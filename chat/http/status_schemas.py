"""Declares the bodies of a session's status."""

from typing import Any

from ninja import Schema
from pydantic import ConfigDict, Field

from sessions_app.http.schemas import PauseReason


class WindowStatusOut(Schema):
    """The context window of a session, in tokens."""

    dynamic_enabled: bool
    current_window: int | None
    model_max_context: int | None
    last_adjustment_reason: str | None
    manual_override: bool


class ActiveTurnOut(Schema):
    """The turn that runs on a session."""

    turn_id: str
    state: str
    started_at: str
    first_message_id: str | None = Field(
        None,
        description="The user message that it answers, or else its first answer. What its stream "
        "shows comes after the former, or begins with the latter.",
    )
    resumes: int = Field(0, description="How often it went on after its process had died")


class SessionUsageOut(Schema):
    """The cost of a session's answers, replaced ones included; agents and summaries are not."""

    input_tokens: int = Field(description="Tokens of the requests, cached ones too")
    output_tokens: int = Field(description="Tokens of the answers, reasoning too")
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost_usd: str | None = Field(
        description="The known costs in US dollars: a decimal number; null where none is known"
    )
    cost_known: bool = Field(description="Whether no answer's cost is unknown")


class InboxStatusOut(Schema):
    """The messages that wait for the next turns of a session."""

    count: int
    paused: PauseReason | None = Field(
        description="Why they are not answered: `cancelled`, `failed`"
    )


class StatusOut(Schema):
    """Everything about a session but its messages, and what happens on it now."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "session_id": "a1b2c3d4e5",
                "model": "qwen3:14b",
                "message_count": 12,
                "context_window": {
                    "dynamic_enabled": True,
                    "current_window": 8192,
                    "model_max_context": 40960,
                    "last_adjustment_reason": "usage_threshold",
                    "manual_override": False,
                },
                "tools_enabled": True,
                "active_tools": ["add_numbers"],
                "execution_policy": "always_confirm",
                "agents_enabled": False,
                "enabled_agents": [],
                "system_prompt_file": "helpful.md",
                "summary": None,
                "summary_model": None,
                "active_turn": None,
                "inbox": {"count": 0, "paused": None},
                "usage": {
                    "input_tokens": 4200,
                    "output_tokens": 610,
                    "cached_tokens": 2048,
                    "cache_write_tokens": 0,
                    "reasoning_tokens": 128,
                    "cost_usd": "0.009046",
                    "cost_known": True,
                },
            }
        }
    )

    session_id: str
    model: str
    message_count: int
    context_window: WindowStatusOut
    tools_enabled: bool
    active_tools: list[str] = Field(
        description="The tools that the next request offers; a name that is not there is left out"
    )
    execution_policy: str
    agents_enabled: bool
    enabled_agents: list[str]
    system_prompt_file: str | None
    summary: dict[str, Any] | None
    summary_model: str | None
    active_turn: ActiveTurnOut | None
    inbox: InboxStatusOut
    usage: SessionUsageOut
