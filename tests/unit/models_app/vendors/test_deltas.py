"""The last delta of a vendor's answer has its tokens, those of the vendor's cache too."""

import pytest
from pydantic_ai.messages import ModelResponse, PartStartEvent, TextPart, ToolCallPart
from pydantic_ai.usage import RequestUsage

from models_app.language_model import Finished
from models_app.vendors.deltas import DeltaReader


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
