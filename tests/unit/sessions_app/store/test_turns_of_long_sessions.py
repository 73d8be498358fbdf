"""Turns of long sessions that their process has not read before: only what is sent is read."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chat.context.plan import ContextPlan, plan_request
from chat.context.strategy import STRATEGIES
from sessions_app.errors import SessionCorrupt
from sessions_app.format import codec, unread
from sessions_app.format.codec import decode, encode
from sessions_app.format.ends import FileEnds
from sessions_app.format.messages import Piece
from sessions_app.messages import AssistantMessage, Message, UserMessage
from sessions_app.partly_read import PartlyRead
from sessions_app.service import SessionManager
from sessions_app.session import Session, append_messages, with_messages, with_metadata
from sessions_app.store import cache, session_files
from sessions_app.store.file_repository import FileSessionRepository
from tests.unit.sessions_app.file_times import gives_leases
from tests.unit.sessions_app.left_out import NOW, leaving_out

SESSION_ID = "a1b2c3d4e5"
LENGTH = 3000
LEFT_OUT = 2900
TEXT = "Some words follow. " * 10

MakeSession = Callable[..., Session]


def message(at: int) -> Message:
    text, message_id = f"Message {at}. {TEXT}", f"{at:010x}"
    if at % 2 == 0:
        return UserMessage(content=text, message_id=message_id, timestamp=NOW)
    return AssistantMessage(content=text, message_id=message_id, timestamp=NOW, model="qwen3:14b")


def say(text: str) -> Callable[[Session], Session]:
    said = UserMessage(content=text, message_id=text, timestamp=NOW)
    return lambda session: append_messages(session, said, now=NOW)


@pytest.fixture
def sessions_dir(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def session(sessions_dir: Path, make_session: MakeSession) -> Session:
    """A long session most of which was left out by a turn of another process."""
    said = tuple(map(message, range(LENGTH)))
    session = leaving_out(with_messages(make_session(), said, now=NOW), said[:LEFT_OUT])
    repository = FileSessionRepository(sessions_dir)
    repository.create(session)
    return turn(repository, "planted")


def turn(repository: FileSessionRepository, text: str) -> Session:
    """Append what a turn does: a question with its claim, and the answer."""
    owner = repository.owners.mine()
    repository.claim(SESSION_ID, text, owner=owner, change=lambda found: (say(text)(found), None))
    return repository.update(SESSION_ID, say(f"{text}: answer"), turn_id=text, release=True)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many messages were decoded, reading by reading."""
    counts: list[int] = []
    read_messages = codec.read_messages

    def count(data: bytes, **how: object) -> Piece:
        piece = read_messages(data, **how)
        counts.append(len(piece.messages))
        return piece

    monkeypatch.setattr(codec, "read_messages", count)
    return counts


def test_a_turn_reads_the_ends_of_a_session_that_was_not_read_before(
    session: Session, sessions_dir: Path, read: list[int]
) -> None:
    repository = FileSessionRepository(sessions_dir)
    loaded, claim = repository.load_claimed(SESSION_ID, part=True)
    assert claim is None
    assert isinstance(loaded.messages, PartlyRead)
    turn(repository, "next")
    turn(repository, "one-more")
    assert sum(read) <= unread.TAIL + 10
    whole = FileSessionRepository(sessions_dir).load(SESSION_ID)
    assert whole.messages[: len(session.messages)] == session.messages
    assert [said.content for said in whole.messages[-2:]] == ["one-more", "one-more: answer"]
    assert whole.metadata.message_count == len(whole.messages) == LENGTH + 6


def test_whoever_loads_the_session_has_all_of_it(session: Session, sessions_dir: Path) -> None:
    repository = FileSessionRepository(sessions_dir)
    turn(repository, "next")
    assert isinstance(repository.load(SESSION_ID).messages, tuple)
    assert isinstance(repository.load_claimed(SESSION_ID)[0].messages, tuple)
    renamed = repository.update(SESSION_ID, lambda found: with_metadata(found, now=NOW, title="T"))
    idle = repository.update_idle(SESSION_ID, say("imported"))
    assert isinstance(renamed.messages, tuple)
    assert isinstance(idle.messages, tuple)
    assert idle.messages[: len(session.messages)] == session.messages


def planned(session: Session) -> ContextPlan:
    return plan_request(
        session.messages,
        state=session.metadata.context_state,
        strategy=STRATEGIES["truncate_by_tokens"],
        limit=100_000,
        model="qwen3:14b",
        session_id=SESSION_ID,
        now=NOW,
    )


def test_the_model_is_sent_the_same(session: Session, sessions_dir: Path) -> None:
    partly, _ = FileSessionRepository(sessions_dir).load_claimed(SESSION_ID, part=True)
    whole = FileSessionRepository(sessions_dir).load(SESSION_ID)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("sessions_app.partly_read.Unread.messages", _must_not_be_read)
        plan = planned(partly)
    expected = planned(whole)
    assert len(plan.messages) == LENGTH - LEFT_OUT + 2
    assert plan.messages == expected.messages
    assert plan.estimate == expected.estimate
    assert plan.state is partly.metadata.context_state
    assert plan.dropped == expected.dropped


def _must_not_be_read(_: object) -> None:
    raise AssertionError("a message that is left out was read")


@pytest.mark.parametrize("index", [0, 1, 1000, LEFT_OUT - 1, LENGTH - 1])
def test_a_message_that_was_edited_in_the_file_is_seen(
    session: Session, sessions_dir: Path, index: int
) -> None:
    path = sessions_dir / f"{SESSION_ID}.json"
    path.write_text(path.read_text().replace(f'"Message {index}. Some', f'"Message {index}. No'))
    repository = FileSessionRepository(sessions_dir)
    claimed = turn(repository, "next")
    assert claimed.messages[index].content.startswith(f"Message {index}. No")
    is_left_out = index < LEFT_OUT
    assert (planned(claimed).state is None) == is_left_out


def test_a_file_that_is_damaged_where_nothing_is_sent_is_refused_as_ever(
    session: Session, sessions_dir: Path
) -> None:
    path = sessions_dir / f"{SESSION_ID}.json"
    path.write_text(path.read_text().replace('"Message 1000.', '"Message" 1000.'))
    damaged = path.read_bytes()
    with pytest.raises(SessionCorrupt, match="not JSON"):
        turn(FileSessionRepository(sessions_dir), "next")
    assert path.read_bytes() == damaged


def test_messages_are_deleted_and_edited_in_a_session_that_was_read_partly(
    session: Session, sessions_dir: Path
) -> None:
    manager = SessionManager(sessions_dir)
    turn(manager.repository, "next")
    manager.delete_message(SESSION_ID, 1000)
    manager.edit_message(SESSION_ID, 2000 + 1, "another question")
    left = FileSessionRepository(sessions_dir).load(SESSION_ID).messages
    assert [left[1000].message_id, left[-1].content] == [f"{1001:010x}", "another question"]


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many bytes were read and written, call by call."""
    counts: list[int] = []

    def counting(do: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            done = do(*args)
            counts.append(len(done) if isinstance(done, bytes) else done)
            return done

        return counted

    for name in ("read", "pread", "write"):
        monkeypatch.setattr(os, name, counting(getattr(os, name)))
    return counts


def test_a_session_that_was_touched_is_neither_read_nor_written_where_it_stays(
    session: Session, sessions_dir: Path, moved: list[int]
) -> None:
    repository = FileSessionRepository(sessions_dir)
    turn(repository, "first")
    turn(repository, "second")
    if not gives_leases(sessions_dir):
        pytest.skip("no leases here")
    moved.clear()
    for number in range(5):
        turn(repository, f"turn-{number}")
    assert sum(moved) < 100_000
    data = (sessions_dir / f"{SESSION_ID}.json").read_bytes()
    assert len(data) > 800_000
    assert data == encode(decode(data, SESSION_ID))
    assert len(decode(data, SESSION_ID).messages) == LENGTH + 2 + 2 * 7
    recent = repository._files.recent.of(SESSION_ID)
    assert recent is not None
    assert isinstance(recent.file.data, FileEnds)
    assert recent.file.data.held < len(data) / 4


def test_a_session_that_is_too_large_to_be_kept_is_touched_all_the_same(
    session: Session,
    sessions_dir: Path,
    read: list[int],
    moved: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cache, "MOST_BYTES", 500_000)
    monkeypatch.setattr(session_files, "MOST_BYTES", 500_000)
    repository = FileSessionRepository(sessions_dir)
    if not gives_leases(sessions_dir):
        pytest.skip("no leases here")
    turn(repository, "first")
    turn(repository, "second")
    moved.clear()
    turn(repository, "third")
    assert sum(moved) < 20_000
    for _ in range(2):
        assert len(repository.load(SESSION_ID).messages) == LENGTH + 2 + 6
    repository.update(SESSION_ID, lambda found: with_metadata(found, now=NOW, title="Title"))
    turn(repository, "fourth")
    data = (sessions_dir / f"{SESSION_ID}.json").read_bytes()
    assert data == encode(decode(data, SESSION_ID))
    assert len(decode(data, SESSION_ID).messages) == LENGTH + 2 + 8


@pytest.mark.parametrize("when", ["between two turns", "in a turn"])
@pytest.mark.parametrize("index", [0, 1000, LENGTH - 1])
@pytest.mark.parametrize("in_place", [True, False])
def test_an_edit_of_a_file_that_was_touched_is_seen_and_kept(
    session: Session, sessions_dir: Path, when: str, index: int, *, in_place: bool
) -> None:
    repository = FileSessionRepository(sessions_dir)
    path = sessions_dir / f"{SESSION_ID}.json"
    turn(repository, "first")
    turn(repository, "second")

    def edit() -> None:
        edited = path.read_text().replace(f'"Message {index}. Some', f'"Message {index}. SOME')
        if not in_place:
            path.unlink()
        path.write_text(edited)

    if when == "between two turns":
        edit()
        turn(repository, "third")
    else:
        owner = repository.owners.mine()
        change = say("third")
        repository.claim(SESSION_ID, "t", owner=owner, change=lambda found: (change(found), None))
        edit()
        repository.update(SESSION_ID, say("third: answer"), turn_id="t", release=True)
    turn(repository, "fourth")
    messages = FileSessionRepository(sessions_dir).load(SESSION_ID).messages
    assert messages[index].content.startswith(f"Message {index}. SOME")
    assert [said.content for said in messages[-4:]] == [
        "third",
        "third: answer",
        "fourth",
        "fourth: answer",
    ]


def test_what_changes_the_session_without_a_turn_has_all_of_it_and_keeps_its_ends(
    session: Session, sessions_dir: Path, read: list[int]
) -> None:
    repository = FileSessionRepository(sessions_dir)
    turn(repository, "first")
    turn(repository, "second")
    for title in ("One", "Another title"):
        change = partial(with_metadata, now=NOW, title=title)
        assert len(repository.update(SESSION_ID, change).messages) == LENGTH + 2 + 4
    read.clear()
    turn(repository, "third")
    assert not read
    data = (sessions_dir / f"{SESSION_ID}.json").read_bytes()
    assert data == encode(decode(data, SESSION_ID))
    assert decode(data, SESSION_ID).metadata.title == "Another title"


def test_the_end_of_a_session_that_was_touched_is_made_again(
    session: Session, sessions_dir: Path
) -> None:
    repository = FileSessionRepository(sessions_dir)
    turn(repository, "first")
    turn(repository, "second")
    repository.update(
        SESSION_ID, lambda found: with_messages(found, found.messages[:-1], now=NOW), turn_id=None
    )
    owner, change = repository.owners.mine(), partial(with_metadata, now=NOW)
    for taken_away in (3, 2, 1):
        turn(repository, f"turn-{taken_away}")
        repository.claim(SESSION_ID, "t", owner=owner, change=lambda found: (change(found), None))
        repository.update(
            SESSION_ID,
            lambda found, less=taken_away: with_messages(found, found.messages[:-less], now=NOW),
            turn_id="t",
            release=True,
        )
        data = (sessions_dir / f"{SESSION_ID}.json").read_bytes()
        assert data == encode(decode(data, SESSION_ID))
    assert len(repository.load(SESSION_ID).messages) == LENGTH + 2 + 3 + 6 - 6
    assert not (sessions_dir / f".{SESSION_ID}.json.spare").exists()


def test_a_file_that_is_changed_between_reading_and_writing_it_is_left_alone(
    session: Session, sessions_dir: Path
) -> None:
    repository = FileSessionRepository(sessions_dir)
    path = sessions_dir / f"{SESSION_ID}.json"
    turn(repository, "first")
    turn(repository, "second")

    def late(found: Session) -> Session:
        (sessions_dir / f".{SESSION_ID}.json.spare").unlink(missing_ok=True)
        path.write_bytes(b"edited " + path.read_bytes())
        return say("third")(found)

    owner = repository.owners.mine()
    with pytest.raises(SessionCorrupt, match="another program changed it meanwhile"):
        repository.claim(SESSION_ID, "t", owner=owner, change=lambda found: (late(found), None))
    assert path.read_bytes().startswith(b"edited ")
    assert repository.claim_of(SESSION_ID) is None


def is_kept_partly(repository: FileSessionRepository) -> bool:
    recent = repository._files.recent.of(SESSION_ID)
    return recent is not None and isinstance(recent.file.data, FileEnds)


def test_a_session_that_somebody_loaded_whole_is_left_in_its_file_by_turns(
    session: Session, sessions_dir: Path, read: list[int]
) -> None:
    repository = FileSessionRepository(sessions_dir)
    repository.load(SESSION_ID)
    read.clear()
    turn(repository, "first")
    turn(repository, "second")
    assert not read
    assert is_kept_partly(repository)
    assert len(repository.load(SESSION_ID).messages) == LENGTH + 2 + 4


def test_a_note_that_does_not_hold_of_a_session_that_was_loaded_whole_is_made_anew(
    session: Session, sessions_dir: Path
) -> None:
    path = sessions_dir / f"{SESSION_ID}.json"
    path.write_text(path.read_text().replace('"Message 1000. Some', '"Message 1000. SOME'))
    repository = FileSessionRepository(sessions_dir)
    repository.load(SESSION_ID)
    turn(repository, "first")
    state = repository.load(SESSION_ID).metadata.context_state
    assert state is not None
    assert state.text is not None
    assert isinstance(
        FileSessionRepository(sessions_dir).load_claimed(SESSION_ID, part=True)[0].messages,
        PartlyRead,
    )


def test_a_state_that_is_made_anew_is_noted_by_the_next_turn(
    session: Session, sessions_dir: Path
) -> None:
    repository = FileSessionRepository(sessions_dir)
    turn(repository, "first")

    def leave_out_more(found: Session) -> Session:
        return leaving_out(say("second")(found), tuple(found.messages)[: LEFT_OUT + 20])

    owner = repository.owners.mine()
    repository.claim(
        SESSION_ID, "t", owner=owner, change=lambda found: (leave_out_more(found), None)
    )
    repository.update(SESSION_ID, say("second: answer"), turn_id="t", release=True)
    turn(repository, "third")
    found, _ = FileSessionRepository(sessions_dir).load_claimed(SESSION_ID, part=True)
    assert isinstance(found.messages, PartlyRead)
    assert found.messages.unread.covers[1] == LEFT_OUT + 20
    assert is_kept_partly(repository)
