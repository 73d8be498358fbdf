"""OpenAI's Responses route of the scripted server, asked by the vendor's SDK and pydantic-ai."""

import base64
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import openai
import pytest
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from scripted_app.replies import lorem, stable_hash

Scripted = Callable[..., dict[str, Any]]
HELLO: Any = {"role": "user", "content": "Hello!"}
ANSWER = f"{lorem(5 + stable_hash('Hello!') % 496)}\n\nHello!"
TOOL: Any = {"type": "function", "name": "now", "parameters": {"type": "object"}, "strict": False}
ENCRYPTED: Any = ["reasoning.encrypted_content"]
SHOWN: Any = {"effort": "low", "summary": "auto"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "now", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "noon"}


async def events_of(client: openai.AsyncOpenAI, **asked: Any) -> list[Any]:
    asked = {"model": "gpt-5.6-terra", "store": False, **asked}
    return [event async for event in await client.responses.create(stream=True, **asked)]


def thinks_and_calls(scripted: Scripted) -> Any:
    return scripted(
        messages=[
            {
                "text_message": {
                    "text": ["Let me ", "look."],
                    "reasoning": ["**First**\n\nOne. ", "Two.", "**Second**\n\nThree."],
                }
            },
            {"tool_call": [{"name": "now", "args": {"city": "Zürich"}}]},
        ]
    )


async def thoughts_and_calls(client: openai.AsyncOpenAI, scripted: Scripted) -> list[Any]:
    return await events_of(
        client,
        input=[thinks_and_calls(scripted)],
        tools=[TOOL],
        reasoning=SHOWN,
        include=ENCRYPTED,
    )


async def test_the_events_come_in_openais_order(
    client: openai.AsyncOpenAI, scripted: Scripted
) -> None:
    events = await thoughts_and_calls(client, scripted)

    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type.removeprefix("response.") for event in events]
    pieces = kinds.count("function_call_arguments.delta")
    assert pieces > 1
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        *["function_call_arguments.delta"] * pieces,
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


async def test_the_final_event_has_all_items_and_the_usage(
    client: openai.AsyncOpenAI, scripted: Scripted
) -> None:
    events = await thoughts_and_calls(client, scripted)

    response = events[-1].response
    reasoning, message, call = response.output
    assert [item.id.partition("_")[0] for item in response.output] == ["rs", "msg", "fc"]
    assert [part.text for part in reasoning.summary] == [
        "**First**\n\nOne. Two.",
        "**Second**\n\nThree.",
    ]
    assert reasoning.encrypted_content
    assert (message.content[0].text, message.phase) == ("Let me look.", "commentary")
    assert (call.name, json.loads(call.arguments)) == ("now", {"city": "Zürich"})
    usage = response.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert usage.output_tokens_details.reasoning_tokens == 10
    assert usage.input_tokens_details.cached_tokens == 0
    assert usage.input_tokens_details.cache_write_tokens == 0


async def test_an_answer_without_calls_is_the_final_one(client: openai.AsyncOpenAI) -> None:
    response = await client.responses.create(model="gpt-6-astra", input="Hello!")

    assert response.output_text == ANSWER
    message: Any = response.output[-1]
    assert message.phase == "final_answer"


async def test_reasoning_is_counted_and_shown_only_where_a_summary_is_asked_for(
    client: openai.AsyncOpenAI,
) -> None:
    hidden = await client.responses.create(model="gpt-5.6-terra", input="Hello!")
    shown = await client.responses.create(model="gpt-5.6-terra", input="Hello!", reasoning=SHOWN)
    without = await client.responses.create(
        model="gpt-5.6-terra", input="Hello!", reasoning={"effort": "none"}
    )

    for response, summary in ((hidden, ""), (shown, ANSWER)):
        item: Any = response.output[0]
        assert "".join(part.text for part in item.summary) == summary
        assert item.encrypted_content is None
        assert response.usage is not None
        assert response.usage.output_tokens_details.reasoning_tokens == -(-len(ANSWER) // 4)
    assert [item.type for item in without.output] == ["message"]


async def test_the_previous_request_is_read_from_the_cache(client: openai.AsyncOpenAI) -> None:
    before: Any = [{"role": "user", "content": "x" * 5000}, {"role": "assistant", "content": "y"}]
    response = await client.responses.create(model="gpt-5.1", input=[*before, HELLO])

    assert response.usage is not None
    details: Any = response.usage.input_tokens_details
    assert details.cached_tokens == 1152
    assert details.cache_write_tokens == response.usage.input_tokens - 1152


async def test_the_token_limit_counts_reasoning(client: openai.AsyncOpenAI) -> None:
    events = await events_of(client, input="Hello!", reasoning=SHOWN, max_output_tokens=3)

    response = events[-1].response
    assert events[-1].type == "response.incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert [item.type for item in response.output] == ["reasoning"]


async def test_images_files_and_forms_are_read(client: openai.AsyncOpenAI) -> None:
    encoded = base64.b64encode(b"GIF89a" + b"0" * 20).decode()
    parts: Any = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": f"data:image/gif;base64,{encoded}", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:x;base64,{encoded}"},
    ]
    seen = await client.responses.create(
        model="gpt-5.1", input=[{"role": "user", "content": parts}]
    )
    assert seen.output_text.count("[image/gif, 26 bytes") == 2

    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    form: Any = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
    for text, expected in ((form, ["age"]), ({"type": "json_object"}, ["text"])):
        asked: Any = {"model": "gpt-4o-mini", "input": "Hello!", "text": {"format": text}}
        response = await client.responses.create(**asked)
        assert list(json.loads(response.output_text)) == expected


async def test_each_request_gets_the_next_message_of_a_script(
    client: openai.AsyncOpenAI, scripted: Scripted
) -> None:
    asked = scripted(
        per_request=True,
        messages=[
            {"tool_call": [{"name": "now"}, {"name": "now"}]},
            {"text_message": {"text": "Noon."}},
        ],
    )
    calls = [CALL, {**CALL, "call_id": "call_2"}]
    spoken = {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    history: Any = [asked, spoken, *calls, RESULT, {**RESULT, "call_id": "call_2"}]

    response = await client.responses.create(model="gpt-5.1", input=history)

    assert response.output_text == "Noon."


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"error_line": "runner died"}, ("server_error", "runner died")),
        ({"error_line": "rate_limit_exceeded: Slow down"}, ("rate_limit_exceeded", "Slow down")),
    ],
)
async def test_a_failure_is_the_final_event(
    client: openai.AsyncOpenAI, scripted: Scripted, fault: dict[str, Any], words: tuple[str, str]
) -> None:
    asked = scripted(messages=[{"text_message": {"length": 20}}], **fault)

    events = await events_of(client, input=[asked])

    assert events[-1].type == "response.failed"
    assert (events[-1].response.error.code, events[-1].response.error.message) == words


async def test_refused_content_is_incomplete(
    client: openai.AsyncOpenAI, scripted: Scripted
) -> None:
    asked = scripted(messages=[{"text_message": {"length": 20}}], refuse_after=1)

    events = await events_of(client, input=[asked])

    assert events[-1].type == "response.incomplete"
    assert events[-1].response.incomplete_details.reason == "content_filter"


async def test_a_stream_can_end_without_its_final_event(
    client: openai.AsyncOpenAI, scripted: Scripted
) -> None:
    asked = scripted(messages=[{"text_message": {"text": ["one", "two"]}}], end_after=1)

    events = await events_of(client, input=[asked])

    assert events[-1].type == "response.output_text.delta"
    assert events[-1].delta == "one"


async def test_half_an_event_is_no_json(http: aiohttp.ClientSession, scripted: Scripted) -> None:
    asked = scripted(messages=[{"text_message": {"text": ["one", "two"]}}], malformed=1)
    body = {"model": "gpt-5.1", "input": [asked], "stream": True}

    events = (await (await http.post("/v1/responses", json=body)).text()).split("\n\n")

    halves = [event for event in events if event and not event.endswith("}")]
    assert len(halves) == 1
    assert events[-2].startswith("event: response.completed\n")


async def test_pydantic_ai_reads_and_repeats_an_answer(
    client: openai.AsyncOpenAI, scripted: Scripted
) -> None:
    asked = scripted(
        per_request=True,
        reasoning={"text": "Hm"},
        messages=[
            {"text_message": {"text": "I look.", "reasoning": "**A**\n\nHm"}},
            {"text_message": {"text": "Noon.", "reasoning": "Well"}},
        ],
    )
    model = OpenAIResponsesModel("gpt-5.6-terra", provider=OpenAIProvider(openai_client=client))
    settings = OpenAIResponsesModelSettings(
        openai_store=False, thinking="low", openai_reasoning_summary="auto"
    )
    parameters = ModelRequestParameters(function_tools=[ToolDefinition(name="now")])
    history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(content=asked["content"])])]

    async def ask() -> ModelResponse:
        async with model_request_stream(
            model, history, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            async for _ in stream:
                pass
        return stream.get()

    first = await ask()
    thinking, text = first.parts
    assert isinstance(thinking, ThinkingPart)
    assert thinking.signature
    assert thinking.content == "**A**\n\nHm"
    assert isinstance(text, TextPart)
    assert (text.content, text.provider_details) == ("I look.", {"phase": "final_answer"})
    assert first.usage.details["reasoning_tokens"] > 0

    call = ToolCallPart(tool_name="now", args="{}", tool_call_id="call_1")
    first.parts = [*first.parts, call]
    result = ToolReturnPart(tool_name="now", content="noon", tool_call_id="call_1")
    history += [first, ModelRequest(parts=[result])]
    assert (await ask()).text == "Noon."

    model = OpenAIResponsesModel("gpt-6-astra", provider=OpenAIProvider(openai_client=client))
    with pytest.raises(Exception, match="invalid_encrypted_content"):
        await ask()
