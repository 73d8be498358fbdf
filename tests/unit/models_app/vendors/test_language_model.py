"""A request is repeated without what a server refuses of it."""

from functools import partial

import pytest

from models_app.errors import ModelError
from models_app.expiring_cache import ExpiringCache
from models_app.language_model import Retrying, Warned
from models_app.vendors.signatures import STATE_KEY
from sessions_app.messages import ToolCall
from tests.unit.models_app.vendors.conftest import OpenVendor
from tests.unit.models_app.vendors.fake_vendor import (
    NOW,
    Answer,
    FakeVendor,
    ask,
    asking,
    claude,
    refused,
    result,
    text_of,
    user,
)

CLAUDE = "claude-haiku-4-5"
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
