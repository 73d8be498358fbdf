"""Streams of servers that copy OpenAI's API, as their users report them."""

import json
from typing import Any

import pytest

from models_app.errors import ModelError
from models_app.language_model import Finished, Warned
from tests.contract.language_model.cases import (
    ANTHROPIC,
    GOOGLE,
    MINE,
    OPENAI,
    OPENROUTER,
    Opener,
    Provider,
    Serve,
    ask,
    block,
    calls_of,
    end_of,
    read_body,
    text_of,
    thinking_of,
)

CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
STOP = {"index": 0, "delta": {}, "finish_reason": "stop"}
DONE = "data: [DONE]\n\n"
copies = pytest.mark.parametrize("provider", [MINE, OPENAI, OPENROUTER], ids=lambda it: it.name)


def event(*choices: Any, **more: Any) -> str:
    return f"data: {json.dumps({**CHUNK, 'choices': list(choices), **more})}\n\n"


def says(content: Any, **more: Any) -> str:
    return event({"index": 0, "delta": {"content": content, **more}})


def piece(arguments: Any = "", name: str | None = None, **more: Any) -> str:
    function = {"arguments": arguments, **({} if name is None else {"name": name})}
    return event({"index": 0, "delta": {"tool_calls": [{"function": function, **more}]}})


END = event(STOP) + DONE
CALLED = event({"index": 0, "delta": {}, "finish_reason": "tool_calls"}) + DONE


@copies
@pytest.mark.parametrize(
    "pieces",
    [
        [("", "now", 0, "a"), ('{"zone"', None, 1, None), (': "CET"}', None, 2, None)],
        [("", "now", None, "a"), ('{"zone"', None, None, None), (': "CET"}', None, None, None)],
        [("", "now", 0, "a"), ('{"zone"', "now", 0, "a"), (': "CET"}', "now", 0, "a")],
        [("", "now", 0, "a"), ('{"zone"', None, 0, "b"), (': "CET"}', None, 0, "c")],
        [("", "now", 0, 17), ('{"zone": "CET"}', None, 0, None)],
        [("", "now", "0", "a"), ({"zone": "CET"}, None, "0", None)],
        [("", None, 0, "a"), ("", "now", 0, None), ('{"zone": "CET"}', None, 0, None)],
        [("", "no", 0, "a"), ("", "w", 0, None), ('{"zone": "CET"}', None, 0, None)],
    ],
    ids=["growing", "none", "named", "ids", "number", "texts", "late", "cut"],
)
async def test_a_call_is_whole_however_its_pieces_are_numbered(
    open_model: Opener, serve: Serve, provider: Provider, pieces: list[Any]
) -> None:
    body = "".join(
        piece(
            text,
            name,
            **({} if index is None else {"index": index}),
            **({} if call_id is None else {"id": call_id}),
        )
        for text, name, index, call_id in pieces
    )

    deltas = await read_body(open_model, serve, body + CALLED, provider)

    assert [(it.name, it.arguments) for it in calls_of(deltas)] == [("now", {"zone": "CET"})]
    assert calls_of(deltas)[0].id == str(next(it[3] for it in pieces if it[3] is not None))
    assert end_of(deltas).done_reason == "tool_calls"


@copies
async def test_parallel_calls_of_one_index_are_several(
    open_model: Opener, serve: Serve, provider: Provider
) -> None:
    body = piece('{"zone": "CET"}', "now", index=0, id="a")
    body += piece("", "now", index=0, id="b") + piece('{"zone": "UTC"}', index=0)

    deltas = await read_body(open_model, serve, body + CALLED, provider)

    assert [it.arguments for it in calls_of(deltas)] == [{"zone": "CET"}, {"zone": "UTC"}]


async def test_arguments_that_belong_to_nobody_run_no_tool(
    open_model: Opener, serve: Serve
) -> None:
    deltas = await read_body(open_model, serve, piece('{"zone": "CET"}') + CALLED)

    assert [it.name for it in calls_of(deltas)] == ["no_name_given"]


@copies
async def test_usage_that_grows_with_each_chunk_is_not_added_up(
    open_model: Opener, serve: Serve, provider: Provider
) -> None:
    body = "".join(
        event({"index": 0, "delta": {"content": "a"}}, usage=counts)
        for counts in (
            {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
            {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
            {"prompt_tokens": "10", "completion_tokens": 3.0, "total_tokens": None},
            [],
        )
    )
    last = event(STOP, usage={"prompt_tokens": 0, "completion_tokens": 3, "total_tokens": 13})

    deltas = await read_body(open_model, serve, body + last + DONE, provider)

    assert (end_of(deltas).prompt_eval_count, end_of(deltas).eval_count) == (10, 3)


@copies
async def test_numbers_and_the_like_are_text(
    open_model: Opener, serve: Serve, provider: Provider
) -> None:
    body = "".join(
        map(says, ["It costs $", 5, ", see [", 1, "]: ", True, " ", 0.5, None, {"a": 1}])
    )

    deltas = await read_body(open_model, serve, body + END, provider)

    assert text_of(deltas) == 'It costs $5, see [1]: true 0.5{"a":1}'


@copies
@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("eos", "stop"),
        ("end_turn", "stop"),
        ("pause_turn", "stop"),
        ("STOP", "stop"),
        (7, "stop"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("Length", "length"),
        ("function_call", "tool_calls"),
        ("tool_use", "tool_calls"),
    ],
)
async def test_an_answer_with_any_reason_for_its_end_is_complete(
    open_model: Opener, serve: Serve, provider: Provider, word: Any, reason: str
) -> None:
    body = says("Hello") + event({"index": 0, "delta": {}, "finish_reason": word}) + DONE

    deltas = await read_body(open_model, serve, body, provider)

    assert text_of(deltas) == "Hello"
    assert end_of(deltas).done_reason == reason


@copies
@pytest.mark.parametrize("word", ["SAFETY", "refusal", "guardrail_intervened"])
async def test_a_refusal_in_other_words_is_one(
    open_model: Opener, serve: Serve, provider: Provider, word: str
) -> None:
    body = says("Hel") + event({"index": 0, "delta": {}, "finish_reason": word}) + DONE

    with pytest.raises(ModelError, match=word) as raised:
        await read_body(open_model, serve, body, provider)

    assert raised.value.code == "CONTENT_REFUSED"


@copies
@pytest.mark.parametrize(
    "last",
    [
        {"index": 0, "finish_reason": "stop"},
        {"index": 0, "delta": None, "finish_reason": "stop"},
        {"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"},
    ],
)
async def test_a_last_chunk_without_delta_ends_the_answer(
    open_model: Opener, serve: Serve, provider: Provider, last: dict[str, Any]
) -> None:
    deltas = await read_body(open_model, serve, says("Hello") + event(last) + DONE, provider)

    assert text_of(deltas) == "Hello"
    assert end_of(deltas).done_reason == "stop"


@copies
@pytest.mark.parametrize(
    "between", ["data:\n\n", "data: \n\n", "id: 3\n: ping\n\n", ": ping\n\n", "event: ping\n\n"]
)
async def test_keep_alives_are_skipped(
    open_model: Opener, serve: Serve, provider: Provider, between: str
) -> None:
    body = between + says("Hel") + between + says("lo") + between + END

    assert text_of(await read_body(open_model, serve, body, provider)) == "Hello"


@copies
async def test_events_may_begin_with_a_mark_and_end_with_one_line_break(
    open_model: Opener, serve: Serve, provider: Provider
) -> None:
    body = (says("Hel") + says("lo") + END).replace("\n\n", "\r\n")

    deltas = await read_body(open_model, serve, b"\xef\xbb\xbf" + body.encode(), provider)

    assert text_of(deltas) == "Hello"


@copies
async def test_an_answer_that_is_not_streamed_is_read(
    open_model: Opener, serve: Serve, provider: Provider
) -> None:
    call = {"id": "a", "function": {"name": "now", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Hello", "tool_calls": [call]}
    whole = {**CHUNK, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    whole["usage"] = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
    body = json.dumps(whole, indent=2)

    deltas = await read_body(open_model, serve, body, provider, "application/json")

    assert text_of(deltas) == "Hello"
    assert [it.name for it in calls_of(deltas)] == ["now"]
    assert end_of(deltas) == Finished("tool_calls", 4, 2)


@copies
async def test_an_answer_without_a_reason_for_its_end_comes_with_a_note(
    open_model: Opener, serve: Serve, provider: Provider
) -> None:
    deltas = await read_body(open_model, serve, says("Hello") + DONE, provider)

    assert text_of(deltas) == "Hello"
    assert end_of(deltas).done_reason == "stop"
    (note,) = [it for it in deltas if isinstance(it, Warned)]
    assert provider.name in note.message


@pytest.mark.parametrize("provider", [MINE, OPENAI], ids=lambda it: it.name)
@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
        {"reasoning_details": [{"type": "other", "summary": "Hm."}]},
        {"reasoning": {"text": "Hm."}},
        {"thinking": "Hm."},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
    ],
)
async def test_reasoning_is_found_wherever_it_is(
    open_model: Opener, serve: Serve, provider: Provider, delta: dict[str, Any]
) -> None:
    body = event({"index": 0, "delta": delta})
    body += says([{"type": "text", "text": "Hello"}]) + END

    deltas = await read_body(open_model, serve, body, provider)

    assert (thinking_of(deltas), text_of(deltas)) == ("Hm.", "Hello")


@copies
async def test_the_old_form_of_a_call_is_read(
    open_model: Opener, serve: Serve, provider: Provider
) -> None:
    body = event({"index": 0, "delta": {"function_call": {"name": "now", "arguments": '{"zone"'}}})
    body += event({"index": 0, "delta": {"function_call": {"arguments": ': "CET"}'}}})
    body += event({"index": 0, "delta": {}, "finish_reason": "function_call"}) + DONE

    deltas = await read_body(open_model, serve, body, provider)

    assert [(it.name, it.arguments) for it in calls_of(deltas)] == [("now", {"zone": "CET"})]


copies_and_others = pytest.mark.parametrize(
    "provider", [MINE, OPENAI, OPENROUTER, GOOGLE, ANTHROPIC], ids=lambda it: it.name
)


@copies_and_others
@pytest.mark.parametrize(
    "body",
    [
        'data: {"error": "the pool is drained"}\n\n',
        'data: {"error": {"message": "the pool is drained"}}\n\n',
        'data: {"object": "error", "message": "the pool is drained", "code": 500}\n\n',
        '{"detail": "the pool is drained"}',
        "event: error\ndata: the pool is drained\n\n",
        says("Hel") + 'data: {"error": {"msg": "the pool is drained"}}\n\n',
        says("Hel") + '{"error": {"message": "the pool is drained"}}\n',
        "the pool is drained",
        "<!DOCTYPE html><html><head><title>the pool is drained</title></head><body>x</body></html>",
    ],
)
async def test_words_in_the_place_of_an_answer_are_told(
    open_model: Opener, serve: Serve, provider: Provider, body: str
) -> None:
    with pytest.raises(ModelError, match="the pool is drained") as raised:
        await read_body(open_model, serve, body, provider)

    assert "<" not in raised.value.message


@copies
async def test_test_mode_sends_any_oddity_as_it_is_scripted(
    open_model: Opener, provider: Provider
) -> None:
    raw = [says(5), ": ping\n\n", says(" apples"), DONE]

    deltas = await ask(open_model(provider), provider, block(raw=raw))

    assert text_of(deltas) == "5 apples"
    assert [type(it) for it in deltas[-2:]] == [Warned, Finished]
