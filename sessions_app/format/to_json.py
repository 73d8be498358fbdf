"""Converts sessions to JSON values for files and HTTP responses. Pure.

Keys of the base format are always written, later optional keys only if they are set.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from sessions_app.context_state import context_state_to_json
from sessions_app.format.json_pieces import LongList
from sessions_app.format.message_format import message_to_json, size_of_message
from sessions_app.format.metadata import PLAIN_FIELDS
from sessions_app.labels import LABELS
from sessions_app.messages import AssistantMessage, Message, usage_of
from sessions_app.session import AgentSettings, Session, SessionMetadata, ToolSettings, WindowConfig

# Later formats have policies for single tools instead of groups.
_GROUPED_VERSIONS = frozenset({"1.0", "1.1", "1.2", "1.3"})
_OPTIONAL_KEYS = dict.fromkeys(
    (
        *("options", "preview", "forked_from", "summary_due", "context_strategy"),
        *(name for name in PLAIN_FIELDS if name not in ("summary", "summary_model")),
    )
)
"""The first optional keys, in this order; later ones follow as declared."""
_LISTED_BYTES = 500
"""The typical size of a session in a list."""


def metadata_to_json(metadata: SessionMetadata) -> dict[str, Any]:
    """Convert metadata to their JSON value in files."""
    document: dict[str, Any] = {
        **_first_keys(metadata),
        "summary": metadata.summary,
        "summary_model": metadata.summary_model,
        "format_version": metadata.format_version,
        "tool_settings": tool_settings_to_json(
            metadata.tool_settings,
            with_group=metadata.format_version in _GROUPED_VERSIONS,
            is_file=True,
        ),
        "agent_settings": _fields_to_json(metadata.agent_settings),
        "context_window_config": _fields_to_json(metadata.context_window_config),
    }
    for key in _OPTIONAL_KEYS:
        value = getattr(metadata, key)
        if value is not None:
            document[key] = value
    if metadata.context_state is not None:
        document["context_state"] = context_state_to_json(metadata.context_state)
    # Our keys override unknown keys of the same name.
    return {**document, **{k: v for k, v in metadata.extra.items() if k not in document}}


def _first_keys(metadata: SessionMetadata) -> dict[str, Any]:
    """Return the first keys of files, responses and lists."""
    names = ("session_id", "model", "created_at", "updated_at", "message_count")
    return {name: getattr(metadata, name) for name in names}


def tool_settings_to_json(
    settings: ToolSettings | None, *, with_group: bool = True, is_file: bool = False
) -> dict[str, Any] | None:
    """Convert tool settings to their JSON value.

    Digests are for files only. So are scopes beside the policies, of which servers before them
    know only that they are texts; responses have them in the place of their tools' policies.
    """
    if settings is None:
        return None
    document: dict[str, Any] = {"tools": list(settings.tools)}
    if with_group or settings.tool_group is not None:
        document["tool_group"] = settings.tool_group
    document["execution_policy"] = settings.execution_policy
    if settings.tool_policies:
        document["tool_policies"] = dict(settings.tool_policies)
    if settings.tool_scopes:
        scopes = msgspec.to_builtins(settings.tool_scopes, enc_hook=dict)
        if is_file:
            document["tool_scopes"] = scopes
        else:
            document.setdefault("tool_policies", {}).update(scopes)
    if settings.approval_timeout_seconds is not None:
        document["approval_timeout_seconds"] = settings.approval_timeout_seconds
    if is_file and settings.tool_digests:
        document["tool_digests"] = dict(settings.tool_digests)
    if is_file and settings.digested_group is not None:
        document["digested_group"] = settings.digested_group
    return {**document, **settings.extra}


def _fields_to_json(value: AgentSettings | WindowConfig | None) -> dict[str, Any] | None:
    """Convert all fields to their JSON value, as they are declared, and unknown keys."""
    if value is None:
        return None
    fields = msgspec.structs.asdict(value)
    extra = fields.pop("extra")
    return {**fields, **extra}


def many_messages(messages: Sequence[Message], *, variants: bool = False) -> LongList:
    """Return messages as a list that is encoded in pieces.

    Variants are only counted unless ``variants`` is true.
    """
    if variants:
        return LongList(messages, _with_variants, size_of_message)
    return LongList(messages, _without_variants, partial(size_of_message, variants=False))


def many_sessions(
    sessions: Sequence[SessionMetadata],
    *,
    also: Callable[[SessionMetadata], Mapping[str, Any]] = lambda _: {},
) -> LongList:
    """Return a list of sessions that is encoded in pieces; ``also`` adds keys to each."""
    return LongList(
        sessions,
        lambda metadata: {**listing_entry(metadata), **also(metadata)},
        lambda _: _LISTED_BYTES,
    )


def _with_variants(message: Message) -> dict[str, Any]:
    document = _without_variants(message)
    if isinstance(message, AssistantMessage) and message.variants:
        variants = [list(map(_without_variants, variant)) for variant in message.variants]
        document["variants"] = variants
    return document


def _without_variants(message: Message) -> dict[str, Any]:
    if not isinstance(message, AssistantMessage):
        return message_to_json(message)
    count = len(message.variants)
    alone = msgspec.structs.replace(message, variants=()) if count else message
    document = message_to_json(alone)
    if message.usage is None and (usage := usage_of(message)) is not None:
        document["usage"] = msgspec.to_builtins(usage)
    return {**document, "variant_count": count} if count else document


def session_overview(session: Session) -> dict[str, Any]:
    """Return the response of create, PATCH and fork."""
    metadata = session.metadata
    document = {
        **_first_keys(metadata),
        "tool_settings": tool_settings_to_json(metadata.tool_settings or ToolSettings()),
        "agent_settings": _fields_to_json(metadata.agent_settings or AgentSettings()),
    }
    for key in ("options", "context_strategy", "on_crash", "forked_from"):
        value = getattr(metadata, key)
        if value is not None:
            document[key] = value
    return {**document, **_labels(metadata)}


def session_detail(session: Session) -> dict[str, Any]:
    """Return a whole session, with its messages as ``LongList``."""
    metadata = session.metadata
    return {
        **session_overview(session),
        "summary": metadata.summary,
        "summary_model": metadata.summary_model,
        "context_window_config": _fields_to_json(session.window),
        "format_version": metadata.format_version,
        "preview": metadata.preview,
        "messages": many_messages(session.messages),
    }


def listing_entry(metadata: SessionMetadata) -> dict[str, Any]:
    """Return a session's entry in a list."""
    return {
        **_first_keys(metadata),
        "summary": metadata.summary,
        "preview": metadata.preview,
        **_labels(metadata),
        **queue_of(metadata),
    }


def queue_of(metadata: SessionMetadata) -> dict[str, Any]:
    """Return what lists say of a session's inbox: nothing if no message waits."""
    if not metadata.queued:
        return {}
    return {"queued": metadata.queued, "queue_paused": metadata.queue_paused}


def _labels(metadata: SessionMetadata) -> dict[str, Any]:
    """Return the labels of a session that are set."""
    labels = {key: getattr(metadata, key) for key in LABELS}
    return {key: value for key, value in labels.items() if value not in (None, False)}
