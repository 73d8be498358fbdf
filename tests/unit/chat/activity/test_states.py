"""What goes on in sessions, read of all at once and of one alone."""

from typing import Any

import pytest

from chat.activity.states import StateReader
from chat.approvals.confirmation import Confirmation, Decision
from chat.approvals.store import ConfirmationStore
from sessions_app.errors import StorageUnavailable
from sessions_app.ids_and_clock import utc_now
from sessions_app.messages import ToolCall, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, with_messages, with_metadata
from tests.claims import hold_of

TURN = "0199f3a2b4c50000abcd"


def made(manager: SessionManager, text: str = "Hello!") -> Session:
    session = manager.create("m")
    return manager.change(
        session.session_id,
        lambda before: with_messages(
            before,
            [UserMessage(content=text, message_id="f1e2d3c4b5", timestamp=utc_now())],
            now=utc_now(),
        ),
    )


def claim(manager: SessionManager, session: Session, owner: str | None = None) -> None:
    repository = manager.repository
    repository.claim(
        session.session_id,
        TURN,
        owner=owner or repository.owners.mine(),
        change=lambda before: (before, None),
    )


def ask(questions: ConfirmationStore, session: Session, **different: Any) -> Confirmation:
    question: dict[str, Any] = {
        "session_id": session.session_id,
        "message_id": "f1e2d3c4b5",
        "call": ToolCall(id="call_1", name="delete", arguments={}),
        "call_index": 0,
        "turn_id": TURN,
    }
    return questions.ask(**question | different)


@pytest.fixture
def state_of(states: StateReader, manager: SessionManager) -> Any:
    """Return the state of a session, which lists and details agree about."""

    def state(session: Session) -> str:
        metadata = manager.get(session.session_id).metadata
        listed = next(
            one for one in manager.list().sessions if one.session_id == session.session_id
        )
        assert states.all().of(listed) == states.of(metadata)
        return states.of(metadata)

    return state


def test_a_session_in_which_nothing_happens_is_idle(manager: SessionManager, state_of: Any) -> None:
    assert state_of(made(manager)) == "idle"


def test_a_session_with_a_turn_is_running_until_it_ends(
    manager: SessionManager, state_of: Any
) -> None:
    session, other = made(manager), made(manager)
    claim(manager, session)
    assert (state_of(session), state_of(other)) == ("running", "idle")
    manager.repository.release(session.session_id, hold_of(manager.repository, TURN))
    assert state_of(session) == "idle"


def test_a_turn_of_a_dead_process_does_not_run(manager: SessionManager, state_of: Any) -> None:
    session = made(manager)
    claim(manager, session, owner="0123456789abcdef")
    assert state_of(session) == "idle"


def test_a_session_whose_summary_is_due_is_idle(manager: SessionManager, state_of: Any) -> None:
    session = made(manager)
    manager.repository.update(
        session.session_id, lambda found: with_metadata(found, now=utc_now(), summary_due=utc_now())
    )
    assert state_of(session) == "idle"
    claim(manager, session)
    assert state_of(session) == "running"


def test_a_question_waits_until_it_is_answered_with_a_turn_or_without(
    manager: SessionManager, questions: ConfirmationStore, state_of: Any
) -> None:
    session = made(manager)
    claim(manager, session)
    question = ask(questions, session)
    assert state_of(session) == "awaiting_approval"
    manager.repository.release(session.session_id, hold_of(manager.repository, TURN))
    assert state_of(session) == "awaiting_approval"
    questions.decide(
        session.session_id, Decision(confirmation_id=question.confirmation_id, approved=False)
    )
    assert state_of(session) == "idle"


def test_a_question_that_was_edited_away_waits_no_more(
    manager: SessionManager, questions: ConfirmationStore, state_of: Any
) -> None:
    session = made(manager)
    ask(questions, session)
    manager.update(session.session_id, title="Still asked")
    assert state_of(session) == "awaiting_approval"
    manager.change(session.session_id, lambda found: with_messages(found, [], now=utc_now()))
    assert state_of(session) == "idle"


def test_sessions_have_the_states_that_were_read_last_while_turns_are_out_of_reach(
    manager: SessionManager,
    states: StateReader,
    questions: ConfirmationStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy, other = made(manager), made(manager)
    claim(manager, busy)
    states.all()

    def is_away(*_: Any) -> Any:
        raise StorageUnavailable("away")

    monkeypatch.setattr(questions, "stamps", is_away)
    monkeypatch.setattr(questions, "pending", is_away)
    for session, state in ((busy, "running"), (other, "idle")):
        metadata = manager.get(session.session_id).metadata
        assert states.all().of(metadata) == states.of(metadata) == state
