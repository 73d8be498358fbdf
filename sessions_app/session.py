"""A session as a value, and the pure operations on it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from sessions_app.messages import NO_EXTRA, Message

FORMAT_VERSION = "1.3"
PREVIEW_LENGTH = 100

ExecutionPolicy = Literal["always_confirm", "never_confirm", "confirm_destructive"]


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools a session offers to its model, and who is asked before they run."""

    tools: Sequence[str] = ()
    tool_group: str | None = None
    execution_policy: ExecutionPolicy = "always_confirm"
    tool_policies: Mapping[str, ExecutionPolicy] = NO_EXTRA  # type: ignore[assignment]
    extra: Mapping[str, Any] = NO_EXTRA


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which agents a session's model may call."""

    enabled_agents: Sequence[str] = ()
    selection_metadata: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


class WindowConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The context window of a session (seed 000 section 12.1, ``context_window_config``).

    Attributes:
        dynamic_enabled: Whether the window grows by itself.
        current_window: Tokens sent as ``num_ctx`` last time, or None before the first request.
        last_adjustment: The reason of the last change.
        adjustment_history: The last ten changes, oldest first.
        manual_override: Whether ``current_window`` was set by hand.
    """

    dynamic_enabled: bool = True
    current_window: int | None = None
    last_adjustment: str | None = None
    adjustment_history: Sequence[Mapping[str, Any]] = ()
    manual_override: bool = False
    extra: Mapping[str, Any] = NO_EXTRA


class SessionMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a session but its messages. Times are UTC, ISO 8601 with microseconds."""

    session_id: str
    model: str
    created_at: str
    updated_at: str
    message_count: int = 0
    summary: Mapping[str, Any] | None = None
    summary_model: str | None = None
    format_version: str = FORMAT_VERSION
    tool_settings: ToolSettings | None = None
    agent_settings: AgentSettings | None = None
    context_window_config: WindowConfig | None = None
    options: Mapping[str, Any] | None = None
    preview: str | None = None
    forked_from: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation: its settings and its messages, oldest first."""

    metadata: SessionMetadata
    messages: tuple[Message, ...] = ()
    extra: Mapping[str, Any] = NO_EXTRA

    @property
    def session_id(self) -> str:
        """The ten hex digits that name the session and its file."""
        return self.metadata.session_id
