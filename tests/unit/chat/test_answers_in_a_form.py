"""Answers that have to fit a schema, of models that were also offered tools."""

import pytest

from chat.start.turn_request import TurnRequest
from models_app.errors import OllamaError
from models_app.language_model import Finished, SchemaLeftOut, TextDelta
from tests.unit.chat.turns import Calculator, call, names, run

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
        ("It is three.", "it is not JSON"),
        ('```json\n{"sum": 3}\n```', "it is not JSON"),
        ('{"sum": "three"}', 'sum: it is not of type "integer"'),
        ("", "it is not JSON"),
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
    assert f"does not fit the schema: {fault}." in second.messages[-1].content
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
