"""Histories as models refuse them: ids of calls, calls without text, signatures of others."""

import json
import re
from typing import Any

import msgspec
import pytest

from scripted_app.server import ScriptedModelServer
from sessions_app.messages import AssistantMessage, Message, ToolCall
from tests.contract.language_model.cases import (
    ADAPTIVE,
    ANTHROPIC,
    MINE,
    NOW,
    OPENROUTER,
    Opener,
    Provider,
    answered,
    ask,
    block,
    calls,
    calls_of,
    result,
    says,
    user,
)


def round_of(*ids: str) -> list[Message]:
    made = tuple(ToolCall(id=one, name="now", arguments={}) for one in ids)
    asking = AssistantMessage(content="", message_id="a", timestamp="t", tool_calls=made)
    return [user("Hello"), asking, *(result(call, "noon") for call in made)]


def sent(scripted: ScriptedModelServer) -> list[dict[str, Any]]:
    return list(scripted.requests[-1]["messages"])


@pytest.mark.parametrize("name", ["mistral-large-latest", "Devstral-Small", "magistral-medium"])
async def test_mistrals_models_are_sent_ids_of_nine_letters_or_digits(
    open_model: Opener, scripted: ScriptedModelServer, name: str
) -> None:
    history = round_of("call_1234567890", "call_0987654321", "abcDEF123")

    await ask(open_model(MINE), MINE, *history, name=name, tools=[NOW])

    _, asking, *results = sent(scripted)
    ids = [call["id"] for call in asking["tool_calls"]]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", one) for one in ids)
    assert ids == [one["tool_call_id"] for one in results]
    assert len(set(ids)) == 3
    assert ids[2] == "abcDEF123"


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("mistral-large-latest", ["user", "assistant", "tool", "tool", "assistant", "user"]),
        ("qwen3", ["user", "assistant", "tool", "tool", "user"]),
    ],
)
async def test_a_user_who_speaks_after_results_does_so_where_the_model_allows_it(
    open_model: Opener, scripted: ScriptedModelServer, name: str, roles: list[str]
) -> None:
    history = [*round_of("c1", "c2"), user("Rather tomorrow.")]

    await ask(open_model(MINE), MINE, *history, name=name, tools=[NOW])

    assert [message["role"] for message in sent(scripted)] == roles
    assert sent(scripted)[-1]["content"] == "Rather tomorrow."


async def test_other_models_are_sent_the_ids_that_they_gave(
    open_model: Opener, scripted: ScriptedModelServer
) -> None:
    await ask(open_model(MINE), MINE, *round_of("call_1234567890"), tools=[NOW])

    assert sent(scripted)[1]["tool_calls"][0]["id"] == "call_1234567890"


async def test_calls_without_text_are_sent_with_an_empty_one(
    open_model: Opener, scripted: ScriptedModelServer
) -> None:
    await ask(open_model(MINE), MINE, *round_of("c1"), tools=[NOW])

    assert sent(scripted)[1]["content"] == ""


@pytest.mark.parametrize("other", [ADAPTIVE, OPENROUTER], ids=lambda each: each.name)
@pytest.mark.parametrize("is_old", [False, True])
async def test_signed_thinking_is_sent_to_the_model_alone_that_signed_it(
    open_model: Opener, scripted: ScriptedModelServer, other: Provider, is_old: bool
) -> None:
    said = block(says("Let me look.", reasoning="Hm."), calls(("now", {})))
    deltas = await ask(open_model(ANTHROPIC), ANTHROPIC, said, tools=[NOW], think=True)
    asking = msgspec.structs.replace(answered(deltas), model=f"anthropic:{ANTHROPIC.model}")
    if is_old:  # saved by a release that did not write down the model
        state = dict(calls_of(deltas)[0].extra["provider_state"])
        del state["model"]
        call = msgspec.structs.replace(asking.tool_calls[0], extra={"provider_state": state})
        asking = msgspec.structs.replace(asking, tool_calls=(call,))
    history = [said, asking, result(asking.tool_calls[0], "noon")]

    await ask(open_model(ANTHROPIC), ANTHROPIC, *history, tools=[NOW], think=True)
    assert "signature" in json.dumps(sent(scripted))

    await ask(open_model(other), other, *history, tools=[NOW], think=True)
    assert "signature" not in json.dumps(sent(scripted))
