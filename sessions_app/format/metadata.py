"""Reads the metadata of a session's file, of any version of the format. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sessions_app.context_state import context_state_from_json
from sessions_app.decoding import convert_to
from sessions_app.format.fields import Malformed, Raw, take, take_names, take_optional, utc
from sessions_app.labels import LABELS
from sessions_app.messages import NO_EXTRA
from sessions_app.policy_scope import PolicyScope
from sessions_app.session import AgentSettings, SessionMetadata, ToolSettings, WindowConfig

_PLAIN_TYPES: Mapping[Any, type] = {
    str | None: str,
    bool | None: bool,
    int | None: int,
    Mapping[str, Any] | None: dict,
}

PLAIN_FIELDS: Mapping[str, type] = {
    field.name: _PLAIN_TYPES[field.type]
    for field in msgspec.structs.fields(SessionMetadata)
    if field.type in _PLAIN_TYPES
}
"""The optional fields stored without conversion, with the classes of their values.

They are declared only in ``SessionMetadata``.
"""

_TAKEN_BEFORE = frozenset({*LABELS, "imported_from", "client_id", "queued", "queue_paused"})
"""Keys that other programs may have used earlier, with another meaning."""


def read_metadata(raw: Raw, session_id: str) -> SessionMetadata:
    """Convert metadata, migrated to the current version, with unknown keys in ``extra``.

    The session's id comes from the file's name, not from the metadata.

    Raises:
        Malformed: A field has a wrong type; the message names it.
    """
    raw = _migrate(raw)
    raw.pop("session_id", None)
    where = "metadata"
    created_at = take_optional(raw, "created_at", str, where)
    updated_at = take_optional(raw, "updated_at", str, where, created_at)
    if updated_at is None:
        raise Malformed("metadata.created_at is missing")
    return SessionMetadata(
        session_id=session_id,
        model=take(raw, "model", str, where),
        created_at=utc(created_at or updated_at),
        updated_at=utc(updated_at),
        message_count=take_optional(raw, "message_count", int, where, 0),
        format_version=take(raw, "format_version", str, where),
        tool_settings=_read_tool_settings(take_optional(raw, "tool_settings", dict, where)),
        agent_settings=_read_agent_settings(take_optional(raw, "agent_settings", dict, where)),
        context_window_config=_read_window(
            take_optional(raw, "context_window_config", dict, where)
        ),
        context_state=context_state_from_json(take_optional(raw, "context_state", dict, where)),
        **{
            name: take_optional(raw, name, kind, where)
            for name, kind in PLAIN_FIELDS.items()
            if name in raw and (name not in _TAKEN_BEFORE or isinstance(raw[name], kind | None))
        },
        extra=raw or NO_EXTRA,
    )


_ADDED: Mapping[str, tuple[str, str]] = {
    "1.0": ("tool_settings", "1.1"),
    "1.1": ("context_window_config", "1.2"),
    "1.2": ("agent_settings", "1.3"),
}
"""The key that came after a version, and the version that has it."""


def _migrate(metadata: Raw) -> Raw:
    version = metadata.get("format_version")
    if version is None:
        version = "1.1" if "tool_settings" in metadata else "1.0"
    while isinstance(version, str) and version in _ADDED:
        key, version = _ADDED[version]
        metadata = {key: None, **metadata, "format_version": version}
    return metadata


def _read_tool_settings(raw: Raw | None) -> ToolSettings | None:
    if raw is None:
        return None
    where = "metadata.tool_settings"
    policies = take_optional(raw, "tool_policies", dict, where, {})
    if not all(isinstance(policy, str) for policy in policies.values()):
        raise Malformed(f"{where}.tool_policies holds something that is not text")
    digests, group = _take_digests(raw)
    scopes = _take_scopes(raw)
    return ToolSettings(
        tools=take_names(raw, "tools", where),
        tool_group=take_optional(raw, "tool_group", str, where),
        execution_policy=take_optional(raw, "execution_policy", str, where, "always_confirm"),
        tool_policies=policies or NO_EXTRA,
        tool_scopes=scopes,
        approval_timeout_seconds=take_optional(raw, "approval_timeout_seconds", int, where),
        tool_digests=digests,
        digested_group=group,
        extra=raw or NO_EXTRA,
    )


def _take_digests(raw: Raw) -> tuple[Mapping[str, str], str | None]:
    """Pop the digests; values of a wrong type are left as unknown keys."""
    digests, group = raw.get("tool_digests"), raw.get("digested_group")
    if not isinstance(digests, dict) or not all(isinstance(d, str) for d in digests.values()):
        return NO_EXTRA, None
    del raw["tool_digests"]
    if not isinstance(group, str):
        return digests, None
    del raw["digested_group"]
    return digests, group


def _take_scopes(raw: Raw) -> Mapping[str, Sequence[PolicyScope]]:
    """Pop the scopes of policies; those of a wrong type are left as an unknown key."""
    try:
        scopes = convert_to(raw.get("tool_scopes", {}), dict[str, tuple[PolicyScope, ...]])
    except msgspec.ValidationError:
        return NO_EXTRA
    raw.pop("tool_scopes", None)
    return scopes or NO_EXTRA


def _read_agent_settings(raw: Raw | None) -> AgentSettings | None:
    if raw is None:
        return None
    where = "metadata.agent_settings"
    return AgentSettings(
        enabled_agents=take_names(raw, "enabled_agents", where),
        selection_metadata=take_optional(raw, "selection_metadata", dict, where),
        extra=raw or NO_EXTRA,
    )


def _read_window(raw: Raw | None) -> WindowConfig | None:
    if raw is None:
        return None
    where = "metadata.context_window_config"
    history = take_optional(raw, "adjustment_history", list, where, [])
    if not all(isinstance(item, dict) for item in history):
        raise Malformed(f"{where}.adjustment_history holds something that is not an object")
    return WindowConfig(
        dynamic_enabled=take_optional(raw, "dynamic_enabled", bool, where, default=True),
        current_window=take_optional(raw, "current_window", int, where),
        last_adjustment=take_optional(raw, "last_adjustment", str, where),
        adjustment_history=tuple(history),
        manual_override=take_optional(raw, "manual_override", bool, where, default=False),
        extra=raw or NO_EXTRA,
    )
