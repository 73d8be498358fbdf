"""What a journal says of its turn."""

import msgspec
import pytest

from chat.remote.outcome import outcome_of
from chat.remote.replay import is_sound, replay
from chat.storage.journal import Entry, line
from chat.stream.encoding import ascii_json
from chat.stream.events import Cancelled, ContentDelta, Failed, MessageComplete, TurnStarted
from chat.stream.notes import RoundBegan, Stopped
from chat.turn.state_machine import State
from sessions_app.session import Session, SessionMetadata

NOW = "2026-11-21T10:00:00.000000+00:00"
TURN_ID = "0199f3a2b4c50000abcd"
STARTED = TurnStarted(turn_id=TURN_ID, session_id="a1b2c3d4e5", model="m")
CANCELLED = Cancelled(content="Half", thinking=None, model="m", message_id="m1")
COMPLETE = MessageComplete(
    message_id="m1",
    model="m",
    eval_count=1,
    prompt_eval_count=2,
    context_window={},
    content="Whole",
    thinking=None,
    tool_calls=[],
    turn_id=TURN_ID,
    done_reason="stop",
    usage={},
)
FAILED = Failed(code="OLLAMA_ERROR", message="No.", details={"retryable": True, "status": 500})


def journal_of(*recorded):
    lines = [
        line(number, each.event, ascii_json(each)) for number, each in enumerate(recorded, start=1)
    ]
    return [msgspec.json.decode(each, type=Entry) for each in lines]


def empty_session():
    metadata = SessionMetadata(session_id="a1b2c3d4e5", model="m", created_at=NOW, updated_at=NOW)
    return Session(metadata=metadata)


def test_a_new_round_begins_a_new_answer():
    turn = replay(
        journal_of(
            STARTED,
            RoundBegan(message_id="m1"),
            ContentDelta(content="Let me see."),
            RoundBegan(message_id="m2", replaced_id="m0"),
            ContentDelta(content="It is "),
            ContentDelta(content="4. "),
        )
    )
    assert (turn.message_id, turn.replaced_id, turn.text) == ("m2", "m0", "It is 4.")
    assert turn.ending is None
    assert turn.last_number == 6


def test_a_cancelled_turn_says_what_was_stopped():
    stopped = Stopped(upstream=False, tools=["wait"], agents=[])
    turn = replay(journal_of(STARTED, stopped, CANCELLED))
    assert (turn.stopped, turn.ending) == (stopped, CANCELLED)


@pytest.mark.parametrize(
    ("ending", "state", "content"),
    [(COMPLETE, State.COMPLETED, "Whole"), (CANCELLED, State.CANCELLED, "Half")],
)
def test_an_answer_that_was_edited_away_is_as_its_event_has_it(ending, state, content):
    outcome = outcome_of(replay(journal_of(STARTED, ending)), empty_session())
    assert outcome.state is state
    assert outcome.message.content.startswith(content)
    assert outcome.message.cancelled is (state is State.CANCELLED)


def test_the_model_that_a_profile_named_is_known_from_the_event():
    named = msgspec.structs.replace(COMPLETE, answered_by="ollama:qwen3:14b")
    assert answer_to(named).answered_by == "ollama:qwen3:14b"


def test_a_journal_of_an_earlier_release_names_no_model_of_a_profile():
    assert b"answered_by" not in msgspec.json.encode(COMPLETE)
    assert answer_to(COMPLETE).answered_by is None


def answer_to(ending):
    return outcome_of(replay(journal_of(STARTED, ending)), empty_session()).message


def test_a_failed_turn_has_the_error_that_its_event_told():
    error = outcome_of(replay(journal_of(STARTED, FAILED)), empty_session()).error
    assert (error.code, error.message, error.retryable) == ("OLLAMA_ERROR", "No.", True)
    assert error.details["status"] == 500


def test_what_can_not_be_read_is_passed_over_and_what_is_not_known_is_sound():
    broken, newer = journal_of(STARTED, STARTED)
    broken = msgspec.structs.replace(broken, data=msgspec.Raw(b"[]"))
    newer = msgspec.structs.replace(newer, event="video_delta")
    assert (is_sound(broken), is_sound(newer)) == (False, True)
    assert replay([broken, newer]).turn_id == ""


def test_the_first_message_is_the_question_or_else_the_first_answer():
    started = msgspec.structs.replace(STARTED, message_id="a1", user_message_id="u1")
    assert replay(journal_of(started)).started.first_message_id == "u1"


def test_a_turn_of_an_older_release_names_its_first_answer():
    started = msgspec.json.decode(
        b'{"turn_id":"t","session_id":"s","model":"m","message_id":"a1"}', type=TurnStarted
    )
    assert started.first_message_id == "a1"
    assert STARTED.first_message_id is None
