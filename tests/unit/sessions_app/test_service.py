"""The library: what a program does with sessions."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessions_app.errors import (
    InvalidMessageIndex,
    SessionBusy,
    SessionNotFound,
    StorageUnavailable,
    SystemPromptNotSet,
    ValidationFailed,
)
from sessions_app.format.codec import decode
from sessions_app.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sessions_app.service import SessionManager
from sessions_app.session import (
    AgentSettings,
    Session,
    ToolSettings,
    append_messages,
    with_messages,
    with_metadata,
)
from sessions_app.store.repository import Claim
from tests.claims import claim_session

NOW = "2026-11-21T10:00:00.000000+00:00"

MakeSession = Callable[..., Session]


def test_a_new_session_has_everything_that_format_1_3_has(
    manager: SessionManager, sessions_dir: Path
) -> None:
    session = manager.create(
        "qwen3:14b",
        system_prompt="Be brief.",
        system_prompt_source_file="brief.md",
        tool_settings=ToolSettings(tools=("add",), execution_policy="never_confirm"),
        agent_settings=AgentSettings(enabled_agents=("coder",)),
        options={"temperature": 0.2},
        summary_model="small",
    )
    assert manager.get(session.session_id) == session
    written = json.loads((sessions_dir / f"{session.session_id}.json").read_bytes())
    assert written["metadata"] == {
        "session_id": session.session_id,
        "model": "qwen3:14b",
        "created_at": session.metadata.created_at,
        "updated_at": session.metadata.created_at,
        "message_count": 1,
        "summary": None,
        "summary_model": "small",
        "summary_model_by": "person",
        "format_version": "1.3",
        "tool_settings": {
            "tools": ["add"],
            "tool_group": None,
            "execution_policy": "never_confirm",
        },
        "agent_settings": {"enabled_agents": ["coder"], "selection_metadata": None},
        "context_window_config": {
            "dynamic_enabled": True,
            "current_window": None,
            "last_adjustment": None,
            "adjustment_history": [],
            "manual_override": False,
        },
        "options": {"temperature": 0.2},
    }
    (prompt,) = manager.messages(session.session_id)
    assert isinstance(prompt, SystemMessage)
    assert (prompt.content, prompt.source_file) == ("Be brief.", "brief.md")


def test_ids_that_are_taken_are_not_used_again(
    manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = iter(["a" * 10, "a" * 10, "a" * 10, "b" * 10])
    monkeypatch.setattr("sessions_app.service.new_session_id", lambda: next(ids))
    assert manager.create("m").session_id == "a" * 10
    assert manager.create("m").session_id == "b" * 10


@pytest.mark.parametrize(
    ("model", "prompt", "field"), [(" ", None, "model"), ("m", " \n", "system_prompt")]
)
def test_blank_texts_make_no_session(
    manager: SessionManager, model: str, prompt: str | None, field: str
) -> None:
    with pytest.raises(ValidationFailed) as raised:
        manager.create(model, system_prompt=prompt)
    assert raised.value.details["field"] == field
    assert manager.list().total == 0


def test_settings_that_are_no_json_make_no_session(manager: SessionManager) -> None:
    with pytest.raises(ValidationFailed):
        manager.create("m", options={"stop": object()})
    assert manager.list().total == 0


def test_the_list_is_paged_and_searched(manager: SessionManager, make_session: MakeSession) -> None:
    for number, text in enumerate(["About Cats", "about dogs", "Übungen", "cats again"]):
        session = make_session(
            text, session_id=f"{number:010x}", updated_at=f"2026-11-21T10:00:0{number}.000000+00:00"
        )
        manager.repository.create(session)
    topics = {"summary": "A talk.", "topics": ["Felines", "CATS"]}
    manager.repository.update(
        "0000000001", lambda session: with_metadata(session, now=NOW, summary=topics)
    )

    def ids(page: object) -> list[int]:
        return [int(item.session_id, 16) for item in page.sessions]  # type: ignore[attr-defined]

    assert ids(manager.list()) == [3, 2, 1, 0]
    page = manager.list(limit=2, offset=1)
    assert (ids(page), page.total) == ([2, 1], 4)
    assert ids(manager.list(offset=9)) == []
    found = manager.list(q=" CATS ", limit=2)
    assert (ids(found), found.total) == ([3, 1], 3)
    assert ids(manager.list(q="übung")) == [2]
    assert ids(manager.list(q="a TALK")) == [1]
    assert manager.list(q="birds").total == 0
    assert [int(one.session_id, 16) for one in manager.list_sessions()] == [3, 2, 1, 0]


def test_what_is_not_given_stays_as_it_is(manager: SessionManager) -> None:
    session = manager.create("m", options={"seed": 1}, summary_model="small")
    same = manager.update(session.session_id)
    assert same == session
    changed = manager.update(session.session_id, model="other").metadata
    assert (changed.model, changed.options, changed.summary_model) == (
        "other",
        {"seed": 1},
        "small",
    )
    assert changed.updated_at > session.metadata.updated_at


def test_settings_are_replaced_whole_and_none_resets_them(manager: SessionManager) -> None:
    session_id = manager.create(
        "m",
        tool_settings=ToolSettings(tools=("a",), tool_group="g"),
        agent_settings=AgentSettings(enabled_agents=("coder",)),
        options={"seed": 1},
        summary_model="small",
    ).session_id
    changed = manager.update(session_id, tool_settings=ToolSettings(tools=("b",))).metadata
    assert changed.tool_settings == ToolSettings(tools=("b",))
    reset = manager.update(
        session_id, tool_settings=None, agent_settings=None, options=None, summary_model=None
    ).metadata
    assert (reset.tool_settings, reset.agent_settings) == (ToolSettings(), AgentSettings())
    assert (reset.options, reset.summary_model) == (None, None)


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ({"tools": ["a", "b"]}, {"tools": ["b", "c"]}, ({"b": "2"}, None)),
        ({"tools": ["a"]}, {"tools": ["a"], "tool_group": "g"}, ({"a": "1"}, None)),
        ({"tool_group": "g"}, {"tool_group": "g"}, ({"a": "1", "b": "2"}, "g")),
        ({"tool_group": "g"}, {"tools": ["a"]}, ({"a": "1"}, None)),
        ({"tool_group": "g"}, {"tool_group": "h"}, ({}, None)),
        ({"tool_group": "g"}, None, ({}, None)),
    ],
)
def test_what_tools_were_like_is_known_as_long_as_they_stay_enabled(
    manager: SessionManager, old: Any, new: Any, kept: Any
) -> None:
    group = old.get("tool_group")
    settings = ToolSettings(**old, tool_digests={"a": "1", "b": "2"}, digested_group=group)
    session_id = manager.create("m", tool_settings=settings).session_id

    manager.update(session_id, tool_settings=ToolSettings(**new) if new else None)

    found = manager.get(session_id).metadata.tool_settings
    assert found is not None
    assert (found.tool_digests, found.digested_group) == kept


def test_the_window_is_set_by_hand_and_let_go(manager: SessionManager) -> None:
    session_id = manager.create("m").session_id
    window = manager.update(session_id, context_window=16384).window
    assert (window.current_window, window.manual_override) == (16384, True)
    window = manager.update(session_id, context_window=None).window
    assert (window.current_window, window.manual_override) == (None, False)
    with pytest.raises(ValidationFailed):
        manager.update(session_id, context_window=0)


def test_an_edit_says_what_it_cost(manager: SessionManager, make_session: MakeSession) -> None:
    session = make_session("one", "answer", "two", "answer")
    manager.repository.create(session)
    edit = manager.edit_message(session.session_id, 0, "three")
    assert (edit.message.content, edit.message_count, edit.removed) == ("three", 1, 3)
    assert manager.messages(session.session_id) == (edit.message,)


def test_a_system_prompt_is_set_replaced_and_removed(manager: SessionManager) -> None:
    session_id = manager.create("m").session_id
    manager.set_system_prompt(session_id, "Be brief.", source_file="brief.md")
    prompt = manager.set_system_prompt(session_id, "Be kind.")
    assert manager.messages(session_id) == (prompt,)
    manager.remove_system_prompt(session_id)
    assert manager.messages(session_id) == ()
    with pytest.raises(SystemPromptNotSet):
        manager.remove_system_prompt(session_id)


def test_a_fork_leaves_the_original_alone(
    manager: SessionManager, make_session: MakeSession
) -> None:
    session = make_session("one", "answer", "two")
    manager.repository.create(session)
    copy = manager.fork(session.session_id, message_index=1)
    manager.edit_message(copy.session_id, 0, "other")
    assert manager.get(session.session_id) == session
    with pytest.raises(InvalidMessageIndex):
        manager.fork(session.session_id, message_index=7)


def test_while_a_turn_runs_only_settings_change(manager: SessionManager) -> None:
    session_id = manager.create("m", system_prompt="Be brief.").session_id
    claim_session(manager.repository, session_id, "t1")
    for call in (
        lambda: manager.edit_message(session_id, 0, "x"),
        lambda: manager.set_system_prompt(session_id, "x"),
        lambda: manager.remove_system_prompt(session_id),
        lambda: manager.delete(session_id),
    ):
        with pytest.raises(SessionBusy):
            call()
    assert manager.update(session_id, context_window=4096).window.current_window == 4096


def test_deleting_tells_who_wants_to_know(sessions_dir: Path) -> None:
    deleted: list[str] = []
    manager = SessionManager(sessions_dir=sessions_dir, on_delete=deleted.append)
    session_id = manager.create("m").session_id
    manager.delete(session_id)
    with pytest.raises(SessionNotFound):
        manager.delete(session_id)
    assert deleted == [session_id]


@pytest.mark.parametrize("error", [StorageUnavailable("away"), NotADirectoryError(20, "no", "f")])
def test_what_else_can_not_be_deleted_keeps_no_session_and_is_logged(
    sessions_dir: Path, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def fail(_session_id: str) -> None:
        raise error

    manager = SessionManager(sessions_dir=sessions_dir, on_delete=fail)
    session_id = manager.create("m").session_id
    manager.delete(session_id)
    with pytest.raises(SessionNotFound):
        manager.get(session_id)
    (record,) = caplog.records
    assert str(error) in record.getMessage()
    assert record.exc_info is None


def test_who_wants_to_know_is_told_of_deleted_messages_and_of_no_others(
    sessions_dir: Path,
) -> None:
    told: list[list[str]] = []

    def note(session_id: str, messages: Sequence[Message]) -> None:
        assert session_id == made.session_id
        told.append([message.content for message in messages])

    manager = SessionManager(sessions_dir=sessions_dir, on_removal=note)
    made = manager.create("m")
    said = [UserMessage(content=text, message_id=text, timestamp=NOW) for text in "abcd"]
    manager.change(made.session_id, lambda session: append_messages(session, *said, now=NOW))
    manager.hide_message(made.session_id, 0)
    manager.edit_message(made.session_id, 2, "C")  # what it removes was not asked to be deleted
    assert told == []

    def without_first(session: Session) -> Session:
        left = (msgspec.structs.replace(said[1], content="B"), *session.messages[2:])
        return with_messages(session, left, now=NOW)

    manager.delete_message(made.session_id, 2)
    manager.remove(made.session_id, without_first)
    assert told == [["C"], ["a", "b"]]


def test_a_dead_turn_is_recovered_before_a_change(sessions_dir: Path) -> None:
    def recover(session: Session, claim: Claim) -> Session:
        message = UserMessage(content=f"sealed{claim.turn_id}", message_id="x", timestamp=NOW)
        return append_messages(session, message, now=NOW)

    manager = SessionManager(sessions_dir=sessions_dir, recover=recover)
    session_id = manager.create("m").session_id
    claim_session(manager.repository, session_id, "t1")
    claim = sessions_dir / ".claims" / f"{session_id}.claim"
    claim.unlink()
    claim.symlink_to("t1|0000000000000000|then")  # of a process that is gone
    manager.set_system_prompt(session_id, "Be brief.")
    assert [message.content for message in manager.messages(session_id)] == [
        "Be brief.",
        "sealedt1",
    ]


def test_check_finds_what_the_list_did_not_read(
    manager: SessionManager, sessions_dir: Path, make_session: MakeSession
) -> None:
    manager.repository.create(make_session("fine", session_id="0000000000"))
    manager.repository.create(make_session("Hello", "Hi!", session_id="0000000001"))
    path = sessions_dir / "0000000001.json"
    path.write_bytes(path.read_bytes().replace(b'"assistant"', b'"oracle"'))
    (sessions_dir / "0000000002.json").touch()
    assert manager.list().total == 2
    report = manager.check()
    assert report.checked == 3
    assert {item.file: item.reason for item in report.problems} == {
        "0000000001.json": "messages[1] has the unknown role 'oracle'",
        "0000000002.json": "empty",
    }


def test_an_export_is_the_file_or_markdown_to_read(manager: SessionManager) -> None:
    session = manager.create("m", system_prompt="Be brief.", system_prompt_source_file="b.md")
    session = manager.repository.update(
        session.session_id,
        lambda kept: append_messages(
            with_metadata(kept, now=NOW, summary={"summary": "Adding\nnumbers.", "topics": []}),
            UserMessage(content="What is 1+1?", message_id="1", timestamp=NOW),
            AssistantMessage(
                content="Let me see.",
                model="m",
                message_id="2",
                timestamp=NOW,
                thinking="Hmm.\nAdd.",
                interrupted=True,
                tool_calls=(ToolCall(id="c", name="add", arguments={"a": 1, "b": 1}),),
            ),
            ToolMessage(content="```\n2", message_id="3", timestamp=NOW, tool_name="add"),
            now=NOW,
        ),
    )
    as_json = manager.export(session.session_id)
    assert decode(as_json.encode(), session.session_id) == session
    markdown = manager.export(session.session_id, format="markdown")
    for part in (
        f"# Session {session.session_id}\n",
        "> Adding numbers.\n",
        "## System (b.md)\n",
        "## User\n\n_2026-11-21T10:00:00.000000+00:00_\n\nWhat is 1+1?\n",
        "## Assistant (m)\n",
        "> Hmm.\n> Add.\n",
        'Calls `add`:\n\n```json\n{\n  "a": 1,\n  "b": 1\n}\n```\n',
        "_(interrupted)_",
        "## Tool (add)\n",
        "````\n```\n2\n````\n",
    ):
        assert part in markdown


def test_the_library_works_without_django(tmp_path: Path) -> None:
    program = (
        "import sys; from mochi_server.sessions import SessionManager\n"
        f"manager = SessionManager(sessions_dir={str(tmp_path)!r})\n"
        "session = manager.create('m'); assert manager.get(session.session_id) == session\n"
        "heavy = {'django', 'ninja', 'pydantic', 'ollama', 'aiohttp'} & sys.modules.keys()\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
