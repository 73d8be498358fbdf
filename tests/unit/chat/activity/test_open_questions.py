"""Finding the sessions that ask something, without looking at all of them each time.

What is remembered of them is what is there, whatever another process did since it was read.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.activity.states import StateReader
from chat.approvals.confirmation import Confirmation, Decision
from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore
from sessions_app.errors import SessionNotFound
from sessions_app.messages import ToolCall
from sessions_app.session import SessionMetadata
from sessions_app.store.file_records import CLOCK_TICK_NS, FileRecords
from tests.contract.memory_storage import MemoryRecords
from tests.unit.chat.approvals.questions import (
    MESSAGE,
    OTHER_SESSION,
    SESSION,
    TIMEOUT,
    Clock,
    deny,
    records_in,
)

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

    def names(self, group=""):
        self.looks.append(group)
        return super().names(group)


class NoSessions:
    """Sessions without turns, of which none is there any more."""

    def claims(self):
        return []

    def load(self, session_id):
        raise SessionNotFound(session_id)


def metadata_of(session_id, updated_at=LONG_AGO):
    return SessionMetadata(
        session_id=session_id, model="m", created_at=LONG_AGO, updated_at=updated_at
    )


def asking(reader):
    """Return the sessions that are listed as ones that ask."""
    states = reader.all()
    both = [SESSION, OTHER_SESSION]
    return [each for each in both if states.of(metadata_of(each)) == "awaiting_approval"]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    return ConfirmationStore(MemoryRecords(), timeout_seconds=TIMEOUT, now=clock)


def test_the_sessions_that_ask_are_found(store):
    reader = StateReader(NoSessions(), store)
    assert asking(reader) == []
    question = ask(store, SESSION)
    ask(store, OTHER_SESSION)
    assert asking(reader) == [SESSION, OTHER_SESSION]
    deny(store, question)
    assert asking(reader) == [OTHER_SESSION]


def test_a_question_whose_time_is_over_waits_no_more(store, clock):
    reader = StateReader(NoSessions(), store)
    ask(store, SESSION)
    assert asking(reader) == [SESSION]
    clock.move(TIMEOUT)
    assert asking(reader) == []


def test_what_has_not_changed_is_not_looked_at_again(clock):
    records = CountedRecords()
    store = ConfirmationStore(records, timeout_seconds=TIMEOUT, now=clock)
    reader = StateReader(NoSessions(), store)
    records.put(f"{SESSION}/conf_{'0' * 32}.asked", b"of a newer server")
    assert asking(reader) == []
    looks = len(records.looks)
    assert asking(reader) == []
    assert len(records.looks) == looks
    records.put(f"{SESSION}/conf_{'1' * 32}.asked", b"of a newer server")
    reader.all()
    assert len(records.looks) == looks + 1


def test_a_session_that_changed_since_it_asked_is_read(store):
    ask(store, SESSION)
    states = StateReader(NoSessions(), store).all()
    assert states.of(metadata_of(SESSION)) == "awaiting_approval"
    assert states.of(metadata_of(SESSION, "2027-01-01T00:00:00.000000+00:00")) == "idle"


def let_a_tick_pass(directory: Path) -> None:
    """Wait until what changes from now on has a later time than what changed before."""
    probe = directory / "probe"
    probe.touch()
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.touch()


Step = tuple[str, str]


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from(["ask", "ask again", "decide", "withdraw", "delete"]),
                st.sampled_from([SESSION, OTHER_SESSION]),
            ),
            st.sampled_from([("look", ""), ("look later", ""), ("be late", "")]),
        ),
        max_size=12,
    )
)
def test_what_waits_is_what_another_process_left(steps: list[Step]) -> None:
    with TemporaryDirectory() as name:
        clock, directory = Clock(), Path(name, "questions")
        ages = [0]  # of what changed just now, for who looks at it

        def reader_here() -> StateReader:
            records = FileRecords(
                directory,
                names=CONFIRMATION_RECORDS,
                clock_ns=lambda: time.time_ns() + ages[-1],
            )
            store = ConfirmationStore(records, timeout_seconds=TIMEOUT, now=clock)
            return StateReader(NoSessions(), store)  # type: ignore[arg-type]

        here = reader_here()
        other = ConfirmationStore(records_in(directory), timeout_seconds=TIMEOUT, now=clock)
        for number, (step, session_id) in enumerate([*steps, ("look", "")]):
            if step == "be late":
                clock.move(TIMEOUT / 2)
            elif step in {"look", "look later"}:
                ages.append(10 * CLOCK_TICK_NS if step == "look later" else 0)
                assert asking(here) == asking(reader_here())
                if step == "look later":
                    let_a_tick_pass(Path(name))
            else:
                change(other, step, session_id, f"call_{number}")


def test_what_changed_within_the_last_tick_is_read_again(tmp_path: Path) -> None:
    ages = [0]
    records = FileRecords(
        tmp_path, names=CONFIRMATION_RECORDS, clock_ns=lambda: time.time_ns() + ages[-1]
    )
    records.put(f"{SESSION}/conf_{'0' * 32}.asked", b"{}")
    assert records.stamps() != records.stamps()
    ages.append(10 * CLOCK_TICK_NS)
    assert records.stamps() == records.stamps()


def change(store: ConfirmationStore, step: str, session_id: str, new_call: str) -> None:
    pending = store.pending(session_id)
    if step == "delete":
        store.discard_session(session_id)
    elif step == "ask":
        ask(store, session_id, new_call)
    elif not pending:
        return
    elif step == "ask again":
        ask(store, session_id, pending[0].tool_call_id)
    elif step == "decide":
        store.decide(
            session_id, Decision(confirmation_id=pending[0].confirmation_id, approved=False)
        )
    else:
        store.withdraw([pending[0]])


def ask(store: ConfirmationStore, session_id: str, call_id: str = "call_1") -> Confirmation:
    return store.ask(
        session_id=session_id,
        message_id=MESSAGE,
        call=ToolCall(id=call_id, name="delete_file", arguments={}),
        call_index=0,
        turn_id="turn_1",
    )
