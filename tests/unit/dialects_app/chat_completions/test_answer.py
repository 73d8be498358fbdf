"""The answer to a request that does not stream."""

import pytest
from hypothesis import given
from msgspec import UNSET

from chat.errors import TurnCrashed, TurnFailed
from dialects_app.chat_completions.answer import completion_of
from tests.unit.dialects_app.chat_completions.journals import (
    CONTINUED,
    DONE,
    MODEL,
    STARTED,
    TURN,
    cancelled,
    complete,
    failed,
    finish_reasons,
    journals,
    ours,
    projected,
    said,
    text_of,
    theirs,
    thought,
)
from tests.unit.dialects_app.turns import chunks_of, numbered, resumed, taken


def read(events):
    return completion_of(TURN, MODEL, numbered(events))


def answer(*events):
    return read([STARTED, *events, DONE])


def test_an_answer_holds_text_reasoning_and_what_it_used():
    completion = answer(thought("They "), thought("greet."), said("Hel"), said("lo"), complete())
    assert completion.id == f"chatcmpl-{TURN}"
    assert completion.created == int(TURN[:12], 16) // 1000
    assert (completion.object, completion.model) == ("chat.completion", MODEL)
    (choice,) = completion.choices
    assert choice.message.content == "Hello"
    assert choice.message.reasoning_content == choice.message.reasoning == "They greet."
    assert choice.message.tool_calls is UNSET
    assert choice.finish_reason == "stop"
    assert completion.usage.total_tokens == 42


def test_an_answer_of_calls_alone_has_no_text():
    (choice,) = answer(theirs(city="Rome"), theirs("look", 1), complete("tool_calls")).choices
    assert choice.message.content is None
    assert choice.message.reasoning is UNSET
    calls = choice.message.tool_calls
    assert [(call.id, call.function.name, call.function.arguments) for call in calls] == [
        ("call_0", "get_weather", '{"city":"Rome"}'),
        ("call_1", "look", "{}"),
    ]
    assert choice.finish_reason == "tool_calls"


def test_what_is_said_around_tools_of_this_server_is_one_text():
    completion = answer(said("Let me see."), *ours(), CONTINUED, said("Three."), complete())
    assert completion.choices[0].message.content == "Let me see.\n\nThree."


def test_a_cancelled_answer_is_what_there_was_of_it():
    (choice,) = answer(said("Hel"), cancelled()).choices
    assert (choice.message.content, choice.finish_reason) == ("Hel", "stop")


def test_refused_content_says_why():
    (choice,) = answer(failed("CONTENT_REFUSED", "The provider refused.")).choices
    assert (choice.message.refusal, choice.finish_reason) == (
        "The provider refused.",
        "content_filter",
    )
    assert choice.message.content == ""


def test_an_error_is_raised_with_its_code_and_details():
    with pytest.raises(TurnFailed) as raised:
        answer(said("Hi"), failed(provider="ollama", status=503))
    assert raised.value.code == "NETWORK_ERROR"
    assert raised.value.retryable
    assert raised.value.details == {"provider": "ollama", "status": 503}


def test_a_turn_that_has_not_ended_has_no_answer():
    with pytest.raises(TurnCrashed):
        read([STARTED, said("Hi")])


@given(journals())
def test_an_answer_says_what_a_stream_of_the_same_journal_says(events):
    chunks = chunks_of(projected(events, includes_usage=True))
    errors = [chunk["error"] for chunk in chunks if "error" in chunk]
    if errors:
        with pytest.raises(TurnFailed) as raised:
            read(events)
        assert raised.value.code == errors[0]["mochi_code"]
        return
    completion = read(events)
    (choice,) = completion.choices
    assert [choice.finish_reason] == finish_reasons(chunks)
    assert (choice.message.content or "").split() == text_of(chunks).split()
    assert (choice.message.reasoning or "").split() == text_of(chunks, "reasoning").split()
    assert completion.usage.total_tokens == chunks[-1]["usage"]["total_tokens"]


@pytest.mark.parametrize(
    "goes_on",
    [
        [CONTINUED],
        [resumed("m1")],  # between two rounds
        [resumed("m1"), CONTINUED],  # while calls ran
        [taken(), CONTINUED],
    ],
)
def test_an_answer_that_goes_on_after_a_death_is_the_same(goes_on):
    events = [said("I add."), *ours(), *goes_on, said("Three."), complete()]
    assert answer(*events).choices[0].message.content == "I add.\n\nThree."
    assert text_of(chunks_of(projected([STARTED, *events, DONE]))) == "I add.\n\nThree."


def test_a_text_that_goes_on_after_a_death_is_one():
    events = [said("Hel"), resumed("m0", keeps="text"), said("lo"), complete()]
    assert answer(*events).choices[0].message.content == "Hello"
    assert text_of(chunks_of(projected([STARTED, *events, DONE]))) == "Hello"
