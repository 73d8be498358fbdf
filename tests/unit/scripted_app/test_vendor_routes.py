"""What the vendors' routes of the scripted server refuse, as the real services do."""

from typing import Any

import aiohttp
import pytest

CALL = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "noon"}
USER = {"role": "user", "content": "Hello"}


def anthropic(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "claude-haiku-4-5", "max_tokens": 100, "messages": messages, **more}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": blocks}


def results(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": blocks}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"model": "claude-haiku-4-5", "messages": [USER]}, "max_tokens"),
        (anthropic(), "at least one message"),
        (anthropic({"role": "assistant", "content": "Hi"}, USER), "first message"),
        (anthropic({"role": "system", "content": "Hi"}), "'user' or 'assistant'"),
        (anthropic(USER, assistant({"type": "text", "text": ""}), USER), "non-empty"),
        (anthropic(USER, assistant(CALL)), "without `tool_result`"),
        (anthropic(USER, assistant(CALL), USER), "without `tool_result`"),
        (anthropic(USER, results(RESULT)), "unexpected `tool_use_id`"),
        (anthropic(USER, assistant({**CALL, "id": "a:b"}), results(RESULT)), "tool_use.id"),
        (
            anthropic(
                USER,
                assistant(CALL),
                results(RESULT),
                thinking={"type": "enabled", "budget_tokens": 1024},
            ),
            "Expected `thinking`",
        ),
        (anthropic(USER, model="claude-3-haiku", tools=[{"name": "now"}]), "does not support"),
    ],
)
async def test_anthropic_refuses(
    http: aiohttp.ClientSession, body: dict[str, Any], words: str
) -> None:
    reply = await http.post("/v1/messages", json=body)

    assert reply.status == 400
    error = (await reply.json())["error"]
    assert error["type"] == "invalid_request_error"
    assert words in error["message"]


GOOGLES_CALL = {"role": "model", "parts": [{"functionCall": {"name": "now", "args": {}}}]}
GOOGLES_RESULT = {"role": "user", "parts": [{"functionResponse": {"name": "now"}}]}
GOOGLES_USER = {"role": "user", "parts": [{"text": "Hello"}]}


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ([], "not specified"),
        ([{"role": "assistant", "parts": []}], "valid role"),
        ([GOOGLES_USER, GOOGLES_CALL], "response turn"),
        ([GOOGLES_USER, GOOGLES_CALL, GOOGLES_USER], "number of function response parts"),
        ([GOOGLES_USER, GOOGLES_RESULT], "number of function response parts"),
    ],
)
async def test_google_refuses(http: aiohttp.ClientSession, contents: Any, words: str) -> None:
    path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"

    reply = await http.post(path, json={"contents": contents})

    assert reply.status == 400
    error = (await reply.json())["error"]
    assert error["status"] == "INVALID_ARGUMENT"
    assert words in error["message"]


OPENAIS_CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "call_1", "function": {"name": "now", "arguments": "{}"}}],
}
OPENAIS_RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "noon"}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([USER, OPENAIS_CALL], "did not have response messages: call_1"),
        ([USER, OPENAIS_CALL, USER], "did not have response messages: call_1"),
        ([USER, OPENAIS_RESULT], "must be a response"),
        ([USER, OPENAIS_CALL, OPENAIS_RESULT, OPENAIS_RESULT], "must be a response"),
        ([USER, {**OPENAIS_CALL, "tool_calls": [{"id": "x" * 41}]}], "maximum length 40"),
        ([5], "list of objects"),
    ],
)
async def test_openai_refuses(http: aiohttp.ClientSession, messages: Any, words: str) -> None:
    reply = await http.post("/v1/chat/completions", json={"model": "gpt-5.1", "messages": messages})

    assert reply.status == 400
    assert words in (await reply.json())["error"]["message"]


async def test_one_path_lists_openais_models_or_anthropics(http: aiohttp.ClientSession) -> None:
    openais = await (await http.get("/v1/models")).json()
    headers = {"anthropic-version": "2023-06-01"}
    anthropics = await (await http.get("/v1/models", headers=headers)).json()

    assert openais["data"][0]["id"] == "qwen3:14b"
    assert anthropics["data"][0]["id"] == "claude-haiku-4-5"


async def test_a_whole_answer_has_the_vendors_form(http: aiohttp.ClientSession) -> None:
    reply = await (await http.post("/v1/messages", json=anthropic(USER))).json()
    assert reply["stop_reason"] == "end_turn"
    assert reply["content"][0]["text"].endswith("Hello")

    path = "/v1beta/models/gemini-2.5-flash:generateContent"
    reply = await (await http.post(path, json={"contents": [GOOGLES_USER]})).json()
    assert reply["candidates"][0]["finishReason"] == "STOP"
    texts = [part["text"] for part in reply["candidates"][0]["content"]["parts"]]
    assert "".join(texts).endswith("Hello")
