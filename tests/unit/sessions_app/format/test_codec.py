"""Session files: what is written is read again, and nothing that was there is lost."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.context_state import ContextState, context_state_to_json
from sessions_app.format.codec import decode, decode_head, encode
from sessions_app.messages import (
    AssistantMessage,
)
from sessions_app.session import (
    Session,
)
from tests.unit.sessions_app.format.sessions import (
    NOW,
    SESSION_ID,
    sessions,
)

MakeSession = Callable[..., Session]

# --- Any session ------------------------------------------------------------------------------


@given(sessions)
def test_what_is_written_is_read_again(session: Session) -> None:
    assert decode(encode(session), SESSION_ID) == session


@given(sessions)
def test_a_rewrite_changes_nothing(session: Session) -> None:
    data = encode(session)
    assert encode(decode(data, SESSION_ID)) == data


@given(sessions)
def test_the_head_tells_what_the_whole_file_tells(session: Session) -> None:
    data = encode(session)
    head = decode_head(data, SESSION_ID)
    if head is None:  # then the whole file is read
        assert session.metadata.preview is None or rb"\ud" in data.lower()
    else:
        assert head == session.metadata


@given(sessions, st.sampled_from([None, 0, 1, 2, 3, 4]))
def test_a_head_of_any_layout_tells_what_the_whole_file_tells(
    session: Session, indent: int | None
) -> None:
    data = json.dumps(json.loads(encode(session)), indent=indent).encode()
    head = decode_head(data, SESSION_ID)
    assert head is None or head == decode(data, SESSION_ID).metadata


@given(sessions, st.integers(min_value=0, max_value=400))
def test_a_cut_head_is_never_taken_for_a_whole_one(session: Session, size: int) -> None:
    head = decode_head(encode(session)[:size], SESSION_ID)
    assert head is None or head == session.metadata


# --- Files of others --------------------------------------------------------------------------


def document(**metadata: Any) -> dict[str, Any]:
    """Return a file of format 1.0 as old tools wrote it."""
    return {
        "metadata": {
            "session_id": SESSION_ID,
            "model": "qwen3:14b",
            "created_at": "2025-01-15T10:30:00.000000",
            "updated_at": "2025-01-15T10:35:00.000000",
            "message_count": 1,
            **metadata,
        },
        "messages": [{"role": "user", "content": "Hello"}],
    }


def read(value: object) -> Session:
    return decode(json.dumps(value).encode(), SESSION_ID)


def rewritten(value: object) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(encode(read(value)))
    return written


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"format_version": "1.0"},
        {"tool_settings": {"tools": ["add"], "tool_group": None}},
        {"format_version": "1.1", "tool_settings": None},
        {"format_version": "1.2", "tool_settings": None, "context_window_config": None},
        {"format_version": "1.3", "tool_settings": None, "agent_settings": None},
    ],
)
def test_older_formats_become_1_3(metadata: dict[str, Any]) -> None:
    written = rewritten(document(**metadata))["metadata"]
    assert written["format_version"] == "1.3"
    assert {"tool_settings", "context_window_config", "agent_settings"} <= written.keys()


def test_a_file_of_format_1_4_stays_so() -> None:
    settings = {"tools": ["add"], "tool_policies": {"add": "never_confirm"}}
    written = rewritten(document(format_version="1.4", tool_settings=settings))["metadata"]
    assert written["format_version"] == "1.4"
    assert written["tool_settings"]["tool_policies"] == {"add": "never_confirm"}
    assert "tool_group" not in written["tool_settings"]


@pytest.mark.parametrize(
    "odd", [{"tool_digests": ["a"]}, {"tool_digests": {"a": 1}}, {"digested_group": 7}]
)
def test_digests_that_make_no_sense_are_kept_and_mean_nothing(odd: dict[str, Any]) -> None:
    settings = {"tools": ["add"], "tool_group": None, "execution_policy": "never_confirm", **odd}

    assert rewritten(document(tool_settings=settings))["metadata"]["tool_settings"] == settings


def test_keys_that_nobody_knows_survive_at_every_level() -> None:
    value = document(
        format_version="1.3",
        colour="blue",
        tool_settings={"tools": [], "x": 1},
        agent_settings={"enabled_agents": [], "x": [2]},
        context_window_config={"dynamic_enabled": True, "x": {"y": 3}},
    )
    value["pinned"] = True
    value["messages"] = [
        {"role": "user", "content": "?", "x": 4},
        {
            "role": "assistant",
            "content": "",
            "x": 5,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": {}, "x": 6}}
            ],
        },
        {"role": "tool", "content": "r", "tool_name": "f", "x": 7},
        {"role": "system", "content": "late", "x": 8},
    ]
    written = rewritten(value)
    assert written["pinned"] is True
    metadata = written["metadata"]
    assert metadata["colour"] == "blue"
    assert metadata["tool_settings"]["x"] == 1
    assert metadata["agent_settings"]["x"] == [2]
    assert metadata["context_window_config"]["x"] == {"y": 3}
    assert [message["x"] for message in written["messages"]] == [4, 5, 7, 8]
    call = written["messages"][1]["tool_calls"][0]
    assert call["type"] == "function"
    assert call["function"] == {"name": "f", "arguments": {}, "x": 6}


@pytest.mark.parametrize(
    "other",
    [
        {"extra": {"a": 1}},
        {"message_id": ""},
        {"timestamp": ""},
        {"timestamp": "2026-11-21T11:00:00"},
        {"content": None},
        {"tool_calls": [{"id": "", "name": "f", "arguments": {}, "x": 1}]},
        {"tool_calls": [{"id": "1", "name": "f", "arguments": {}}]},
        {"variants": [[]]},
        {"content": 'of "tool_calls" and "variants"'},
        {"hidden": "perhaps"},
    ],
)
def test_a_message_that_is_not_as_we_write_it_changes_no_other(other: dict[str, Any]) -> None:
    said = {"role": "assistant", "message_id": "1", "timestamp": NOW, "content": "Yes."}
    value = {**document(), "messages": [said, {**said, **other}, said]}

    together = decode(json.dumps(value).encode(), SESSION_ID).messages
    indented = decode(json.dumps(value, indent=2).encode(), SESSION_ID).messages
    alone = decode(json.dumps({**value, "messages": [said]}).encode(), SESSION_ID).messages

    assert together == indented
    assert (together[0], together[2]) == (*alone, *alone)
    assert together[1] != alone[0]
    message = together[1]
    assert isinstance(message, AssistantMessage)
    assert message.message_id
    assert message.timestamp.endswith("+00:00")
    assert all(isinstance(value, tuple) for value in (message.tool_calls, message.variants))
    written = rewritten(value)["messages"][1]
    assert all(written[key] == other[key] for key in ("extra", "hidden") if key in other)


def test_who_runs_a_call_is_written_where_it_is_not_the_server() -> None:
    def rewritten_call(**key: object) -> dict[str, object]:
        function = {"name": "f", "arguments": {}}
        value = document()
        calls = [{"id": "1", "function": function, **key}]
        value["messages"] = [{"role": "assistant", "content": "", "tool_calls": calls}]
        call: dict[str, object] = rewritten(value)["messages"][0]["tool_calls"][0]
        return call

    assert rewritten_call(client_side=True)["client_side"] is True
    assert "client_side" not in rewritten_call()
    assert rewritten_call(client_side="who knows")["client_side"] == "who knows"


def test_metadata_come_first_and_our_keys_only_where_they_are_set(
    make_session: MakeSession,
) -> None:
    written = json.loads(encode(make_session("Hello", "Hi!")))
    assert list(written) == ["metadata", "messages"]
    assert not {"options", "forked_from"} & written["metadata"].keys()
    assert written["messages"][1].keys() == {
        "role",
        "content",
        "model",
        "message_id",
        "timestamp",
        "eval_count",
        "prompt_eval_count",
    }


def test_what_old_messages_lack_is_made_up_the_same_each_time() -> None:
    value = document()
    value["messages"].append(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"function": {"name": "f", "arguments": '{"a": 1}'}},
                {"name": "g", "arguments": {"b": 2}},
                {"function": {"name": "h", "arguments": "not json"}},
            ],
        }
    )
    first, second = read(value), read(value)
    assert first == second
    ids = [message.message_id for message in first.messages]
    assert len(set(ids)) == 2
    answer = first.messages[1]
    assert isinstance(answer, AssistantMessage)
    assert answer.content == ""
    assert [call.name for call in answer.tool_calls] == ["f", "g", "h"]
    assert [call.arguments for call in answer.tool_calls] == [{"a": 1}, {"b": 2}, {}]
    assert len({call.id for call in answer.tool_calls}) == 3
    assert b"not json" in encode(first)
    assert decode(encode(first), SESSION_ID) == first


def test_naive_times_are_local_and_given_out_as_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        session = read(document(updated_at="2025-01-15T12:00:00+01:00"))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert session.metadata.created_at == "2025-01-15T08:30:00.000000+00:00"
    assert session.metadata.updated_at == "2025-01-15T11:00:00.000000+00:00"


def test_a_time_that_is_none_is_kept() -> None:
    assert read(document(updated_at="yesterday")).metadata.updated_at == "yesterday"


def test_the_files_name_is_the_id_and_the_messages_are_counted() -> None:
    session = read(document(session_id="ffffffffff", message_count=99))
    assert session.session_id == SESSION_ID
    assert session.metadata.message_count == 1
    assert session.metadata.preview == "Hello"


def test_integers_of_any_size_survive() -> None:
    assert rewritten(document(x=2**100))["metadata"]["x"] == 2**100


@pytest.mark.parametrize("state", [{}, {"count": "many"}, {"strategy": None, "x": 1}])
def test_a_context_state_that_makes_no_sense_is_made_anew(state: dict[str, Any]) -> None:
    metadata = {"model": "m", "created_at": NOW, "format_version": "1.3", "context_state": state}
    data = json.dumps({"metadata": metadata, "messages": []}).encode()

    assert decode(data, SESSION_ID).metadata.context_state is None


def test_a_context_state_without_dropped_files_is_written_as_ever() -> None:
    state = ContextState(
        strategy="s", first_id="a", last_id="b", count=2, digest="d", created_at=NOW
    )
    assert list(context_state_to_json(state)) == [
        "strategy", "first_id", "last_id", "count", "digest", "created_at", "summary", "model"
    ]  # fmt: skip
