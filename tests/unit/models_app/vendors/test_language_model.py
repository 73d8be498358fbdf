"""A request is repeated without what a server refuses of it: reasoning, schema, summary, API."""

from functools import partial

import pytest

from models_app.errors import ModelError, ModelNotFound
from models_app.expiring_cache import ExpiringCache
from models_app.language_model import Retrying, Warned
from models_app.vendors.signatures import STATE_KEY
from sessions_app.messages import ToolCall
from tests.contract.language_model.cases import text_of
from tests.unit.models_app.vendors.conftest import OpenVendor
from tests.unit.models_app.vendors.fake_vendor import (
    NOW,
    Answer,
    FakeVendor,
    ask,
    asking,
    chat_answer,
    claude,
    message,
    refused,
    response,
    result,
    user,
)

CLAUDE = "claude-haiku-4-5"
RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
HELLO = response(message("Hello"))
BAD_SIGNATURE = "messages.1.content.0: Invalid `signature` in `thinking` block"


def call_signed_by(model: str) -> ToolCall:
    thinking = [{"content": "Hm.", "signature": "c2ln"}]
    state = {"provider": "anthropic", "model": model, "thinking": thinking}
    return ToolCall(id="call_1", name="now", arguments={}, extra={STATE_KEY: state})


def kinds_sent(fake: FakeVendor) -> list[list[str]]:
    """Return the kinds of the blocks of the answer in each request."""
    return [[block["type"] for block in body["messages"][1]["content"]] for body in fake.bodies]


async def go_on(model, call: ToolCall, name: str = CLAUDE):
    history = [user("What time is it?"), asking(call), result(call)]
    return await ask(model, name, *history, tools=[NOW], think=True)


async def test_thinking_that_its_signature_does_not_fit_is_left_out_once(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer("/v1/messages", refused(400, BAD_SIGNATURE), claude("noon"))
    model = open_vendor("anthropic", "")

    deltas = await go_on(model, call_signed_by(CLAUDE))

    assert text_of(deltas) == "noon"
    assert not any(isinstance(delta, Warned | Retrying) for delta in deltas)
    assert kinds_sent(fake) == [["thinking", "tool_use"], ["tool_use"]]
    # A model with a budget may not think after calls that came without.
    assert [body.get("thinking", {}).get("type") for body in fake.bodies] == ["enabled", None]
    # The reasoning of other rounds may be right.
    await go_on(model, call_signed_by(CLAUDE))
    assert kinds_sent(fake)[2] == ["thinking", "tool_use"]


async def test_thinking_goes_to_the_model_alone_that_signed_it(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer("/v1/messages", claude("noon"))

    await go_on(open_vendor("anthropic", ""), call_signed_by("claude-sonnet-4-5"))

    assert kinds_sent(fake) == [["tool_use"]]
    assert fake.bodies[0].get("thinking", {}).get("type") != "enabled"


async def test_a_refusal_that_stays_is_raised(fake: FakeVendor, open_vendor: OpenVendor) -> None:
    fake.answer("/v1/messages", refused(400, BAD_SIGNATURE))

    with pytest.raises(ModelError, match="signature"):
        await go_on(open_vendor("anthropic", ""), call_signed_by(CLAUDE))

    assert len(fake.requests) == 2


async def test_nothing_is_repeated_after_the_first_delta(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    begun = claude("Hel").body[:3]
    error = {"type": "invalid_request_error", "message": BAD_SIGNATURE}
    fake.answer("/v1/messages", Answer(200, [*begun, {"type": "error", "error": error}]))

    with pytest.raises(ModelError, match="signature"):
        await go_on(open_vendor("anthropic", ""), call_signed_by(CLAUDE))

    assert len(fake.requests) == 1


async def test_a_refused_schema_is_remembered_for_ten_minutes(
    fake: FakeVendor, open_vendor: OpenVendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    cache = partial(ExpiringCache, clock=lambda: now[0])
    monkeypatch.setattr("models_app.vendors.language_model.ExpiringCache", cache)
    fake.answer("/v1/messages", refused(400, "output_config: Extra inputs"), claude())
    model = open_vendor("anthropic", "")
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}

    for seconds in (0, 599, 2):  # using what is remembered does not make it last longer
        now[0] += seconds
        deltas = await ask(model, CLAUDE, answer_schema=schema)
        assert isinstance(deltas[0], Warned) == (seconds != 2)

    assert ["output_config" in body for body in fake.bodies] == [True, False, False, True]


# A server without Responses


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_server_without_responses_is_asked_by_chat_completions_for_ten_minutes(
    fake: FakeVendor, open_vendor: OpenVendor, status: int
) -> None:
    fake.answer(RESPONSES, Answer(status, {"detail": "Not Found"}))
    fake.answer(CHAT, chat_answer())
    model = open_vendor()

    deltas = await ask(model, "gpt-5.1")
    again = await ask(model, "gpt-5.1")

    assert isinstance(deltas[0], Warned)
    assert "MOCHI_PROVIDERS__OPENAI__API=chat" in deltas[0].message
    assert text_of(deltas) == text_of(again) == "Hello"
    assert not any(isinstance(delta, Warned) for delta in again)
    assert fake.paths == [RESPONSES, CHAT, CHAT]
    # Each model for itself.
    await ask(model, "gpt-5.4")
    assert fake.paths[3:] == [RESPONSES, CHAT]


async def test_a_model_that_does_not_exist_is_not_looked_for_elsewhere(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer(RESPONSES, refused(404, "No such model.", code="model_not_found"))

    with pytest.raises(ModelNotFound):
        await ask(open_vendor(), "gpt-6-luna")

    assert fake.paths == [RESPONSES]


async def test_a_configured_api_is_not_left(fake: FakeVendor, open_vendor: OpenVendor) -> None:
    fake.answer(RESPONSES, Answer(404, {"detail": "Not Found"}))
    fake.answer(CHAT, chat_answer())

    with pytest.raises(ModelError):
        await ask(open_vendor(api="responses"), "gpt-6-luna")
    assert fake.paths == [RESPONSES]
    await ask(open_vendor(api="chat"), "gpt-6-luna")
    assert fake.paths[1:] == [CHAT]


# A summary that is not given


VERIFY = "Your organization must be verified to generate reasoning summaries."


@pytest.mark.parametrize(
    "answer",
    [
        refused(400, "Unsupported value.", param="reasoning.summary", code="unsupported_value"),
        refused(400, VERIFY),
        refused(403, VERIFY),
    ],
    ids=["param", "words", "forbidden"],
)
async def test_a_refused_summary_is_not_asked_for_again(
    fake: FakeVendor, open_vendor: OpenVendor, answer: Answer
) -> None:
    fake.answer(RESPONSES, answer, HELLO)
    model = open_vendor()

    deltas = await ask(model, "gpt-5.6-terra", think=True)
    again = await ask(model, "gpt-5.6-terra", think=True)

    assert text_of(deltas) == text_of(again) == "Hello"
    assert [isinstance(delta, Warned) for delta in deltas].count(True) == 1
    assert not any(isinstance(delta, Warned) for delta in again)
    assert [body["reasoning"].get("summary") for body in fake.bodies] == ["auto", None, None]
    assert fake.bodies[1]["reasoning"]["effort"] == "medium"


async def test_an_unverified_organization_has_no_bad_key(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer(RESPONSES, refused(403, "Your organization must be verified to use this model."))

    with pytest.raises(ModelError) as raised:
        await ask(open_vendor(), "gpt-5.6-terra")

    assert raised.value.code == "SERVICE_UNAVAILABLE"
    assert not raised.value.retryable
    assert "API key" not in raised.value.message


async def test_each_refusal_takes_one_thing_away(fake: FakeVendor, open_vendor: OpenVendor) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    fake.answer(
        RESPONSES,
        refused(400, VERIFY),
        refused(400, "Something is wrong."),
        Answer(405, {"detail": "Method Not Allowed"}),
    )
    fake.answer(CHAT, chat_answer())

    deltas = await ask(open_vendor(), "gpt-5.6-terra", think=True, answer_schema=schema)

    assert text_of(deltas) == "Hello"
    assert fake.paths == [RESPONSES, RESPONSES, RESPONSES, CHAT]
    assert ["summary" in body.get("reasoning", {}) for body in fake.bodies] == [True, *[False] * 3]
    assert ["text" in body for body in fake.bodies] == [True, True, False, False]
    assert len([delta for delta in deltas if isinstance(delta, Warned)]) == 3
