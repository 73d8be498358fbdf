"""Asking whether a tool may run, and the one answer that stands."""

import shutil
from datetime import datetime, timedelta

import msgspec
import pytest

from chat.approvals.confirmation import Decision
from chat.approvals.store import ASKED, ConfirmationStore
from chat.errors import ConfirmationAlreadyDecided, ConfirmationExpired, ConfirmationNotFound
from sessions_app.errors import SessionNotFound, ValidationFailed
from sessions_app.messages import ToolCall
from tests.unit.chat.approvals.questions import (
    CALL,
    MESSAGE,
    OTHER_SESSION,
    SESSION,
    TIMEOUT,
    approve,
    deny,
    records_in,
)

# Asking and answering


def test_a_question_tells_everything_about_the_call(ask, store):
    question = ask(agent_name="coder", call_index=3)
    assert len(question.confirmation_id) == len("conf_") + 32
    assert question.confirmation_id.startswith("conf_")
    assert (question.tool_name, question.arguments) == (CALL.name, CALL.arguments)
    assert (question.tool_call_id, question.call_index) == ("call_1", 3)
    assert question.agent_name == "coder"
    asked_at, too_late_at = map(datetime.fromisoformat, (question.created_at, question.expires_at))
    assert too_late_at - asked_at == timedelta(seconds=TIMEOUT)
    assert question.created_at == "2026-11-21T10:00:00.000000+00:00"
    assert store.pending(SESSION) == [question]


def test_ids_do_not_repeat(ask):
    calls = [ToolCall(id=f"call_{n}", name="t", arguments={}) for n in range(50)]
    assert len({ask(call=call).confirmation_id for call in calls}) == 50


def test_an_approval_is_seen_by_whoever_waits(ask, store):
    question = ask()
    assert store.decision_of(question) is None
    returned, decision = approve(store, question)
    assert returned == question
    assert decision.approved
    assert not decision.edited
    assert decision.arguments == CALL.arguments
    assert decision.arguments_hash == question.arguments_hash
    assert store.decision_of(question) == decision
    assert store.pending(SESSION) == []


def test_a_denial_is_an_answer_too_and_keeps_the_models_arguments(ask, store):
    question = ask()
    _, decision = store.decide(
        SESSION,
        Decision(confirmation_id=question.confirmation_id, approved=False, arguments={"path": "/"}),
    )
    assert (decision.approved, decision.reason) == (False, "denied")
    assert decision.arguments == CALL.arguments
    assert store.expire(question) == decision


def test_answered_questions_are_told_from_those_that_wait(ask, store):
    calls = [ToolCall(id=f"call_{number}", name="t", arguments={}) for number in range(4)]
    waiting, approved, denied, late = (ask(call=call) for call in calls)
    approve(store, approved)
    deny(store, denied)
    store.expire(late)
    answered = {question.confirmation_id for question in store.answered(SESSION)}
    assert answered == {each.confirmation_id for each in (approved, denied, late)}
    assert store.pending(SESSION) == [waiting]
    assert store.answered(OTHER_SESSION) == []


@pytest.mark.parametrize("approved", ["true", "false", 1, None, [True], object()])
def test_only_true_is_a_yes(ask, store, approved):
    question = ask()
    _, decision = store.decide(
        SESSION, Decision(confirmation_id=question.confirmation_id, approved=approved)
    )
    assert decision.reason == "denied"
    assert not store.consume(SESSION, question.confirmation_id)


def test_edited_arguments_are_recorded_beside_the_models(ask, store, directory, clock):
    question = ask()
    _, decision = approve(store, question, arguments={"path": "/tmp/y", "n": 1})
    assert decision.edited
    assert decision.arguments == {"path": "/tmp/y", "n": 1}
    assert decision.arguments_hash != question.arguments_hash
    elsewhere = ConfirmationStore(records_in(directory), timeout_seconds=TIMEOUT, now=clock)
    assert elsewhere.decision_of(question) == decision
    assert elsewhere.find_decided(SESSION, MESSAGE, CALL) == decision


def test_arguments_that_were_sent_back_unchanged_are_not_edited(ask, store):
    _, decision = approve(store, ask(), arguments={"n": 1, "path": "/tmp/x"})
    assert not decision.edited


def test_arguments_that_are_no_json_leave_the_question_open(ask, store):
    question = ask()
    with pytest.raises(ValidationFailed):
        approve(store, question, arguments={"x": float("nan")})
    assert store.pending(SESSION) == [question]


def test_arguments_of_any_text_and_size_come_back_as_they_were(ask, store):
    arguments = {"\n\nevent: done": "\x00\r\n\u2028😀" * 10, "big": "x" * 2_000_000, "n": 2**80}
    question = ask(call=ToolCall(id="../../x", name="../\n", arguments=arguments))
    [listed] = store.pending(SESSION)
    assert listed == question
    assert approve(store, question)[1].arguments == arguments


# Exactly one answer


def test_the_first_answer_stands_and_a_replay_is_told_so(ask, store):
    question = ask()
    approve(store, question)
    store.consume(SESSION, question.confirmation_id)
    for again in (approve, deny):
        with pytest.raises(ConfirmationAlreadyDecided):
            again(store, question)
    assert store.decision_of(question).approved


# Whose question it is


def test_another_sessions_question_is_not_found(ask, store):
    question = ask()
    ask(session_id=OTHER_SESSION)
    with pytest.raises(ConfirmationNotFound):
        store.decide(
            OTHER_SESSION, Decision(confirmation_id=question.confirmation_id, approved=True)
        )
    assert store.pending(SESSION) == [question]


def test_a_question_that_was_moved_to_another_session_or_id_is_not_found(ask, store, directory):
    question = ask()
    name = f"{question.confirmation_id}.{ASKED}"
    (directory / OTHER_SESSION).mkdir()
    shutil.copy(directory / SESSION / name, directory / OTHER_SESSION / name)
    other_id = f"conf_{'0' * 32}"
    shutil.copy(directory / SESSION / name, directory / SESSION / f"{other_id}.{ASKED}")
    for session_id, confirmation_id in (
        (OTHER_SESSION, question.confirmation_id),
        (SESSION, other_id),
    ):
        with pytest.raises(ConfirmationNotFound):
            store.decide(session_id, Decision(confirmation_id=confirmation_id, approved=True))
        assert not store.consume(session_id, confirmation_id)
    assert store.pending(OTHER_SESSION) == []


@pytest.mark.parametrize(
    "confirmation_id",
    [
        "",
        ".",
        "..",
        "conf_",
        "conf_abc123",
        "../../../etc/passwd",
        f"conf_{'A' * 32}",
        f"conf_{'a' * 32}\n",
        f"conf_{'a' * 31}/",
        f"conf_{'a' * 31}\0",
        f"conf_{'a' * 31}\u0661",
        f"conf_{'a' * 32}.asked",
        "x" * 100_000,
    ],
)
def test_an_id_of_another_shape_never_reaches_the_file_system(ask, store, confirmation_id):
    ask()
    with pytest.raises(ConfirmationNotFound) as caught:
        store.decide(SESSION, Decision(confirmation_id=confirmation_id, approved=True))
    assert len(str(caught.value.details)) < 200
    assert not store.consume(SESSION, confirmation_id)


@pytest.mark.parametrize("session_id", ["", "..", "../a1b2c3d4", "a1b2c3d4e5\n", "A1B2C3D4E5"])
def test_a_session_id_of_another_shape_never_reaches_the_file_system(
    ask, store, directory, session_id
):
    question = ask()
    with pytest.raises(SessionNotFound):
        ask(session_id=session_id)
    with pytest.raises(ConfirmationNotFound):
        store.decide(session_id, Decision(confirmation_id=question.confirmation_id, approved=True))
    assert store.pending(session_id) == []
    assert store.find_decided(session_id, MESSAGE, CALL) is None
    store.discard_session(session_id)
    assert [path.name for path in directory.iterdir()] == [SESSION]


# One run


def test_an_approval_is_good_for_one_run(ask, store):
    question = ask()
    approve(store, question)
    assert store.consume(SESSION, question.confirmation_id)
    assert not store.consume(SESSION, question.confirmation_id)
    assert store.find_decided(SESSION, MESSAGE, CALL) is None
    with pytest.raises(ConfirmationAlreadyDecided):
        approve(store, question)


def test_what_nobody_approved_can_not_be_used(ask, store):
    question = ask()
    assert not store.consume(SESSION, question.confirmation_id)
    assert approve(store, question)[1].approved  # asking for it too early spoilt nothing
    denied = ask(call=ToolCall(id="call_2", name="t", arguments={}))
    deny(store, denied)
    assert not store.consume(SESSION, denied.confirmation_id)
    assert not store.consume(SESSION, f"conf_{'0' * 32}")


# Asking again


def test_a_turn_that_comes_back_asks_the_same_question_with_its_whole_time(ask, store, clock):
    first = ask()
    clock.move(200)
    again = ask(turn_id="turn_2", call_index=5)
    assert again.confirmation_id == first.confirmation_id
    assert (again.turn_id, again.call_index) == ("turn_2", 5)
    assert store.pending(SESSION) == [again]
    clock.move(200)
    woken, decision = approve(store, first)
    assert (woken.turn_id, decision.approved) == ("turn_2", True)


def test_after_a_timeout_it_is_another_question(ask, store, clock):
    first = ask()
    clock.move(TIMEOUT)
    second = ask(turn_id="turn_2")
    assert second.confirmation_id != first.confirmation_id
    with pytest.raises(ConfirmationExpired):
        approve(store, first)
    assert approve(store, second)[1].approved


def test_after_its_approval_was_used_it_is_another_question(ask, store):
    first = ask()
    approve(store, first)
    store.consume(SESSION, first.confirmation_id)
    second = ask(turn_id="turn_2")
    assert second.confirmation_id != first.confirmation_id
    assert store.decision_of(second) is None


@pytest.mark.parametrize(
    "different",
    [
        {"message_id": "0000000000"},
        {"session_id": OTHER_SESSION},
        {"call": msgspec.structs.replace(CALL, id="call_2")},
        {"call": msgspec.structs.replace(CALL, name="delete_files")},
        {"call": msgspec.structs.replace(CALL, arguments={"path": "/", "n": 1})},
        {"call": msgspec.structs.replace(CALL, arguments={"path": "/tmp/x", "n": 1.0})},
        {"call": msgspec.structs.replace(CALL, arguments={})},
    ],
)
def test_an_answer_is_for_this_session_message_call_tool_and_arguments(ask, store, different):
    approve(store, ask())
    wanted = {"session_id": SESSION, "message_id": MESSAGE, "call": CALL} | different
    assert store.find_decided(**wanted) is None
    assert store.decision_of(ask(**different)) is None


def test_an_open_question_is_not_taken_over_by_other_arguments(ask, store):
    first = ask()
    second = ask(call=msgspec.structs.replace(CALL, arguments={"path": "/"}), call_index=1)
    assert store.pending(SESSION) == [first, second]


def test_a_denial_is_remembered_on_resume(ask, store, clock):
    deny(store, ask())
    clock.move(TIMEOUT * 10)
    assert store.find_decided(SESSION, MESSAGE, CALL).reason == "denied"


def test_a_denial_outweighs_an_approval_of_the_same_call(ask, store, clock):
    approve(store, ask())
    deny(store, ask())
    clock.move(1)
    approve(store, ask())
    assert store.find_decided(SESSION, MESSAGE, CALL).reason == "denied"


# Withdrawn, discarded


def test_nobody_can_answer_a_question_that_was_withdrawn(ask, store):
    question = ask()
    store.withdraw([question])
    assert store.pending(SESSION) == []
    with pytest.raises(ConfirmationNotFound):
        approve(store, question)
    assert store.find_decided(SESSION, MESSAGE, CALL) is None
    assert ask().confirmation_id != question.confirmation_id


def test_an_approval_that_was_faster_than_the_withdrawal_can_not_be_used(ask, store):
    question = ask()
    approve(store, question)
    store.withdraw([question])
    assert store.find_decided(SESSION, MESSAGE, CALL) is None
    assert not store.consume(SESSION, question.confirmation_id)


def test_a_session_takes_its_questions_with_it(ask, store, directory):
    gone, kept = ask(), ask(session_id=OTHER_SESSION)
    store.discard_session(SESSION)
    with pytest.raises(ConfirmationNotFound):
        approve(store, gone)
    assert store.expire(gone).reason == "timeout"
    assert store.pending(OTHER_SESSION) == [kept]
    store.discard_session(SESSION)
    store.discard_session(SESSION)
    assert [path.name for path in directory.iterdir()] == [OTHER_SESSION]


# Until when, whatever the clock does


def test_confirming_late_is_a_denial_for_everybody(ask, store, clock):
    question = ask()
    clock.move(TIMEOUT)
    assert store.pending(SESSION) == []
    for _ in range(2):
        with pytest.raises(ConfirmationExpired):
            approve(store, question)
    assert store.decision_of(question).reason == "timeout"
    assert store.find_decided(SESSION, MESSAGE, CALL) is None


def test_a_late_denial_is_recorded_though_it_is_told_that_it_is_late(ask, store, clock):
    question = ask()
    clock.move(TIMEOUT)
    with pytest.raises(ConfirmationExpired):
        deny(store, question)
    assert store.find_decided(SESSION, MESSAGE, CALL).reason == "denied"


def test_the_turn_that_waited_long_enough_denies_whatever_the_clock_says(ask, store, clock):
    question = ask()
    clock.move(-3600)
    assert store.expire(question).reason == "timeout"
    for seconds in (0, 3600, 1):
        clock.move(seconds)
        with pytest.raises(ConfirmationExpired):
            approve(store, question)


def test_an_approval_that_was_faster_than_the_end_of_the_time_stands(ask, store):
    question = ask()
    _, decision = approve(store, question)
    assert store.expire(question) == decision


@pytest.mark.parametrize("seconds", [-1, -86_400, TIMEOUT, 86_400])
def test_a_clock_that_was_set_never_turns_into_an_approval(ask, store, clock, seconds):
    question = ask()
    clock.move(seconds)
    with pytest.raises(ConfirmationExpired):
        approve(store, question)
    clock.move(-seconds)
    with pytest.raises(ConfirmationExpired):
        approve(store, question)


@pytest.mark.parametrize("seconds", [-1, TIMEOUT + 1])
def test_an_approval_counts_on_resume_only_for_a_while_after_it_was_given(
    ask, store, clock, seconds
):
    approve(store, ask())
    assert store.find_decided(SESSION, MESSAGE, CALL) is not None
    clock.move(seconds)
    assert store.find_decided(SESSION, MESSAGE, CALL) is None
