"""What model calls cost: on each answer, and the sums in a turn's last event."""

import asyncio
import json
from decimal import Decimal

import msgspec
import pytest

from chat.http.status import usage_of_session
from chat.http.status_schemas import SessionUsageOut
from chat.remote.outcome import outcome_of
from chat.remote.replay import replay
from chat.remote.sealing import closing_lines
from chat.start.turn_request import TurnRequest
from chat.storage.journal import whole_journal
from chat.stream.events import MessageComplete
from chat.stream.usage import TurnUsage
from chat.turn.state_machine import State
from chat.turn.usage import usage_of_call, usage_of_turn
from models_app.errors import OllamaError
from models_app.language_model import Finished, TextDelta
from sessions_app.messages import AssistantMessage, ToolMessage, Usage, UserMessage
from sessions_app.session import append_messages, make_session
from tests.unit.chat.turns import HELLO, Calculator, call, listen, run

NOW = "2026-11-22T10:00:00.000000+00:00"
WAIT = ...  # the model stays silent from here on
ROUND = Finished("stop", 100, 10, 60, 4)
LAST = Finished("stop", 120, 5)
ASK = TurnRequest(message="1 + 2?", approvals="suspend")


def counts(usage):
    """Return the tokens of a usage, as an event or a message has it."""
    if not isinstance(usage, dict):
        usage = msgspec.to_builtins(usage)
    return {name: value for name, value in usage.items() if name.endswith("_tokens")}


SUMS = {"input_tokens": 220, "output_tokens": 15, "cached_tokens": 60, "reasoning_tokens": 4}


@pytest.fixture
def calculating(make_house):
    house = make_house(Calculator())
    house.model.say([TextDelta("Adding.")], [call("c1", a=1, b=2)], [ROUND])
    house.model.say([TextDelta("3")], [LAST])
    return house


async def test_each_answer_has_what_it_cost_and_the_last_event_has_the_sums(calculating):
    session_id = await calculating.new_session(tools=["add"])
    events, outcome = await run(calculating, session_id)
    name, last = events[-2]
    assert (name, counts(last["turn_usage"])) == ("message_complete", SUMS)
    assert counts(outcome.usage) == SUMS
    _, first, _, second = await calculating.messages(session_id)
    assert counts(first.usage) == {
        "input_tokens": 100,
        "output_tokens": 10,
        "cached_tokens": 60,
        "reasoning_tokens": 4,
    }
    assert counts(second.usage) == {"input_tokens": 120, "output_tokens": 5}
    old_names = {"prompt_tokens": 120, "completion_tokens": 5, "total_tokens": 125}
    saved = msgspec.to_builtins(msgspec.structs.replace(second.usage, cost_usd=None))
    assert last["usage"] == saved | old_names
    assert (last["prompt_eval_count"], last["eval_count"]) == (120, 5)


def test_answers_of_older_files_count_their_tokens():
    old = AssistantMessage(
        content="3", message_id="a", timestamp=NOW, eval_count=5, prompt_eval_count=120
    )
    session = append_messages(make_session("a1b2c3d4e5", "m", now=NOW), old, now=NOW)
    usage = usage_of_session(session)
    assert (usage.input_tokens, usage.output_tokens, usage.cost_known) == (120, 5, False)


def test_a_line_of_the_last_release_is_read():
    old_names = {"prompt_tokens": 120, "completion_tokens": None, "total_tokens": 120}
    line = {name: None for name in MessageComplete.__struct_fields__ if "usage" not in name}
    texts = dict.fromkeys(("message_id", "model", "content", "turn_id"), "x")
    line |= texts | {"context_window": {}, "tool_calls": [], "usage": old_names}
    del line["answered_by"], line["parsed"]
    read = msgspec.json.decode(json.dumps(line), type=MessageComplete)
    assert msgspec.to_builtins(read.usage) == old_names


async def test_times_are_those_of_the_model_alone(calculating):
    session_id = await calculating.new_session(tools=["add"])
    events, _ = await run(calculating, session_id)
    answers = [
        message
        for message in await calculating.messages(session_id)
        if isinstance(message, AssistantMessage)
    ]
    for answer in answers:
        assert 0 <= answer.usage.first_token_ms <= answer.usage.total_ms
    total = events[-2][1]["turn_usage"]
    assert total["first_token_ms"] == answers[0].usage.first_token_ms
    assert total["total_ms"] == sum(answer.usage.total_ms for answer in answers)


async def test_every_message_of_a_turn_names_the_turn(calculating):
    session_id = await calculating.new_session(tools=["add"])
    turn = await calculating.turns.start(session_id, HELLO)
    await listen(turn)
    messages = await calculating.messages(session_id)
    kinds = [UserMessage, AssistantMessage, ToolMessage, AssistantMessage]
    assert [type(message) for message in messages] == kinds
    assert {message.turn_id for message in messages} == {turn.turn_id}
    listed = await asyncio.to_thread(
        (calculating.sessions_dir / f"{session_id}.json").read_text, "utf-8"
    )
    assert [message["turn_id"] for message in json.loads(listed)["messages"]] == [turn.turn_id] * 4


async def test_what_a_model_said_elsewhere_is_not_of_the_turn_that_brings_it(house):
    stamp = {"timestamp": "2026-11-21T10:00:00.000000+00:00"}
    brought = [
        UserMessage(content="1?", message_id="u1", **stamp),
        AssistantMessage(content="2", message_id="a1", **stamp),
        UserMessage(content="3?", message_id="u2", **stamp),
    ]
    house.model.say_text("4")
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, TurnRequest(messages=brought))
    await listen(turn)
    messages = await house.messages(session_id)
    assert [message.turn_id == turn.turn_id for message in messages] == [True, False, True, True]


async def test_a_cancelled_turn_counts_what_is_known(calculating):
    calculating.model.scripts[1:] = [[[TextDelta("Half")], WAIT]]
    session_id = await calculating.new_session(tools=["add"])
    turn = await calculating.turns.start(session_id, HELLO)
    await calculating.model.asked.wait()
    await calculating.turns.cancel(session_id)
    name, last = (await listen(turn))[-2]
    assert (name, counts(last["turn_usage"])) == ("cancelled", counts(_of_round()))
    answer = (await calculating.messages(session_id))[-1]
    assert (answer.cancelled, counts(answer.usage), answer.usage.total_ms >= 0) == (True, {}, True)


async def test_a_failed_turn_counts_what_is_known(calculating):
    calculating.model.scripts[1:] = [[[TextDelta("Half")], OllamaError("it broke")]]
    session_id = await calculating.new_session(tools=["add"])
    events, _ = await run(calculating, session_id)
    name, last = events[-2]
    assert (name, counts(last["turn_usage"])) == ("error", counts(_of_round()))


async def test_a_turn_that_waits_for_an_approval_counts_at_its_end(calculating):
    session_id = await calculating.new_session(tools=["add"], policy="always_confirm")
    events, outcome = await run(calculating, session_id, ASK)
    assert outcome.state is State.SUSPENDED
    assert counts(events[-1][1]["turn_usage"]) == counts(_of_round())
    assert counts(outcome.usage) == counts(_of_round())


async def test_every_request_for_an_answer_is_counted(house):
    house.model.say([Finished("stop", 10, 0)])
    house.model.say([TextDelta("Hi")], [Finished("stop", 30, 2)])
    session_id = await house.new_session()
    events, _ = await run(house, session_id)
    assert counts(events[-2][1]["turn_usage"]) == {"input_tokens": 40, "output_tokens": 2}
    [_, answer] = await house.messages(session_id)
    assert counts(answer.usage) == {"input_tokens": 40, "output_tokens": 2}
    assert (answer.prompt_eval_count, answer.eval_count) == (30, 2)


@pytest.mark.parametrize("policy", ["never_confirm", "always_confirm"])
async def test_another_process_reads_what_a_turn_cost(calculating, policy):
    session_id = await calculating.new_session(tools=["add"], policy=policy)
    turn = await calculating.turns.start(session_id, ASK)
    outcome = await turn.finished()
    journal = await asyncio.to_thread(
        lambda: list(whole_journal(calculating.journal, session_id, turn.turn_id))
    )
    session = await asyncio.to_thread(calculating.sessions.get, session_id)
    there = outcome_of(replay(journal), session)
    assert (there.state, there.usage) == (outcome.state, outcome.usage)
    assert there.message == outcome.message


async def test_a_sealed_turn_has_its_turn_and_what_is_known_of_its_cost(calculating, after_a_kill):
    calculating.model.scripts[1:] = [[[TextDelta("Half")], WAIT]]
    session_id = await calculating.new_session(tools=["add"])
    turn = await calculating.turns.start(session_id, HELLO)
    await calculating.model.asked.wait()
    next_one = await after_a_kill(calculating)
    await asyncio.to_thread(next_one.recovery.seal_all)
    answer = (await next_one.messages(session_id))[-1]
    assert (answer.content, answer.turn_id, answer.usage) == ("Half", turn.turn_id, None)
    entries = await asyncio.to_thread(
        lambda: list(whole_journal(next_one.journal, session_id, turn.turn_id))
    )
    assert entries[-2].event == "error"
    assert counts(dict(entries[-2].value()["turn_usage"])) == counts(_of_round())
    await calculating.turns.cancel(session_id)


async def test_the_result_that_is_sealed_for_a_lost_call_has_its_turn(make_house, after_a_kill):
    house = make_house(tools := Calculator())
    house.model.say([call("c1", a=1, b=2, wait=True)], [ROUND])
    session_id = await house.new_session(tools=["add"])
    turn = await house.turns.start(session_id, HELLO)
    await tools.waiting.wait()
    next_one = await after_a_kill(house)
    await asyncio.to_thread(next_one.recovery.seal_all)
    result = (await next_one.messages(session_id))[-1]
    assert (type(result), result.turn_id) == (ToolMessage, turn.turn_id)
    await house.turns.cancel(session_id)


async def test_a_turn_that_dies_while_it_is_suspended_gets_the_same_end(calculating):
    session_id = await calculating.new_session(tools=["add"], policy="always_confirm")
    turn = await calculating.turns.start(session_id, ASK)
    await turn.finished()
    session = await asyncio.to_thread(calculating.sessions.get, session_id)
    *entries, done = await asyncio.to_thread(
        lambda: list(whole_journal(calculating.journal, session_id, turn.turn_id))
    )
    end = json.loads(closing_lines(session, replay(entries), turn.turn_id))
    assert (end["n"], end["event"], end["data"]) == (done.n, "done", done.value())


def test_events_of_journals_without_a_cost_are_read():
    old = (
        '{"message_id":"1","model":"m","eval_count":1,"prompt_eval_count":2,"context_window":{},'
        '"content":"Hi","thinking":null,"tool_calls":[],"turn_id":"t","done_reason":"stop",'
        '"usage":{}}'
    )
    assert msgspec.json.decode(old, type=MessageComplete).turn_usage is msgspec.UNSET


def test_a_cost_of_a_newer_server_is_read_as_far_as_it_is_known():
    newer = '{"input_tokens":1,"audio_tokens":2}'
    assert msgspec.json.decode(newer, type=TurnUsage) == TurnUsage(input_tokens=1)


async def test_a_turn_costs_what_its_calls_cost_together(calculating):
    calculating.model.scripts[0][-1] = [priced(ROUND, "0.1")]
    calculating.model.scripts[1][-1] = [priced(LAST, "0.02")]
    session_id = await calculating.new_session(tools=["add"])
    events, outcome = await run(calculating, session_id)
    assert events[-2][1]["turn_usage"]["cost_usd"] == "0.12"
    assert outcome.usage.cost_usd == "0.12"
    answers = [each for each in await calculating.messages(session_id) if hasattr(each, "usage")]
    assert [answer.usage.cost_usd for answer in answers] == ["0.1", "0.02"]


async def test_a_turn_with_a_call_of_unknown_cost_has_no_cost(calculating):
    calculating.model.scripts[1][-1] = [priced(LAST, "0.02")]
    session_id = await calculating.new_session(tools=["add"])
    events, _ = await run(calculating, session_id)
    assert "cost_usd" not in events[-2][1]["turn_usage"]


async def test_a_cancelled_turn_costs_what_its_ended_calls_cost(calculating):
    calculating.model.scripts[0][-1] = [priced(ROUND, "0.1")]
    calculating.model.scripts[1:] = [[[TextDelta("Half")], WAIT]]
    session_id = await calculating.new_session(tools=["add"])
    turn = await calculating.turns.start(session_id, HELLO)
    await calculating.model.asked.wait()
    await calculating.turns.cancel(session_id)
    name, last = (await listen(turn))[-2]
    assert (name, last["turn_usage"]["cost_usd"]) == ("cancelled", "0.1")


def session_of(*messages):
    session = make_session("a1b2c3d4e5", "m", now=NOW)
    return append_messages(session, *messages, now=NOW)


def answered(usage, *, variants=()):
    return AssistantMessage(
        content="Hi", message_id="a", timestamp=NOW, usage=usage, variants=variants
    )


COSTLY = Usage(input_tokens=10, output_tokens=2, cached_tokens=4, cost_usd="0.1")


def test_a_session_costs_what_its_answers_cost_replaced_ones_too():
    usage = usage_of_session(session_of(answered(COSTLY, variants=((answered(COSTLY),),))))
    assert usage == SessionUsageOut(
        input_tokens=20,
        output_tokens=4,
        cached_tokens=8,
        cache_write_tokens=0,
        reasoning_tokens=0,
        cost_usd="0.2",
        cost_known=True,
    )


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, (None, False)),
        (Usage(input_tokens=1, output_tokens=1), (None, False)),
        (Usage(input_tokens=1, cost_usd="9e999999999"), (None, False)),
        (Usage(total_ms=7), (None, True)),
        (COSTLY, ("0.1", True)),
    ],
)
def test_a_session_says_whether_its_cost_is_known(usage, expected):
    found = usage_of_session(session_of(answered(usage)))
    assert (found.cost_usd, found.cost_known) == expected


def test_a_session_without_answers_cost_nothing():
    found = usage_of_session(session_of())
    assert (found.cost_usd, found.cost_known) == ("0", True)


def test_what_nobody_counted_is_unknown_and_not_zero():
    assert usage_of_turn([]) is None
    assert usage_of_turn([None, None]) is None
    assert usage_of_call([], seconds_to_first_token=None, seconds=None) == Usage()
    some = usage_of_call([Finished("stop"), LAST], seconds_to_first_token=0.1, seconds=1.5)
    assert some == Usage(input_tokens=120, output_tokens=5, first_token_ms=100, total_ms=1500)


def priced(end: Finished, cost: str) -> Finished:
    return msgspec.structs.replace(end, cost=Decimal(cost))


def _of_round() -> Usage:
    return usage_of_call([ROUND], seconds_to_first_token=None, seconds=None)
