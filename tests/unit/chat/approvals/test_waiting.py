"""Finding the sessions that ask something, without looking at all of them each time."""

from chat.approvals.store import ConfirmationStore
from chat.approvals.waiting import WaitingSessions
from sessions_app.errors import SessionNotFound
from sessions_app.session import SessionMetadata
from tests.contract.memory_storage import MemoryRecords
from tests.unit.chat.approvals.questions import OTHER_SESSION, SESSION, TIMEOUT, deny

LONG_AGO = "2020-01-01T00:00:00.000000+00:00"


class CountedRecords(MemoryRecords):
    """Records of which a session's are looked at anew only after it got some."""

    def __init__(self):
        super().__init__()
        self.looks = []
        self.puts = 0

    def put(self, *args, **options):
        self.puts += 1
        return super().put(*args, **options)

    def stamps(self):
        return dict.fromkeys(super().stamps(), self.puts)

    def kinds(self, session_id):
        self.looks.append(session_id)
        return super().kinds(session_id)


class NoSessions:
    """Sessions of which none is there any more."""

    def __init__(self):
        self.asked_for = []

    def load(self, session_id):
        self.asked_for.append(session_id)
        raise SessionNotFound(session_id)


def waiting_over(store, sessions=None):
    return WaitingSessions(store, sessions or NoSessions())


def test_the_sessions_that_ask_are_found_with_their_questions(ask, store):
    waiting = waiting_over(store)
    assert waiting.all() == {}
    question, other = ask(), ask(session_id=OTHER_SESSION)
    assert waiting.all() == {SESSION: [question], OTHER_SESSION: [other]}
    assert waiting.of(SESSION) == [question]
    deny(store, question)
    assert list(waiting.all()) == [OTHER_SESSION]


def test_a_question_whose_time_is_over_waits_no_more(ask, store, clock):
    waiting = waiting_over(store)
    ask()
    assert list(waiting.all()) == [SESSION]
    clock.move(TIMEOUT)
    assert waiting.all() == {}


def test_what_has_not_changed_is_not_looked_at_again(clock):
    records = CountedRecords()
    store = ConfirmationStore(records, timeout_seconds=TIMEOUT, now=clock)
    waiting = waiting_over(store)
    records.put(SESSION, f"conf_{'0' * 32}", "asked", b"of a newer server")
    assert waiting.all() == {}
    looks = len(records.looks)
    assert waiting.all() == {}
    assert len(records.looks) == looks
    records.put(SESSION, f"conf_{'1' * 32}", "asked", b"of a newer server")
    waiting.all()
    assert len(records.looks) == looks + 1


def test_a_session_is_read_for_it_once_for_each_change(ask, store):
    sessions = NoSessions()
    waiting = waiting_over(store, sessions)
    ask()
    asked = waiting.all()[SESSION]

    def metadata(updated_at):
        return SessionMetadata(
            session_id=SESSION, model="m", created_at=LONG_AGO, updated_at=updated_at
        )

    assert waiting.asks(metadata(LONG_AGO), asked)
    assert sessions.asked_for == []
    for _ in range(2):
        assert not waiting.asks(metadata("2027-01-01T00:00:00.000000+00:00"), asked)
    assert sessions.asked_for == [SESSION]
    assert not waiting.asks(metadata(LONG_AGO), [])
