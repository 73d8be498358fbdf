"""Streams of Gemini, Claude and their emulators that are not as their documents say."""

import json
from typing import Any

import pytest

from models_app.language_model import Finished
from tests.contract.language_model.cases import (
    ANTHROPIC,
    GOOGLE,
    Opener,
    Serve,
    calls_of,
    end_of,
    read_body,
    text_of,
)


def gemini(*parts: Any, **candidate: Any) -> str:
    content = {"role": "model", "parts": list(parts)}
    return f"data: {json.dumps({'candidates': [{'content': content, **candidate}]})}\r\n\r\n"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("NEWLY_INVENTED", "stop"),
        ("OTHER", "stop"),
        ("NEW_TOKEN_LIMIT", "length"),
        ("STOP", "stop"),
    ],
)
async def test_an_answer_of_gemini_with_any_reason_for_its_end_is_complete(
    open_model: Opener, serve: Serve, word: str, reason: str
) -> None:
    body = gemini({"text": "Hel"}) + gemini({"text": "lo"}, finishReason=word)

    deltas = await read_body(open_model, serve, body, GOOGLE)

    assert text_of(deltas) == "Hello"
    assert end_of(deltas).done_reason == reason


async def test_a_part_of_gemini_that_nobody_knows_is_shown(
    open_model: Opener, serve: Serve
) -> None:
    parts: list[Any] = [{"text": "See "}, {"hologram": {"uri": "h:1"}}, {"text": 5}, {}, None]
    call = {"functionCall": {"name": None, "args": '{"zone": "CET"}'}}
    body = gemini(*parts, call, finishReason="STOP")

    deltas = await read_body(open_model, serve, body, GOOGLE)

    assert text_of(deltas) == 'See {"hologram":{"uri":"h:1"}}5'
    assert [(it.name, it.arguments) for it in calls_of(deltas)] == [
        ("no_name_given", {"zone": "CET"})
    ]


@pytest.mark.parametrize("between", ["data:\r\n\r\n", ": ping\r\n\r\n", "id: 1\r\n: ping\r\n\r\n"])
async def test_keep_alives_of_gemini_are_skipped(
    open_model: Opener, serve: Serve, between: str
) -> None:
    body = between + gemini({"text": "Hel"}) + between + gemini({"text": "lo"}, finishReason="STOP")

    deltas = await read_body(open_model, serve, b"\xef\xbb\xbf" + body.encode(), GOOGLE)

    assert text_of(deltas) == "Hello"


MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
    "usage": {"input_tokens": 4, "output_tokens": 1},
}  # fmt: skip


def claude(*events: dict[str, Any]) -> str:
    return "".join(f"event: {it['type']}\ndata: {json.dumps(it)}\n\n" for it in events)


def said_by_claude(word: Any, end: dict[str, Any]) -> str:
    return claude(
        {"type": "message_start", "message": MESSAGE},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )


@pytest.mark.parametrize(
    ("word", "reason"), [("newly_invented", "stop"), ("max_window_tokens", "length")]
)
async def test_an_answer_of_claude_with_any_reason_for_its_end_is_complete(
    open_model: Opener, serve: Serve, word: str, reason: str
) -> None:
    body = said_by_claude("Hello", {"stop_reason": word})

    deltas = await read_body(open_model, serve, body, ANTHROPIC)

    assert text_of(deltas) == "Hello"
    assert end_of(deltas) == Finished(reason, 4, 3)


@pytest.mark.parametrize(
    "change",
    [
        ("data:", "\ufeffdata:"),
        ("event: message_start", "data:\n\n: ping\n\nevent: message_start"),
        ("event: message_start\n", ""),
        ("event: content_block_delta\n", ""),
        ('"Hello"', "17"),
    ],
    ids=["mark", "keep-alive", "no first name", "no name", "number"],
)
async def test_a_stream_of_claudes_emulators_is_read(
    open_model: Opener, serve: Serve, change: tuple[str, str]
) -> None:
    body = said_by_claude("Hello", {"stop_reason": "end_turn"}).replace(*change)

    deltas = await read_body(open_model, serve, body, ANTHROPIC)

    assert text_of(deltas) in ("Hello", "17")
