"""Models that repeat a call with the same result are told of it, and stopped."""

import itertools

import msgspec
import pytest

from chat.errors import ToolLoop
from chat.start.turn_request import TurnRequest
from chat.turn.job import ToolLimits
from chat.turn.loop_guard import LoopGuard
from chat.turn.state_machine import State
from models_app.language_model import Finished, TextDelta
from sessions_app.messages import AssistantMessage, Attachment, ToolCall, ToolMessage, UserMessage
from tests.unit.chat.turns import Calculator, call, names, run

MANY = ToolLimits(rounds=50)
NOTE = (
    "\n\n[Note: the same call with the same result, {} times now. Repeating it changes nothing. "
    "Use what you have, try something else, or answer.]"
)


def history(*rounds):
    """Return a history whose rounds are lists of (name, arguments, result)."""
    messages = [UserMessage(content="Go.", message_id="u", timestamp="")]
    for number, calls in enumerate(rounds):
        asked = [
            ToolCall(id=f"c{number}-{index}", name=name, arguments=arguments)
            for index, (name, arguments, _) in enumerate(calls)
        ]
        messages.append(
            AssistantMessage(
                content="", message_id=f"a{number}", timestamp="", tool_calls=tuple(asked)
            )
        )
        for each, (name, _, result) in zip(asked, calls, strict=True):
            messages.append(
                ToolMessage(
                    content=result,
                    message_id=f"r-{each.id}",
                    timestamp="",
                    tool_name=name,
                    tool_call_id=each.id,
                )
            )
    return messages


def watched(*rounds, limit=5):
    """Return a guard that saw these rounds, one after the other, and the history."""
    guard = LoopGuard(limit)
    for end in range(1, len(rounds) + 1):
        guard.watch(history(*rounds[:end]))
    return guard, history(*rounds)


def notes(guard, messages):
    """Return what the model is told beside the results."""
    return [
        told.content.removeprefix(message.content)
        for message, told in zip(messages, guard.noted(messages), strict=True)
        if isinstance(message, ToolMessage)
    ]


SAME = [("read", {"path": "a"}, "Nothing.")]
AGAIN = [ToolCall(id="c9", name="read", arguments={"path": "a"})]


def test_the_third_to_fifth_equal_result_has_a_note_and_the_sixth_call_is_refused():
    guard, messages = watched(*[SAME] * 5)
    assert notes(guard, messages) == ["", "", NOTE.format(3), NOTE.format(4), NOTE.format(5)]
    with pytest.raises(ToolLoop) as caught:
        guard.require_progress(AGAIN)
    assert (caught.value.code, caught.value.retryable) == ("TOOL_LOOP", False)
    assert caught.value.details == {"tool_name": "read", "count": 6}


def test_a_fifth_call_may_run():
    guard, _ = watched(*[SAME] * 4)
    guard.require_progress(AGAIN)


def test_another_result_begins_the_count_again():
    changed = [("read", {"path": "a"}, "Something.")]
    guard, messages = watched(*[SAME] * 4, changed, *[SAME] * 3)
    assert notes(guard, messages)[4:] == ["", "", "", NOTE.format(3)]
    guard.require_progress(AGAIN)


def test_other_arguments_are_another_call_and_do_not_reset_the_first():
    other = [("read", {"path": "b"}, "Nothing.")]
    guard, _ = watched(*[SAME, other] * 5)
    with pytest.raises(ToolLoop):
        guard.require_progress(AGAIN)
    guard.require_progress([ToolCall(id="c9", name="read", arguments={"path": "c"})])
    guard.require_progress([ToolCall(id="c9", name="list", arguments={"path": "a"})])


def test_the_order_of_arguments_does_not_matter_and_their_types_do():
    one, other = {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}
    guard, messages = watched(*[[("f", one, "x")], [("f", other, "x")]] * 2)
    assert notes(guard, messages)[2:] == [NOTE.format(3), NOTE.format(4)]
    guard, messages = watched(*[[("f", {"a": value}, "x")] for value in (1, 1.0, True, "1")])
    assert notes(guard, messages) == [""] * 4


def test_the_same_call_twice_in_one_round_counts_once():
    guard, messages = watched(*[SAME * 2] * 2)
    assert notes(guard, messages) == [""] * 4


def test_a_round_is_counted_once_however_often_the_model_is_asked_after_it():
    guard = LoopGuard(5)
    messages = history(SAME)
    answer = AssistantMessage(content="A plan.", message_id="p", timestamp="")
    for _ in range(6):
        guard.watch([*messages, answer])
    guard.require_progress(AGAIN)
    assert guard.noted(messages) is messages


def test_results_with_other_images_are_other_results():
    guard = LoopGuard(5)
    messages = history(SAME)
    for number in range(6):
        image = Attachment(
            id=f"sha256:{number:064}", name="shot.png", media_type="image/png", size=9
        )
        guard.watch([*messages[:-1], msgspec.structs.replace(messages[-1], attachments=(image,))])
    guard.require_progress(AGAIN)


@pytest.mark.parametrize(("limit", "noted"), [(0, 0), (3, 1), (100, 98)])
def test_the_limit_is_a_setting_and_none_is_off(limit, noted):
    guard, messages = watched(*[SAME] * (limit or 100), limit=limit)
    assert sum(map(bool, notes(guard, messages))) == noted
    if not limit:
        guard.require_progress(AGAIN)
    else:
        with pytest.raises(ToolLoop):
            guard.require_progress(AGAIN)


class Echo(Calculator):
    """A tool that counts its runs."""

    def __init__(self):
        super().__init__()
        self.runs = 0

    async def call_tool(self, invocation):
        self.runs += 1
        return await super().call_tool(invocation)


async def test_a_turn_is_ended_at_the_sixth_equal_call_and_its_results_are_kept(make_house):
    tools = Echo()
    house = make_house(tools, tool_limits=MANY)
    for number in range(6):
        house.model.say([TextDelta(f"Try {number}."), call(f"c{number}", a=1, b=1)], [Finished()])
    session_id = await house.new_session(tools=["add"])

    events, outcome = await run(house, session_id)

    assert (outcome.state, tools.runs) == (State.FAILED, 5)
    assert names(events)[-2:] == ["error", "done"]
    error = dict(events)["error"]
    assert error["code"] == "TOOL_LOOP"
    assert error["details"] == {"tool_name": "add", "count": 6, "retryable": False}
    saved = await house.messages(session_id)
    results = [message.content for message in saved if isinstance(message, ToolMessage)]
    assert results == ["2"] * 5  # without the notes
    assert (saved[-1].content, saved[-1].interrupted) == ("Try 5.", True)
    assert not saved[-1].tool_calls
    told = [message.content for message in house.model.requests[-1].messages]
    assert told[2::2] == ["2", "2", *(f"2{NOTE.format(count)}" for count in (3, 4, 5))]


async def test_what_a_model_was_told_of_stays_as_it_was(make_house):
    house = make_house(Calculator(), tool_limits=MANY)
    for number in range(5):
        house.model.say([call(f"c{number}", a=1, b=1)], [Finished()])
    house.model.say_text("Two.")
    await run(house, await house.new_session(tools=["add"]))

    requests = [[said.content for said in each.messages] for each in house.model.requests]
    for before, after in itertools.pairwise(requests):
        assert after[: len(before)] == before


async def test_another_turn_counts_anew(make_house):
    house = make_house(Calculator(), tool_limits=MANY)
    session_id = await house.new_session(tools=["add"])
    for _ in range(2):
        for number in range(4):
            house.model.say([call(f"c{number}", a=1, b=1)], [Finished()])
        house.model.say_text("Two.")
        _, outcome = await run(house, session_id, TurnRequest(message="1 + 1?"))
        assert outcome.state is State.COMPLETED
