"""The messages of a request, as they enter a session."""

import pytest

from sessions_app.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from tests.unit.dialects_app.chat_completions.bodies import HELLO, asked, called, refused

ANSWER = {"role": "assistant", "content": "Hi!"}
ASKS = {"role": "assistant", "content": None, "tool_calls": [called()]}
RESULT = {"role": "tool", "tool_call_id": "call_a", "content": "sunny"}
SESSION = {"session_id": "a1b2c3d4e5"}


def said(*messages, **how):
    return list(asked(*messages, **how).chat.turn.messages)


def test_a_conversation_becomes_messages_in_order():
    first, second, third = said(HELLO, ANSWER, {"role": "user", "content": "Bye."})
    assert isinstance(first, UserMessage)
    assert isinstance(second, AssistantMessage)
    assert isinstance(third, UserMessage)
    assert [first.content, second.content, third.content] == ["Hello!", "Hi!", "Bye."]
    assert len({first.message_id, second.message_id, third.message_id}) == 3


def test_system_and_developer_messages_are_joined_in_order_and_come_first():
    messages = said(
        {"role": "system", "content": "Be kind."},
        HELLO,
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
    )
    assert isinstance(messages[0], SystemMessage)
    assert messages[0].content == "Be kind.\n\nBe brief."
    assert [message.role for message in messages] == ["system", "user"]


def test_parts_of_text_become_lines():
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two", "cache": {}}]
    assert said({"role": "user", "content": parts})[0].content == "one\ntwo"


def test_a_call_without_its_kind_is_one_of_a_function():
    asks = {**ASKS, "tool_calls": [{**called(), "type": None}]}
    assert said(HELLO, asks, RESULT) != []


def test_a_call_and_its_result_become_messages_that_name_the_tool():
    arguments = '{"city":"Paris"}'
    asks = {**ASKS, "tool_calls": [called(arguments=arguments)]}
    parts = {**RESULT, "content": [{"type": "text", "text": "sunny"}]}
    _, call, result = said(HELLO, asks, parts)
    assert call.tool_calls[0].name == "get_weather"
    assert call.tool_calls[0].arguments == {"city": "Paris"}
    assert isinstance(result, ToolMessage)
    assert (result.tool_name, result.tool_call_id) == ("get_weather", "call_a")
    assert result.content == "sunny"


def test_parallel_calls_may_be_answered_in_any_order():
    asks = {**ASKS, "tool_calls": [called("a", "left"), called("b", "right")]}
    results = [{**RESULT, "tool_call_id": name} for name in ("b", "a")]
    assert [each.tool_name for each in said(HELLO, asks, *results)[2:]] == ["right", "left"]


def test_an_id_of_a_call_may_come_again_in_a_later_round():
    again = {"role": "user", "content": "Again."}
    assert len(said(HELLO, ASKS, RESULT, ANSWER, again, ASKS, RESULT)) == 7


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("", {}),
        (None, {}),
        ({"city": "Paris"}, {"city": "Paris"}),
        ("{broken", {"INVALID_JSON": "{broken"}),
        ("[1]", {"INVALID_JSON": "[1]"}),
    ],
)
def test_arguments_are_taken_as_a_model_may_have_written_them(sent, kept):
    asks = {**ASKS, "tool_calls": [called(arguments=sent)]}
    assert said(HELLO, asks, RESULT)[1].tool_calls[0].arguments == kept


def test_what_we_sent_comes_back_as_it_was():
    echo = {
        "role": "assistant",
        "content": "Hi!",
        "reasoning_content": "They greet.",
        "reasoning": "They greet.",
        "reasoning_details": [{"type": "reasoning.text", "text": "They greet."}],
        "refusal": None,
        "audio": None,
        "annotations": [],
        "tool_calls": None,
        "function_call": None,
        "name": "qwen",
    }
    _, answer, _ = said(HELLO, echo, HELLO)
    assert (answer.content, answer.thinking) == ("Hi!", "They greet.")
    assert answer.tool_calls == ()


def test_reasoning_is_read_by_either_name_and_ignored_where_it_is_no_text():
    by_name = {**ANSWER, "reasoning": "Hm."}
    assert said(HELLO, by_name, HELLO)[1].thinking == "Hm."
    assert said(HELLO, {**ANSWER, "reasoning_content": {"a": 1}}, HELLO)[1].thinking is None


@pytest.mark.parametrize(
    "refusal", [{"refusal": "No."}, {"content": [{"type": "refusal", "refusal": "No."}]}]
)
def test_a_refusal_that_comes_back_is_what_the_assistant_said(refusal):
    assert said(HELLO, {"role": "assistant", **refusal}, HELLO)[1].content == "No."


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa", "detail": "auto"}}
FILE = {"type": "file", "file": {"file_data": "aa", "filename": "a.pdf"}}


def test_images_and_files_of_users_and_of_tools_are_attached():
    question = {"role": "user", "content": [{"type": "text", "text": "What?"}, IMAGE, FILE]}
    shown = {**RESULT, "content": [IMAGE]}
    request = asked(question, ASKS, shown)
    [said, _, result] = request.chat.turn.messages
    places = ["messages[0].content[1].image_url.url", "messages[0].content[2].file.file_data"]
    assert said.content == "What?"
    assert [each.id for each in said.attachments] == places
    assert result.content == ""
    assert [each.id for each in result.attachments] == ["messages[2].content[0].image_url.url"]
    assert [file.path for file in request.files] == [
        *places,
        "messages[2].content[0].image_url.url",
    ]


def test_files_of_what_a_session_has_are_not_looked_at():
    shown = {"role": "user", "content": [IMAGE]}
    request = asked(shown, ANSWER, HELLO, where={"session_id": "a" * 10})
    assert not request.files


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
@pytest.mark.parametrize("part", [IMAGE, FILE])
def test_nobody_else_sends_images_and_files(role, part):
    assert refused(HELLO, {"role": role, "content": [part]}, HELLO) == "messages[1].content[0]"


def test_sound_is_refused_by_its_path():
    part = {"type": "input_audio", "input_audio": {"data": "aa", "format": "wav"}}
    message = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}
    assert refused(HELLO, ANSWER, message) == "messages[2].content[1]"


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "function", "name": "f", "content": "1"}, "role"),
        ({"role": "user", "content": None}, "content"),
        ({"role": "system"}, "content"),
        ({"role": "user", "content": [{"type": "text"}]}, "content[0].text"),
        ({"role": "user", "content": [{"type": "video"}]}, "content[0].type"),
        ({"role": "user", "content": [{"type": "refusal", "refusal": "No."}]}, "content[0]"),
        ({"role": "tool", "content": "sunny"}, "tool_call_id"),
        ({**RESULT, "content": None}, "content"),
        ({"role": "assistant", "function_call": {"name": "f"}}, "function_call"),
        ({**ASKS, "tool_calls": [{**called(), "type": "custom"}]}, "tool_calls[0].type"),
        ({**ASKS, "tool_calls": [called(), called()]}, "tool_calls[1].id"),
    ],
)
def test_a_message_that_makes_no_sense_is_refused_by_its_path(message, field):
    assert refused(HELLO, message) == f"messages[1].{field}"


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([HELLO, RESULT], "messages[1].tool_call_id"),
        ([HELLO, ASKS, RESULT, RESULT], "messages[3].tool_call_id"),
        ([HELLO, ASKS, {**RESULT, "tool_call_id": "other"}], "messages[2].tool_call_id"),
        ([HELLO, ASKS], "messages[1].tool_calls[0]"),
        ([HELLO, ASKS, HELLO], "messages[1].tool_calls[0]"),
        ([HELLO, ASKS, ANSWER, RESULT], "messages[1].tool_calls[0]"),
    ],
)
def test_a_call_without_its_result_is_refused_and_so_is_the_reverse(messages, field):
    assert refused(*messages) == field


def test_a_session_gets_only_what_follows_the_last_message_of_the_assistant():
    question = {"role": "user", "content": "And now?"}
    turn = asked({"role": "system", "content": "Old."}, HELLO, ANSWER, question, where=SESSION)
    assert [message.content for message in turn.chat.turn.messages] == ["And now?"]
    assert turn.chat.turn.instructions is None
    assert turn.chat.session_id == "a1b2c3d4e5"
    assert turn.chat.new is None


def test_a_session_gets_a_system_message_that_follows_for_this_turn_only():
    turn = asked({"role": "system", "content": "Be brief."}, HELLO, where=SESSION).chat.turn
    assert [message.role for message in turn.messages] == ["user"]
    assert turn.instructions == "Be brief."


def test_a_session_gets_the_results_of_the_calls_that_it_has():
    (result,) = said(HELLO, ASKS, RESULT, where=SESSION)
    assert (result.tool_name, result.tool_call_id) == ("get_weather", "call_a")


def test_a_result_may_come_alone_where_the_session_has_the_call():
    (result,) = said(RESULT, where=SESSION)
    assert (result.tool_name, result.tool_call_id) == ("", "call_a")


def test_a_session_is_not_asked_for_nothing():
    assert refused(HELLO, ANSWER, where=SESSION) == "messages"
