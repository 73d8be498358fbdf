import pytest

from chat.approvals.store import ASKED, ConfirmationStore
from tests.unit.chat.approvals.questions import CALL, MESSAGE, SESSION, TIMEOUT, Clock, records_in


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def directory(tmp_path):
    return tmp_path / ".mochi" / "confirmations"


@pytest.fixture
def store(directory, clock):
    return ConfirmationStore(records_in(directory), timeout_seconds=TIMEOUT, now=clock)


@pytest.fixture
def ask(store):
    def asking(**different):
        question = {
            "session_id": SESSION,
            "message_id": MESSAGE,
            "call": CALL,
            "call_index": 0,
            "turn_id": "turn_1",
        }
        return store.ask(**question | different)

    return asking


@pytest.fixture
def file_of(directory):
    def path(question, kind=ASKED):
        return directory / question.session_id / f"{question.confirmation_id}.{kind}"

    return path
