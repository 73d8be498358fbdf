"""Files of sessions: whoever changes them, they are read as they are."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.format import rewriting
from sessions_app.format.codec import decode, encode
from sessions_app.messages import Message, UserMessage
from sessions_app.session import (
    Session,
    SessionMetadata,
    append_messages,
    counted,
    with_messages,
    with_metadata,
)
from sessions_app.store.file_repository import FileSessionRepository
from tests.unit.sessions_app.file_times import await_tick
from tests.unit.sessions_app.format.sessions import messages

SESSION_ID = "a1b2c3d4e5"
NOW = "2026-11-21T10:00:00.000000+00:00"
LARGE = 512 * 1024

MakeSession = Callable[..., Session]


def say(text: str) -> Callable[[Session], Session]:
    message = UserMessage(content=text, message_id=text[:20], timestamp=NOW)
    return lambda session: append_messages(session, message, now=NOW)


@pytest.fixture
def path(sessions_dir: Path, repository: FileSessionRepository, make_session: MakeSession) -> Path:
    """Return the file of a large session."""
    repository.create(make_session(*["text " * 200] * (LARGE // 1000)))
    return sessions_dir / f"{SESSION_ID}.json"


def test_a_large_session_that_others_changed_is_read_anew(
    repository: FileSessionRepository, path: Path
) -> None:
    repository.update(SESSION_ID, say("Hello"))
    assert repository.load(SESSION_ID) is repository.load(SESSION_ID)
    status = path.stat()
    await_tick()
    edited = path.read_bytes().replace(b'"Hello"', b'"Hullo"')
    path.write_bytes(edited)  # in place, of the same length
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert repository.load(SESSION_ID).messages[-1].content == "Hullo"
    repository.update(SESSION_ID, say("Bye"))
    assert b'"Hullo"' in path.read_bytes()


def test_nothing_lies_beside_a_session(
    repository: FileSessionRepository, path: Path, sessions_dir: Path
) -> None:
    for number in range(3):
        repository.update(SESSION_ID, say(f"message {number}"))
    assert [each.name for each in sessions_dir.iterdir() if each.is_file()] == [
        f"{SESSION_ID}.json"
    ]


@pytest.mark.parametrize("removal", ["a message is deleted", "the session is deleted"])
def test_what_is_taken_out_of_a_session_is_gone(
    repository: FileSessionRepository, path: Path, removal: str
) -> None:
    for number in range(3):
        repository.update(SESSION_ID, say(f"secret {number}"))
    if removal == "the session is deleted":
        repository.delete(SESSION_ID)
    else:
        repository.update(
            SESSION_ID, lambda session: with_messages(session, session.messages[:-3], now=NOW)
        )
    left = [each.read_bytes() for each in path.parent.iterdir() if each.is_file()]
    assert not any(b"secret" in data for data in left)


changes = st.one_of(
    st.tuples(st.just("append"), st.lists(messages, max_size=2)),
    st.tuples(st.just("cut"), st.integers(0, 3)),
    st.tuples(st.just("model"), st.text("abc", min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["edit", "elsewhere"]), messages),
)


@given(steps=st.lists(changes, max_size=8))
def test_any_changes_by_anybody_end_in_the_file_that_encoding_makes(
    steps: list[tuple[str, Any]],
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewriting, "PIECE", 64)
        ours, theirs = (FileSessionRepository(Path(folder)) for _ in range(2))
        session = Session(metadata=_metadata("m"))
        ours.create(session)
        path = Path(folder) / f"{SESSION_ID}.json"
        for change, what in steps:
            match change:
                case "append":
                    ours.update(SESSION_ID, _appending(what))
                case "elsewhere":
                    theirs.update(SESSION_ID, _appending([what]))
                case "cut":
                    ours.update(SESSION_ID, _cutting(what))
                case "model":
                    ours.update(SESSION_ID, _moving_to(what))
                case "edit":  # in place, as an editor might
                    edited = _appending([what])(decode(path.read_bytes(), SESSION_ID))
                    path.write_bytes(encode(counted(edited)))
            found = decode(path.read_bytes(), SESSION_ID)
            assert _plain(path.read_bytes()) == _plain(encode(found))
            assert ours.load(SESSION_ID) == theirs.load(SESSION_ID) == found


def _plain(data: bytes) -> bytes:
    """Return JSON with one spelling of large floats, which two encoders write in two ways."""
    return re.sub(rb"(\de)\+", rb"\1", data)


def _metadata(model: str) -> SessionMetadata:
    return SessionMetadata(session_id=SESSION_ID, model=model, created_at=NOW, updated_at=NOW)


def _appending(said: list[Message]) -> Callable[[Session], Session]:
    return lambda session: append_messages(session, *said, now=NOW)


def _cutting(count: int) -> Callable[[Session], Session]:
    return lambda session: with_messages(
        session, session.messages[: max(0, len(session.messages) - count)], now=NOW
    )


def _moving_to(model: str) -> Callable[[Session], Session]:
    return lambda session: with_metadata(session, now=NOW, model=model)
