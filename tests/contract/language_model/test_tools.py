"""Tools, and conversations that hold calls and results, also of other providers."""

import json

import msgspec
import pytest

from models_app.language_model import ANY_OBJECT, CallArgumentsDelta, SchemaLeftOut
from scripted_app.server import ScriptedModelServer
from sessions_app.messages import AssistantMessage, Message, SystemMessage, ToolCall
from tests.contract.language_model.cases import (
    ARGUMENTS,
    EVERY,
    FRAGMENTING,
    GOOGLE,
    NOW,
    WEATHER,
    Opener,
    Provider,
    answered,
    ask,
    block,
    calls,
    calls_of,
    end_of,
    every_provider,
    every_thinker,
    every_vendor,
    result,
    says,
    text_of,
    thinking_of,
    user,
)

# Tools


@every_provider
async def test_a_call_comes_whole_with_an_id_and_its_arguments(
    provider: Provider, open_model: Opener
) -> None:
    said = block(calls(("weather", ARGUMENTS)))

    deltas = await ask(open_model(provider), provider, said, tools=[WEATHER])

    (call,) = calls_of(deltas)
    assert call.id
    assert (call.name, call.arguments) == ("weather", ARGUMENTS)
    end_of(deltas)


@every_provider
async def test_parallel_calls_keep_their_order_and_have_ids_of_their_own(
    provider: Provider, open_model: Opener
) -> None:
    made = [("weather", ARGUMENTS), ("now", {}), ("weather", {"place": {"city": "Bern"}})]
    said = block(says("Let me look."), calls(*made))

    deltas = await ask(open_model(provider), provider, said, tools=[WEATHER, NOW])

    assert text_of(deltas) == "Let me look."
    assert [(call.name, call.arguments) for call in calls_of(deltas)] == made
    assert len({call.id for call in calls_of(deltas)}) == 3


@pytest.mark.parametrize("provider", FRAGMENTING, ids=lambda each: each.name)
async def test_arguments_are_told_as_they_come_and_add_up_to_the_call(
    provider: Provider, open_model: Opener
) -> None:
    said = block(calls(("weather", ARGUMENTS), ("now", {"zone": "CET"})))

    deltas = await ask(open_model(provider), provider, said, tools=[WEATHER, NOW])

    pieces: dict[int, list[CallArgumentsDelta]] = {}
    for delta in deltas:
        if isinstance(delta, CallArgumentsDelta):
            pieces.setdefault(delta.call_index, []).append(delta)
    assert len(pieces[0]) > 2
    for index, call in enumerate(calls_of(deltas)):
        assert {(piece.call_id, piece.name) for piece in pieces[index]} == {(call.id, call.name)}
        whole = "".join(piece.arguments for piece in pieces[index])
        assert json.loads(whole) == call.arguments


@every_provider
async def test_tools_are_offered_with_their_whole_schemas(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    await ask(open_model(provider), provider, user("Hello"), tools=[WEATHER, NOW])

    sent = json.dumps(scripted.requests[-1])
    for part in ("weather", "Tells the weather.", '"city"', '"zip"', "now"):
        assert part in sent
    assert "$ref" not in sent


FORCED = {
    "anthropic": '"tool_choice": {"type": "any"',
    "google": '"mode": "ANY"',
    "openai": '"tool_choice": "required"',
    "openrouter": '"tool_choice": "required"',
    "mine": '"tool_choice": "required"',
}


@every_thinker
@pytest.mark.parametrize("think", [None, True])
async def test_a_call_is_forced_where_the_provider_can_do_that(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer, think: bool | None
) -> None:
    said = block(calls(("now", {})))

    deltas = await ask(
        open_model(provider), provider, said, tools=[NOW], think=think, requires_call=True
    )

    assert [call.name for call in calls_of(deltas)] == ["now"]
    sent = json.dumps(scripted.requests[-1])
    if provider.is_ollama:
        assert "tool_choice" not in sent
    else:
        assert FORCED[provider.name] in sent


@every_provider
async def test_nothing_is_forced_unless_it_is_asked_for(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    await ask(open_model(provider), provider, user("Hello"), tools=[NOW])

    sent = json.dumps(scripted.requests[-1])
    assert not any(forced in sent for forced in FORCED.values())


@every_provider
async def test_an_answer_fits_the_schema_that_is_sent(
    provider: Provider, open_model: Opener
) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    deltas = await ask(open_model(provider), provider, user("Where?"), answer_schema=schema)

    assert json.loads(text_of(deltas)).keys() == {"city"}


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TAKES_BOTH = {"anthropic", "openai", "openrouter"}


@every_provider
async def test_a_schema_beside_tools_is_sent_where_it_leaves_room_for_a_call(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    asked = block(calls(("now", {})), says("In Oslo."), per_request=True)

    deltas = await ask(open_model(provider), provider, asked, tools=[NOW], answer_schema=CITY)

    assert [each.name for each in calls_of(deltas)] == ["now"]
    was_sent = '"city"' in json.dumps(scripted.requests[-1])
    assert was_sent == (provider.name in TAKES_BOTH)
    assert [SchemaLeftOut()] * (not was_sent) == [
        each for each in deltas if isinstance(each, SchemaLeftOut)
    ]
    # An answer without a call is text, which the caller checks where it may not fit.
    result_of = [asked, answered(deltas), result(calls_of(deltas)[0], "Noon.")]
    deltas = await ask(open_model(provider), provider, *result_of, tools=[NOW], answer_schema=CITY)
    assert (text_of(deltas) == "In Oslo.") == (not was_sent)


async def test_newer_models_of_google_take_a_schema_beside_tools(
    open_model: Opener, scripted: ScriptedModelServer
) -> None:
    model = open_model(GOOGLE)
    asked = block(calls(("now", {})))
    deltas = await ask(model, GOOGLE, asked, name="gemini-3-flash", tools=[NOW], answer_schema=CITY)
    assert [each.name for each in calls_of(deltas)] == ["now"]
    assert '"city"' in json.dumps(scripted.requests[-1])


@every_provider
async def test_no_provider_is_told_that_any_object_is_the_empty_one(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    await ask(open_model(provider), provider, user("Where?"), answer_schema=ANY_OBJECT)

    sent = json.dumps(scripted.requests[-1])
    assert "additionalProperties" not in sent
    assert "schema" not in sent


@every_thinker
@pytest.mark.parametrize("think", [False, True])
async def test_a_round_of_tools_goes_on_with_the_results(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer, think: bool
) -> None:
    model = open_model(provider)
    asked = block(
        calls(("weather", ARGUMENTS), ("now", {})),
        calls(("now", {"zone": "UTC"})),
        says("done"),
        per_request=True,
    )
    history: list[Message] = [asked]
    for _ in range(2):
        deltas = await ask(model, provider, *history, tools=[WEATHER, NOW], think=think)
        # What was saved is read from a file before it is sent.
        message = answered(deltas)
        history.append(message)
        history += [result(call, f"result of {call.name}") for call in message.tool_calls]

    deltas = await ask(model, provider, *history, tools=[WEATHER, NOW], think=think)

    assert text_of(deltas) == "done"
    assert json.dumps(scripted.requests[-1]).count("result of now") == 2


@every_vendor
async def test_thinking_in_a_tool_round_survives_a_file(
    provider: Provider, open_model: Opener
) -> None:
    model = open_model(provider)
    asked = block(
        says("Hm.", reasoning=["thinking ", "first"]), calls(("now", {})), stall_seconds=0
    )
    deltas = await ask(model, provider, asked, tools=[NOW], think=True)
    calls_made = [
        msgspec.json.decode(msgspec.json.encode(call), type=ToolCall) for call in calls_of(deltas)
    ]
    message = msgspec.structs.replace(answered(deltas), tool_calls=calls_made)

    again = await ask(
        model, provider, asked, message, result(calls_made[0], "noon"), tools=[NOW], think=True
    )

    assert text_of(again).endswith(asked.content)
    assert thinking_of(again)


# Histories


@every_provider
async def test_the_system_prompt_is_part_of_the_request(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    system = SystemMessage(content="Speak like a pirate.", message_id="s", timestamp="t")

    await ask(open_model(provider), provider, system, user("Hello"))

    assert "Speak like a pirate." in json.dumps(scripted.requests[-1])


@pytest.mark.parametrize("first", EVERY, ids=lambda each: f"from-{each.name}")
@pytest.mark.parametrize("second", EVERY, ids=lambda each: f"to-{each.name}")
async def test_a_conversation_with_tools_goes_on_with_another_provider(
    first: Provider, second: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    asked = block(calls(("weather", ARGUMENTS), ("now", {})))
    deltas = await ask(open_model(first), first, asked, tools=[WEATHER, NOW], think=True)
    message = answered(deltas)
    history = [asked, message, *(result(call, "sunny") for call in message.tool_calls)]

    # In the middle of the round: another worker resumes it, and its model has been changed.
    deltas = await ask(open_model(second), second, *history, tools=[WEATHER, NOW], think=True)
    assert text_of(deltas)
    # And later.
    deltas = await ask(
        open_model(second), second, *history, answered(deltas), user("And now?"), think=True
    )

    assert text_of(deltas).endswith("And now?")
    assert "Zürich" in json.dumps(scripted.requests[-1], ensure_ascii=False)


@every_vendor
@pytest.mark.parametrize(
    "call_id", ["call:1/2", "x" * 60, "ünïcode", "", "call_ok"], ids=lambda it: it[:8] or "empty"
)
async def test_ids_that_vendors_refuse_are_replaced_in_call_and_result(
    provider: Provider, open_model: Opener, call_id: str
) -> None:
    call = ToolCall(id=call_id, name="now", arguments={"zone": "UTC"})
    asking = AssistantMessage(content="", message_id="a", timestamp="t", tool_calls=(call,))
    history = [user("What time is it?"), asking, result(call, "noon"), user("Thanks")]

    deltas = await ask(open_model(provider), provider, *history, tools=[NOW])

    assert text_of(deltas).endswith("Thanks")


@every_vendor
async def test_a_history_with_gaps_is_one_that_vendors_accept(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    one = ToolCall(id="call_1", name="now", arguments={})
    two = ToolCall(id="call_2", name="weather", arguments=ARGUMENTS)
    stray = ToolCall(id="call_3", name="now", arguments={})
    history = [
        AssistantMessage(content="I speak first.", message_id="a", timestamp="t"),
        user("What time is it?"),
        AssistantMessage(content=" ", message_id="a", timestamp="t", tool_calls=(one, two)),
        result(two, "sunny"),
        result(stray, "nobody asked"),
        AssistantMessage(content="[cancelled]", message_id="a", timestamp="t", cancelled=True),
        user("Are you there?"),
        AssistantMessage(content="", message_id="a", timestamp="t"),
        user("Hello?"),
    ]

    deltas = await ask(open_model(provider), provider, *history, tools=[WEATHER, NOW])

    assert text_of(deltas).endswith("Hello?")
    sent = json.dumps(scripted.requests[-1])
    assert "interrupted, not run again" in sent
    assert "nobody asked" not in sent
    assert "[cancelled]" not in sent
