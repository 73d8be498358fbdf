"""Characters that a provider cuts in two: joined again, whoever the provider is."""

from typing import Any

import pytest

from chat.stream.events import ContentDelta, ThinkingContentDelta, ToolCallDelta
from chat.turn.model_answer import ModelAnswer
from scripted_app.server import ScriptedModelServer
from sessions_app.format import codec
from sessions_app.messages import AssistantMessage
from sessions_app.session import Session, SessionMetadata, with_messages
from tests.contract.language_model.cases import (
    FRAGMENTING,
    NOW,
    Opener,
    Provider,
    ask,
    block,
    calls,
    every_provider,
    every_thinker,
    says,
    user,
)

AT = "2026-01-01T00:00:00.000000Z"
SESSION_ID = "abcdefghij"
CUT = ["Gr\ud83d", "\ude00 a\udc00b ", "\ud83d", " end\ud83d"]
WHOLE = "Gr😀 a\ufffdb \ufffd end\ufffd"


async def answer_of(
    model: Any, provider: Provider, *messages: Any, **more: Any
) -> tuple[AssistantMessage, list[Any]]:
    """Return the answer as it comes back from its file, and the events that told of it."""
    answer = ModelAnswer("a1")
    events = answer.absorb(await ask(model, provider, *messages, **more))
    message = answer.message(model="m", timestamp=AT)
    metadata = SessionMetadata(session_id=SESSION_ID, model="m", created_at=AT, updated_at=AT)
    session = with_messages(Session(metadata=metadata), [message], now=AT)
    saved = codec.decode(codec.encode(session), SESSION_ID).messages[-1]
    assert isinstance(saved, AssistantMessage)
    assert saved.content == message.content  # before the file too
    return saved, events


@every_provider
async def test_a_character_that_is_streamed_in_halves_is_joined_and_saved(
    provider: Provider, open_model: Opener
) -> None:
    saved, events = await answer_of(open_model(provider), provider, block(says(*CUT)))

    assert saved.content == WHOLE
    shown = [event.content for event in events if isinstance(event, ContentDelta)]
    assert "".join(shown) == WHOLE
    for piece in shown:
        piece.encode()


@every_thinker
async def test_a_thought_that_is_streamed_in_halves_is_joined_and_saved(
    provider: Provider, open_model: Opener
) -> None:
    said = block(says("yes", reasoning=CUT))

    saved, events = await answer_of(open_model(provider), provider, said, think=True)

    assert (saved.thinking, saved.content) == (WHOLE, "yes")
    shown = [event.content for event in events if isinstance(event, ThinkingContentDelta)]
    assert "".join(shown) == WHOLE


@every_provider
async def test_half_a_character_in_a_call_is_replaced_also_in_names_and_nested_keys(
    provider: Provider, open_model: Opener
) -> None:
    arguments = {"a": "x\ud83d", "\udc00": {"k\ud800": ["\udfff", 1]}, "whole": "😀"}

    saved, _ = await answer_of(
        open_model(provider), provider, block(calls(("no\ud83dw", arguments))), tools=[NOW]
    )

    (call,) = saved.tool_calls
    assert call.name == "no\ufffdw"
    assert call.arguments == {
        "a": "x\ufffd",
        "\ufffd": {"k\ufffd": ["\ufffd", 1]},
        "whole": "😀",
    }


@pytest.mark.parametrize("provider", FRAGMENTING, ids=lambda each: each.name)
async def test_arguments_that_are_cut_within_characters_are_shown_whole(
    provider: Provider, open_model: Opener
) -> None:
    arguments = {"text": "😀" * 20, "more": "a" + "😀" * 20}

    saved, events = await answer_of(
        open_model(provider), provider, block(calls(("now", arguments))), tools=[NOW]
    )

    assert saved.tool_calls[0].arguments == arguments
    told = "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))
    assert told.count("😀") == 40
    assert told.isprintable()


@every_provider
async def test_a_history_with_what_was_mended_can_be_sent_again(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    model = open_model(provider)
    saved, _ = await answer_of(model, provider, block(says(*CUT)))

    again, _ = await answer_of(model, provider, user("Hi"), saved, user("Go on"))

    assert again.content
    assert WHOLE in str(scripted.requests[-1])
