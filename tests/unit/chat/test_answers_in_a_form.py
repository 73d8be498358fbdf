"""Answers that have to fit a schema, of models that were also offered tools."""

import asyncio

import msgspec
import pytest

from chat.start.turn_request import TurnRequest
from models_app.errors import OllamaError
from models_app.language_model import Finished, SchemaLeftOut, TextDelta
from tests.unit.chat.turns import WAIT, Calculator, call, names, run

FORM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
IN_FORM = TurnRequest(message="What is 1 + 2?", answer_schema=FORM)
LEFT_OUT = [SchemaLeftOut()]


def said_in_words(*texts, reason="stop"):
    return [LEFT_OUT, *[[TextDelta(text)] for text in texts], [Finished(done_reason=reason)]]


def deltas(events):
    return [data["content"] for name, data in events if name == "content_delta"]


async def test_an_answer_that_fits_its_schema_is_shown_once_it_is_checked(make_house):
    house = make_house(Calculator())
    house.model.say(LEFT_OUT, [TextDelta("I add.")], [call("c1", a=1, b=2)], [Finished()])
    house.model.say(*said_in_words('{"su', 'm": 3}'))
    session_id = await house.new_session(tools=["add"])

    events, _ = await run(house, session_id, IN_FORM)

    assert deltas(events) == ['{"sum": 3}']
    assert [data["content"] for name, data in events if name == "thinking_delta"] == ["I add."]
    _, calling, *_ = await house.messages(session_id)
    assert (calling.content, calling.thinking) == ("", "I add.")
    assert [[spec.name for spec in each.tools] for each in house.model.requests] == [["add"]] * 2
    told = house.model.requests[0].messages[0].content
    assert told.startswith("Call the tools that you need first. Answer with JSON")


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("It is three.", "at $: it is not JSON"),
        ('```json\n{"sum": 3}\n```', "at $: it is not JSON"),
        ('{"sum": "three"}', "at $.sum: 'three' is not of type 'integer'"),
        ("", "at $: it is not JSON"),
    ],
)
async def test_an_answer_that_does_not_fit_is_not_shown_and_asked_for_again_without_tools(
    make_house, said, fault
):
    house = make_house(Calculator())
    house.model.say(*said_in_words(said))
    house.model.say_text('{"sum"', ": 3}")
    session_id = await house.new_session(tools=["add"])

    events, outcome = await run(house, session_id, IN_FORM)

    assert deltas(events) == ['{"sum"', ": 3}"]
    assert [data["state"] for name, data in events if name == "status"] == ["retrying"]
    assert outcome.message.content == '{"sum": 3}'
    first, second = house.model.requests
    assert (bool(first.tools), bool(second.tools)) == (True, False)
    assert second.answer_schema == FORM
    assert second.messages[-1].content.endswith(
        f"Your answer does not fit the schema: {fault}. Answer with the corrected JSON alone."
    )
    assert [each.content for each in second.messages if each.role == "assistant"] == [said] * (
        said != ""
    )
    [_, saved] = await house.messages(session_id)
    assert saved.content == '{"sum": 3}'


async def test_what_was_kept_back_is_not_saved_when_the_answer_breaks_off(make_house):
    house = make_house(Calculator())
    house.model.say(LEFT_OUT, [TextDelta("Well, it")], OllamaError("It died.", retryable=False))
    session_id = await house.new_session(tools=["add"])

    events, _ = await run(house, session_id, IN_FORM)

    assert (deltas(events), names(events)[-2:]) == ([], ["error", "done"])
    assert [each.role for each in await house.messages(session_id)] == ["user"]


async def test_where_a_model_takes_both_its_answer_is_shown_as_it_comes(make_house):
    house = make_house(Calculator())
    house.model.say_text('{"sum"', ": 3}")
    session_id = await house.new_session(tools=["add"])

    events, _ = await run(house, session_id, IN_FORM)

    assert deltas(events) == ['{"sum"', ": 3}"]
    [request] = house.model.requests
    assert request.answer_schema == FORM
    assert request.tools


STRICTLY = msgspec.structs.replace(IN_FORM, requires_fit=True)


async def test_an_answer_that_must_fit_is_parsed_for_the_client(make_house):
    house = make_house()
    house.model.say_text('{"sum":\n ', "3}")
    session_id = await house.new_session()

    events, outcome = await run(house, session_id, STRICTLY)

    assert deltas(events) == ['{"sum":', "\n 3}"]
    [complete] = [data for name, data in events if name == "message_complete"]
    assert (complete["content"], complete["parsed"]) == ('{"sum":\n 3}', {"sum": 3})
    assert outcome.message.content == '{"sum":\n 3}'


async def test_an_answer_that_must_fit_is_taken_back_and_corrected(make_house):
    house = make_house()
    house.model.say_text('{"sum"', ': "three"}')
    house.model.say_text("Three.")
    house.model.say_text('{"sum": 3}')
    session_id = await house.new_session()

    events, _ = await run(house, session_id, STRICTLY)

    shown = [name for name in names(events) if name in ("content_delta", "content_reset")]
    assert shown == [*["content_delta"] * 2, *["content_reset", "content_delta"] * 2]
    assert [data["state"] for name, data in events if name == "status"] == ["retrying"] * 2
    [complete] = [data for name, data in events if name == "message_complete"]
    assert (complete["content"], complete["parsed"]) == ('{"sum": 3}', {"sum": 3})
    resets = [data["message_id"] for name, data in events if name == "content_reset"]
    assert resets == [complete["message_id"]] * 2
    first, second, third = house.model.requests
    assert [each.content for each in second.messages[len(first.messages) :]] == [
        '{"sum": "three"}',
        (
            "Your answer does not fit the schema: at $.sum: 'three' is not of type 'integer'. "
            "Answer with the corrected JSON alone."
        ),
    ]
    assert third.messages[len(first.messages)].content == "Three."
    _, saved = await house.messages(session_id)
    assert saved.content == '{"sum": 3}'


async def test_an_answer_that_never_fits_is_an_error_with_what_is_wrong(make_house):
    house = make_house()
    for _ in range(3):
        house.model.say_text('{"total": 3}')
    session_id = await house.new_session()

    events, outcome = await run(house, session_id, STRICTLY)

    assert outcome.error.code == "ANSWER_INVALID"
    assert not outcome.error.retryable
    assert names(events)[-2:] == ["error", "done"]
    details = events[-2][1]["details"]
    assert details["errors"] == [{"path": "$", "message": "'sum' is a required property"}]
    assert details["content"] == '{"total": 3}'
    assert len(house.model.requests) == 3


async def test_of_an_answer_that_never_fits_64_kib_are_told(make_house):
    house = make_house()
    for _ in range(3):
        house.model.say_text("x" * 70_000)

    _, outcome = await run(house, await house.new_session(), STRICTLY)

    content = outcome.error.details["content"]
    assert content.startswith("x" * 65_536 + "\n\n[cut: 4,464 of 70,000 bytes")


async def test_at_most_ten_errors_are_told(make_house):
    house = make_house()
    schema = {"type": "array", "items": {"type": "integer"}}
    for _ in range(3):
        house.model.say_text(msgspec.json.encode(["x"] * 20).decode())
    session_id = await house.new_session()

    request = msgspec.structs.replace(STRICTLY, answer_schema=schema)
    _, outcome = await run(house, session_id, request)

    errors = outcome.error.details["errors"]
    assert [each["path"] for each in errors] == [f"$.{number}" for number in range(10)]


async def test_beside_tools_the_answer_must_fit_too(make_house):
    house = make_house(Calculator())
    house.model.say(LEFT_OUT, [call("c1", a=1, b=2)], [Finished()])
    house.model.say(*said_in_words("It is three."))
    house.model.say_text('{"sum": "three"}')
    house.model.say_text('{"sum": 3}')
    session_id = await house.new_session(tools=["add"])

    events, outcome = await run(house, session_id, STRICTLY)

    assert outcome.error is None
    shown = [(n, d.get("content")) for n, d in events if n in ("content_delta", "content_reset")]
    assert shown == [
        ("content_delta", '{"sum": "three"}'),
        ("content_reset", None),
        ("content_delta", '{"sum": 3}'),
    ]
    assert [bool(each.tools) for each in house.model.requests] == [True, True, False, False]
    [complete] = [data for name, data in events if name == "message_complete"]
    assert complete["parsed"] == {"sum": 3}


async def test_a_turn_that_dies_after_a_reset_keeps_what_came_after_it(make_house, after_a_kill):
    house = make_house()
    house.model.say_text("Three.")
    house.model.say([TextDelta('{"sum"')], WAIT)
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, STRICTLY)
    await house.model.asked.wait()

    reborn = await after_a_kill(house)
    await asyncio.to_thread(reborn.recovery.seal_all)

    [_, partial] = await reborn.messages(session_id)
    assert (partial.content, partial.interrupted) == ('{"sum"', True)
    house.model.go_on.set()
    await turn.finished()
