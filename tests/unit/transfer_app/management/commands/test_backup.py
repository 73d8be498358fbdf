"""``mochi-server backup`` and ``restore``, of directories that a server may be using."""

import json
import os
import shutil
import stat
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from chat.conversation_storage import ConversationStorage, StorageEngine, build_storage
from chat.storage.journal import line
from chat.stream.encoding import encode_event
from chat.stream.events import ContentDelta, TurnStarted
from chat.turn.turn_ids import new_turn_id
from mochi_project.configuration.loading import MochiSettings
from sessions_app.ids_and_clock import utc_now
from sessions_app.messages import UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, append_messages

KEPT = {
    ".mochi/usage/2026-11.jsonl": "{}",
    "agents/coder/SKILL.md": "A coder.",
    "agents/agent_chats/0123456789.json": "{}",
    f"attachments/9f/{'9f' * 32}": "a text file",
    "docs/agents/agent_prompt_planning.md": "Plan.",
    "docs/agents/agent_prompt_execution.md": "Act.",
    "mcp.json": "{}",
    "prices.json": "{}",
    "budgets.json": "[]",
    "profiles/work.json": "{}",
    "responses/0123456789/0199f3a2b4c51f2e3d4c.request": "{}",
    "system_prompts/brief.md": "Be brief.",
    "tools/dates.py": "__all__ = []",
    "workspace/.git/HEAD": "ref: refs/heads/main",
    "workspace/notes/plan.txt": "a plan",
}
LEFT = (
    ".env",
    ".mochi/secret_key",
    "attachments/.incoming/0123456789abcdef.tmp",
    "attachments/.sessions/since",
    ".mochi/queue.sqlite3",
    "chat_sessions/.id",
    "chat_sessions/.locks/0123456789.lock",
    "chat_sessions/.claims/0123456789",
    "tools/__pycache__/dates.pyc",
    "somebody_elses.txt",
)

pytestmark = pytest.mark.allow_blocking


def run(command: str, *arguments: Any) -> dict[str, Any]:
    out = StringIO()
    call_command(command, *map(str, arguments), "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def content_of(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def data(tmp_path: Path, settings: Any) -> Path:
    """A data directory with everything in it, which the commands use."""
    folder = tmp_path / "data"
    for name, text in {**KEPT, **dict.fromkeys(LEFT, "secret")}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    SessionManager(folder / "chat_sessions").create("qwen3:14b", system_prompt="Hi.")
    settings.MOCHI = MochiSettings(data_dir=folder)
    return folder


def test_a_backup_holds_all_that_must_be_kept_and_nothing_else(data: Path, tmp_path: Path) -> None:
    answer = run("backup", tmp_path / "backups" / "monday")

    (session,) = data.glob("chat_sessions/*.json")
    kept = {**KEPT, f"chat_sessions/{session.name}": session.read_text()}
    assert content_of(tmp_path / "backups" / "monday") == kept
    assert answer["files"]["sessions"] == 1
    assert sum(answer["files"].values()) == len(kept)
    assert stat.S_IMODE((tmp_path / "backups" / "monday").stat().st_mode) == 0o700
    assert os.listdir(tmp_path / "backups") == ["monday"]


OF_OWNERS = {
    f"users/{owner}/{name}": f"{owner}'s"
    for owner in ("anna", "bob")
    for name in (
        f"attachments/9f/{'9f' * 32}",
        "profiles/work.json",
        "responses/0123456789/0199f3a2b4c51f2e3d4c.request",
        "system_prompts/brief.md",
        "workspace/.git/HEAD",
    )
}
LEFT_OF_OWNERS = ("users/anna/.mochi/search.sqlite3", "users/No owner/workspace/a.txt", "users/x")


def test_a_backup_holds_the_data_of_all_owners(data: Path, tmp_path: Path, settings: Any) -> None:
    for name, text in {**OF_OWNERS, **dict.fromkeys(LEFT_OF_OWNERS, "left")}.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(text)
    chats = data / "users" / "anna" / "chat_sessions"
    session = SessionManager(chats).create("qwen3:14b")
    chat = f"users/anna/chat_sessions/{session.session_id}.json"

    answer = run("backup", tmp_path / "backup")

    kept = {name: text for name, text in content_of(tmp_path / "backup").items() if "users" in name}
    assert kept == {**OF_OWNERS, chat: (data / chat).read_text()}
    assert answer["files"]["sessions"] == 2
    assert answer["files"]["workspace"] == 4

    settings.MOCHI = MochiSettings(data_dir=tmp_path / "new")
    run("restore", tmp_path / "backup")
    assert content_of(tmp_path / "new") == content_of(tmp_path / "backup")


def test_a_workspace_that_is_the_data_directory_has_no_owners_files(
    data: Path, tmp_path: Path, settings: Any
) -> None:
    (data / "users" / "anna" / "workspace").mkdir(parents=True)
    (data / "users" / "anna" / "workspace" / "a.txt").write_text("anna's")
    settings.MOCHI = MochiSettings(data_dir=data, workspace=data)

    run("backup", tmp_path / "backup")

    assert (tmp_path / "backup" / "workspace" / "somebody_elses.txt").is_file()
    assert not (tmp_path / "backup" / "workspace" / "users").exists()
    assert (tmp_path / "backup" / "users" / "anna" / "workspace" / "a.txt").is_file()


def test_the_commands_that_are_named_next_work_as_they_are(
    data: Path, tmp_path: Path, settings: Any
) -> None:
    out, backup, new = StringIO(), tmp_path / "my backup", tmp_path / "new"
    (data / "tools" / "another.py").write_text("")

    call_command("backup", str(backup), stdout=out)
    assert "     1 file of sessions\n" in out.getvalue()
    assert "     2 files of tools\n" in out.getvalue()
    assert f"`mochi-server --data-dir {data} restore '{backup}'` puts it back." in out.getvalue()

    settings.MOCHI = MochiSettings(data_dir=new)
    call_command("restore", str(backup), stdout=out)
    assert out.getvalue().endswith(
        f"\n{new} has them again. `mochi-server --data-dir {new} doctor` checks it.\n"
    )


def test_a_backup_is_restored_elsewhere(data: Path, tmp_path: Path, settings: Any) -> None:
    run("backup", tmp_path / "backup")
    settings.MOCHI = MochiSettings(data_dir=tmp_path / "new", sessions_dir=tmp_path / "talks")

    run("restore", tmp_path / "backup")

    restored = content_of(tmp_path / "new")
    assert restored == KEPT
    manager = SessionManager(tmp_path / "talks")
    (metadata,) = manager.list().sessions
    assert manager.get(metadata.session_id).metadata.model == "qwen3:14b"


def test_an_executable_and_a_link_in_the_workspace_stay_what_they_are(
    data: Path, tmp_path: Path
) -> None:
    (data / "workspace" / "run").write_text("#!/bin/sh\n")
    (data / "workspace" / "run").chmod(0o755)
    (data / "workspace" / "latest").symlink_to("notes")
    os.mkfifo(data / "workspace" / "pipe")

    run("backup", tmp_path / "backup")

    kept = tmp_path / "backup" / "workspace"
    assert os.access(kept / "run", os.X_OK)
    assert (kept / "latest").readlink() == Path("notes")
    assert not (kept / "pipe").exists()


def test_a_workspace_that_is_the_data_folder_takes_no_secrets_along(
    data: Path, tmp_path: Path, settings: Any
) -> None:
    settings.MOCHI = MochiSettings(data_dir=data, workspace=Path())

    run("backup", data / "backup")

    assert "secret" not in [
        text for name, text in content_of(data / "backup").items() if "somebody" not in name
    ]
    assert not (data / "backup" / "workspace" / "backup").exists()


def test_a_directory_with_something_in_it_is_no_place_for_a_backup(data: Path) -> None:
    with pytest.raises(CommandError, match="is there already"):
        run("backup", data)


def test_nothing_is_overwritten_unless_told(data: Path, tmp_path: Path) -> None:
    run("backup", tmp_path / "backup")
    (data / "system_prompts" / "brief.md").write_text("Be long.")
    (data / "tools" / "dates.py").unlink()

    with pytest.raises(CommandError, match="would be replaced"):
        run("restore", tmp_path / "backup")

    assert (data / "system_prompts" / "brief.md").read_text() == "Be long."
    assert not (data / "tools" / "dates.py").exists()
    run("restore", tmp_path / "backup", "--overwrite")
    assert (data / "system_prompts" / "brief.md").read_text() == "Be brief."
    assert (data / "tools" / "dates.py").exists()
    assert (data / ".env").read_text() == "secret"


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_session_that_is_replaced_keeps_nothing_of_a_turn_that_died_since(
    data: Path, tmp_path: Path, settings: Any, *, is_readable: bool
) -> None:
    (metadata,) = SessionManager(data / "chat_sessions").list().sessions
    run("backup", tmp_path / "backup")
    begin_turn(build_storage(StorageEngine(settings.MOCHI), settings.MOCHI), metadata.session_id)
    killed = tmp_path / "killed"  # what is left of the process: its files without its locks
    shutil.copytree(data, killed, symlinks=True)
    settings.MOCHI = MochiSettings(data_dir=killed)
    file = killed / "chat_sessions" / f"{metadata.session_id}.json"
    if not is_readable:
        file.write_text("{")

    run("restore", tmp_path / "backup", "--overwrite")

    storage = build_storage(StorageEngine(settings.MOCHI), settings.MOCHI)
    restored = (tmp_path / "backup" / "chat_sessions" / file.name).read_bytes()
    assert file.read_bytes() == restored
    assert storage.journal.turns(metadata.session_id) == []
    assert len(storage.journal.broken()) == (0 if is_readable else 1)
    storage.recovery.seal_all()
    assert storage.repository.claims() == []
    assert file.read_bytes() == restored


def begin_turn(storage: ConversationStorage, session_id: str) -> None:
    """Begin a turn, up to half of its answer."""
    turn_id, owner = new_turn_id(), storage.repository.owners.mine()

    def ask(found: Session) -> tuple[Session, None]:
        question = UserMessage(content="And now?", message_id="u2", timestamp=utc_now())
        return append_messages(found, question, now=utc_now()), None

    storage.repository.claim(session_id, turn_id, owner=owner, change=ask)
    begin = TurnStarted(turn_id=turn_id, session_id=session_id, model="m", user_message_id="u2")
    said = ContentDelta(content="Half an answer")
    storage.journal.open(session_id, turn_id, owner=owner).append(
        line(0, "round", '{"message_id":"m2"}')
        + line(1, begin.event, encode_event(begin))
        + line(2, said.event, encode_event(said))
    )


def test_a_session_that_was_deleted_comes_back(data: Path, tmp_path: Path) -> None:
    manager = SessionManager(data / "chat_sessions")
    (metadata,) = manager.list().sessions
    run("backup", tmp_path / "backup")
    manager.delete(metadata.session_id)
    for name in KEPT:
        (data / name).unlink()

    run("restore", tmp_path / "backup")

    assert SessionManager(data / "chat_sessions").get(metadata.session_id)


def test_what_is_no_backup_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(CommandError, match="is not a backup"):
        run("restore", tmp_path / "other")


@pytest.mark.parametrize("linked", ["workspace", "tools", "docs"])
def test_a_backup_that_leads_elsewhere_is_refused(
    tmp_path: Path, settings: Any, linked: str
) -> None:
    private, backup = tmp_path / "home", tmp_path / "backup"
    (private / "agents").mkdir(parents=True)
    (private / "id_rsa").write_text("secret")
    (private / "agents" / "agent_prompt_planning.md").write_text("secret")
    (backup / "profiles").mkdir(parents=True)
    (backup / "profiles" / "work.json").write_text("{}")
    (backup / linked).symlink_to(private)
    settings.MOCHI = MochiSettings(data_dir=tmp_path / "new")

    with pytest.raises(CommandError, match="a link leads out of the backup"):
        run("restore", backup)

    assert not (tmp_path / "new").exists()


def test_what_is_restored_is_nobody_elses_to_change(
    data: Path, tmp_path: Path, settings: Any
) -> None:
    (session,) = data.glob("chat_sessions/*.json")
    run("backup", tmp_path / "backup")
    for path in (tmp_path / "backup").rglob("*"):
        path.chmod(0o4777 if path.is_file() else 0o777)
    settings.MOCHI = MochiSettings(data_dir=tmp_path / "new")

    run("restore", tmp_path / "backup")

    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "new").rglob("*")
        if path.is_file()
    }
    assert (modes["dates.py"], modes[session.name]) == (0o755, 0o600)
    assert not any(mode & 0o7022 for mode in modes.values())


def test_a_backup_is_not_written_where_another_user_may_wait_for_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = tmp_path / "backup.partial"
    exists = Path.exists

    def made_meanwhile(path: Path, **options: Any) -> bool:
        there = exists(path, **options)
        if path == waiting and not there:
            waiting.mkdir(0o777)
        return there

    monkeypatch.setattr(Path, "exists", made_meanwhile)
    with pytest.raises(CommandError, match=r"is there|exists"):
        run("backup", tmp_path / "backup")

    assert os.listdir(waiting) == []


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_sessions_that_are_objects_are_copied_otherwise(
    tmp_path: Path, settings: Any, command: str
) -> None:
    settings.MOCHI = MochiSettings(
        data_dir=tmp_path,
        journal_url="redis://localhost:1",
        sessions_url="s3://bucket/prefix",
        secret_key="s" * 32,
    )
    with pytest.raises(CommandError, match="sessions copy"):
        run(command, tmp_path / "backup")
