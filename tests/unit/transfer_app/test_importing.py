"""Conversations come in once, whatever happens: again, after a rename, after a crash."""

import io
import json
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessions_app.errors import StorageFull
from sessions_app.format.codec import document_of, encode, to_json
from sessions_app.format.message_format import messages_to_json
from sessions_app.labels import with_labels
from sessions_app.messages import SystemMessage, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import append_messages, with_messages
from tests.unit.sessions_app.attachments.images import png
from tests.unit.transfer_app.formats.exports import FOLDER, entries_of
from tests.unit.transfer_app.stores import (
    NOW,
    MemoryStore,
    manager_in,
    question,
    reference,
    session_of,
)
from transfer_app.archive_import import ImportedArchive
from transfer_app.bounded_zip import Limits
from transfer_app.entries import Problem
from transfer_app.export_file import ExportFile
from transfer_app.formats.sources import ImportOptions
from transfer_app.importing import ConversationImport

CAT = png()
SOURCES = ("chatgpt", "claude", "open_webui", "librechat", "chatbot_ui")


@pytest.fixture
def manager(tmp_path: Path) -> SessionManager:
    return manager_in(tmp_path / "here")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def started(
    data: bytes, manager: SessionManager, store: MemoryStore, **options: Any
) -> ConversationImport:
    file = ExportFile(io.BytesIO(data), "f", Limits(attachment_bytes=1 << 20))
    return ConversationImport(
        file,
        manager,
        store,
        max_attachment_bytes=1 << 20,
        options=ImportOptions(**{"default_model": lambda: "m", **options}),
    )


def taken(
    data: bytes, manager: SessionManager, store: MemoryStore | None = None, **options: Any
) -> list[ImportedArchive]:
    found = started(data, manager, store or MemoryStore(), **options).run()
    return [each for each in found if isinstance(each, ImportedArchive)]


def outcomes(found: list[ImportedArchive]) -> list[str]:
    return [each.outcome for each in found]


def fixture(source: str) -> bytes:
    return (FOLDER / f"{source}.json").read_bytes()


def packed(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            file.writestr(name.replace("__", "."), data)
    return out.getvalue()


def chats(number: int) -> bytes:
    chat = entries_of("chatbot_ui")[0]
    return to_json([{**chat, "id": str(each)} for each in range(number)])


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("branches", [False, True])
def test_every_export_comes_in_once_and_goes_out_through_lines_of_json(
    source: str, branches: bool, manager: SessionManager, tmp_path: Path
) -> None:
    found = taken(fixture(source), manager, all_branches=branches)
    assert set(outcomes(found)) == {"imported"}
    assert len(manager.list_sessions()) == len(found)
    again = taken(fixture(source), manager, all_branches=branches)
    assert [each.session_id for each in again] == [each.session_id for each in found]
    assert set(outcomes(again)) == {"same"}

    sessions = [manager.get(each.session_id) for each in found]
    lines = b"\n".join(
        to_json(document_of(each, messages_to_json(each.messages))) for each in sessions
    )
    elsewhere = manager_in(tmp_path / "elsewhere")
    assert set(outcomes(taken(lines, elsewhere))) == {"imported"}
    for session in sessions:
        assert encode(elsewhere.get(session.session_id)) == encode(session)
    assert set(outcomes(taken(lines, elsewhere))) == {"same"}


def test_a_session_that_was_renamed_or_went_on_is_known_again(manager: SessionManager) -> None:
    (first,) = taken(chats(1), manager)
    manager.update(first.session_id, title="Mine")
    manager.change(
        first.session_id,
        lambda session: append_messages(session, question(content="More?"), now=NOW),
    )
    before = encode(manager.get(first.session_id))
    assert outcomes(taken(chats(1), manager)) == ["same"]
    assert encode(manager.get(first.session_id)) == before


def test_a_conversation_that_went_on_elsewhere_is_told_and_left(manager: SessionManager) -> None:
    (first,) = taken(chats(1), manager)
    before = encode(manager.get(first.session_id))
    longer = json.loads(chats(1))
    longer[0]["messages"].append({"role": "user", "content": "And then?"})
    assert outcomes(taken(to_json(longer), manager)) == ["different"]
    assert encode(manager.get(first.session_id)) == before


def test_an_import_that_breaks_off_goes_on_where_it_was(
    manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, made = manager.repository.create, []

    def full_at_the_third(session: Any) -> None:
        if len(made) == 2:
            raise StorageFull("The disk is full.")
        create(session)
        made.append(session.session_id)

    with monkeypatch.context() as patched:
        patched.setattr(manager.repository, "create", full_at_the_third)
        with pytest.raises(StorageFull):
            taken(chats(5), manager)
    assert outcomes(taken(chats(5), manager)) == ["same", "same", *["imported"] * 3]
    assert len(manager.list_sessions()) == 5


def test_two_conversations_of_one_id_are_one_session(manager: SessionManager) -> None:
    chat = json.loads(chats(1))[0]
    assert outcomes(taken(to_json([chat, chat]), manager)) == ["imported", "same"]


def test_another_session_of_the_same_id_stays(manager: SessionManager) -> None:
    (first,) = taken(chats(1), manager)
    manager.change(first.session_id, lambda session: with_labels(session, imported_from=None))
    (second,) = taken(chats(1), manager)
    assert second.outcome == "imported"
    assert second.session_id != first.session_id
    assert outcomes(taken(chats(1), manager)) == ["same"]


def test_another_process_may_be_faster(
    manager: SessionManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = manager.repository.create

    def overtaken(session: Any) -> None:
        manager_in(tmp_path / "here").repository.create(session)
        create(session)

    monkeypatch.setattr(manager.repository, "create", overtaken)
    assert outcomes(taken(chats(2), manager)) == ["same", "same"]
    assert len(manager.list_sessions()) == 2


def test_images_of_the_export_become_attachments(
    manager: SessionManager, store: MemoryStore
) -> None:
    names = {"conversations__json": fixture("chatgpt"), "file-Cat1-cat__png": CAT}
    (found,) = taken(packed(**names), manager, store)
    assert (found.attachments, found.left_out) == (1, [])
    _, asked, *_ = manager.get(found.session_id).messages
    assert asked.attachments == (reference(CAT),)
    assert "left out" not in asked.content
    assert store.files == {reference(CAT).id: CAT}


def test_images_that_are_missing_or_broken_are_mentioned(
    manager: SessionManager, store: MemoryStore
) -> None:
    broken = {"conversations__json": fixture("chatgpt"), "file-Cat1-cat__png": b"\0\1"}
    (found,) = taken(packed(**broken), manager, store)
    assert (found.attachments, found.left_out) == (0, ["cat.png"])
    _, asked, *_ = manager.get(found.session_id).messages
    assert asked.content.endswith("[file cat.png left out]")


def test_a_text_of_the_export_itself_becomes_an_attachment(
    manager: SessionManager, store: MemoryStore
) -> None:
    tea, _ = taken(fixture("claude"), manager, store)
    (note,) = manager.get(tea.session_id).messages[0].attachments
    assert (note.name, note.media_type) == ("note.txt", "text/plain")
    assert store.files[note.id] == b"Green tea at 80 C"


def test_a_sharded_export_is_read_as_one(manager: SessionManager) -> None:
    shards = json.loads(chats(4))
    data = packed(
        **{
            "conversations-000__json": to_json(shards[:2]),
            "conversations-001__json": to_json(shards[2:]),
            "user__json": b"{}",
        }
    )
    work = started(data, manager, MemoryStore())
    assert [type(each) for each in work.run()] == [ImportedArchive] * 4
    assert work.progress[0] == work.progress[1] > 0


def test_a_dry_run_writes_nothing_and_says_the_same(
    manager: SessionManager, store: MemoryStore
) -> None:
    names = {"conversations__json": fixture("chatgpt"), "file-Cat1-cat__png": CAT}
    tried = taken(packed(**names), manager, store, dry_run=True, all_branches=True)
    assert not manager.list_sessions()
    assert store.files == {}
    done = taken(packed(**names), manager, store, all_branches=True)
    assert [(each.session_id, each.outcome, each.left_out) for each in tried] == [
        (each.session_id, each.outcome, each.left_out) for each in done
    ]


def test_branches_become_forks_of_the_session(manager: SessionManager) -> None:
    shown, other = taken(fixture("chatgpt"), manager, all_branches=True)
    assert (shown.is_branch, other.is_branch) == (False, True)
    metadata = manager.get(other.session_id).metadata
    assert metadata.forked_from == {"session_id": shown.session_id, "message_index": 1}
    assert metadata.title == "Cats and numbers"


def test_what_is_broken_or_empty_is_told(manager: SessionManager) -> None:
    entries = [*entries_of("chatgpt"), *entries_of("chatbot_ui"), {"odd": 1}]
    found = list(started(to_json(entries), manager, MemoryStore()).run())
    problems = [each for each in found if isinstance(each, Problem)]
    assert [(each.place, each.is_empty) for each in problems] == [
        ("f, entry 2", False),
        ("f, entry 4", True),
        ("f, entry 5", False),
    ]


def test_the_model_is_the_given_one_or_the_exports_or_the_servers(
    manager: SessionManager, tmp_path: Path
) -> None:
    def models(name: str, source: str, **options: Any) -> set[str]:
        here = manager_in(tmp_path / name)
        found = taken(fixture(source), here, **options)
        return {here.get(each.session_id).metadata.model for each in found}

    assert models("1", "chatgpt") == {"gpt-5-1"}
    assert models("2", "claude") == {"m"}
    assert models("3", "chatgpt", model="mine") == {"mine"}
    assert models("4", "claude", default_model=lambda: None) == set()


def test_instructions_are_the_system_prompt(manager: SessionManager) -> None:
    (found,) = taken(fixture("chatgpt"), manager)
    first, second, *_ = manager.get(found.session_id).messages
    assert isinstance(first, SystemMessage)
    assert isinstance(second, UserMessage)


def test_arguments_nested_too_deep_cost_one_conversation(manager: SessionManager) -> None:
    chat = msgspec.json.encode(entries_of("chatbot_ui")[0])
    deep = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
    claude = (
        b'{"uuid":"1","chat_messages":[{"sender":"assistant","content":'
        b'[{"type":"tool_use","name":"x","input":' + deep + b"}]}]}"
    )
    found = list(started(b"[" + claude + b"," + chat + b"]", manager, MemoryStore()).run())
    assert [type(each) for each in found] == [Problem, ImportedArchive]


def test_a_session_of_ours_is_compared_and_never_overwritten(
    manager: SessionManager, tmp_path: Path
) -> None:
    there = manager_in(tmp_path / "there")
    session = session_of(there, question(reference(CAT)))
    line = to_json(document_of(session, messages_to_json(session.messages)))
    (found,) = taken(line, manager)
    assert [each.name for each in found.missing] == ["cat.png"]
    manager.change(session.session_id, lambda there: with_messages(there, (), now=NOW))
    assert outcomes(taken(line, manager)) == ["different"]
    assert manager.get(session.session_id).messages == ()


def test_a_session_of_a_newer_server_is_told_and_the_next_comes_in(
    manager: SessionManager, tmp_path: Path
) -> None:
    there = manager_in(tmp_path / "there")
    sessions = [session_of(there, question()) for _ in range(2)]
    lines = [to_json(document_of(each, messages_to_json(each.messages))) for each in sessions]
    newer = lines[0].replace(b'"format_version":"1.3"', b'"format_version":"2.0"')
    problem, found = started(newer + b"\n" + lines[1], manager, MemoryStore()).run()
    assert isinstance(problem, Problem)
    assert "newer than this server's" in problem.reason
    assert isinstance(found, ImportedArchive)
    assert found.session_id == sessions[1].session_id


KILLED = """
import io, os, pathlib, signal, sys
from tests.unit.transfer_app.test_importing import manager_in, taken, MemoryStore
manager = manager_in(pathlib.Path(sys.argv[1]))
create = manager.repository.create
def killed(session, made=[]):
    create(session)
    made.append(session)
    if len(made) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
manager.repository.create = killed
taken(pathlib.Path(sys.argv[2]).read_bytes(), manager)
"""


def test_an_import_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "chats.json"
    file.write_bytes(chats(6))
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "here"), str(file)], check=False
    )
    assert ended.returncode == -signal.SIGKILL
    manager = manager_in(tmp_path / "here")
    assert len(manager.list_sessions()) == 3
    assert outcomes(taken(chats(6), manager)) == ["same"] * 3 + ["imported"] * 3
    assert len(manager.list_sessions()) == 6


def test_a_conversation_that_is_in_the_file_twice_is_kept_twice(manager: SessionManager) -> None:
    chat = entries_of("chatbot_ui")[0]
    longer = {**chat, "messages": [*chat["messages"], {"role": "user", "content": "More?"}]}
    data = to_json([chat, longer, chat])
    assert outcomes(taken(data, manager)) == ["imported", "imported", "same"]
    assert outcomes(taken(data, manager)) == ["same", "same", "same"]


def test_a_conversation_without_a_model_is_refused_with_what_to_do(
    manager: SessionManager,
) -> None:
    claude = {"uuid": "c", "chat_messages": [{"uuid": "1", "sender": "human", "text": "Hi"}]}
    (found,) = started(to_json([claude]), manager, MemoryStore(), default_model=lambda: None).run()
    assert isinstance(found, Problem)
    assert "--model NAME" in found.reason
    assert "MOCHI_DEFAULT_MODEL" in found.reason
