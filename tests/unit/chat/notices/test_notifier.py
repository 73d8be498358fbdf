"""What is queued: questions and ends of turns, each as far as people want to be told."""

import threading
import time
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from chat.approvals.confirmation import Decision
from chat.approvals.store import ConfirmationStore
from chat.notices.notice import Notice
from chat.notices.notifier import TASK, NoticeQueue, Notifier
from chat.turn.observer import TurnEnd, TurnStart
from chat.turn.state_machine import State
from sessions_app.messages import ToolCall
from tests.unit.chat.approvals.questions import SESSION, records_in

EVENTS = ("approval.asked", "turn.done", "turn.failed")
START = TurnStart(session_id=SESSION, turn_id="t1", model="m", purpose="chat")


class Queue:
    """A queue of tasks that may be slow, broken or full."""

    def __init__(self):
        self.added = []
        self.opened = threading.Event()
        self.opened.set()
        self.error = None

    def add(self, function, *arguments, delay_seconds):
        self.opened.wait()
        if self.error is not None:
            raise self.error
        assert (function, delay_seconds) == (TASK, 0)
        self.added += map(Notice.read, arguments)
        return True


@pytest.fixture
def queue():
    return Queue()


@pytest.fixture
def notices(queue):
    notices = NoticeQueue(queue)
    yield notices
    notices.close()


@pytest.fixture
def told(queue, notices):
    def of(act, events=EVENTS):
        act(Notifier(notices, events, "anna"))
        notices.close()
        return queue.added

    return of


@pytest.fixture
def store(tmp_path):
    return ConfirmationStore(records_in(tmp_path / "asked"), timeout_seconds=300)


@pytest.fixture
def question(store):
    call = ToolCall(id="c", name="rm", arguments={})
    return store.ask(session_id=SESSION, message_id="m", call=call, call_index=0, turn_id="t1")


def ended(state, code=None):
    return TurnEnd(start=START, state=state, error_code=code, rounds=1, tool_calls=0, seconds=1.0)


def test_a_question_is_told_and_its_answer_is_not(told, question):
    def act(notifier):
        notifier.question_changed(question, False)
        notifier.question_changed(question, True)

    [notice] = told(act)
    assert (notice.event, notice.owner, notice.session_id) == ("approval.asked", "anna", SESSION)
    assert notice.subject == question.confirmation_id
    assert abs(notice.since - time.time()) < 60


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (State.COMPLETED, "turn.done"),
        (State.FAILED, "turn.failed"),
        (State.CANCELLED, None),
        (State.SUSPENDED, None),
        (State.HANDED_OVER, None),
        (State.INTERRUPTED, None),
    ],
)
def test_ends_of_turns_are_told(told, state, event):
    notices = told(lambda notifier: notifier.turn_ended(ended(state, "X" if event else None)))
    assert [(each.event, each.subject, each.code) for each in notices] == (
        [(event, "t1", "X")] if event else []
    )


def test_only_what_people_want_is_told(told, question):
    def act(notifier):
        notifier.question_changed(question, False)
        notifier.turn_ended(ended(State.COMPLETED))

    assert [each.event for each in told(act, ("turn.done",))] == ["turn.done"]


def test_open_questions_are_found(told, store, question):
    store.decide(SESSION, Decision(confirmation_id=question.confirmation_id, approved=True))
    call = ToolCall(id="c2", name="rm", arguments={})
    waiting = store.ask(session_id=SESSION, message_id="m", call=call, call_index=1, turn_id="t1")
    [notice] = told(lambda notifier: notifier.find_open(store))
    assert notice.subject == waiting.confirmation_id


def test_a_question_of_long_ago_gets_all_its_tries(told, question):
    created_at = (datetime.now(UTC) - timedelta(days=2)).isoformat()
    old = msgspec.structs.replace(question, created_at=created_at)
    [notice] = told(lambda notifier: notifier.question_changed(old, False))
    assert abs(notice.since - time.time()) < 60


def test_nobody_waits_for_the_queue(queue, notices, question):
    queue.opened.clear()
    notifier = Notifier(notices, EVENTS, "default")
    notifier.question_changed(question, False)
    notifier.turn_ended(ended(State.COMPLETED))
    assert queue.added == []
    queue.opened.set()
    notices.close()
    assert len(queue.added) == 2


def test_a_queue_that_fails_stops_nothing(queue, told, question, caplog):
    queue.error = OSError("full")
    assert told(lambda notifier: notifier.question_changed(question, False)) == []
    assert "could not be queued" in caplog.text


def test_without_an_address_nobody_is_told(store, question):
    notifier = Notifier(None, EVENTS, "default")
    notifier.question_changed(question, False)
    notifier.find_open(store)


def test_what_happens_after_the_end_is_told_to_nobody(queue, notices, caplog):
    notices.close()
    Notifier(notices, EVENTS, "default").turn_ended(ended(State.COMPLETED))
    assert queue.added == []
    assert "the server has stopped" in caplog.text
