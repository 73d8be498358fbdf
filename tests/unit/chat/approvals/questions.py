"""Questions of one session, a clock for their store, and the ways to answer them."""

from datetime import UTC, datetime, timedelta

from chat.approvals.confirmation import Decision
from chat.approvals.store import CONFIRMATION_RECORDS
from chat.errors import ConfirmationAlreadyDecided, ConfirmationExpired
from sessions_app.messages import ToolCall
from sessions_app.store.file_records import FileRecords

SESSION, OTHER_SESSION = "a1b2c3d4e5", "0000000000"
MESSAGE = "f1e2d3c4b5"
CALL = ToolCall(id="call_1", name="delete_file", arguments={"path": "/tmp/x", "n": 1})
TIMEOUT = 300
LATE = ConfirmationExpired, ConfirmationAlreadyDecided


def records_in(directory):
    return FileRecords(directory, names=CONFIRMATION_RECORDS)


class Clock:
    """A wall clock that anybody may set."""

    def __init__(self):
        self.time = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)

    def __call__(self):
        return self.time

    def move(self, seconds):
        self.time += timedelta(seconds=seconds)


def allowed(name, **edits):
    return Decision(confirmation_id=name, approved=True, **edits)


def denied(name):
    return Decision(confirmation_id=name, approved=False)


def approve(store, question, repeatable=False, **edits):
    decision = Decision(confirmation_id=question.confirmation_id, approved=True, **edits)
    return store.decide(SESSION, decision, repeatable=repeatable)


def deny(store, question):
    return store.decide(SESSION, Decision(confirmation_id=question.confirmation_id, approved=False))
