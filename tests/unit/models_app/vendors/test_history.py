"""The reasoning of a round goes back to its model, by the API that it came from."""

from typing import Any

import msgspec
import pytest

from models_app.errors import ModelError
from models_app.language_model import Retrying, Warned
from models_app.vendors.signatures import STATE_KEY
from sessions_app.messages import AssistantMessage, Message, ToolCall
from tests.contract.language_model.cases import calls_of, text_of
from tests.unit.models_app.vendors.conftest import OpenVendor
from tests.unit.models_app.vendors.fake_vendor import (
    NOW,
    Answer,
    FakeVendor,
    ask,
    asking,
    call,
    claude,
    message,
    raw_reasoning,
    reasoning,
    refused,
    response,
    result,
    user,
)

TERRA = "gpt-5.6-terra"
RESPONSES = "/v1/responses"
NOON = response(message("It is noon.", phase="final_answer"))
FIRST = [
    reasoning("rs_1", "One.", "Two."),
    message("I look.", phase="commentary"),
    call("c1"),
    reasoning("rs_2", sealed="b3RoZXI="),
    call("c2"),
]


async def round_of(fake: FakeVendor, model: Any, *items: Any, name: str = TERRA) -> list[Message]:
    """Return a question, the answer with its calls, and their results."""
    fake.answer(RESPONSES, response(*(items or FIRST)))
    asked = user("What time is it?")
    deltas = await ask(model, name, asked, tools=[NOW], think=True)
    calls = calls_of(deltas)
    answer = asking(*calls, text=text_of(deltas), model=f"openai:{name}")
    fake.answer(RESPONSES, NOON)
    fake.requests.clear()
    return [asked, answer, *(result(each) for each in calls)]


def shown(item: dict[str, Any]) -> str:
    """Return what an item of an input is."""
    if "role" in item:
        return f"{item['role']}: {item['content']}"
    return item.get("id") or f"{item['type']} {item['call_id']}"


def shapes(fake: FakeVendor) -> list[str]:
    return [shown(item) for item in fake.bodies[-1]["input"]]


async def test_each_reasoning_goes_before_what_it_led_to(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    model = open_vendor()
    history = await round_of(fake, model)

    await ask(model, TERRA, *history, tools=[NOW], think=True)

    assert shapes(fake) == [
        "user: What time is it?",
        "rs_1",
        "assistant: I look.",
        "function_call c1",
        "rs_2",
        "function_call c2",
        "function_call_output c1",
        "function_call_output c2",
    ]
    items = fake.bodies[-1]["input"]
    assert items[1] == {
        "type": "reasoning",
        "id": "rs_1",
        "encrypted_content": "c2VhbGVk",
        "summary": [{"type": "summary_text", "text": text} for text in ("One.", "Two.")],
    }
    assert items[2] == {"role": "assistant", "content": "I look.", "phase": "commentary"}
    assert items[4]["encrypted_content"] == "b3RoZXI="
    # Only reasoning has an id: nothing is stored that others could refer to.
    assert [item["id"] for item in items if "id" in item] == ["rs_1", "rs_2"]


async def test_reasoning_after_the_text_stays_there(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    model = open_vendor()
    items = [message("I look."), reasoning("rs_1", "Hm."), call("c1")]
    history = await round_of(fake, model, *items)

    await ask(model, TERRA, *history, tools=[NOW], think=True)

    assert shapes(fake)[1:4] == ["assistant: I look.", "rs_1", "function_call c1"]


async def test_every_round_since_the_question_keeps_its_reasoning_and_no_other(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    model = open_vendor()
    first = await round_of(fake, model, reasoning("rs_1"), call("c1"))
    second = await round_of(fake, model, reasoning("rs_2"), call("c2"))

    await ask(model, TERRA, *first, *second[1:], tools=[NOW], think=True)
    assert [it for it in shapes(fake) if it.startswith("rs_")] == ["rs_1", "rs_2"]

    final = AssistantMessage(
        content="It is noon.", message_id="a", timestamp="t", model=f"openai:{TERRA}"
    )
    await ask(model, TERRA, *first, final, *second, tools=[NOW], think=True)
    assert [it for it in shapes(fake) if it.startswith("rs_")] == ["rs_2"]


async def test_a_text_has_the_phase_that_it_had(fake: FakeVendor, open_vendor: OpenVendor) -> None:
    model = open_vendor()
    history = await round_of(fake, model)
    final = AssistantMessage(
        content="It is noon.", message_id="a", timestamp="t", model=f"openai:{TERRA}"
    )
    other = AssistantMessage(content="No.", message_id="a", timestamp="t", model="qwen3:14b")
    by_profile = AssistantMessage(
        content="Yes.", message_id="a", timestamp="t", model="profile:p",
        answered_by="openai:gpt-5.4",
    )  # fmt: skip
    rest = [user("So?"), other, user("Really?"), by_profile, user("Thanks")]

    await ask(model, TERRA, *history, final, *rest, tools=[NOW])
    items = [it for it in fake.bodies[-1]["input"] if it.get("role") == "assistant"]
    phases = ["commentary", "final_answer", None, "final_answer"]
    assert [it.get("phase") for it in items] == phases
    # Older models do not know phases.
    await ask(model, "gpt-5.1", *history, final, user("Thanks"), tools=[NOW])
    assert not any("phase" in item for item in fake.bodies[-1]["input"])


@pytest.mark.parametrize("name", ["gpt-6-luna", "gpt-4.1", "gpt-5.6-sol"])
async def test_another_model_gets_no_reasoning_in_any_form(
    fake: FakeVendor, open_vendor: OpenVendor, name: str
) -> None:
    model = open_vendor(api="responses")
    history = await round_of(fake, model)

    await ask(model, name, *history, tools=[NOW], think=True)

    assert not any(it.startswith("rs_") for it in shapes(fake))
    assert "One." not in str(fake.bodies[-1])
    assert "<think>" not in str(fake.bodies[-1])


async def test_another_api_or_provider_gets_no_reasoning(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    history = await round_of(fake, open_vendor())
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "type": "x"}
    choice = {"index": 0, "delta": {"content": "noon"}, "finish_reason": "stop"}
    fake.answer("/v1/chat/completions", Answer(200, [{**head, "choices": [choice]}]))
    fake.answer("/v1/messages", claude("noon"))

    await ask(open_vendor(api="chat"), TERRA, *history, tools=[NOW], think=True)
    await ask(open_vendor("mine"), TERRA, *history, tools=[NOW], think=True)
    await ask(open_vendor("mine", api="responses"), TERRA, *history, tools=[NOW], think=True)
    await ask(open_vendor("anthropic", ""), "claude-haiku-4-5", *history, tools=[NOW], think=True)

    assert len(fake.requests) == 4
    for body in fake.bodies:
        assert "rs_1" not in str(body)
        assert "One." not in str(body)
        assert "<think>" not in str(body)


async def test_reasoning_of_chat_completions_is_not_sent_to_responses(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    thinking = [{"content": "Hm.", "id": "reasoning_content"}]
    state = {"provider": "mine", "model": "qwen3", "thinking": thinking}
    made = ToolCall(id="c1", name="now", arguments={}, extra={STATE_KEY: state})
    fake.answer(RESPONSES, NOON)

    history = [user("What time is it?"), asking(made), result(made)]
    await ask(open_vendor("mine", api="responses"), "qwen3", *history, tools=[NOW])

    assert "Hm." not in str(fake.bodies[-1])


async def test_reasoning_that_is_not_sealed_is_not_sent(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    model = open_vendor()
    history = await round_of(fake, model, reasoning("rs_1", "Hm.", sealed=None), call("c1"))

    await ask(model, TERRA, *history, tools=[NOW], think=True)

    assert shapes(fake)[1] == "function_call c1"
    assert "Hm." not in str(fake.bodies[-1])


async def test_raw_reasoning_goes_back_to_its_server(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    model = open_vendor("mine", api="responses")
    items = [raw_reasoning("rs_1", "I wonder"), call("c1")]
    history = await round_of(fake, model, *items, name="gpt-oss-120b")

    await ask(model, "gpt-oss-120b", *history, tools=[NOW])

    item = fake.bodies[-1]["input"][1]
    assert (item["id"], item["content"]) == (
        "rs_1",
        [{"type": "reasoning_text", "text": "I wonder"}],
    )


@pytest.mark.parametrize(
    "answer",
    [
        refused(400, "It could not be verified.", code="invalid_encrypted_content"),
        refused(404, "Item with id 'rs_1' not found."),
        refused(400, "Item 'rs_2' was provided without its required following item."),
    ],
    ids=["sealed elsewhere", "not stored", "order"],
)
async def test_refused_reasoning_is_left_out_once(
    fake: FakeVendor, open_vendor: OpenVendor, answer: Answer
) -> None:
    model = open_vendor()
    history = await round_of(fake, model)
    fake.answer(RESPONSES, answer, NOON)

    deltas = await ask(model, TERRA, *history, tools=[NOW], think=True)

    assert text_of(deltas) == "It is noon."
    assert not any(isinstance(delta, Warned | Retrying) for delta in deltas)
    kept = [[shown(it) for it in body["input"] if shown(it)[:3] == "rs_"] for body in fake.bodies]
    assert kept == [["rs_1", "rs_2"], []]


async def test_a_missing_item_is_no_missing_model(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer(RESPONSES, refused(404, "Item with id 'msg_1' not found."))
    fake.answer("/v1/chat/completions", refused(404, "Item with id 'msg_1' not found."))

    with pytest.raises(ModelError) as raised:
        await ask(open_vendor(), TERRA)

    assert raised.value.code == "SERVICE_UNAVAILABLE"
    assert not raised.value.retryable


async def test_the_reasoning_of_a_round_is_sent_also_after_what_was_said_meanwhile(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    model = open_vendor()
    history = [
        msgspec.structs.replace(each, turn_id="t")
        for each in [*await round_of(fake, model), user("Rather tomorrow.")]
    ]

    await ask(model, TERRA, *history, tools=[NOW], think=True)

    assert {"rs_1", "rs_2"} <= set(shapes(fake))
    assert shapes(fake)[-1].startswith("user: ")
