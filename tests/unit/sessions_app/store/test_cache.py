"""Sessions are recognised by the bytes of their files: nothing that changes a file is missed."""

import os
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sessions_app.errors import SessionCorrupt, SessionNotFound
from sessions_app.format.codec import encode
from sessions_app.format.rewriting import SessionFile
from sessions_app.messages import UserMessage
from sessions_app.session import Session, append_messages
from sessions_app.store import cache, session_files
from sessions_app.store.cache import RecentSessions
from sessions_app.store.file_repository import FileSessionRepository
from tests.claims import claim_session, hold_of

NOW = "2026-11-21T10:00:00.000000+00:00"
SESSION_ID = "a1b2c3d4e5"

MakeSession = Callable[..., Session]


def say(text: str) -> Callable[[Session], Session]:
    message = UserMessage(content=text, message_id=text, timestamp=NOW)
    return lambda session: append_messages(session, message, now=NOW)


def texts(session: Session) -> list[str]:
    return [message.content for message in session.messages]


@pytest.fixture
def path(repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession) -> Path:
    """Return the file of a session that the repository wrote last and knows by heart."""
    repository.create(make_session())
    repository.update(SESSION_ID, say("Hello"))
    return sessions_dir / f"{SESSION_ID}.json"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of the sessions whose whole files were decoded."""
    ids: list[str] = []
    read = SessionFile.of

    def count(data: bytes, session_id: str) -> SessionFile:
        ids.append(session_id)
        return read(data, session_id)

    monkeypatch.setattr(SessionFile, "of", count)
    return ids


def test_a_process_decodes_nothing_that_it_wrote_or_read_itself(
    repository: FileSessionRepository, path: Path, decoded: list[str]
) -> None:
    for number in range(3):
        claim_session(repository, SESSION_ID, "t", change=say(f"question {number}"))
        repository.update(
            SESSION_ID, say(f"answer {number}"), hold=hold_of(repository, "t"), release=True
        )
    assert len(repository.load(SESSION_ID).messages) == 7
    assert decoded == []
    other = FileSessionRepository(path.parent)
    assert other.load(SESSION_ID) is other.load(SESSION_ID)
    assert decoded == [SESSION_ID]


def test_a_file_that_was_only_written_is_recognised_by_its_bytes_too(
    repository: FileSessionRepository, path: Path
) -> None:
    given = claim_session(repository, SESSION_ID, "t", change=say("again"))
    edit_in_place(path)
    assert texts(repository.load(SESSION_ID)) == ["World", "again"]
    assert texts(given) == ["Hello", "again"]


def edit_in_place(path: Path) -> None:
    """Change a file as some editors do: same file, same size, and no time to tell."""
    status = path.stat()
    text = path.read_bytes().replace(b"Hello", b"World")
    with path.open("r+b") as file:
        file.write(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_ino == status.st_ino


def edit_by_replacing(path: Path) -> None:
    edited = path.with_name("edited")
    shutil.copy2(path, edited)
    edit_in_place(edited)
    edited.replace(path)


def delete_and_make_anew(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data.replace(b"Hello", b"World"))


def replace_by_another_process(path: Path) -> None:
    def change(session: Session) -> Session:
        message = UserMessage(content="World", message_id="Hello", timestamp=NOW)
        return Session(metadata=session.metadata, messages=(message,))

    FileSessionRepository(path.parent).update(SESSION_ID, change)


@pytest.mark.parametrize(
    "edit", [edit_in_place, edit_by_replacing, delete_and_make_anew, replace_by_another_process]
)
@pytest.mark.parametrize("claimed", [False, True])
def test_an_edit_by_others_is_seen_at_once(
    repository: FileSessionRepository, path: Path, edit: Callable[[Path], None], claimed: bool
) -> None:
    assert texts(repository.load(SESSION_ID)) == ["Hello"]
    if claimed:
        claim_session(repository, SESSION_ID, "t", change=lambda session: session)
    edit(path)
    assert texts(repository.load(SESSION_ID)) == ["World"]
    assert texts(repository.update(SESSION_ID, say("again"))) == ["World", "again"]
    assert texts(FileSessionRepository(path.parent).load(SESSION_ID)) == ["World", "again"]


def test_an_older_copy_that_is_put_back_is_read(
    repository: FileSessionRepository, path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copy2(path, copy)  # as cp -p does
    repository.update(SESSION_ID, say("forget this"))
    copy.replace(path)
    assert texts(repository.update(SESSION_ID, say("again"))) == ["Hello", "again"]


def test_what_is_broken_or_gone_is_not_answered_from_memory(
    repository: FileSessionRepository, path: Path
) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    with pytest.raises(SessionCorrupt):
        claim_session(repository, SESSION_ID, "t")
    path.unlink()
    with pytest.raises(SessionNotFound):
        claim_session(repository, SESSION_ID, "t")
    path.symlink_to(path.with_name("elsewhere"))
    path.with_name("elsewhere").write_bytes(data)
    with pytest.raises(SessionCorrupt):
        claim_session(repository, SESSION_ID, "t")


def test_two_processes_by_turns_lose_nothing(repository: FileSessionRepository, path: Path) -> None:
    other = FileSessionRepository(path.parent)
    for number in range(4):
        repository.update(SESSION_ID, say(f"a{number}"))
        other.update(SESSION_ID, say(f"b{number}"))
    assert texts(repository.load(SESSION_ID)) == [
        "Hello",
        *(f"{name}{number}" for number in range(4) for name in "ab"),
    ]


def test_a_session_beyond_what_is_kept_is_read_and_written_all_the_same(
    repository: FileSessionRepository,
    path: Path,
    decoded: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_files, "MOST_BYTES", 100)
    for number in range(3):
        repository.update(SESSION_ID, say(f"text {number}"))
    assert decoded == [SESSION_ID] * 2
    session = repository.load(SESSION_ID)
    assert texts(session) == ["Hello", "text 0", "text 1", "text 2"]
    assert path.read_bytes() == encode(session)


def kept_file(session: Session, size: int) -> SessionFile:
    return SessionFile(session, b"x" * size)


def test_what_is_kept_is_bounded_in_number_and_in_size(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MOST_SESSIONS", 3)
    monkeypatch.setattr(cache, "MOST_BYTES", 100)
    sessions = RecentSessions()

    def kept() -> list[int]:
        sizes = (10, 20, 30, 90, 101)
        return [n for n in sizes if sessions.recognise(str(n), b"x" * n) is not None]

    for size in (10, 20, 30):
        sessions.keep(str(size), kept_file(make_session(), size))
    assert kept() == [10, 20, 30]
    sessions.keep("10", kept_file(make_session(), 10))
    sessions.keep("90", kept_file(make_session(), 90))
    assert kept() == [10, 90]
    sessions.keep("101", kept_file(make_session(), 101))
    assert kept() == [10, 90]
    sessions.forget("10")
    sessions.keep("90", kept_file(make_session(), 90))
    sessions.forget("90")
    assert kept() == []
    assert sum(sessions._sizes.values()) == 0


FORKING = """
    import os
    from sessions_app.store.cache import RecentSessions
    from sessions_app.format.rewriting import SessionFile
    from sessions_app.session import Session, SessionMetadata

    metadata = SessionMetadata(session_id="a", model="m", created_at="", updated_at="")
    sessions = RecentSessions()
    sessions.keep("a", SessionFile(Session(metadata=metadata), b"a"))
    sessions._lock.acquire()  # as another thread might at that moment
    child = os.fork()
    if child == 0:
        sessions.keep("b", SessionFile(Session(metadata=metadata), b"b"))
        os._exit(sessions.recall("a") is not None or sessions.recall("b") is None)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_begins_with_nothing_and_waits_for_nobody() -> None:
    command = [sys.executable, "-c", textwrap.dedent(FORKING)]
    assert subprocess.run(command, check=False, timeout=20).returncode == 0


def test_threads_may_keep_at_once(make_session: MakeSession) -> None:
    sessions = RecentSessions()
    session = make_session()

    def work(start: int) -> None:
        for number in range(200):
            sessions.keep(str((start + number) % 90), kept_file(session, 100 + number))

    threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 80, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = sessions._entries.values()
    assert sum(sessions._sizes.values()) == sum(len(each.data) for each in kept)
    assert len(kept) <= cache.MOST_SESSIONS


def test_a_session_is_recalled_without_a_look_at_its_file(
    repository: FileSessionRepository, path: Path
) -> None:
    session = repository.load(SESSION_ID)
    path.unlink()

    assert repository.recall(SESSION_ID) is session


def test_the_caches_of_all_owners_are_bounded_together(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MOST_BYTES_IN_ALL", 300)
    owners = [RecentSessions() for _ in range(50)]
    for sessions in owners:
        sessions.keep(SESSION_ID, kept_file(make_session(), 100))
    owners[47].keep("another", kept_file(make_session(), 50))

    assert [each.recall(SESSION_ID) is not None for each in owners[46:]] == [
        False,
        True,
        False,
        True,
    ]
