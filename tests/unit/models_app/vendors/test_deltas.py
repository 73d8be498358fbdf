"""Answers of vendors become deltas, with their tokens and what their calls have to keep."""

from itertools import groupby
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, PartStartEvent, TextPart, ToolCallPart
from pydantic_ai.usage import RequestUsage

from models_app.errors import ModelError
from models_app.language_model import (
    CallArgumentsDelta,
    CallDelta,
    Delta,
    Finished,
    TextDelta,
    ThinkingDelta,
)
from models_app.vendors.deltas import DeltaReader
from models_app.vendors.signatures import STATE_KEY
from tests.contract.language_model.cases import calls_of, text_of, thinking_of
from tests.unit.models_app.vendors.conftest import OpenVendor
from tests.unit.models_app.vendors.fake_vendor import (
    NOW,
    FakeVendor,
    ask,
    call,
    message,
    raw_reasoning,
    reasoning,
    refusal,
    response,
)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (RequestUsage(), Finished("stop")),
        (RequestUsage(input_tokens=12, output_tokens=3), Finished("stop", 12, 3)),
        (
            RequestUsage(
                input_tokens=12,
                output_tokens=3,
                cache_read_tokens=8,
                cache_write_tokens=4,
                details={"reasoning_tokens": 2},
            ),
            Finished("stop", 12, 3, 8, 2, 4),
        ),
    ],
)
def test_tokens_are_counted_as_the_vendor_did(usage, expected):
    response = ModelResponse(parts=[TextPart("Hi")], usage=usage, finish_reason="stop")

    assert DeltaReader("anthropic", "m").finish(response) == [expected]


@pytest.mark.timeout(30)  # took the square of the number: minutes for these
def test_each_of_very_many_calls_has_an_id_of_its_own():
    reader = DeltaReader("anthropic", "m")
    ids = set()
    for number in range(120_000):
        part = ToolCallPart("f", '{"a"', tool_call_id="" if number % 2 else f"c{number // 4}")
        ids.add(reader.read(PartStartEvent(index=number, part=part)).call_id)
    assert len(ids) == 120_000


# OpenAI's Responses


async def answer(fake: FakeVendor, open_vendor: OpenVendor, *items, **more) -> list[Delta]:
    fake.answer("/v1/responses", response(*items, **more))
    return await ask(open_vendor(), "gpt-5.6-terra", tools=[NOW], think=True)


async def test_a_whole_answer_comes_in_its_order(fake: FakeVendor, open_vendor: OpenVendor) -> None:
    items = [reasoning("rs_1", "I think."), message("I look."), call("c1", arguments='{"a": "b"}')]

    deltas = await answer(fake, open_vendor, *items)

    kinds = [kind for kind, _ in groupby(type(delta) for delta in deltas)]
    assert kinds == [ThinkingDelta, TextDelta, CallArgumentsDelta, CallDelta, Finished]
    assert (thinking_of(deltas), text_of(deltas)) == ("I think.", "I look.")
    pieces = [delta for delta in deltas if isinstance(delta, CallArgumentsDelta)]
    assert "".join(piece.arguments for piece in pieces) == '{"a": "b"}'
    assert len(pieces) > 1
    (made,) = calls_of(deltas)
    assert (made.id, made.name, made.arguments) == ("c1", "now", {"a": "b"})
    assert deltas[-1] == Finished("tool_calls", 590, 40, 500, 30, 80)


async def test_parts_of_a_summary_are_paragraphs(fake: FakeVendor, open_vendor: OpenVendor) -> None:
    items = [reasoning("rs_1", "First part.", "", "Second part."), reasoning("rs_2", "Third.")]

    deltas = await answer(fake, open_vendor, *items, message("Done."))

    assert thinking_of(deltas) == "First part.\n\nSecond part.\n\nThird."
    assert deltas[-1].done_reason == "stop"


async def test_reasoning_that_is_not_summarized_is_shown(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer("/v1/responses", response(raw_reasoning("rs_1", "I wonder", "why."), call("c1")))

    deltas = await ask(open_vendor("mine", api="responses"), "gpt-oss-120b", tools=[NOW])

    assert thinking_of(deltas) == "I wonder\n\nwhy."
    (made,) = calls_of(deltas)
    (kept,) = made.extra[STATE_KEY]["thinking"]
    assert kept["details"] == {"raw_content": ["I wonder", "why."]}


async def test_reasoning_without_a_summary_shows_nothing(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    deltas = await answer(fake, open_vendor, reasoning("rs_1"), message("Hi"))

    assert [type(delta) for delta in deltas] == [TextDelta, Finished]


async def test_arguments_may_come_whole_at_the_end(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    items = [it for it in call("c1", arguments='{"a": 1}') if not it["type"].endswith(".delta")]

    (made,) = calls_of(await answer(fake, open_vendor, items))

    assert made.arguments == {"a": 1}


async def test_what_nobody_knows_is_skipped(fake: FakeVendor, open_vendor: OpenVendor) -> None:
    odd = [{"type": "response.hologram.delta", "item_id": "h", "delta": "?"}]

    deltas = await answer(fake, open_vendor, odd, message("Hi"), odd)

    assert text_of(deltas) == "Hi"


@pytest.mark.parametrize(
    ("end", "details", "expected"),
    [
        ("completed", {}, "stop"),
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}, "length"),
    ],
)
async def test_an_answer_says_why_it_ended(
    fake: FakeVendor, open_vendor: OpenVendor, end: str, details: dict[str, Any], expected: str
) -> None:
    deltas = await answer(fake, open_vendor, message("Hi"), end=end, **details)

    assert deltas[-1].done_reason == expected


RATE = {"code": "rate_limit_exceeded", "message": "Slow down."}


@pytest.mark.parametrize(
    ("items", "more", "code", "tries"),
    [
        ([message("Hi")], {"end": None}, "NETWORK_ERROR", 1),
        ([], {"end": None}, "NETWORK_ERROR", 3),
        ([], {"end": "failed", "error": RATE}, "RATE_LIMITED", 3),
        ([[{"type": "error", "param": None, **RATE}]], {"end": None}, "RATE_LIMITED", 3),
        ([message("Hi")], {"end": "failed", "error": RATE}, "RATE_LIMITED", 1),
        (
            [message("Hi")],
            {"end": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "CONTENT_REFUSED",
            1,
        ),
        ([refusal("I won't.")], {}, "CONTENT_REFUSED", 1),
    ],
)
async def test_an_answer_that_fails_says_how(
    fake: FakeVendor, open_vendor: OpenVendor, items, more: dict[str, Any], code: str, tries: int
) -> None:
    with pytest.raises(ModelError) as raised:
        await answer(fake, open_vendor, *items, **more)

    assert raised.value.code == code
    assert len(fake.requests) == tries


# What is kept with the calls


async def test_a_call_keeps_what_its_model_needs_back(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    items = [
        reasoning("rs_1", "One.", "Two."),
        message("I look.", phase="commentary"),
        call("c1"),
        reasoning("rs_2", sealed="b3RoZXI="),
        call("c2"),
    ]

    first, second = (
        it.extra[STATE_KEY] for it in calls_of(await answer(fake, open_vendor, *items))
    )

    head = {"provider": "openai", "model": "gpt-5.6-terra", "api": "responses"}
    assert first == {
        **head,
        "thinking": [
            {"content": "One.", "id": "rs_1", "signature": "c2VhbGVk"},
            {"content": "Two.", "id": "rs_1"},
        ],
        "phase": "commentary",
    }
    assert second == {
        **head,
        "thinking": [{"content": "", "id": "rs_2", "signature": "b3RoZXI=", "after_text": True}],
    }


@pytest.mark.parametrize(("size", "is_kept"), [(100_000, True), (140_000, False)])
async def test_too_much_state_is_dropped(
    fake: FakeVendor, open_vendor: OpenVendor, size: int, is_kept: bool
) -> None:
    items = [reasoning("rs_1", sealed="a" * size), call("c1"), reasoning("rs_2", sealed="b" * size)]

    made = calls_of(await answer(fake, open_vendor, *items, call("c2")))

    assert [bool(it.extra) for it in made] == [is_kept, is_kept]
