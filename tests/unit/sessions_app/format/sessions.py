"""Any session, and anything that may stand in the place of one, for tests with Hypothesis."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from sessions_app.context_state import ContextState
from sessions_app.format.fields import Malformed
from sessions_app.inbox import EMPTY_INBOX, Inbox, InboxMessage
from sessions_app.messages import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sessions_app.policy_scope import PolicyScope
from sessions_app.session import (
    AgentSettings,
    Session,
    SessionMetadata,
    ToolSettings,
    WindowConfig,
    counted,
)

SESSION_ID = "a1b2c3d4e5"
NOW = "2026-11-21T10:00:00.000000+00:00"

characters = st.characters(exclude_categories=("Cs",))
text = st.text(characters, max_size=20)
ids = st.text(characters, min_size=1, max_size=10)
numbers = st.integers(min_value=-(2**80), max_value=2**80)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(text, json_values, max_size=3)
unknown_keys = st.text(characters, max_size=5).map(lambda key: f"x-{key}")
extras = st.dictionaries(unknown_keys, json_values, max_size=2)
times = st.datetimes().map(lambda moment: f"{moment.isoformat(timespec='microseconds')}+00:00")
counts = st.none() | st.integers(min_value=0, max_value=2**40)
names = st.lists(text, max_size=3).map(tuple)


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


common = {
    "content": text,
    "message_id": ids,
    "timestamp": times,
    "extra": extras,
}
tool_calls = st.builds(
    ToolCall,
    id=ids,
    name=text,
    arguments=objects,
    client_side=st.booleans(),
    extra=extras
    | st.dictionaries(unknown_keys, json_values, min_size=1, max_size=2).map(
        lambda extra: {"function": extra}
    ),
)
answer_parts = {
    **common,
    "model": text,
    "eval_count": counts,
    "prompt_eval_count": counts,
    "tool_calls": st.lists(tool_calls, max_size=2).map(tuple),
    "thinking": optional(text),
    "done_reason": optional(text),
    "cancelled": st.booleans(),
    "interrupted": st.booleans(),
}
answers = st.builds(AssistantMessage, **answer_parts)
results = st.builds(
    ToolMessage, **common, tool_name=text, tool_call_id=optional(text), failed=st.booleans()
)
variants = st.tuples(answers) | st.tuples(answers, results) | st.tuples(results, answers)
messages = st.one_of(
    st.builds(UserMessage, **common),
    st.builds(SystemMessage, **common, source_file=optional(text)),
    st.builds(AssistantMessage, **answer_parts, variants=st.lists(variants, max_size=2).map(tuple)),
    results,
)
tool_settings = st.builds(
    ToolSettings,
    tools=names,
    tool_group=optional(text),
    execution_policy=text,
    tool_policies=st.dictionaries(text, text, max_size=2),
    tool_scopes=st.dictionaries(
        text,
        st.lists(
            st.builds(PolicyScope, policy=text, arguments=st.dictionaries(text, text, max_size=2)),
            max_size=2,
        ).map(tuple),
        max_size=2,
    ),
    tool_digests=st.dictionaries(text, text, min_size=1, max_size=2),
    digested_group=optional(text),
    extra=extras,
)
agent_settings = st.builds(
    AgentSettings, enabled_agents=names, selection_metadata=optional(objects), extra=extras
)
windows = st.builds(
    WindowConfig,
    dynamic_enabled=st.booleans(),
    current_window=counts,
    last_adjustment=optional(text),
    adjustment_history=st.lists(objects, max_size=2).map(tuple),
    manual_override=st.booleans(),
    extra=extras,
)
states = st.builds(
    ContextState,
    strategy=text,
    first_id=ids,
    last_id=ids,
    count=st.integers(min_value=0, max_value=1000),
    digest=text,
    created_at=times,
    summary=optional(text),
    model=optional(text),
    files_until=optional(ids),
    extra=extras,
)
metadatas = st.builds(
    SessionMetadata,
    session_id=st.just(SESSION_ID),
    model=text,
    created_at=times,
    updated_at=times,
    summary=optional(objects),
    summary_model=optional(text),
    format_version=st.sampled_from(["1.3", "1.4", "2.0"]),
    tool_settings=optional(tool_settings),
    agent_settings=optional(agent_settings),
    context_window_config=optional(windows),
    summary_due=optional(times),
    context_strategy=optional(text),
    context_state=optional(states),
    options=optional(objects),
    forked_from=optional(objects),
    title=optional(text),
    titled_by=optional(st.sampled_from(["person", "model", "message"])),
    metadata=optional(objects),
    pinned=optional(st.booleans()),
    archived=optional(st.booleans()),
    labels_changed_at=optional(times),
    imported_from=optional(objects),
    client_id=optional(text),
    extra=extras,
)
waiting = st.builds(
    InboxMessage,
    message_id=ids,
    content=text,
    when_busy=st.sampled_from(["queue", "steer", "interrupt", "later"]),
    queued_at=times,
    request=objects,
    extra=extras,
)
inboxes = st.just(EMPTY_INBOX) | st.builds(
    Inbox,
    paused=optional(text),
    error=optional(objects),
    messages=st.lists(waiting, min_size=1, max_size=2).map(tuple),
    taken=optional(waiting),
    extra=extras,
)
sessions = st.builds(
    Session,
    metadata=metadatas,
    messages=st.lists(messages, max_size=4).map(tuple),
    inbox=inboxes,
    extra=extras,
).map(counted)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)
METADATA_KEYS = [
    "model",
    "created_at",
    "updated_at",
    "format_version",
    "preview",
    "summary",
    "summary_model",
    "tool_settings",
    "agent_settings",
    "context_window_config",
    "options",
    "forked_from",
    "title",
    "titled_by",
    "metadata",
    "pinned",
    "archived",
    "labels_changed_at",
    "imported_from",
    "client_id",
    "queued",
    "queue_paused",
    "message_count",
    "session_id",
]
MESSAGE_KEYS = [
    "role",
    "content",
    "message_id",
    "timestamp",
    "tool_calls",
    "thinking",
    "tool_name",
    "eval_count",
    "cancelled",
    "variants",
]


def outcome(read: Callable[[], object]) -> object:
    try:
        return read()
    except Malformed as error:
        return str(error)
