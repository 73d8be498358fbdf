"""Declares sessions as values, with the operations on their messages. Pure.

Every operation takes the time (``now``: UTC, ISO 8601 with microseconds) and returns a new session
with updated ``updated_at``, ``message_count`` and ``preview``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from sessions_app.context_state import ContextState
from sessions_app.errors import (
    InvalidMessageIndex,
    SessionReadOnly,
    SystemPromptNotSet,
)
from sessions_app.inbox import EMPTY_INBOX, Inbox
from sessions_app.messages import NO_EXTRA, Message, SystemMessage, preview_of, title_of
from sessions_app.policy_scope import PolicyScope
from sessions_app.text_rules import require_text

FORMAT_VERSION = "1.3"
KNOWN_MAJOR = "1"

AGENT_PREFIX = "agent:"
"""The prefix of a model name that refers to an agent (docs/decisions/0063)."""

MODEL_NAME_LENGTH = 300
"""The maximum length of a model name; providers react to longer ones in different ways."""

ExecutionPolicy = Literal["always_confirm", "never_confirm", "confirm_destructive"]
OnCrash = Literal["seal", "continue"]
"""The ends of a turn whose process died: its rest is saved, or another process goes on."""

ContextStrategy = Literal[
    "summarize_history",
    "truncate_by_tokens",
    "truncate_history",
    "filter_history",
    "filter_history+summarize_history",
    "filter_history+truncate_by_tokens",
    "none",
]


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a session offers to its model, and which of them need approval.

    Attributes:
        tools: Names of single tools.
        tool_group: A group whose tools are offered too.
        execution_policy: An ``ExecutionPolicy``. An unknown policy in a file, from a newer server,
            is kept and counts as ``always_confirm``.
        tool_policies: Policies of single tools, which override ``execution_policy``.
        tool_scopes: For calls with certain arguments, which override both, by the tool's name.
        approval_timeout_seconds: How long a question about a call is open; None for the default.
        tool_digests: Digests of MCP tools at the time they were enabled, by name.
        digested_group: The group whose tools have digests; others are new (docs/decisions/0034).
        extra: Unknown keys of the file, kept for the next write.
    """

    tools: Sequence[str] = ()
    tool_group: str | None = None
    execution_policy: str = "always_confirm"
    tool_policies: Mapping[str, str] = NO_EXTRA
    tool_scopes: Mapping[str, Sequence[PolicyScope]] = NO_EXTRA
    approval_timeout_seconds: int | None = None
    tool_digests: Mapping[str, str] = NO_EXTRA
    digested_group: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The agents that a session's model may call."""

    enabled_agents: Sequence[str] = ()
    selection_metadata: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = NO_EXTRA


class WindowConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The context window of a session.

    Attributes:
        dynamic_enabled: Whether the window grows automatically.
        current_window: The last ``num_ctx`` sent, in tokens; None if the next request decides.
        last_adjustment: The reason of the last change (docs/context.md).
        adjustment_history: The last ten changes, oldest first.
        manual_override: Whether ``current_window`` was set by hand.
        extra: Unknown keys of the file, kept for the next write.
    """

    dynamic_enabled: bool = True
    current_window: int | None = None
    last_adjustment: str | None = None
    adjustment_history: Sequence[Mapping[str, Any]] = ()
    manual_override: bool = False
    extra: Mapping[str, Any] = NO_EXTRA


class SessionMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A session without its messages. Times are UTC, ISO 8601 with microseconds.

    Attributes:
        session_id: Ten hex digits; the name of the session's file.
        model: The model that answers.
        created_at: When the session was created.
        updated_at: When the session was last changed.
        message_count: The number of messages, system prompt included.
        summary: ``{"summary": str, "topics": [str]}``, once there is one.
        summary_model: The model that writes summaries, or that wrote the first one.
        summary_model_by: ``person`` if a client named it, else None.
        summary_due: The time of the last answer not covered by a summary yet.
        format_version: The version of the file format; newer ones are preserved.
        tool_settings: Tools offered to the model; None counts as none.
        agent_settings: Agents offered to the model; None counts as none.
        context_window_config: The context window; None counts as ``WindowConfig()``.
        context_strategy: How a history that is too long is shortened; None for the default.
        on_crash: What becomes of turns whose process dies; None for the default.
        context_state: The messages that are no longer sent to the model.
        options: Sampling options (temperature, seed, ...), passed on unchanged.
        preview: The first user message, ``PREVIEW_LENGTH`` characters at most.
        forked_from: ``{"session_id": str, "message_index": int}`` of a copy.
        title: The title in lists.
        titled_by: The origin of the title: ``person``, ``model`` or ``message`` (its beginning).
        metadata: Arbitrary data of a client.
        pinned: Whether a person pinned it; None counts as False.
        archived: Whether a person archived it; None counts as False.
        history_changed_at: When messages were deleted, hidden or shown: token counts of earlier
            requests do not apply any more.
        labels_changed_at: When a person or a client last set a label, which leaves ``updated_at``.
        refused_at: ``updated_at`` of a session made for a refused chat request, as long as it has
            not changed since.
        imported_from: ``{"source": str, "id": str}``: the origin of an imported conversation; of
            another server's session, ``mochi`` and its id there.
        client_id: The client's own id of the conversation, if it was created by that.
        queued: The number of messages in the inbox; None without any, also none that a turn took
            just now.
        queue_paused: Why no turn takes them.
        extra: Unknown keys of the file, kept for the next write.
    """

    session_id: str
    model: str
    created_at: str
    updated_at: str
    message_count: int = 0
    summary: Mapping[str, Any] | None = None
    summary_model: str | None = None
    summary_model_by: str | None = None
    summary_due: str | None = None
    format_version: str = FORMAT_VERSION
    tool_settings: ToolSettings | None = None
    agent_settings: AgentSettings | None = None
    context_window_config: WindowConfig | None = None
    context_strategy: str | None = None
    on_crash: str | None = None
    context_state: ContextState | None = None
    options: Mapping[str, Any] | None = None
    preview: str | None = None
    forked_from: Mapping[str, Any] | None = None
    title: str | None = None
    titled_by: str | None = None
    metadata: Mapping[str, Any] | None = None
    pinned: bool | None = None
    archived: bool | None = None
    history_changed_at: str | None = None
    labels_changed_at: str | None = None
    refused_at: str | None = None
    imported_from: Mapping[str, Any] | None = None
    client_id: str | None = None
    queued: int | None = None
    queue_paused: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA

    @property
    def is_copy(self) -> bool:
        """Return whether messages may come from a session with approvals of its own."""
        return self.forked_from is not None or self.imported_from is not None

    @property
    def answering_agent(self) -> str | None:
        """The name of the agent that answers, if ``model`` is ``agent:<name>``."""
        return agent_named(self.model)

    @property
    def callable_agents(self) -> Sequence[str]:
        """The agents that the model may call; only the answering agent if there is one."""
        if (agent := self.answering_agent) is not None:
            return (agent,)
        return self.agent_settings.enabled_agents if self.agent_settings else ()


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation: its settings and its messages, oldest first.

    Attributes:
        metadata: The settings.
        messages: A tuple.
        inbox: Messages that wait for the next turn.
        extra: Unknown keys of the file, kept for the next write.
    """

    metadata: SessionMetadata
    messages: Sequence[Message] = ()
    inbox: Inbox = EMPTY_INBOX
    extra: Mapping[str, Any] = NO_EXTRA

    @property
    def session_id(self) -> str:
        """The ten hex digits that name the session and its file."""
        return self.metadata.session_id

    @property
    def window(self) -> WindowConfig:
        """The context window's configuration, or the default if there is none."""
        return self.metadata.context_window_config or WindowConfig()

    @property
    def system_prompt(self) -> SystemMessage | None:
        """The system prompt: the first message, if it is one."""
        first = self.messages[0] if self.messages else None
        return first if isinstance(first, SystemMessage) else None

    @property
    def last_message_id(self) -> str:
        """The id of the last message; empty without messages."""
        return self.messages[-1].message_id if self.messages else ""


def agent_named(model: str) -> str | None:
    """Return the agent that a model name refers to, or None."""
    return model.removeprefix(AGENT_PREFIX) if model.startswith(AGENT_PREFIX) else None


def make_session(session_id: str, model: str, *, now: str, **settings: Any) -> Session:
    """Return a new, empty session; ``settings`` are other fields of its metadata.

    Raises:
        ValidationFailed: The model is blank.
    """
    require_text(model, field="model")
    metadata = SessionMetadata(
        session_id=session_id,
        model=model,
        created_at=now,
        updated_at=now,
        context_window_config=WindowConfig(),
        **{"tool_settings": ToolSettings(), "agent_settings": AgentSettings(), **settings},
    )
    return Session(metadata=metadata)


def with_messages(session: Session, messages: Sequence[Message], *, now: str) -> Session:
    """Replace the messages of the session, and a title that is the beginning of the first one."""
    messages, metadata = tuple(messages), session.metadata
    preview = preview_of(messages)
    title, titled_by = metadata.title, metadata.titled_by
    if titled_by == "message" and preview != metadata.preview:
        title = title_of(preview)
        titled_by = None if title is None else titled_by
    metadata = msgspec.structs.replace(
        metadata,
        updated_at=now,
        message_count=len(messages),
        preview=preview,
        title=title,
        titled_by=titled_by,
        refused_at=None,
    )
    return msgspec.structs.replace(session, metadata=metadata, messages=messages)


def with_metadata(session: Session, *, now: str, **changes: Any) -> Session:
    """Return the session with these fields of its metadata changed."""
    changes = {"refused_at": None, **changes}
    metadata = msgspec.structs.replace(session.metadata, updated_at=now, **changes)
    return msgspec.structs.replace(session, metadata=metadata)


def with_refusal(session: Session) -> Session:
    """Mark a session as made for a refused request."""
    now = session.metadata.updated_at
    return with_metadata(session, now=now, refused_at=now)


def with_inbox(session: Session, inbox: Inbox) -> Session:
    """Return the session with this inbox; ``updated_at`` stays."""
    return counted(msgspec.structs.replace(session, inbox=inbox))


def counted(session: Session) -> Session:
    """Update the fields of the metadata that follow from the messages and the inbox."""
    inbox = session.inbox
    derived = {
        "message_count": len(session.messages),
        "preview": preview_of(session.messages),
        "queued": None if inbox.is_empty else len(inbox.messages),
        "queue_paused": inbox.paused,
    }
    if all(getattr(session.metadata, name) == value for name, value in derived.items()):
        return session
    metadata = msgspec.structs.replace(session.metadata, **derived)
    return msgspec.structs.replace(session, metadata=metadata)


def append_messages(session: Session, *messages: Message, now: str) -> Session:
    """Return the session with these messages at its end."""
    return with_messages(session, (*session.messages, *messages), now=now)


def set_system_prompt(session: Session, prompt: SystemMessage, *, now: str) -> Session:
    """Set or replace the system prompt, the first message.

    Raises:
        ValidationFailed: The prompt is blank.
    """
    require_text(prompt.content, field="content")
    rest = session.messages[1:] if session.system_prompt else session.messages
    return with_messages(session, (prompt, *rest), now=now)


def remove_system_prompt(session: Session, *, now: str) -> Session:
    """Remove the system prompt.

    Raises:
        SystemPromptNotSet: There is none.
    """
    if session.system_prompt is None:
        raise SystemPromptNotSet(
            f"Session {session.session_id} has no system prompt.", session_id=session.session_id
        )
    return with_messages(session, session.messages[1:], now=now)


def fork(
    session: Session, *, session_id: str, now: str, message_index: int | None = None
) -> Session:
    """Copy a session up to and including a message (the last one by default).

    Messages keep their ids; those of the inbox are not copied. A summary is copied only with the
    whole conversation.

    Raises:
        InvalidMessageIndex: There is no message at the index.
        SessionReadOnly: The copy would have a format that this server can't write.
    """
    require_known_format(session)
    last = len(session.messages) - 1
    if message_index is None:
        message_index = last
    else:
        message_at(session, message_index)
    copy = with_metadata(
        with_inbox(session, EMPTY_INBOX),
        now=now,
        session_id=session_id,
        created_at=now,
        summary=session.metadata.summary if message_index == last else None,
        forked_from={"session_id": session.session_id, "message_index": message_index},
        pinned=None,
        archived=None,
        labels_changed_at=None,
        imported_from=None,
        client_id=None,
    )
    return with_messages(copy, session.messages[: message_index + 1], now=now)


def has_known_format(metadata: SessionMetadata) -> bool:
    """Return whether a session of this format may be changed; newer minor versions may."""
    return metadata.format_version.partition(".")[0] == KNOWN_MAJOR


def require_known_format(session: Session) -> None:
    """Check that this server may change the session's format.

    Raises:
        SessionReadOnly: The format has another major version.
    """
    if not has_known_format(session.metadata):
        raise SessionReadOnly(session.session_id, session.metadata.format_version)


def message_at(session: Session, index: int) -> Message:
    """Return the message at the index.

    Raises:
        InvalidMessageIndex: There is none.
    """
    if 0 <= index < len(session.messages):
        return session.messages[index]
    count = len(session.messages)
    why = f"; message_index may be 0 to {count - 1}" if count else ": the session has no messages"
    raise InvalidMessageIndex(
        f"There is no message {index}{why}.",
        message_index=index,
        message_count=count,
    )
