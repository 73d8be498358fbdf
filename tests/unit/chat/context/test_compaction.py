"""Requests that fit: summaries of what is left out, windows that grow, and what fails softly."""

import asyncio
import threading
from unittest.mock import patch

import msgspec
import pytest

from chat.context import compaction as fitting
from chat.context.compaction import (
    COMPACTION_LENGTH,
    MOST_PIECES,
    PLANNED_HERE,
    ContextRules,
    RequestCompactor,
    plan_with,
)
from chat.context.strategy import STRATEGIES
from chat.context.window import WindowChoice
from chat.summaries.prompt import ANSWER_TOKENS
from models_app.errors import ContextOverflow, OllamaUnreachable
from models_app.language_model import Finished, TextDelta
from sessions_app.messages import AssistantMessage, SystemMessage, UserMessage
from sessions_app.session import Session, SessionMetadata, with_metadata
from tests.unit.chat.context import pictures

MAX_CONTEXT = 4000  # a limit of 3600, a threshold of 2520
FOR_EVER = "for ever"
STEADY = WindowChoice(window=3600, reason="no_adjustment")


class Summarizer:
    """A model that writes one summary after another; an exception is raised."""

    def __init__(self, *summaries):
        self.summaries = list(summaries)
        self.requests = []
        self.said = 0

    async def stream(self, request):
        self.requests.append(request)
        summary = self.summaries.pop(0)
        if isinstance(summary, Exception):
            raise summary
        if summary is ...:
            await asyncio.Event().wait()
        if summary == FOR_EVER:
            while True:
                self.said += 1
                yield [TextDelta("and on ")]
        yield [TextDelta(summary), Finished()]


class House:
    def __init__(self, *summaries, turns=7, size=800, strategy="summarize_history", **metadata):
        self.model = Summarizer(*summaries)
        messages = [SystemMessage(content="Be brief.", message_id="s", timestamp="0")]
        for turn in range(turns):
            messages.append(
                UserMessage(content=f"{turn}" * size, message_id=f"u{turn}", timestamp="1")
            )
            messages.append(
                AssistantMessage(
                    content="y" * size, message_id=f"a{turn}", timestamp="1", model="m"
                )
            )
        self.session = Session(
            metadata=SessionMetadata(
                session_id="0123456789", model="m", created_at="0", updated_at="0", **metadata
            ),
            messages=tuple(messages[:-1]),
        )
        self.kept, self.announced = [], 0
        rules = ContextRules(strategy=STRATEGIES[strategy], max_context=MAX_CONTEXT)
        self.compactor = RequestCompactor(
            rules, language_model=self.model, model="bare", tools=(), now=lambda: "9"
        )

    async def keep(self, state):
        self.kept.append(state)
        self.session = with_metadata(self.session, now="9", context_state=state)
        return self.session

    def announce(self):
        self.announced += 1

    async def compact(self, window=STEADY):
        return await self.compactor.compact(
            self.session, window, keep=self.keep, announce=self.announce
        )


async def test_a_request_that_fits_asks_nobody():
    house = House(turns=3)

    compacted = await house.compact()

    assert compacted.messages == list(house.session.messages)
    assert compacted.window == STEADY
    assert (house.kept, house.announced, house.model.requests) == ([], 0, [])


async def test_a_plan_that_was_made_when_the_turn_began_serves_its_first_request_only():
    house = House(turns=3)
    plan = plan_with(
        ContextRules(), house.session.messages[:1], session=house.session, tools=(), now="9"
    )
    house.compactor = RequestCompactor(
        ContextRules(), language_model=house.model, model="bare", tools=(), first=plan
    )

    first = await house.compact()
    second = await house.compact()

    assert first.messages is plan.messages
    assert second.messages == list(house.session.messages)


async def test_a_very_long_history_is_planned_beside_the_event_loop():
    house = House(turns=PLANNED_HERE, strategy="truncate_history")
    planned_in = []

    def plan(*given, **named):
        planned_in.append(threading.current_thread())
        return plan_with(*given, **named)

    with patch("chat.context.compaction.plan_with", plan):
        await house.compact()

    assert planned_in
    assert threading.main_thread() not in planned_in


async def test_what_is_left_out_is_summarized_once_by_the_model_itself():
    house = House("They counted.")

    compacted = await house.compact()
    again = await house.compact()

    assert compacted.messages[0].content.endswith("They counted.\n</summary>")
    assert again.messages == compacted.messages
    assert compacted.messages[-1] == house.session.messages[-1]
    (request,) = house.model.requests
    assert (request.model, request.tools, request.context_window) == ("bare", (), 3600)
    assert request.purpose == "compaction"
    assert "0000" in request.messages[1].content
    assert house.announced == 1
    (state,) = house.kept
    assert (state.summary, state.model, state.created_at) == ("They counted.", "m", "9")
    assert len(house.session.messages) == 14


async def test_what_is_longer_than_the_window_is_read_in_pieces():
    house = House("One.", *["More."] * 20, turns=30, size=1000)

    compacted = await house.compact(WindowChoice(window=3600, reason="manual_override"))

    assert len(house.model.requests) > 1
    for request in house.model.requests:
        assert sum(len(message.content) for message in request.messages) < 3600 * 4
    assert "What was left out before:\nOne." in house.model.requests[1].messages[1].content
    assert compacted.messages[0].content.endswith("More.\n</summary>")


async def test_names_of_images_count_where_a_history_is_read_in_pieces():
    house = House("One.", *["More."] * 9, turns=0)
    names = [pictures.image(f"{number}" * 200) for number in range(9)]
    messages = []
    for turn in range(20):
        messages += [pictures.asked(turn, *names), pictures.answered(turn, "y" * 700)]
    house.session = msgspec.structs.replace(house.session, messages=tuple(messages[:-1]))

    await house.compact(WindowChoice(window=3600, reason="manual_override"))

    said = [request.messages[1].content for request in house.model.requests]
    assert len(said) > 3
    assert not any("(Not shown: " in text for text in said)


async def test_a_summary_is_bounded_and_reloads_no_model():
    house = House("They counted.")
    await house.compact()
    (request,) = house.model.requests
    assert request.keeps_window
    assert request.options == {"num_predict": ANSWER_TOKENS}


async def test_a_summary_keeps_the_model_loaded_as_long_as_the_turn_does():
    house = House("They counted.")
    house.compactor = RequestCompactor(
        ContextRules(strategy=STRATEGIES["summarize_history"], max_context=MAX_CONTEXT),
        language_model=house.model,
        model="bare",
        tools=(),
        keep_alive="1h",
    )
    await house.compact()
    assert house.model.requests[0].options["keep_alive"] == "1h"


async def test_what_has_more_tokens_than_estimated_is_read_in_smaller_pieces():
    overflow = ContextOverflow("request (9000 tokens) exceeds the available context size")
    house = House(overflow, overflow, *["They counted."] * 30, turns=12)

    await house.compact()

    said = [request.messages[1].content for request in house.model.requests]
    assert len(said[0]) > 1.5 * len(said[1]) > 2 * len(said[2])
    read = "".join(said[2:])
    assert all(f"User: {turn}{turn}" in read for turn in range(5))
    assert house.kept[0].summary == "They counted."


async def test_what_never_fits_is_left_out_without_a_summary():
    house = House(*[ContextOverflow("too long")] * 30)
    await house.compact()
    assert house.kept[0].summary is None
    assert len(house.model.requests) < 10


async def test_without_a_summary_the_conversation_goes_on_all_the_same():
    house = House(OllamaUnreachable("Ollama is not there."))

    compacted = await house.compact()

    assert house.kept[0].summary is None
    assert compacted.messages[0] == house.session.messages[0]
    assert len(compacted.messages) < 14


async def test_an_endless_summary_is_cut_and_an_empty_one_is_none():
    house = House("x" * 10_000)
    await house.compact()
    assert len(house.kept[0].summary) == COMPACTION_LENGTH

    house = House("  ")
    await house.compact()
    assert house.kept[0].summary is None


async def test_a_model_that_does_not_stop_is_stopped():
    house = House(FOR_EVER)

    await house.compact()

    assert len(house.kept[0].summary) == COMPACTION_LENGTH
    assert house.model.said < COMPACTION_LENGTH


async def test_a_model_that_never_answers_costs_a_limited_time(monkeypatch):
    monkeypatch.setattr(fitting, "LONGEST_SECONDS", 0.05)
    house = House(...)

    compacted = await house.compact()

    assert house.kept[0].summary is None
    assert len(compacted.messages) < 14


async def test_a_history_of_a_far_larger_model_is_not_read_for_ever():
    house = House(*["More."] * MOST_PIECES, turns=300, size=4000)

    await house.compact()

    assert len(house.model.requests) == MOST_PIECES
    read = "".join(request.messages[1].content for request in house.model.requests)
    assert "298" in read
    assert "(Not shown: " in house.model.requests[0].messages[1].content
    assert "(Not shown: " not in house.model.requests[1].messages[1].content.partition("\nUser")[0]
    assert "User: 0000" not in read


async def test_what_a_model_failed_to_summarize_is_in_the_next_summary():
    house = House(OllamaUnreachable("Ollama is not there."), *["They counted."] * 3)
    await house.compact()
    longer = [
        AssistantMessage(content="y" * 800, message_id=f"b{turn}", timestamp="1", model="m")
        if turn % 2 == 0
        else UserMessage(content="z" * 800, message_id=f"v{turn}", timestamp="1")
        for turn in range(8)
    ]
    house.session = msgspec.structs.replace(
        house.session, messages=(*house.session.messages, *longer)
    )

    await house.compact()

    assert house.kept[1].summary == "They counted."
    assert "0000" in house.model.requests[1].messages[1].content


async def test_truncation_asks_no_model():
    house = House(strategy="truncate_by_tokens")

    await house.compact()

    assert (house.announced, house.model.requests) == (0, [])
    assert house.kept[0].summary is None


async def test_images_are_left_out_without_asking_the_model_and_stay_so():
    house = House(turns=1)
    pictures_of = [pictures.image(f"{number}.png") for number in range(3)]
    messages = []
    for turn, picture in enumerate(pictures_of):
        messages += [pictures.asked(turn, picture), pictures.answered(turn)]
    house.session = msgspec.structs.replace(house.session, messages=tuple(messages[:-1]))

    compacted = await house.compact()
    again = await house.compact()

    assert pictures.names_of(compacted.messages) == ["2.png"]
    assert again.messages == compacted.messages
    assert (house.announced, house.model.requests) == (0, [])
    (state,) = house.kept
    assert (state.files_until, state.summary) == ("u1", None)
    assert len(house.session.messages) == 5


async def test_a_summary_stays_where_only_the_images_are_chosen_anew():
    house = House("They counted.")
    await house.compact()
    state = house.session.metadata.context_state
    await house.keep(msgspec.structs.replace(state, files_until="gone"))
    house.kept.clear()

    await house.compact()

    assert house.kept == [state]


async def test_another_strategy_forgets_what_was_left_out():
    house = House("They counted.")
    await house.compact()
    longer = house.session
    house = House(strategy="none")
    house.session = longer

    compacted = await house.compact()

    assert house.kept == [None]
    assert len(compacted.messages) == len(longer.messages)


async def test_a_window_grows_with_what_is_sent_and_one_set_by_hand_stays():
    house = House(turns=5)  # about 1900 tokens, and half of that again
    small = WindowChoice(window=2048, reason="no_adjustment")

    assert (await house.compact(small)).window == WindowChoice(
        window=3600, reason="usage_threshold"
    )
    by_hand = msgspec.structs.replace(small, reason="manual_override")
    assert (await house.compact(by_hand)).window == by_hand
    nobodys = WindowChoice(window=None, reason="no_adjustment")
    assert (await house.compact(nobodys)).window == nobodys


async def test_a_turn_that_is_stopped_over_a_summary_keeps_nothing():
    house = House(...)

    fitting = asyncio.create_task(house.compact())
    while not house.model.requests:
        await asyncio.sleep(0)
    fitting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await fitting
    assert house.kept == []
