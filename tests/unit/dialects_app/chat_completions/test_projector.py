"""A turn's events as chunks of a streamed chat completion."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from chat.stream.numbered_event import NumberedEvent
from dialects_app.chat_completions.projector import ChunkProjector
from sessions_app.messages import Usage
from tests.unit.dialects_app.chat_completions.journals import (
    CONTINUED,
    DONE,
    MODEL,
    STARTED,
    TURN,
    cancelled,
    complete,
    deltas_of,
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
from tests.unit.dialects_app.turns import chunks_of, numbered


def show(*events, **how):
    return chunks_of(projected([STARTED, *events, DONE], **how))


def test_an_answer_is_a_role_its_pieces_and_one_reason_to_finish():
    first, one, two, last = show(said("Hel"), said("lo"), complete())
    assert first == {
        "id": f"chatcmpl-{TURN}",
        "object": "chat.completion.chunk",
        "created": int(TURN[:12], 16) // 1000,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "delta": {"role": "assistant", "content": ""},
                "finish_reason": None,
            }
        ],
    }
    assert [one["choices"][0]["delta"], two["choices"][0]["delta"]] == [
        {"content": "Hel"},
        {"content": "lo"},
    ]
    assert last["choices"][0] == {
        "index": 0,
        "delta": {},
        "finish_reason": "stop",
    }


def test_reasoning_has_both_of_its_names():
    deltas = deltas_of(show(thought("Let me "), said("Hi"), complete()))
    assert {"reasoning_content": "Let me ", "reasoning": "Let me "} in deltas


def test_usage_comes_last_where_it_is_asked_for_and_is_null_before():
    *others, last = show(said("Hi"), complete(), includes_usage=True)
    assert [chunk["usage"] for chunk in others] == [None] * len(others)
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 12,
        "completion_tokens": 30,
        "total_tokens": 42,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    assert all("usage" not in chunk for chunk in show(said("Hi"), complete()))


def test_the_cost_is_a_number_as_openrouter_has_it():
    costly = Usage(input_tokens=5, output_tokens=1, cost_usd="0.0058")
    assert show(complete(turn_usage=costly), includes_usage=True)[-1]["usage"]["cost"] == 0.0058


def test_what_is_not_known_of_the_usage_counts_as_nothing():
    for usage in (UNSET, Usage(), Usage(input_tokens=5)):
        told = show(complete(turn_usage=usage), includes_usage=True)[-1]["usage"]
        assert told["completion_tokens"] == 0
        assert "cost" not in told
        assert told["total_tokens"] == told["prompt_tokens"]
        assert told["prompt_tokens_details"] == {"cached_tokens": 0}


def test_a_call_of_the_client_s_tools_is_named_once_and_then_told():
    chunks = show(theirs(city="Zürich"), theirs("look", 3), complete("tool_calls"))
    one, told, other, nothing = [delta["tool_calls"][0] for delta in deltas_of(chunks)[1:-1]]
    assert one == {
        "index": 0,
        "id": "call_0",
        "type": "function",
        "function": {"name": "get_weather", "arguments": ""},
    }
    assert told == {"index": 0, "function": {"arguments": '{"city":"Zürich"}'}}
    assert (other["index"], other["id"]) == (1, "call_3")
    assert nothing == {"index": 1, "function": {"arguments": "{}"}}
    assert finish_reasons(chunks) == ["tool_calls"]


def test_arguments_that_are_no_json_are_told_as_the_model_wrote_them():
    chunks = show(theirs(INVALID_JSON="{broken"), complete("tool_calls"))
    assert deltas_of(chunks)[2]["tool_calls"][0]["function"]["arguments"] == "{broken"


def test_calls_of_this_server_s_tools_are_not_shown_and_end_no_answer():
    chunks = show(*ours(), CONTINUED, said("Three."), complete("tool_calls"))
    assert [set(delta) for delta in deltas_of(chunks)] == [
        {"role", "content"},
        {"content"},
        set(),
    ]
    assert finish_reasons(chunks) == ["stop"]


def test_what_is_said_before_and_after_tools_of_this_server_is_kept_apart():
    chunks = show(
        thought("One."), said("Let me"), said(" see."), *ours(), CONTINUED, thought("Two."),
        said("Three"), said("."), complete(),
    )  # fmt: skip
    assert text_of(chunks) == "Let me see.\n\nThree."
    assert text_of(chunks, "reasoning") == "One.\n\nTwo."


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (complete("stop"), "stop"),
        (complete(None), "stop"),
        (complete("load"), "stop"),
        (complete("length"), "length"),
        (complete("content_filter"), "content_filter"),
        (cancelled(), "stop"),
        (failed("TURN_LIMIT_REACHED"), "length"),
        (failed("CONTENT_REFUSED"), "content_filter"),
    ],
)
def test_an_end_has_a_reason_in_the_protocol_s_words(end, reason):
    chunks = show(said("Hi"), end, includes_usage=True)
    assert finish_reasons(chunks) == [reason]
    assert chunks[-1]["choices"] == []


def test_a_refusal_says_why():
    chunks = show(failed("CONTENT_REFUSED", "The provider refused."))
    assert deltas_of(chunks)[1] == {"refusal": "The provider refused."}


@pytest.mark.parametrize("before", [[], [said("Hi")]])
def test_an_error_is_told_in_the_protocol_s_shape_and_ends_the_stream(before):
    chunks = show(*before, failed(provider="ollama"), includes_usage=True)
    assert finish_reasons(chunks) == []
    error = chunks[-1]["error"]
    assert error["message"] == "It broke off."
    assert error["mochi_code"] == "NETWORK_ERROR"
    assert error["type"] == "server_error"
    assert error["details"]["provider"] == "ollama"


def test_a_limit_before_any_word_is_an_error():
    assert "error" in show(failed("TURN_LIMIT_REACHED"))[-1]


def test_a_turn_that_waits_for_an_approval_ends_with_an_error_and_not_in_silence():
    chunks = show(said("Hi"))
    assert chunks[-1]["error"]["mochi_code"] == "TOOL_CONFIRMATION_REQUIRED"


def test_names_and_texts_can_t_break_out_of_their_frame():
    projector = ChunkProjector(TURN, 'a"\n\ndata: \N{SNOWMAN}')
    stream = projector.feed(numbered([STARTED, said('"}\r\n\ndata: [DONE]\n\n'), complete(), DONE]))
    chunks = chunks_of(stream)
    assert chunks[0]["model"] == 'a"\n\ndata: \N{SNOWMAN}'
    assert text_of(chunks) == '"}\r\n\ndata: [DONE]\n\n'


def test_an_event_that_this_release_does_not_know_shows_nothing():
    projector = ChunkProjector(TURN, MODEL)
    assert projector.feed([NumberedEvent(2, "mood", '{"mood":"good"}')]) == b""
    assert projector.opening == b""
    assert projector.heartbeat.startswith(b":")


@given(journals(), st.booleans(), st.data())
def test_a_journal_shows_the_same_however_it_is_cut_into_pieces(events, includes_usage, data):
    whole = projected(events, includes_usage=includes_usage)
    rest, projector = numbered(events), ChunkProjector(TURN, MODEL, includes_usage=includes_usage)
    pieces = []
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        pieces.append(projector.feed(rest[:count]))
        rest = rest[count:]
    assert b"".join(pieces) == whole


@given(journals(), st.booleans())
def test_any_journal_is_a_stream_that_clients_understand(events, includes_usage):
    chunks = chunks_of(projected(events, includes_usage=includes_usage))
    errors = [chunk for chunk in chunks if "error" in chunk]
    completions = [chunk for chunk in chunks if "error" not in chunk]
    assert len(errors) + len(finish_reasons(chunks)) == 1
    assert len({json.dumps([c["id"], c["created"], c["model"]]) for c in completions}) == 1
    assert {chunk["object"] for chunk in completions} == {"chat.completion.chunk"}
    calls = [delta["tool_calls"][0] for delta in deltas_of(chunks) if "tool_calls" in delta]
    named = [call["index"] for call in calls if "id" in call]
    assert named == list(range(len(named)))


@given(journals())
def test_the_text_of_any_journal_is_told_word_for_word(events):
    chunks = chunks_of(projected(events))
    for kind, name in (("content_delta", "content"), ("thinking_delta", "reasoning")):
        rounds = [""]
        for event in events:
            if event.event == "tool_continuation_start":
                rounds.append("")
            elif event.event == kind:
                rounds[-1] += event.content
        assert text_of(chunks, name) == "\n\n".join(text for text in rounds if text)
    assert text_of(chunks, "reasoning_content") == text_of(chunks, "reasoning")
