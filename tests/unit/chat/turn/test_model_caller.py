"""Calls of the model within a turn: what is tried again, and with what."""

import asyncio
import json

import msgspec
import pytest

from chat.start.turn_request import TurnRequest
from chat.turn.model_caller import LONGEST_STEP, from_first_text, in_steps
from models_app.cleaning import StreamCleaner
from models_app.errors import CallRefused, OllamaError
from models_app.language_model import (
    AnsweredBy,
    Finished,
    TextDelta,
    ThinkingDelta,
)
from models_app.ollama.language_model import OllamaLanguageModel
from scripted_app.replies import BLOCK_END, BLOCK_START
from sessions_app.messages import Attachment
from sessions_app.session_settings import override_window
from tests.unit.chat.turns import Calculator, call, names, run

CAT = Attachment(id=f"sha256:{'c' * 64}", name="cat.png", media_type="image/png", size=9)
NOTES = Attachment(id=f"sha256:{'d' * 64}", name="notes.md", media_type="text/plain", size=10)
EMPTY = ([ThinkingDelta("I call delete_all.")], [Finished(done_reason="stop", eval_count=9)])


async def test_a_model_that_says_nothing_is_told_its_tools_and_asked_once_more(make_house):
    house = make_house(Calculator())
    house.model.say(*EMPTY)
    house.model.say_text("Sorry.")
    session_id = await house.new_session(tools=["add"])

    events, _ = await run(house, session_id)

    assert names(events) == [
        "turn_started",
        "thinking_delta",
        "status",
        "content_delta",
        "message_complete",
        "done",
    ]
    status = next(data for name, data in events if name == "status")
    assert (status["state"], "empty answer" in status["message"]) == ("retrying", True)
    first, second = house.model.requests
    (told,) = second.messages
    assert told.content.startswith("Hello!")
    assert "these tools and no others: add" in told.content
    assert [spec.name for spec in second.tools] == ["add"]
    assert first.messages[0].content == "Hello!"
    question, answer = await house.messages(session_id)  # and nothing of this is saved
    assert (question.content, answer.content) == ("Hello!", "Sorry.")


async def test_a_model_that_is_asked_once_more_gets_the_same_files(make_house):
    kept = {CAT.id: b"a picture", NOTES.id: b"Buy milk.\n"}
    house = make_house(read_attachment=kept.__getitem__)
    house.model.info = house.model.seeing_info
    house.model.say([Finished(done_reason="stop")])
    house.model.say_text("A cat.")
    session_id = await house.new_session()

    await run(house, session_id, TurnRequest(message="Look!", attachments=(CAT, NOTES)))

    first, second = house.model.requests
    assert first.files == second.files == {CAT.id: b"a picture"}
    assert first.messages[0].content == "Look!\n\nnotes.md:\n```\nBuy milk.\n```"
    assert second.messages[0].attachments == (CAT, NOTES)
    asked, _ = await house.messages(session_id)
    assert (asked.content, asked.attachments) == ("Look!", (CAT, NOTES))


async def test_nothing_is_read_for_messages_without_attachments(make_house):
    house = make_house(read_attachment={}.__getitem__)  # it has nothing that can be read
    house.model.say_text("Hi.")
    session_id = await house.new_session()

    await run(house, session_id)

    (request,) = house.model.requests
    assert request.files == {}


async def test_reasoning_without_an_answer_is_kept_and_said_so(house):
    house.model.say(*EMPTY)
    session_id = await house.new_session()

    events, outcome = await run(house, session_id)

    assert names(events)[-3:] == ["status", "message_complete", "done"]
    status = events[-3][1]
    assert (status["state"], "Only reasoning" in status["message"]) == ("warning", True)
    assert len(house.model.requests) == 1
    assert outcome.message.thinking == "I call delete_all."
    _, answer = await house.messages(session_id)
    assert (answer.content, answer.thinking) == ("", "I call delete_all.")


async def test_reasoning_without_an_answer_is_asked_once_more_for_a_call(make_house):
    house = make_house(Calculator())
    house.model.say(*EMPTY)
    house.model.say(*EMPTY)
    session_id = await house.new_session(tools=["add"])

    events, outcome = await run(house, session_id)

    assert names(events)[-1] == "done"
    assert "error" not in names(events)
    assert len(house.model.requests) == 2
    assert outcome.message.thinking.startswith("I call delete_all.")


async def test_an_answer_that_stays_empty_is_an_error_in_its_place(house):
    house.model.say([Finished(done_reason="stop", eval_count=9)])
    house.model.say([Finished(done_reason="stop", eval_count=9)])
    session_id = await house.new_session()

    events, _ = await run(house, session_id)

    assert names(events)[-2:] == ["error", "done"]
    error = events[-2][1]
    assert error["code"] == "EMPTY_ANSWER"
    assert "tool" not in error["message"]
    assert error["details"]["retryable"]
    assert len(house.model.requests) == 2
    assert len(await house.messages(session_id)) == 1


async def test_an_empty_answer_after_a_tool_is_asked_for_again_and_runs_no_tool_again(make_house):
    house = make_house(Calculator())
    house.model.say([call("c1", a=1, b=2)], [Finished()])
    house.model.say(*EMPTY)
    house.model.say_text("Three.")
    session_id = await house.new_session(tools=["add"])

    events, outcome = await run(house, session_id)

    assert names(events)[-1] == "done"
    assert outcome.message.content == "Three."
    assert len(outcome.tool_calls) == 1
    assert house.model.requests[2].messages[-1].role == "user"
    assert [message.role for message in await house.messages(session_id)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_an_answer_that_was_cut_before_its_first_word_is_not_asked_for_again(house):
    house.model.say([ThinkingDelta("Hm")], [Finished(done_reason="length")])
    session_id = await house.new_session()
    _, outcome = await run(house, session_id)
    assert outcome.message.done_reason == "length"
    assert len(house.model.requests) == 1


async def test_clients_get_the_first_token_before_the_turn_goes_on(house, monkeypatch):
    listening, heard, heard_by_then = asyncio.Event(), [], []

    async def stream(request):
        await listening.wait()
        yield [TextDelta("One, ")]
        heard_by_then.extend(heard)
        yield [TextDelta("two."), Finished(done_reason="stop")]

    monkeypatch.setattr(house.model, "stream", stream)
    turn = await house.turns.start(await house.new_session(), TurnRequest(message="Count!"))
    listening.set()
    while (events := await turn.first_subscription.next()) is not None:
        heard += [event.name for event in events]
    await turn.finished()

    assert heard_by_then == ["turn_started", "content_delta"]


async def test_clients_get_the_first_token_before_the_rest_that_came_with_it(house, monkeypatch):
    listening = asyncio.Event()

    async def stream(request):
        await listening.wait()
        yield [TextDelta("One, "), TextDelta("two, "), TextDelta("three."), Finished("stop")]

    monkeypatch.setattr(house.model, "stream", stream)
    turn = await house.turns.start(await house.new_session(), TurnRequest(message="Count!"))
    listening.set()

    first = await turn.first_subscription.next()

    assert [json.loads(event.data)["content"] for event in first[1:]] == ["One,"]
    rest = []
    while (events := await turn.first_subscription.next()) is not None:
        rest += [event.name for event in events]
    assert rest == ["content_delta", "content_delta", "message_complete", "done"]
    assert (await turn.finished()).message.content == "One, two, three."


@pytest.mark.parametrize(
    ("batch", "sizes"),
    [
        ([], [0]),
        ([TextDelta("a")], [1]),
        ([Finished("stop")], [1]),
        ([call("c1"), Finished("stop")], [2]),
        ([TextDelta("a"), TextDelta("b"), Finished("stop")], [1, 2]),
        ([AnsweredBy("m"), ThinkingDelta("a"), TextDelta("b")], [2, 1]),
    ],
)
def test_only_a_first_text_is_taken_apart_from_what_comes_after_it(batch, sizes):
    parts = from_first_text(batch)

    assert [len(part) for part in parts] == sizes
    assert [delta for part in parts for delta in part] == batch


def test_a_long_text_is_taken_in_steps():
    batch = [TextDelta("<think>" * 100_000), call("c1"), ThinkingDelta("b" * 100_000), Finished()]

    steps = in_steps(batch)

    sizes = [len(getattr(delta, "text", "")) for step in steps for delta in step]
    assert max(sizes) <= LONGEST_STEP
    assert sum(sizes) == 800_000
    assert [type(step[0]) for step in steps][-3:] == [ThinkingDelta, ThinkingDelta, Finished]
    assert list(in_steps([TextDelta("short")])) == [[TextDelta("short")]]


async def test_others_go_on_while_a_line_of_megabytes_is_cleaned(house, monkeypatch):
    line = "<think>a</think>" * 250_000
    house.model.say([TextDelta(line), Finished()])
    session_id = await house.new_session()
    turns_of_others, cleaned = 0, []
    clean = StreamCleaner.feed_text

    def watched(cleaner, text):
        cleaned.append((turns_of_others, len(text)))
        return clean(cleaner, text)

    async def look():
        nonlocal turns_of_others
        while True:
            turns_of_others += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(StreamCleaner, "feed_text", watched)
    looking = asyncio.create_task(look())
    await run(house, session_id)
    looking.cancel()
    numbers, sizes = zip(*cleaned, strict=True)
    assert sum(sizes) == len(line)
    assert max(sizes) <= LONGEST_STEP
    assert len(set(numbers)) == len(numbers)  # others had their turn between each two


CUT = Finished(done_reason="length", prompt_eval_count=8000, eval_count=190)  # of 8192


async def test_an_answer_that_fills_the_window_goes_on_in_a_larger_one(house):
    house.model.say([TextDelta("One, ")], [TextDelta("tw")], [CUT])
    house.model.say([TextDelta("o.")], [Finished("stop", 8190, 10)])
    session_id = await house.new_session()

    events, outcome = await run(house, session_id)

    first, second = house.model.requests
    assert (first.context_window, second.context_window) == (8192, 16384)
    assert second.messages[:-1] == first.messages
    assert (second.messages[-1].role, second.messages[-1].content) == ("assistant", "One, tw")
    shown = "".join(data["content"] for name, data in events if name == "content_delta")
    assert shown == outcome.message.content == "One, two."
    assert outcome.message.done_reason == "stop"
    assert (outcome.message.prompt_eval_count, outcome.message.eval_count) == (8000, 200)
    assert outcome.context_window["current_window"] == 16384
    assert len(await house.messages(session_id)) == 2


async def test_reasoning_that_fills_the_window_is_begun_anew_in_a_larger_one(house):
    house.model.say([ThinkingDelta("Well")], [CUT])
    house.model.say([ThinkingDelta("Well, yes.")], [TextDelta("Yes.")], [Finished("stop", 8000, 9)])

    _, outcome = await run(house, await house.new_session())

    first, second = house.model.requests
    assert second.messages == first.messages
    assert second.context_window == 16384
    assert (outcome.message.content, outcome.message.eval_count) == ("Yes.", 9)


async def test_a_window_grows_as_often_as_the_model_can_hold_more(house):
    for prompt, window in ((8000, 8192), (8190, 16384), (16380, 32768), (32760, 36864)):
        spoken = window - prompt
        house.model.say([TextDelta("x")], [Finished("length", prompt, spoken)])

    _, outcome = await run(house, await house.new_session())

    windows = [request.context_window for request in house.model.requests]
    assert windows == [8192, 16384, 32768, 36864]
    assert (outcome.message.content, outcome.message.done_reason) == ("xxxx", "length")


async def test_a_window_set_by_hand_and_a_limit_of_ones_own_end_an_answer(house):
    house.model.say([TextDelta("One")], [Finished("length", 100, 50)])  # num_predict, say
    _, outcome = await run(house, await house.new_session())
    assert outcome.message.done_reason == "length"
    assert len(house.model.requests) == 1

    session_id = await house.new_session()
    await asyncio.to_thread(
        house.sessions.repository.update,
        session_id,
        lambda session: override_window(session, 8192, now=session.metadata.updated_at),
    )
    house.model.say([TextDelta("One")], [CUT])
    _, outcome = await run(house, session_id)
    assert outcome.message.done_reason == "length"
    assert len(house.model.requests) == 2


@pytest.mark.parametrize(
    "error", [OllamaError("assistant prefill is not supported"), CallRefused("Used up.")]
)
async def test_an_answer_that_can_not_go_on_ends_where_it_was_cut(house, error):
    house.model.say([TextDelta("One")], [CUT])
    house.model.say(error)
    _, outcome = await run(house, await house.new_session())
    assert (outcome.message.content, outcome.message.done_reason) == ("One", "length")
    assert outcome.context_window["current_window"] == 8192


async def test_an_answer_that_breaks_off_after_it_went_on_is_an_error(house):
    house.model.say([TextDelta("One")], [CUT])
    house.model.say([TextDelta(", two")], OllamaError("the runner died"))
    session_id = await house.new_session()
    events, _ = await run(house, session_id)
    assert names(events)[-2:] == ["error", "done"]
    assert (await house.messages(session_id))[-1].content == "One, two"


async def test_an_ollama_that_keeps_to_its_window_goes_on_where_it_stopped(house, scripted):
    """With the real client, against a server that keeps ``shift: false`` as Ollama does."""
    block = json.dumps(
        {
            "per_request": True,
            "messages": [
                {"text_message": {"length": 8000}},
                {"text_message": {"text": " and the end"}},
            ],
        }
    )
    ollama = OllamaLanguageModel(scripted.url)
    house.model.stream = lambda request: ollama.stream(
        msgspec.structs.replace(request, model="qwen3:14b")
    )
    request = TurnRequest(message=f"{BLOCK_START}{block}{BLOCK_END}")
    try:
        _, outcome = await run(house, await house.new_session(), request)
    finally:
        await ollama.aclose()
    assert all(sent["shift"] is False for sent in scripted.requests)
    windows = [sent["options"]["num_ctx"] for sent in scripted.requests]
    assert windows == sorted(set(windows))
    assert len(windows) == 2

    assert outcome.message.content.startswith("lorem ipsum")
    assert outcome.message.content.endswith(" and the end")
    assert outcome.message.done_reason == "stop"
