"""Turns of long sessions, whatever the cache forgets meanwhile and whoever edits their files."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.context.plan import ContextPlan, plan_request
from chat.context.strategy import STRATEGIES
from sessions_app.errors import SessionCorrupt
from sessions_app.format.codec import decode, encode
from sessions_app.messages import AssistantMessage, Message, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import (
    Session,
    SessionMetadata,
    append_messages,
    with_messages,
    with_metadata,
)
from sessions_app.store import cache
from sessions_app.store.file_repository import FileSessionRepository
from tests.claims import hold_of
from tests.unit.sessions_app.left_out import NOW, leaving_out

SESSION_ID = "a1b2c3d4e5"
OTHERS = [f"{number:010x}" for number in range(4)]
LENGTH = 3000
LEFT_OUT = 2900
TEXT = "Some words follow. " * 10

Read = Callable[[], object]


def message(at: int) -> Message:
    text, message_id = f"Message {at}. {TEXT}", f"{at:010x}"
    if at % 2 == 0:
        return UserMessage(content=text, message_id=message_id, timestamp=NOW)
    return AssistantMessage(content=text, message_id=message_id, timestamp=NOW, model="qwen3:14b")


def long_session(session_id: str = SESSION_ID, length: int = LENGTH) -> Session:
    """Return a session most of whose messages are not sent to models any more."""
    metadata = SessionMetadata(
        session_id=session_id, model="qwen3:14b", created_at=NOW, updated_at=NOW
    )
    said = tuple(map(message, range(length)))
    session = with_messages(Session(metadata=metadata), said, now=NOW)
    return leaving_out(session, said[: length * LEFT_OUT // LENGTH])


def say(text: str, meanwhile: Read = lambda: None) -> Callable[[Session], Session]:
    """Return a change that appends a message, after something else has happened."""
    said = UserMessage(content=text, message_id=text, timestamp=NOW)

    def change(session: Session) -> Session:
        meanwhile()
        return append_messages(session, said, now=NOW)

    return change


def turn(repository: FileSessionRepository, text: str, meanwhile: Read = lambda: None) -> Session:
    """Append what a turn does: a question with its claim, and the answer."""
    owner, ask = repository.owners.mine(), say(text, meanwhile)
    repository.claim(SESSION_ID, text, owner=owner, change=lambda found: (ask(found), None))
    answer = say(f"{text}: answer", meanwhile)
    return repository.update(SESSION_ID, answer, hold=hold_of(repository, text), release=True)


@pytest.fixture
def sessions_dir(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def session(sessions_dir: Path) -> Session:
    repository = FileSessionRepository(sessions_dir)
    repository.create(long_session())
    return turn(repository, "planted")


@pytest.fixture
def cache_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_SESSIONS", 1)


def test_others_may_be_read_while_a_turn_of_a_long_session_is_saved(
    session: Session, sessions_dir: Path, cache_of_one: None
) -> None:
    repository = FileSessionRepository(sessions_dir)
    for session_id in OTHERS:
        repository.create(long_session(session_id, length=2))

    def read_others() -> None:
        for session_id in OTHERS:
            repository.load(session_id)

    for number in range(3):
        turn(repository, f"turn-{number}", read_others)
    path = sessions_dir / f"{SESSION_ID}.json"
    assert path.read_bytes() == encode(decode(path.read_bytes(), SESSION_ID))
    assert len(repository.load(SESSION_ID).messages) == LENGTH + 2 + 6


meanwhiles = st.lists(st.sampled_from(["read others", "read it", "list", "edit", "title"]))
steps = st.lists(st.tuples(st.sampled_from(["turn", "update", "read"]), meanwhiles), max_size=5)


@given(steps=steps, most_sessions=st.integers(0, 3), most_bytes=st.sampled_from([0, 10**6, 10**7]))
def test_whatever_is_read_and_forgotten_meanwhile_what_is_said_is_saved(
    steps: list[tuple[str, list[str]]], most_sessions: int, most_bytes: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "MOST_SESSIONS", most_sessions)
        patch.setattr(cache, "MOST_BYTES", most_bytes)
        ours, theirs = (FileSessionRepository(Path(folder)) for _ in range(2))
        ours.create(long_session())
        for session_id in OTHERS:
            ours.create(long_session(session_id, length=2))

        def meanwhile(what: list[str]) -> None:
            for each in what:
                match each:
                    case "read others":
                        [ours.load(session_id) for session_id in OTHERS]
                    case "read it":
                        ours.load_claimed(SESSION_ID)
                    case "list":
                        ours.list()
                    case "edit":
                        theirs.update(OTHERS[0], say("elsewhere"))
                    case "title":
                        ours.update(OTHERS[1], lambda it: with_metadata(it, now=NOW, title="T"))

        expected = [each.content for each in long_session().messages]
        for number, (step, what) in enumerate(steps):
            text = f"turn-{number}"
            match step:
                case "turn":
                    turn(ours, text, partial(meanwhile, what))
                    expected += [text, f"{text}: answer"]
                case "update":
                    ours.update_idle(SESSION_ID, say(text, partial(meanwhile, what)))
                    expected += [text]
                case "read":
                    meanwhile(what)
            assert [each.content for each in theirs.load(SESSION_ID).messages] == expected
            assert ours.load(SESSION_ID) == theirs.load(SESSION_ID)


def planned(session: Session) -> ContextPlan:
    return plan_request(
        session.messages,
        state=session.metadata.context_state,
        strategy=STRATEGIES["truncate_by_tokens"],
        limit=100_000,
        model="qwen3:14b",
        now=NOW,
    )


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


def test_messages_are_deleted_and_edited_in_a_long_session(
    session: Session, sessions_dir: Path
) -> None:
    manager = SessionManager(sessions_dir)
    turn(manager.repository, "next")
    manager.delete_message(SESSION_ID, 1000)
    manager.edit_message(SESSION_ID, 2000 + 1, "another question")
    left = FileSessionRepository(sessions_dir).load(SESSION_ID).messages
    assert [left[1000].message_id, left[-1].content] == [f"{1001:010x}", "another question"]


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
        repository.update(
            SESSION_ID, say("third: answer"), hold=hold_of(repository, "t"), release=True
        )
    turn(repository, "fourth")
    messages = FileSessionRepository(sessions_dir).load(SESSION_ID).messages
    assert messages[index].content.startswith(f"Message {index}. SOME")
    assert [said.content for said in messages[-4:]] == [
        "third",
        "third: answer",
        "fourth",
        "fourth: answer",
    ]


def test_the_end_of_a_session_that_was_touched_is_made_again(
    session: Session, sessions_dir: Path
) -> None:
    repository = FileSessionRepository(sessions_dir)
    for taken_away in (3, 2, 1):
        turn(repository, f"turn-{taken_away}")
        repository.update(
            SESSION_ID,
            lambda found, less=taken_away: with_messages(found, found.messages[:-less], now=NOW),
        )
        data = (sessions_dir / f"{SESSION_ID}.json").read_bytes()
        assert data == encode(decode(data, SESSION_ID))
    assert len(repository.load(SESSION_ID).messages) == LENGTH + 2 + 6 - 6
