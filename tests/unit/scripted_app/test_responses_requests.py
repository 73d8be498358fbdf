"""What the scripted server refuses as OpenAI does: on its Responses route, and in chat."""

import base64
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

Scripted = Callable[..., dict[str, Any]]
HELLO: Any = {"role": "user", "content": "Hello!"}
TOOL: Any = {"type": "function", "name": "now", "parameters": {"type": "object"}, "strict": False}
SHOWN: Any = {"effort": "low", "summary": "auto"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "now", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "noon"}


def reasoning(model: str = "gpt-5.1", item_id: str = "rs_1") -> dict[str, Any]:
    content = base64.b64encode(f"scripted {item_id} {model}".encode()).decode()
    return {"type": "reasoning", "id": item_id, "summary": [], "encrypted_content": content}


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({}, "missing_required_parameter", "'input'"),
        ({"input": []}, "missing_required_parameter", "'input'"),
        ({"input": [5]}, "invalid_type", "objects"),
        ({"stop": ["."]}, "unknown_parameter", "'stop'"),
        ({"max_tokens": 5}, "unknown_parameter", "'max_tokens'"),
        ({"previous_response_id": "resp_1"}, "unsupported_parameter", "Zero Data Retention"),
        ({"model": "gpt-6-astra", "reasoning": {"effort": "none"}}, "unsupported_value", "'low'"),
        ({"model": "gpt-5.4-pro", "reasoning": {"effort": "low"}}, "unsupported_value", "'medium'"),
        ({"model": "gpt-5.6-terra", "temperature": 0.5}, "unsupported_parameter", "'temperature'"),
        ({"model": "gpt-4o-mini", "reasoning": SHOWN}, "unsupported_parameter", "reasoning"),
        ({"model": "gpt-4o-mini", "tools": [TOOL]}, "unsupported_parameter", "'tools'"),
        ({"input": [HELLO, CALL]}, None, "No tool output found for function call call_1"),
        ({"input": [HELLO, RESULT]}, None, "No tool call found"),
        ({"input": [{**CALL, "id": "call_1"}, RESULT]}, "invalid_value", "begins with 'fc'"),
        ({"input": [{"type": "nonsense"}]}, "invalid_value", "nonsense"),
        (
            {"input": [HELLO, reasoning(), reasoning("gpt-5.1", "rs_2"), CALL, RESULT]},
            None,
            "without its required following item",
        ),
        ({"input": [HELLO, reasoning()]}, None, "without its required following item"),
        (
            {"input": [HELLO, reasoning("gpt-5.6-terra"), CALL, RESULT]},
            "invalid_encrypted_content",
            "could not be verified",
        ),
    ],
)
async def test_it_refuses_what_openai_refuses(
    http: aiohttp.ClientSession, body: dict[str, Any], code: str | None, words: str
) -> None:
    given = {} if not body else {"input": "Hello!"}
    reply = await http.post("/v1/responses", json={"model": "gpt-5.1", **given, **body})

    assert reply.status == 400
    error = (await reply.json())["error"]
    assert error["code"] == code
    assert words in error["message"]
    assert error["param"]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "item_reference", "id": "rs_1"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
    ],
)
async def test_items_are_not_stored(http: aiohttp.ClientSession, item: dict[str, Any]) -> None:
    reply = await http.post("/v1/responses", json={"model": "gpt-5.1", "input": [HELLO, item]})

    assert reply.status == 404
    assert "Item with id 'rs_1' not found" in (await reply.json())["error"]["message"]


NO_TOOLS = (
    "Function tools with reasoning_effort are not supported for gpt-5.6-terra in "
    "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to "
    "'none'."
)
TOOLS = [{"type": "function", "function": {"name": "now"}}]


@pytest.mark.parametrize(
    ("body", "status", "param", "code", "words"),
    [
        (
            {"model": "gpt-5.6-terra", "tools": TOOLS},
            400,
            "reasoning_effort",
            None,
            NO_TOOLS,
        ),
        (
            {"model": "gpt-6-astra", "tools": TOOLS, "reasoning_effort": "low"},
            400,
            "reasoning_effort",
            None,
            "not supported for gpt-6-astra",
        ),
        (
            {"model": "gpt-6-astra", "tools": TOOLS, "reasoning_effort": "none"},
            400,
            "reasoning_effort",
            "unsupported_value",
            "'low', 'medium', 'high', 'xhigh'",
        ),
        (
            {"model": "gpt-5.6-terra", "reasoning_effort": "max"},
            400,
            "reasoning_effort",
            "unsupported_value",
            "'none', 'low', 'medium', 'high', 'xhigh'",
        ),
        ({"model": "gpt-5.4-pro"}, 404, "model", None, "This is not a chat model"),
        ({"model": "gpt-5.3-codex"}, 404, "model", None, "only supported in v1/responses"),
    ],
)
async def test_chat_refuses_what_only_responses_answers(
    http: aiohttp.ClientSession,
    body: dict[str, Any],
    status: int,
    param: str,
    code: str | None,
    words: str,
) -> None:
    reply = await http.post("/v1/chat/completions", json={"messages": [HELLO], **body})

    error = (await reply.json())["error"]
    assert (reply.status, error["param"], error["code"]) == (status, param, code)
    assert words in error["message"]


async def test_chat_calls_tools_without_reasoning_and_never_shows_any(
    http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    asked = scripted(messages=[{"text_message": {"text": "Hi", "reasoning": "Hm"}}])
    body = {"model": "gpt-5.6-terra", "messages": [asked], "stream": True}
    for more in ({"tools": TOOLS, "reasoning_effort": "none"}, {"reasoning_effort": "high"}):
        reply = await http.post("/v1/chat/completions", json={**body, **more})

        assert reply.status == 200
        assert "reasoning" not in await reply.text()
