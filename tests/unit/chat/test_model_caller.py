"""Calls of the model within a turn: what is tried again, and with what."""

from models_app.language_model import Finished, ThinkingDelta
from tests.unit.chat.test_turns import Calculator, call, names, run

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


async def test_an_answer_that_stays_empty_is_an_error_in_its_place(house):
    house.model.say(*EMPTY)
    house.model.say(*EMPTY)
    session_id = await house.new_session()

    events, _ = await run(house, session_id)

    assert names(events)[-2:] == ["error", "done"]
    error = events[-2][1]
    assert error["code"] == "EMPTY_ANSWER"
    assert "none was offered" in error["message"]
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
