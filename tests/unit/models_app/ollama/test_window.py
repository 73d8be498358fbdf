"""What happens to a request that does not fit into the context window."""

import json

import pytest

from models_app.errors import ContextOverflow
from models_app.language_model import Finished, TextDelta, WindowGrown
from models_app.ollama.language_model import window_for

TOO_LONG = {
    "error": json.dumps(
        {
            "error": {
                "code": 400,
                "message": "request (18019 tokens) exceeds the available context size",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 18019,
                "n_ctx": 1024,
            }
        }
    )
}


async def test_a_request_that_does_not_fit_gets_a_larger_window_once(ollama, fake, wire):
    fake.models = {"m:latest": wire.shown("completion", context_length=65536)}
    fake.answers = [wire.refusal(400, TOO_LONG), wire.stream_of(wire.text("ok"), wire.DONE)]
    outcome = await wire.outcome_of(ollama, wire.request(context_window=8192))
    assert outcome.deltas == [WindowGrown(32768), TextDelta("ok"), Finished("stop", 21, 41)]
    sizes = [chat.json["options"]["num_ctx"] for chat in fake.chats]
    assert sizes == [8192, 32768]
    assert all(chat.json["truncate"] is False for chat in fake.chats)


@pytest.mark.parametrize("context_length", [16384, 20_000, None])
async def test_a_request_longer_than_the_model_can_hold_overflows(
    ollama, fake, wire, context_length
):
    fake.models = {"m:latest": wire.shown("completion", context_length=context_length)}
    fake.answers = [wire.refusal(400, TOO_LONG)]
    outcome = await wire.outcome_of(ollama, wire.request(context_window=8192))
    assert isinstance(outcome.error, ContextOverflow)
    assert outcome.error.message.startswith("request (18019 tokens) exceeds")
    assert outcome.error.details["n_prompt_tokens"] == 18019
    assert not outcome.error.retryable
    assert outcome.deltas == []


async def test_a_second_overflow_is_final(ollama, fake, wire):
    fake.models = {"m:latest": wire.shown("completion", context_length=131072)}
    fake.answers = [wire.refusal(400, TOO_LONG)]
    outcome = await wire.outcome_of(ollama, wire.request(context_window=8192))
    assert outcome.deltas == [WindowGrown(32768)]
    assert isinstance(outcome.error, ContextOverflow)


@pytest.mark.parametrize(
    ("tokens", "longest", "window"),
    [
        (1000, 40960, 2048),
        (930, 40960, 1024),
        (18019, 131072, 32768),
        (33_000, 40960, 36864),
        (36_864, 40960, None),
        (40_000, 40960, None),
        (10, None, None),
    ],
)
def test_the_window_is_a_power_of_two_or_the_safe_limit(tokens, longest, window):
    assert window_for(tokens, longest) == window
