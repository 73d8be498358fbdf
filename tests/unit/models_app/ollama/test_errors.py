"""The provider's own words are found, however deep they are nested."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_app.errors import ContextOverflow, RateLimited
from models_app.ollama.errors import MAX_WORDS, error_from_answer, parse_error
from sessions_app.messages import ToolSpec


def nested(value, times):
    for _ in range(times):
        value = json.dumps({"error": value})
    return value


@pytest.mark.parametrize("times", [1, 2, 3])
def test_words_are_unwrapped_from_json_in_json(times):
    words = parse_error(nested("out of memory", times).encode())
    assert words.text == "out of memory"
    assert words.is_envelope


def test_what_does_not_fit_is_an_overflow_with_its_size():
    facts = {"message": "too long", "type": "exceed_context_size_error", "n_prompt_tokens": 18019}
    error = error_from_answer(400, parse_error(nested({"error": facts}, 1)), model="m")
    assert isinstance(error, ContextOverflow)
    assert error.message == "too long"
    assert error.details["n_prompt_tokens"] == 18019


@pytest.mark.parametrize(
    "text",
    [
        "the input length exceeds the context length",
        "request exceeds the available context size, try increasing it",
    ],
)
def test_an_overflow_is_known_by_its_words_too(text):
    assert isinstance(
        error_from_answer(400, parse_error(nested(text, 1)), model="m"), ContextOverflow
    )


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("2", 2), ("0.5", 0.5), ("soon", None), ("-1", None), ("nan", None)],
)
def test_too_many_requests_say_when_to_ask_again(header, seconds):
    error = error_from_answer(429, parse_error("slow down"), model="m", retry_after=header)
    assert isinstance(error, RateLimited)
    assert error.retryable
    assert error.message == "slow down"
    assert error.details.get("retry_after") == seconds
    assert (error.details["provider"], error.details["status"]) == ("ollama", 429)


def test_a_web_page_is_quoted_no_longer_than_needed():
    words = parse_error(b"<html>" + b"x" * 100_000)
    assert 100 < len(words.text) < MAX_WORDS
    assert not words.is_envelope


def test_an_error_nested_absurdly_deep_gives_no_words_and_no_crash():
    assert parse_error(b'{"error":' * 900 + b"1" + b"}" * 900).text == ""


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_answer_at_all_gives_words(answer):
    assert isinstance(parse_error(answer).text, str)


@given(
    st.recursive(
        st.text(max_size=5) | st.integers() | st.none(),
        lambda v: st.dictionaries(
            st.sampled_from(["error", "message", "type", "n_prompt_tokens"]), v, max_size=3
        ),
        max_leaves=8,
    )
)
def test_any_json_at_all_gives_an_error(value):
    for status in (None, 400, 404, 500):
        error = error_from_answer(status, parse_error(json.dumps(value)), model="m")
        assert error.message
        json.dumps(error.details)


async def test_a_model_of_the_cloud_says_where_to_sign_in(ollama, fake, wire):
    refusal = {"error": "unauthorized", "signin_url": "https://ollama.com/connect?key=1"}
    fake.answers = [wire.refusal(401, refusal)]
    error = (await wire.outcome_of(ollama, wire.request())).error
    assert (error.code, error.retryable) == ("UNAUTHORIZED", False)
    assert error.details["signin_url"] == "https://ollama.com/connect?key=1"
    assert "`ollama signin`" in error.message


async def test_a_cloud_that_is_switched_off_is_no_matter_of_origins(ollama, fake, wire):
    fake.answers = [wire.refusal(403, {"error": "ollama cloud is disabled: see the docs"})]
    error = (await wire.outcome_of(ollama, wire.request())).error
    assert (error.code, error.retryable) == ("OLLAMA_ERROR", False)
    assert error.message == "ollama cloud is disabled: see the docs"


UNREADABLE = [
    "XML syntax error on line 8: element <function> closed by </parameter>",
    "failed to parse XML: unexpected end",
    "expected element type <function> but have <parameter>",
    "error parsing tool call: raw='{'",
    "EOF",
]


@pytest.mark.parametrize("words", UNREADABLE)
async def test_a_call_that_ollama_can_not_read_is_an_error_of_its_own(ollama, fake, wire, words):
    tools = [ToolSpec(name="add", description="", parameters={})]
    thought = {"message": {"role": "assistant", "content": "", "thinking": "Hm."}}
    fake.answers = [
        wire.refusal(500, {"error": words}),
        wire.stream_of({"error": words}),
        wire.stream_of(thought, {"error": words}),
    ]
    for _ in fake.answers:
        outcome = await wire.outcome_of(ollama, wire.request(tools=tools))
        assert (outcome.error.code, outcome.error.retryable) == ("TOOL_CALL_UNREADABLE", True)
        assert outcome.error.details["reason"] == words
        assert outcome.retries == []
    assert len(fake.chats) == 3


@pytest.mark.parametrize(
    ("status", "words"),
    [(500, "do load request: EOF: unexpected EOF"), (500, "end of file"), (400, "EOF")],
)
async def test_other_failures_are_none_of_calls(ollama, fake, wire, status, words):
    fake.answers = [wire.refusal(status, {"error": words})]
    tools = [ToolSpec(name="add", description="", parameters={})]
    outcome = await wire.outcome_of(ollama, wire.request(tools=tools))
    assert outcome.error.code == "OLLAMA_ERROR"


async def test_without_tools_no_call_was_to_be_read(ollama, fake, wire):
    fake.answers = [wire.refusal(500, {"error": UNREADABLE[0]})]
    outcome = await wire.outcome_of(ollama, wire.request())
    assert outcome.error.code == "OLLAMA_ERROR"
