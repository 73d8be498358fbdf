"""Messages to a request body, reply bytes to deltas: without any I/O."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_app.errors import OllamaError
from models_app.language_model import (
    CallDelta,
    Finished,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
)
from models_app.ollama import replies as parser
from models_app.ollama.replies import MAX_LINE_BYTES, ReplyParser
from models_app.ollama.wire import encode_request
from sessions_app.messages import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

ID = {"message_id": "1", "timestamp": "2026-11-21T00:00:00+00:00"}


def body_of(*messages, window=None, **more):
    return json.loads(encode_request(ModelRequest(model="m", messages=messages, **more), window))


def user(content="hi"):
    return UserMessage(content=content, **ID)


# --- requests -----------------------------------------------------------------------------------


def test_a_plain_request_says_no_more_than_it_must():
    assert body_of(SystemMessage(content="Be brief.", source_file="a.md", **ID), user()) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
        ],
        "stream": True,
        "truncate": False,
        "shift": False,
    }


@pytest.mark.parametrize(("think", "sent"), [("minimal", "low"), ("xhigh", "max"), ("max", "max")])
def test_an_effort_that_ollama_lacks_is_the_nearest(think, sent):
    assert body_of(user(), think=think)["think"] == sent


def test_options_of_others_are_not_sent():
    options = {"verbosity": "low", "service_tier": "flex", "reasoning_effort": "low", "seed": 1}
    assert body_of(user(), options=options)["options"] == {"seed": 1}


@pytest.mark.parametrize("think", [False, True, "low", "high"])
def test_thinking_is_said_when_it_was_decided(think):
    assert body_of(user(), think=think)["think"] == think


def test_the_context_window_is_an_option_beside_the_others():
    body = body_of(user(), window=8192, options={"temperature": 0.5, "num_ctx": 1})
    assert body["options"] == {"temperature": 0.5, "num_ctx": 8192}


def test_options_of_other_providers_are_not_sent():
    options = {"max_tokens": 100, "thinking_budget": 10_000, "reasoning_effort": "low", "seed": 1}
    assert body_of(user(), options=options)["options"] == {"seed": 1, "num_predict": 100}
    assert body_of(user(), options={"max_tokens": 9, "num_predict": 7})["options"] == {
        "num_predict": 7
    }
    assert "options" not in body_of(user(), options={"thinking_budget": 10_000})


def test_how_long_the_model_stays_loaded_is_no_option_of_ollamas():
    body = body_of(user(), options={"keep_alive": "30m", "seed": 1})
    assert (body["keep_alive"], body["options"]) == ("30m", {"seed": 1})
    assert "keep_alive" not in body_of(user())


@pytest.mark.parametrize(
    ("model", "think", "sent"),
    [
        ("qwen3", "minimal", "low"),
        ("qwen3", "xhigh", "max"),
        ("qwen3", "max", "max"),
        ("gpt-oss:20b", "max", "high"),
        ("gpt-oss:20b", "xhigh", "high"),
        ("hf.co/openai/gpt-oss:Q4", "max", "high"),
        ("gpt-oss:20b", "medium", "medium"),
        ("qwen3", True, True),
        ("qwen3", False, False),
    ],
)
def test_levels_that_ollama_lacks_become_the_next(model, think, sent):
    request = ModelRequest(model=model, messages=[user()], think=think)
    assert json.loads(encode_request(request, None))["think"] == sent


def test_a_cancelled_answer_is_sent_without_its_marker():
    cancelled = AssistantMessage(content="Once upon\n\n[cancelled]", cancelled=True, **ID)
    quoting = AssistantMessage(content="It says\n\n[cancelled]", **ID)
    contents = [entry["content"] for entry in body_of(cancelled, quoting)["messages"]]
    assert contents == ["Once upon", "It says\n\n[cancelled]"]


def test_an_answer_cancelled_before_its_first_word_is_left_out():
    cancelled = AssistantMessage(content="[cancelled]", cancelled=True, **ID)
    assert [entry["role"] for entry in body_of(user(), cancelled, user())["messages"]] == [
        "user",
        "user",
    ]


def test_a_tool_round_is_sent_with_ids_names_and_arguments_as_objects():
    call = ToolCall(id="call_1", name="add", arguments={"a": 1})
    asked = AssistantMessage(content="", tool_calls=(call,), thinking="I must add.", **ID)
    result = ToolMessage(content="2", tool_name="add", tool_call_id="call_1", **ID)
    assert body_of(user(), asked, result)["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "thinking": "I must add.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "function": {"index": 0, "name": "add", "arguments": {"a": 1}},
                }
            ],
        },
        {"role": "tool", "content": "2", "tool_name": "add", "tool_call_id": "call_1"},
    ]


def test_older_reasoning_is_not_sent_again():
    call = ToolCall(id="call_1", name="add", arguments={})
    asked = AssistantMessage(content="", tool_calls=(call,), thinking="long ago", **ID)
    answered = AssistantMessage(content="2", thinking="also long ago", **ID)
    assert "ago" not in json.dumps(body_of(user(), asked, answered, user()))


def test_a_tool_is_offered_with_its_references_written_out():
    schema = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Point"}},
        "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    }
    tool = ToolSpec(name="draw", description="Draws.", parameters=schema)
    function = body_of(user(), tools=[tool])["tools"][0]["function"]
    assert function["parameters"]["properties"]["at"]["properties"] == {"x": {"type": "integer"}}


def test_numbers_beyond_64_bits_survive():
    call = ToolCall(id="1", name="add", arguments={"a": 10**30})
    assert body_of(AssistantMessage(content="", tool_calls=(call,), **ID))["messages"][0][
        "tool_calls"
    ][0]["function"]["arguments"] == {"a": 10**30}


def test_a_lone_surrogate_is_sent_as_its_escape():
    raw = encode_request(ModelRequest(model="m", messages=[user("a\ud800b")]), None)
    assert rb"a\ud800b" in raw


# --- replies ------------------------------------------------------------------------------------


def parse(*reads):
    parser = ReplyParser("m")
    deltas = []
    for data in reads:
        deltas += parser.feed(data)
        if parser.failure or parser.finished:
            break
    else:
        deltas += parser.end()
    return deltas, parser.failure


def readable(deltas):
    """The deltas without the ids that were made up."""
    return re.sub(r"call_[0-9a-f]{8}", "call_made", repr(deltas))


texts = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
calls = st.fixed_dictionaries(
    {
        "function": st.fixed_dictionaries(
            {"name": texts, "arguments": st.dictionaries(texts, json_values, max_size=3)}
        )
    },
    optional={"id": texts},
)
messages = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": texts},
    optional={"thinking": texts, "tool_calls": st.lists(calls, max_size=3)},
)
chunk_lines = st.fixed_dictionaries({"message": messages, "done": st.just(False)})
last_lines = st.fixed_dictionaries(
    {"message": messages, "done": st.just(True)},
    optional={
        "done_reason": texts,
        "eval_count": st.integers(0, 9999),
        "prompt_eval_count": st.integers(0, 9999),
    },
)
error_lines = st.fixed_dictionaries({"error": texts | st.dictionaries(texts, texts, max_size=2)})


@st.composite
def replies(draw):
    """The bytes of a reply, most of them well-formed, and one way to cut them into reads."""
    lines = draw(st.lists(chunk_lines | error_lines, max_size=6)) + draw(
        st.lists(last_lines, max_size=1)
    )
    ascii_only, newline = draw(st.booleans()), draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    body = "".join(json.dumps(line, ensure_ascii=ascii_only) + newline for line in lines).encode(
        "utf-8", "replace"
    )
    if draw(st.booleans()):
        body += draw(st.binary(max_size=10))
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=12)))
    edges = [0, *cuts, len(body)]
    return body, [body[a:b] for a, b in pairwise(edges)]


@given(replies())
def test_however_a_reply_is_cut_into_reads_its_deltas_are_the_same(reply):
    body, reads = reply
    whole, whole_failure = parse(body)
    cut, cut_failure = parse(*reads)
    assert readable(cut) == readable(whole)
    assert repr(cut_failure) == repr(whole_failure)
    assert repr(parse(*(bytes([byte]) for byte in body))[1]) == repr(whole_failure)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_bytes_at_all_can_crash_the_parser(reads):
    deltas, failure = parse(*reads)
    assert failure is not None or isinstance(deltas[-1], Finished)


@given(st.lists(chunk_lines, max_size=8), last_lines)
def test_every_piece_of_text_arrives_once_and_in_order(lines, last):
    lines = [*lines, last]
    deltas, failure = parse("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert failure is None
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == "".join(
        line["message"]["content"] for line in lines
    )
    assert "".join(d.text for d in deltas if isinstance(d, ThinkingDelta)) == "".join(
        line["message"].get("thinking", "") for line in lines
    )
    made = [d.call for d in deltas if isinstance(d, CallDelta)]
    asked = [call for line in lines for call in line["message"].get("tool_calls", ())]
    names = [call["function"]["name"] or "no_name_given" for call in asked]
    assert [call.name for call in made] == names
    assert [call.arguments for call in made] == [call["function"]["arguments"] for call in asked]
    assert len({call.id for call in made}) == len(made)
    assert all(call.id for call in made)


def test_what_follows_the_final_line_is_not_read():
    deltas, failure = parse(b'{"done":true,"done_reason":"stop"}\nnonsense\n')
    assert (deltas, failure) == ([Finished("stop")], None)


def test_a_final_line_without_its_newline_is_enough():
    assert parse(b'{"done":true}') == ([Finished()], None)


@pytest.mark.parametrize("filler", [b" ", b'"', b"["])
def test_a_line_over_the_limit_fails_wherever_its_end_is(filler):
    line = b'{"message":{"content":"a"}}\n' + filler * (MAX_LINE_BYTES + 1)
    for reads in ((line,), (line + b"\n",), (line[:100], line[100:])):
        deltas, failure = parse(*reads)
        assert deltas == [TextDelta("a")]
        assert isinstance(failure, OllamaError)
        assert "longer than 16 MiB" in failure.message


def test_a_reply_over_the_limit_fails_after_what_was_said(monkeypatch):
    monkeypatch.setattr(parser, "MAX_REPLY_BYTES", 100)
    line = b'{"message":{"content":"a"}}\n'
    deltas, failure = parse(*[line] * 10)
    assert deltas == [TextDelta("a")] * 3
    assert isinstance(failure, OllamaError)


def test_a_line_just_within_the_limit_is_read():
    line = b'{"done":true}' + b" " * (MAX_LINE_BYTES - 100) + b"\n"
    half = len(line) // 2
    assert parse(line[:half], line[half:]) == ([Finished()], None)


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b'"text"',
        b'{"message": "text"}',
        b'{"done": "yes"}',
        b"\xff\xfe",
        b'{"message": {"content": "\xff"}}',
        b'{"error": ' + b"[" * 100_000,
    ],
)
def test_a_line_of_another_shape_makes_no_sense(line):
    deltas, failure = parse(line + b"\n")
    assert deltas == []
    assert isinstance(failure, OllamaError)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"message": {"content": 5}}, [TextDelta("5")]),
        ({"message": {"content": [{"type": "text", "text": "Hi"}]}}, [TextDelta("Hi")]),
        ({"message": {"thinking": ["Hm"]}}, [ThinkingDelta("Hm")]),
        (
            {"message": {"content": "Hi", "tool_calls": None}, "eval_count": "many"},
            [TextDelta("Hi")],
        ),
        ({"message": "Hi", "model": "m"}, [TextDelta("Hi")]),
        ({"message": {"content": "Hi"}, "error": None, "done": None}, [TextDelta("Hi")]),
    ],
)
def test_a_line_of_odd_types_is_read_as_far_as_it_can_be(line, expected):
    last = {"done": True, "eval_count": 3.0, "prompt_eval_count": "7", "done_reason": "MAX_TOKENS"}
    lines = json.dumps(line).encode() + b"\n" + json.dumps(last).encode() + b"\n"
    assert parse(lines) == ([*expected, Finished("length", 7, 3)], None)


@pytest.mark.parametrize(
    ("call", "name", "arguments"),
    [
        ({"function": {"name": "a", "arguments": '{"b": 1}'}}, "a", {"b": 1}),
        ({"function": {"name": "a", "arguments": '{"b": '}}, "a", {"INVALID_JSON": '{"b": '}),
        ({"function": {"name": "a", "arguments": None}}, "a", {}),
        ({"function": {"name": None, "arguments": {"b": 1}}}, "no_name_given", {"b": 1}),
        ({"id": 7, "function": {"name": "a", "arguments": {}}}, "a", {}),
        ({"name": "a", "arguments": {"b": 1}}, "a", {"b": 1}),
    ],
)
def test_a_call_of_odd_types_is_a_call(call, name, arguments):
    line = json.dumps({"message": {"content": "", "tool_calls": [call]}, "done": True})
    (made, _), failure = parse(line.encode() + b"\n")
    assert failure is None
    assert (made.call.name, made.call.arguments) == (name, arguments)
    assert isinstance(made.call.id, str)


def test_a_byte_order_mark_and_the_prefix_of_events_are_skipped():
    line = b'\xef\xbb\xbf{"message": {"content": "Hi"}}\n\ndata: {"done": true}\n'
    assert parse(line) == ([TextDelta("Hi"), Finished()], None)


@pytest.mark.parametrize(
    "line", [{"the runner has stopped": 500}, {"detail": "the runner has stopped"}]
)
def test_a_line_that_is_an_error_in_another_form_keeps_its_words(line):
    deltas, failure = parse(json.dumps(line).encode() + b"\n")
    assert deltas == []
    assert "the runner has stopped" in failure.message


def test_a_model_that_was_only_loaded_is_asked_again():
    line = b'{"message": {"content": ""}, "done": true, "done_reason": "load"}\n'
    deltas, failure = parse(line)
    assert deltas == []
    assert "only loaded" in failure.message
    assert failure.retryable
