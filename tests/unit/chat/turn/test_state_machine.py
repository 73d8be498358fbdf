import ast
from pathlib import Path

import pytest

import chat.turn.state_machine
from chat.turn.state_machine import (
    FINAL,
    TRANSITIONS,
    Action,
    ImpossibleTransition,
    Input,
    State,
    transition,
)


def walk(*inputs: Input) -> tuple[State, tuple[Action, ...]]:
    state, actions = State.STARTING, ()
    for given in inputs:
        state, actions = transition(state, given)
    return state, actions


def test_an_answer_is_saved_before_it_is_reported():
    state, actions = walk(Input.HISTORY_READY, Input.ANSWERED)
    assert state is State.COMPLETED
    assert actions == (Action.SAVE_ANSWER, Action.REPORT_COMPLETE)


def test_calls_are_saved_before_a_tool_runs_and_the_model_is_asked_again_after():
    state, actions = walk(Input.HISTORY_READY, Input.ASKED_FOR_TOOLS)
    assert state is State.AWAITING_CONFIRMATION
    assert actions == (Action.SAVE_ROUND, Action.ASK_APPROVAL)
    decided = (Input.HISTORY_READY, Input.ASKED_FOR_TOOLS, Input.CALLS_DECIDED)
    assert walk(*decided) == (State.RUNNING_TOOLS, (Action.RUN_TOOLS,))
    assert walk(*decided, Input.TOOLS_RETURNED) == (State.GENERATING, (Action.ASK_MODEL,))


def test_a_turn_that_nobody_can_approve_for_ends_and_keeps_its_calls_open():
    state, actions = walk(Input.HISTORY_READY, Input.ASKED_FOR_TOOLS, Input.NOBODY_TO_ASK)
    assert state is State.SUSPENDED
    assert actions == (Action.REPORT_SUSPENDED,)


def test_open_calls_are_decided_and_run_before_the_model_is_asked():
    assert walk(Input.HISTORY_ENDS_OPEN) == (
        State.AWAITING_CONFIRMATION,
        (Action.ASK_APPROVAL,),
    )


def test_a_turn_that_asks_for_tools_for_ever_fails():
    asked = (Input.HISTORY_READY, Input.ASKED_FOR_TOOLS, Input.CALLS_DECIDED)
    state, _ = walk(*asked, Input.ROUNDS_USED_UP)
    assert state is State.FAILED


@pytest.mark.parametrize("state", [state for state in State if state not in FINAL])
@pytest.mark.parametrize(
    ("given", "end"),
    [
        (Input.CANCEL_REQUESTED, State.CANCELLED),
        (Input.ERROR, State.FAILED),
        (Input.SHUTDOWN, State.INTERRUPTED),
    ],
)
def test_every_running_state_can_be_stopped_and_saves_what_there_is(state, given, end):
    ended, actions = transition(state, given)
    assert ended is end
    assert actions[0] in {Action.SAVE_CANCELLED, Action.SAVE_INTERRUPTED}


def test_an_answer_that_can_not_be_saved_is_an_error():
    assert walk(Input.HISTORY_READY, Input.ANSWERED, Input.ERROR)[0] is State.FAILED


@pytest.mark.parametrize("end", [Input.ERROR, Input.SHUTDOWN])
def test_what_can_not_be_saved_is_left_and_reported(end):
    state, actions = walk(Input.HISTORY_READY, end, Input.ERROR)
    assert state is State.UNSAVED
    assert actions == (Action.LEAVE, Action.REPORT_ERROR)


def test_a_final_state_can_not_be_cancelled():
    for state in FINAL:
        with pytest.raises(ImpossibleTransition):
            transition(state, Input.CANCEL_REQUESTED)


def test_every_state_has_a_row_and_every_row_leads_to_the_end():
    assert set(TRANSITIONS) == set(State)
    for state in set(State) - FINAL:
        assert any(target in FINAL for target, _ in TRANSITIONS[state].values())


def test_the_table_awaits_nothing():
    tree = ast.parse(Path(chat.turn.state_machine.__file__).read_text())
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFunctionDef)
    ]
