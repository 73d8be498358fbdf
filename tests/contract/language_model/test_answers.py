"""What an answer is made of: text, thinking, counts; and what asks for it."""

import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest

from models_app.language_model import Delta, ModelRequest, TextDelta
from scripted_app.server import ScriptedModelServer
from tests.contract.language_model.cases import (
    ANTHROPIC,
    RESPONSES,
    Opener,
    Provider,
    ask,
    block,
    end_of,
    every_provider,
    every_thinker,
    every_vendor,
    says,
    text_of,
    thinking_of,
    user,
)

# What an answer is made of


@every_provider
async def test_an_answer_is_text_an_end_and_its_counts(
    provider: Provider, open_model: Opener
) -> None:
    said = block(says("Gr", "üße ", "🙂", "\n\n", "<b>&amp;</b>", " ", "end"))

    deltas = await ask(open_model(provider), provider, said)

    assert text_of(deltas) == "Grüße 🙂\n\n<b>&amp;</b> end"
    end = end_of(deltas)
    assert end.done_reason == "stop"
    assert end.prompt_eval_count is not None
    assert end.prompt_eval_count > 0
    assert end.eval_count is not None
    assert end.eval_count > 0


@every_provider
async def test_what_looks_like_the_end_of_a_line_is_part_of_the_text(
    provider: Provider, open_model: Opener
) -> None:
    said = block(
        says("one\u2028two", "\u2029", "three\x85 {", "four\x0b\x0c\x1c\x1e", "\r\n", "five")
    )

    deltas = await ask(open_model(provider), provider, said)

    assert text_of(deltas) == "one\u2028two\u2029three\x85 {four\x0b\x0c\x1c\x1e\r\nfive"
    end_of(deltas)


@every_provider
async def test_pieces_come_one_by_one_while_the_model_still_speaks(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    said = block(says("first", " second"), stall_seconds=30, stall_after=1)
    request = ModelRequest(model=provider.model, messages=[said])

    async with aclosing(open_model(provider).stream(request)) as batches:
        batch = await anext(batches)
        assert text_of(batch) == "first"
        assert scripted.open_streams == 1


@every_provider
async def test_what_a_sink_takes_is_not_yielded_and_nothing_is_lost(
    provider: Provider, open_model: Opener
) -> None:
    pieces = [f"piece {number} " for number in range(20)]
    order: list[Delta] = []

    def sink(batch: Sequence[Delta]) -> bool:
        takes = all(isinstance(delta, TextDelta) for delta in batch)
        order.extend(batch if takes else ())
        return takes

    request = ModelRequest(model=provider.model, messages=[block(says(*pieces))], sink=sink)
    async with aclosing(open_model(provider).stream(request)) as batches:
        async for batch in batches:
            order += batch

    assert text_of(order) == "".join(pieces)
    end_of(order)


@every_thinker
@pytest.mark.parametrize("think", [True, "low", "medium", "high"])
async def test_thinking_comes_apart_from_the_text(
    provider: Provider, open_model: Opener, think: Any
) -> None:
    said = block(says("the ", "answer", reasoning=["let me ", "see"]))

    deltas = await ask(open_model(provider), provider, said, think=think)

    assert thinking_of(deltas) == "let me see"
    assert text_of(deltas) == "the answer"


@every_thinker
async def test_thinking_is_asked_for_only_when_it_is_wanted(
    provider: Provider, open_model: Opener
) -> None:
    model = open_model(provider)

    thinking = {
        think: bool(thinking_of(await ask(model, provider, user("Hello"), think=think)))
        for think in (None, False, True, "low", "high")
    }

    assert thinking == {None: False, False: False, True: True, "low": True, "high": True}


@every_provider
async def test_a_model_that_can_not_think_is_not_asked_to_when_nobody_wants_it(
    provider: Provider, open_model: Opener
) -> None:
    deltas = await ask(open_model(provider), provider, user("Hello"), name=provider.plain)

    assert text_of(deltas).endswith("Hello")


# Options


@every_vendor
async def test_options_reach_the_vendor_under_its_own_names(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    options = {
        "temperature": 0.25,
        "num_predict": 321,
        "top_p": 0.5,
        "seed": 77,
        "stop": ["END"],
        "num_ctx": 4096,
        "repeat_last_n": 3,
    }

    await ask(open_model(provider), provider, user("Hi"), options=options, name=provider.plain)

    sent: Any = scripted.requests[-1]
    sent = sent.get("generationConfig", sent)
    assert sent["temperature"] == 0.25
    assert sent.get("top_p", sent.get("topP")) == 0.5
    names = {"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"}
    limits = names & sent.keys()
    assert [sent[name] for name in limits] == [321]
    stops = [sent[name] for name in ("stop", "stop_sequences", "stopSequences") if name in sent]
    assert stops == ([] if provider is RESPONSES else [["END"]])
    if provider not in (ANTHROPIC, RESPONSES):  # which have no seed
        assert sent["seed"] == 77
    assert "4096" not in json.dumps(sent)


@every_vendor
async def test_sampling_and_thinking_together_are_no_error(
    provider: Provider, open_model: Opener
) -> None:
    options = {"temperature": 0.2, "top_p": 0.9, "max_tokens": 100, "thinking_budget": 2000}

    deltas = await ask(open_model(provider), provider, user("Hi"), options=options, think=True)

    assert thinking_of(deltas)
