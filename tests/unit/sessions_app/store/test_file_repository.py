"""Session files: what a broken one costs, and what a full disk or another process may do."""

import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from sessions_app.errors import (
    SessionBusy,
    SessionCorrupt,
    SessionNotDeletable,
    StorageFull,
    StorageUnavailable,
    ValidationFailed,
)
from sessions_app.messages import UserMessage
from sessions_app.session import Session, append_messages
from sessions_app.store import file_repository, session_files
from sessions_app.store.file_repository import FileSessionRepository
from tests.claims import claim_session

NOW = "2026-11-21T10:00:00.000000+00:00"
SESSION_ID = "a1b2c3d4e5"

MakeSession = Callable[..., Session]


def say(text: str) -> Callable[[Session], Session]:
    message = UserMessage(content=text, message_id=text, timestamp=NOW)
    return lambda session: append_messages(session, message, now=NOW)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_files_and_directories_are_private(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    repository.create(make_session("Hello"))
    claim_session(repository, SESSION_ID, "t1")
    paths = [path for path in (sessions_dir, *sessions_dir.rglob("*")) if not path.is_symlink()]
    assert {path.name for path in paths} >= {f"{SESSION_ID}.json", ".locks", ".claims", "workers"}
    for path in paths:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_a_directory_that_stood_there_keeps_its_mode(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    sessions_dir.mkdir(mode=0o755)
    sessions_dir.chmod(0o755)
    repository.create(make_session())
    assert mode(sessions_dir) == 0o755


def test_asking_for_what_is_not_there_leaves_no_trace(
    repository: FileSessionRepository, sessions_dir: Path
) -> None:
    for call in (repository.load, repository.delete):
        with pytest.raises(Exception, match="not found"):
            call(SESSION_ID)
    assert repository.list().sessions == ()
    assert repository.claims() == []
    assert not sessions_dir.exists()


def test_a_session_does_not_become_too_large_to_be_read(
    repository: FileSessionRepository,
    make_session: Callable[..., Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = make_session("hello")
    repository.create(session)
    monkeypatch.setattr(session_files, "SIZE_LIMIT", 3000)
    long = UserMessage(content="x" * 3000, message_id="0123456789", timestamp="")

    def grow(session: Session) -> Session:
        return append_messages(session, long, now=session.metadata.updated_at)

    with pytest.raises(ValidationFailed, match="larger than"):
        repository.update(session.session_id, grow)
    assert repository.load(session.session_id).messages == session.messages
    with pytest.raises(ValidationFailed):
        repository.create(grow(make_session("hello", session_id="0123456789")))
    assert [each.session_id for each in repository.list().sessions] == [session.session_id]


def make_broken(path: Path, kind: str) -> None:
    match kind:
        case "empty":
            path.touch()
        case "NUL-filled":
            path.write_bytes(b"\0" * 500)
        case "cut off":
            path.write_text('{\n  "metadata": {\n    "model": "m"')
        case "foreign":
            path.write_text('{"name": "a package", "version": 3}')
        case "huge":
            with path.open("wb") as file:
                file.truncate(session_files.SIZE_LIMIT + 1)
        case "symlink":
            target = path.parent.parent / "secret.json"
            target.write_text('{"metadata": {"model": "m", "created_at": "x"}, "messages": []}')
            path.symlink_to(target)
        case "dangling symlink":
            path.symlink_to(path.parent / "nowhere")
        case "directory":
            path.mkdir()
        case "FIFO":
            os.mkfifo(path)


BROKEN = [
    "empty",
    "NUL-filled",
    "cut off",
    "foreign",
    "huge",
    "symlink",
    "dangling symlink",
    "directory",
    "FIFO",
]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_costs_only_that_session(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession, kind: str
) -> None:
    repository.create(make_session("Hello", session_id="0123456789"))
    path = sessions_dir / f"{SESSION_ID}.json"
    make_broken(path, kind)
    before = path.lstat()

    listing = repository.list()
    assert [item.session_id for item in listing.sessions] == ["0123456789"]
    assert [item.file for item in listing.unreadable] == [path.name]
    for call in (
        lambda: repository.load(SESSION_ID),
        lambda: repository.update(SESSION_ID, say("Hello")),
        lambda: repository.update_idle(SESSION_ID, say("Hello")),
        lambda: claim_session(repository, SESSION_ID, "t1"),
    ):
        with pytest.raises(SessionCorrupt) as raised:
            call()
        assert raised.value.reason == listing.unreadable[0].reason
    after = path.lstat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_reported_until_it_may(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    repository.create(make_session("Hello"))
    path = sessions_dir / f"{SESSION_ID}.json"
    path.chmod(0)
    assert repository.list().unreadable[0].reason == "permission denied"
    path.chmod(0o600)
    assert repository.list().unreadable == ()


@pytest.mark.parametrize("kind", [kind for kind in BROKEN if kind != "directory"])
def test_a_broken_file_can_be_deleted_and_a_link_goes_alone(
    repository: FileSessionRepository, sessions_dir: Path, kind: str
) -> None:
    sessions_dir.mkdir()
    path = sessions_dir / f"{SESSION_ID}.json"
    make_broken(path, kind)
    repository.delete(SESSION_ID)
    assert not path.exists()
    assert not path.is_symlink()
    assert kind != "symlink" or (sessions_dir.parent / "secret.json").exists()


def test_a_directory_in_a_files_place_is_not_deleted(
    repository: FileSessionRepository, sessions_dir: Path
) -> None:
    path = sessions_dir / f"{SESSION_ID}.json"
    path.mkdir(parents=True)
    (path / "precious.txt").touch()
    with pytest.raises(SessionNotDeletable, match="by hand"):
        repository.delete(SESSION_ID)
    assert (path / "precious.txt").exists()
    with pytest.raises(SessionCorrupt, match="not a regular file"):
        repository.load(SESSION_ID)
    assert [each.reason for each in repository.list().unreadable] == ["not a regular file"]


@pytest.mark.parametrize(
    "name",
    ["notes.json", "A1B2C3D4E5.json", "a1b2c3d4e5.json~", "a1b2c3d4e5.txt", ".a1b2c3d4e5.json"],
)
def test_files_of_other_names_are_ignored(
    repository: FileSessionRepository, sessions_dir: Path, name: str
) -> None:
    sessions_dir.mkdir()
    (sessions_dir / name).write_text("{}")
    listing = repository.list()
    assert (listing.sessions, listing.unreadable) == ((), ())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("step", ["fsync", "replace", "open"])
def test_a_full_disk_leaves_the_old_file_and_no_other(
    repository: FileSessionRepository,
    sessions_dir: Path,
    make_session: MakeSession,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    step: str,
) -> None:
    repository.create(make_session("Hello"))
    path = sessions_dir / f"{SESSION_ID}.json"
    before = path.read_bytes()
    open_file = os.open

    def full(*args: object, **kwargs: object) -> int:
        raise OSError(code, os.strerror(code))

    def full_for_new_files(file: str, flags: int, *args: int, **kwargs: int) -> int:
        if flags & os.O_CREAT and str(file).endswith(".tmp"):
            raise OSError(code, os.strerror(code))
        return open_file(file, flags, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, step, full_for_new_files if step == "open" else full)
        with pytest.raises(StorageFull):
            repository.update(SESSION_ID, say("World"))
    assert path.read_bytes() == before
    assert [item.name for item in sessions_dir.iterdir() if item.is_file()] == [path.name]
    repository.update(SESSION_ID, say("there is room again"))


def test_a_lock_that_nobody_gives_back_makes_the_session_busy(
    repository: FileSessionRepository,
    sessions_dir: Path,
    make_session: MakeSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository.create(make_session("Hello"))
    monkeypatch.setattr(file_repository, "LOCK_TIMEOUT_SECONDS", 0.01)
    other = FileSessionRepository(sessions_dir)
    with other._locked(SESSION_ID), pytest.raises(SessionBusy):
        repository.update(SESSION_ID, say("World"))


WRITER = """
    import sys
    from pathlib import Path
    from sessions_app.store.file_repository import FileSessionRepository
    from sessions_app.messages import UserMessage
    from sessions_app.session import append_messages

    now = "2026-11-21T10:00:00.000000+00:00"
    repository = FileSessionRepository(Path(sys.argv[1]))
    sys.stdin.read(1)
    for number in range(50):
        text = f"{sys.argv[2]}-{number}"
        message = UserMessage(content=text, message_id=text, timestamp=now)
        repository.update("a1b2c3d4e5", lambda s: append_messages(s, message, now=now))
"""


def test_processes_that_write_one_session_lose_nothing(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    repository.create(make_session())
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(sessions_dir)]
    writers = [subprocess.Popen([*command, name], stdin=subprocess.PIPE) for name in ("a", "b")]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()  # both begin at once
    assert [writer.wait(60) for writer in writers] == [0, 0]
    said = [message.content for message in repository.load(SESSION_ID).messages]
    assert sorted(said) == sorted(f"{name}-{n}" for name in ("a", "b") for n in range(50))
    for name in ("a", "b"):
        assert [text for text in said if text.startswith(name)] == [
            f"{name}-{n}" for n in range(50)
        ]


KILLED_WRITER = """
    import os, sys
    from pathlib import Path
    from sessions_app.store import atomic
    from sessions_app.store.file_repository import FileSessionRepository
    from sessions_app.messages import UserMessage
    from sessions_app.session import append_messages

    def killed(*args, **kwargs):
        os.kill(os.getpid(), 9)

    setattr(os, sys.argv[2], killed)
    now = "2026-11-21T10:00:00.000000+00:00"
    message = UserMessage(content="World", message_id="w", timestamp=now)
    FileSessionRepository(Path(sys.argv[1])).update(
        "a1b2c3d4e5", lambda s: append_messages(s, message, now=now)
    )
"""


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_writer_that_is_killed_leaves_the_old_file_and_a_free_lock(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession, step: str
) -> None:
    repository.create(make_session("Hello"))
    command = [sys.executable, "-c", textwrap.dedent(KILLED_WRITER), str(sessions_dir), step]
    assert subprocess.run(command, check=False).returncode == -9
    assert len(list(sessions_dir.glob(".*.tmp"))) == 1
    assert repository.load(SESSION_ID) == make_session("Hello")
    repository.update(SESSION_ID, say("the lock is free"))


@pytest.mark.parametrize("call", ["link", "replace"])
def test_a_directory_that_is_moved_while_a_session_is_written_can_be_put_back(
    repository: FileSessionRepository,
    make_session: MakeSession,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
) -> None:
    if call == "replace":
        repository.create(make_session("Hello"))

    def move(source: str, target: str, **_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)

    def write() -> None:
        if call == "link":
            repository.create(make_session("Hello"))
        else:
            repository.update(SESSION_ID, say("again"))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, move)
        with pytest.raises(StorageUnavailable, match="unmounted") as caught:
            write()
    assert caught.value.retryable
    write()
