import ast
import inspect
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chat.turn.state_machine
from chat.turn.actions import TurnActions
from chat.turn.state_machine import (
    FINAL,
    TRANSITIONS,
    Action,
    ImpossibleTransition,
    Input,
    State,
    TurnMachine,
    transition,
)

BEGINNINGS = [Input.HISTORY_READY, Input.HISTORY_ENDS_OPEN, Input.PLAN_WANTED]


def walk(*inputs: Input) -> tuple[State, tuple[Action, ...]]:
    state, actions = State.STARTING, ()
    for what in inputs:
        state, actions = transition(state, what)
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
    assert walk(*decided, Input.TOOLS_RETURNED) == (
        State.GENERATING,
        (Action.TAKE_STEERS, Action.REPORT_CONTINUATION, Action.ASK_MODEL),
    )


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
    machine = TurnMachine(max_rounds=2)
    asked = (Input.ASKED_FOR_TOOLS, Input.CALLS_DECIDED, Input.TOOLS_RETURNED)
    for what in (Input.HISTORY_READY, *asked, *asked):
        assert not machine.state.is_final
        actions = machine.take(what)
    assert (machine.state, machine.rounds) == (State.FAILED, 2)
    assert actions[0] is Action.BLAME_ROUND_LIMIT


def test_an_agent_plans_announces_and_works():
    states = [walk(Input.PLAN_WANTED)[0]]
    states += [walk(Input.PLAN_WANTED, *[Input.ANSWERED] * n)[0] for n in (1, 2, 3)]
    assert states == [State.PLANNING, State.ANNOUNCING, State.GENERATING, State.COMPLETED]
    assert {state.status for state in states[:3]} == {"generating"}


def test_calls_in_a_plan_are_made_up_and_dropped_before_it_is_saved():
    state, actions = walk(Input.PLAN_WANTED, Input.ASKED_FOR_TOOLS)
    assert state is State.ANNOUNCING
    assert actions == (Action.DROP_CALLS, Action.SAVE_ROUND, Action.ASK_MODEL)


def test_an_agent_that_has_used_tools_is_done_with_its_next_answer():
    tools = (Input.ASKED_FOR_TOOLS, Input.CALLS_DECIDED, Input.TOOLS_RETURNED)
    announced = (Input.PLAN_WANTED, Input.ANSWERED, *tools)
    assert walk(*announced)[0] is State.GENERATING
    assert walk(*announced, Input.ANSWERED)[0] is State.COMPLETED


def test_an_agent_that_is_resumed_plans_no_more_and_announces_no_more():
    resumed = (Input.HISTORY_ENDS_OPEN, Input.CALLS_DECIDED, Input.TOOLS_RETURNED)
    assert walk(*resumed, Input.ANSWERED)[0] is State.COMPLETED


def test_an_answer_that_stays_empty_is_an_error():
    state, actions = walk(Input.HISTORY_READY, Input.ANSWERED_EMPTY)
    assert state is State.FAILED
    assert actions[0] is Action.BLAME_EMPTY_ANSWER


@pytest.mark.parametrize("state", [state for state in State if state not in FINAL])
@pytest.mark.parametrize(
    ("what", "end"),
    [
        (Input.CANCEL_REQUESTED, State.CANCELLED),
        (Input.ERROR, State.FAILED),
        (Input.SHUTDOWN, State.INTERRUPTED),
    ],
)
def test_every_running_state_can_be_stopped_and_saves_what_there_is(state, what, end):
    ended, actions = transition(state, what)
    assert ended is end
    assert actions[0] in {Action.SAVE_CANCELLED, Action.SAVE_INTERRUPTED}


def test_an_answer_that_can_not_be_saved_is_an_error():
    assert walk(Input.HISTORY_READY, Input.ANSWERED, Input.ERROR)[0] is State.FAILED


@pytest.mark.parametrize("end", [Input.ERROR, Input.SHUTDOWN])
def test_what_can_not_be_saved_is_left_and_reported(end):
    state, actions = walk(Input.HISTORY_READY, end, Input.ERROR)
    assert state is State.UNSAVED
    assert actions == (Action.LEAVE, Action.REPORT_ERROR)


@pytest.mark.parametrize("state", [state for state, inputs in TRANSITIONS.items() if inputs])
def test_a_turn_that_was_lost_saves_nothing_in_whichever_state_it_is(state):
    assert transition(state, Input.LOST) == (State.LOST, (Action.REPORT_LOSS,))


@pytest.mark.parametrize("state", [state for state in State if state not in FINAL])
def test_a_turn_that_is_handed_over_saves_nothing_in_whichever_state_it_is(state):
    handed_over = (State.HANDED_OVER, (Action.NOTE_HAND_OVER, Action.REPORT_LOSS))
    assert transition(state, Input.HAND_OVER) == handed_over
    assert State.HANDED_OVER.goes_on_elsewhere


def test_a_turn_that_is_let_go_asks_the_model_no_more():
    machine = TurnMachine(max_rounds=3)
    machine.lets_go = True
    for what in (Input.HISTORY_READY, Input.ASKED_FOR_TOOLS, Input.CALLS_DECIDED):
        assert not machine.state.is_final
        machine.take(what)
    machine.take(Input.TOOLS_RETURNED)
    assert machine.state is State.HANDED_OVER


def test_a_final_state_can_not_be_cancelled():
    for state in FINAL:
        with pytest.raises(ImpossibleTransition):
            transition(state, Input.CANCEL_REQUESTED)


def test_the_table_is_as_it_is_written_down():
    lines = [
        f"{state.name} {what.name} -> {target.name}: {' '.join(action.name for action in actions)}"
        for state, row in TRANSITIONS.items()
        for what, (target, actions) in row.items()
    ]
    assert set(TRANSITIONS) == set(State)
    assert lines == Path(__file__).with_name("transitions.txt").read_text().splitlines()


def inputs_of(state: State) -> list[Input]:
    return list(TRANSITIONS[state])


@given(data=st.data(), max_rounds=st.integers(1, 6), begins=st.sampled_from(BEGINNINGS))
def test_every_path_ends(data, max_rounds, begins):
    """Whatever models, people and tools do, and also where whatever is saved at the end fails."""
    machine = TurnMachine(max_rounds)
    actions = machine.take(begins)
    for _ in range(3 * max_rounds + 6):
        if not inputs_of(machine.state):
            break
        possible = set(inputs_of(machine.state)) - {Input.ROUNDS_USED_UP}
        if machine.state.is_final:
            possible.add(None)  # it succeeded
        what = data.draw(st.sampled_from(sorted(possible, key=str)))
        if what is None:
            break
        actions = machine.take(what)
    assert machine.state.is_final
    assert machine.rounds <= max_rounds + 2  # an agent's phases come before the first tools
    assert actions[-1].name.startswith("REPORT_")


def test_every_action_is_reached_and_what_is_asked_reports_back():
    reached = {
        action for row in TRANSITIONS.values() for _, acts in row.values() for action in acts
    }
    assert reached == set(Action)
    models = {Action.ASK_FOR_PLAN, Action.ASK_MODEL, Action.CONTINUE_ANSWER}
    asking = {*models, Action.ASK_APPROVAL, Action.RUN_TOOLS}
    for row in TRANSITIONS.values():
        for target, actions in row.values():
            assert asking.isdisjoint(actions[:-1])
            assert target.is_final or actions[-1] in asking


def test_the_table_awaits_nothing():
    tree = ast.parse(Path(chat.turn.state_machine.__file__).read_text())
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFunctionDef)
    ]


@pytest.mark.parametrize("action", Action)
def test_each_action_is_performed_by_the_method_of_its_name(action):
    assert inspect.iscoroutinefunction(getattr(TurnActions, action))
