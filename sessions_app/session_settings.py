"""Changes the settings of a session. Pure."""

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from sessions_app.errors import ValidationFailed
from sessions_app.labels import LABELS, changed_labels, with_labels
from sessions_app.messages import NO_EXTRA
from sessions_app.session import (
    AgentSettings,
    Session,
    ToolSettings,
    WindowConfig,
    with_metadata,
)
from sessions_app.text_rules import require_text

WINDOW_HISTORY_LENGTH = 10


class SettingsChanges(TypedDict, total=False):
    """The settings to change; missing and ``UNSET`` ones stay unchanged.

    Attributes:
        model: The model that answers from now on.
        tool_settings: Replaces all tool settings; None for no tools.
        agent_settings: Replaces all agent settings; None for no agents.
        options: Replaces all sampling options; None removes them.
        summary_model: The model that writes summaries; None leaves it to the server.
        context_strategy: How a history that is too long is shortened; None for the default.
        on_crash: What becomes of turns whose process dies; None for the default.
        context_window: A fixed size in tokens; None returns to an automatic size.
        title: The new title; None lets the server generate one again.
        metadata: Replaces the client's metadata; None removes it.
        pinned: Whether the session is pinned.
        archived: Whether the session is archived.
    """

    model: str | UnsetType
    tool_settings: ToolSettings | UnsetType | None
    agent_settings: AgentSettings | UnsetType | None
    options: Mapping[str, Any] | UnsetType | None
    summary_model: str | UnsetType | None
    context_strategy: str | UnsetType | None
    on_crash: str | UnsetType | None
    context_window: int | UnsetType | None
    title: str | UnsetType | None
    metadata: Mapping[str, Any] | UnsetType | None
    pinned: bool | UnsetType
    archived: bool | UnsetType


def given_settings(changes: SettingsChanges) -> Mapping[str, Any]:
    """Validate and return the given settings.

    Raises:
        TypeError: A name is not one of a setting.
        ValidationFailed: The model is blank, or the window not positive.
    """
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not UNSET}
    for name in given.keys() - SettingsChanges.__optional_keys__:
        raise TypeError(f"There is no setting {name!r}.")
    if "model" in given:
        require_text(given["model"], field="model")
    window = given.get("context_window")
    if window is not None and window < 1:
        raise ValidationFailed("context_window must be at least 1.", field="context_window")
    return {**given, **changed_labels(given)}


def named_summary_model(name: str | None) -> dict[str, str | None]:
    """Return the fields of the model that a client names for summaries, or takes back."""
    return {"summary_model": name, "summary_model_by": "person" if name else None}


def change_settings(session: Session, changes: Mapping[str, Any], *, now: str) -> Session:
    """Return the session with these settings, as validated by ``given_settings``."""
    fields = {**changes}
    tools = fields.pop("tool_settings", None) or ToolSettings()
    window = fields.pop("context_window", None)
    if "summary_model" in fields:
        fields |= named_summary_model(fields["summary_model"])
    if "agent_settings" in fields:
        fields["agent_settings"] = fields["agent_settings"] or AgentSettings()
    labels = {key: fields.pop(key) for key in LABELS if key in fields}
    if labels:
        session = with_labels(session, labels_changed_at=now, **labels)
    if fields:
        session = with_metadata(session, now=now, **fields)
    if "tool_settings" in changes:
        session = replace_tool_settings(session, tools, now=now)
    if "context_window" not in changes:
        return session
    if window is None:
        return follow_usage(session, now=now)
    return override_window(session, window, now=now)


def replace_tool_settings(session: Session, settings: ToolSettings, *, now: str) -> Session:
    """Replace the tool settings; the digests of tools that stay enabled are kept."""
    known = session.metadata.tool_settings or ToolSettings()
    if known.tool_group is not None and settings.tool_group == known.tool_group:
        digests, group = known.tool_digests, known.digested_group
    else:
        named = frozenset(settings.tools)
        digests = {name: said for name, said in known.tool_digests.items() if name in named}
        group = None
    settings = msgspec.structs.replace(
        settings, tool_digests=digests or NO_EXTRA, digested_group=group
    )
    return with_metadata(session, now=now, tool_settings=settings)


def ask_before_all_tools(session: Session) -> Session:
    """Reset all tool policies of the session, so that every tool call needs approval."""
    settings = session.metadata.tool_settings
    if settings is None:
        return session
    asking = msgspec.structs.replace(
        settings,
        execution_policy=ToolSettings().execution_policy,
        tool_policies=NO_EXTRA,
        tool_scopes=NO_EXTRA,
    )
    metadata = msgspec.structs.replace(session.metadata, tool_settings=asking)
    return msgspec.structs.replace(session, metadata=metadata)


def adjust_window(
    config: WindowConfig, tokens: int, *, reason: str, model: str, now: str
) -> WindowConfig:
    """Change the size of the window, and add the change to its history."""
    adjustment = {
        "timestamp": now,
        "model": model,
        "from_window": config.current_window,
        "to_window": tokens,
        "reason": reason,
    }
    return msgspec.structs.replace(
        config,
        current_window=tokens,
        last_adjustment=reason,
        adjustment_history=(*config.adjustment_history, adjustment)[-WINDOW_HISTORY_LENGTH:],
    )


def override_window(session: Session, tokens: int, *, now: str) -> Session:
    """Set a fixed context window; it stays until ``follow_usage``."""
    changed = adjust_window(
        session.window, tokens, reason="manual_override", model=session.metadata.model, now=now
    )
    changed = msgspec.structs.replace(changed, manual_override=True)
    return with_metadata(session, now=now, context_window_config=changed)


def follow_usage(session: Session, *, now: str) -> Session:
    """Return to an automatic window; the next request decides its size."""
    changed = msgspec.structs.replace(
        session.window, dynamic_enabled=True, manual_override=False, current_window=None
    )
    return with_metadata(session, now=now, context_window_config=changed)
