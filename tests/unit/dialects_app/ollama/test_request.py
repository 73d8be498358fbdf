"""Ollama's requests, as those for chat completions that they stand for."""

from typing import Any

import msgspec
import pytest

from dialects_app.chat_completions.body import CompletionIn
from dialects_app.chat_completions.request import read_request
from dialects_app.ollama.body import AskIn
from dialects_app.ollama.request import completion_of, messages_of, options_of
from dialects_app.shared.body import decode_body
from sessions_app.errors import ValidationFailed
from sessions_app.messages import INTERRUPTED_RESULT, Message, ToolMessage

HELLO = {"role": "user", "content": "Hello!"}
PARIS = {"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}
TIME = {"function": {"name": "get_time", "arguments": {}}}
ASKS = {"role": "assistant", "content": "", "tool_calls": [PARIS, TIME]}


def body_of(*messages: Any, **fields: Any) -> AskIn:
    asked = {"model": "qwen3:14b", "messages": list(messages) or [HELLO], **fields}
    return decode_body(msgspec.json.encode(asked), AskIn)


def prompt_of(**fields: Any) -> AskIn:
    return decode_body(msgspec.json.encode({"model": "qwen3:14b", **fields}), AskIn)


def completion(*messages: Any, thinks: bool = True, **fields: Any) -> CompletionIn:
    return completion_of(body_of(*messages, **fields), "qwen3:14b", thinks=thinks)


def said(*messages: Any) -> list[Message]:
    """Return the messages that a session gets."""
    return list(read_request(completion(*messages)).chat.turn.messages)


def results(*messages: Any) -> list[tuple[str, str, str]]:
    """Return the results of tools: the id and the name of each call, and what it returned."""
    return [
        (each.tool_call_id or "", each.tool_name, each.content)
        for each in said(HELLO, ASKS, *messages)
        if isinstance(each, ToolMessage)
    ]


def result(content: str, **fields: str) -> dict[str, str]:
    return {"role": "tool", "content": content, **fields}


def test_a_conversation_keeps_its_messages_and_reasoning() -> None:
    answer = {"role": "assistant", "content": "Hi!", "thinking": "They greet."}
    system, first, second, third = said({"role": "system", "content": "Be kind."}, HELLO, answer,
                                        {"role": "user", "content": None})  # fmt: skip
    assert [each.role for each in (system, first, second, third)] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert (second.content, getattr(second, "thinking", None)) == ("Hi!", "They greet.")
    assert third.content == ""


def test_results_without_ids_answer_the_calls_in_their_order() -> None:
    assert results(result("sunny"), result("noon")) == [
        ("call_1_0", "get_weather", "sunny"),
        ("call_1_1", "get_time", "noon"),
    ]


@pytest.mark.parametrize("name", ["tool_name", "name"])
def test_a_result_that_names_its_tool_answers_the_call_of_it(name: str) -> None:
    named = [result("noon", **{name: "get_time"}), result("sunny", **{name: "get_weather"})]
    assert [tool for _, tool, _ in results(*named)] == ["get_time", "get_weather"]


def test_ids_that_only_results_have_are_the_clients_own() -> None:
    own = [result("sunny", tool_call_id="x1"), result("noon", tool_call_id="x2")]
    assert [content for _, _, content in results(*own)] == ["sunny", "noon"]


def test_ids_go_before_names_and_order() -> None:
    calls = [{"id": "a", **PARIS}, {"id": "b", **PARIS}]
    asks = {**ASKS, "tool_calls": calls}
    messages = said(HELLO, asks, result("second", tool_call_id="b"), result("first"))
    assert [each.tool_call_id for each in messages if isinstance(each, ToolMessage)] == ["b", "a"]


def test_later_rounds_have_calls_of_their_own() -> None:
    again = [result("sunny"), result("noon"), ASKS, result("rain"), result("night")]
    assert [call for call, _, _ in results(*again)] == [
        "call_1_0",
        "call_1_1",
        "call_4_0",
        "call_4_1",
    ]


def test_a_result_of_no_call_is_refused() -> None:
    with pytest.raises(ValidationFailed, match="has to follow the call") as refused:
        completion(HELLO, result("sunny"))
    assert refused.value.details["field"] == "messages[1]"


def test_arguments_are_taken_as_an_object_and_as_text() -> None:
    text = {"function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}}
    asks = {**ASKS, "tool_calls": [PARIS, text]}
    _, asked, *_ = said(HELLO, asks, result("sunny"), result("rain"))
    calls = getattr(asked, "tool_calls", ())
    assert [call.arguments for call in calls] == [{"city": "Paris"}, {"city": "Oslo"}]


def test_images_are_base64_or_data_urls() -> None:
    request = read_request(completion({**HELLO, "images": ["aGk=", "data:image/png;base64,aGk="]}))
    assert [file.is_image for file in request.files] == [True, True]
    assert request.chat.turn.messages[0].content == "Hello!"


@pytest.mark.parametrize(
    ("think", "expected"),
    [(True, True), (False, False), ("high", "high"), (None, None)],
)
def test_a_model_thinks_as_it_is_told(think: Any, expected: Any) -> None:
    assert read_request(completion(think=think)).chat.turn.think == expected


@pytest.mark.parametrize("think", [True, False, "high", None])
def test_a_model_that_can_not_think_is_not_asked_to(think: Any) -> None:
    assert read_request(completion(think=think, thinks=False)).chat.turn.think is None


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        (None, None),
        ("", None),
        ("json", {"type": "object"}),
        ({"type": "array"}, {"type": "array"}),
    ],
)
def test_a_format_is_a_schema_of_the_answer(form: Any, schema: Any) -> None:
    assert read_request(completion(format=form)).chat.turn.answer_schema == schema


def test_another_format_is_refused() -> None:
    with pytest.raises(ValidationFailed) as refused:
        completion(format="yaml")
    assert refused.value.details["field"] == "format"


def test_the_window_is_the_servers_and_other_options_are_passed_on() -> None:
    options = {
        "num_ctx": 8192,
        "num_gpu": 1,
        "temperature": 0.1,
        "top_k": 40.0,
        "min_p": 0.05,
        "stop": ["END"],
        "num_predict": 20,
        "repeat_penalty": 1.1,
    }
    assert options_of(body_of(options=options, keep_alive="-1s")) == {
        "temperature": 0.1,
        "top_k": 40,
        "min_p": 0.05,
        "stop": ["END"],
        "repeat_penalty": 1.1,
        "num_predict": 20,
        "max_tokens": 20,
        "keep_alive": "-1s",
    }


@pytest.mark.parametrize("unlimited", [-2, -1, 0])
def test_no_number_of_tokens_is_no_limit(unlimited: int) -> None:
    assert options_of(body_of(options={"num_predict": unlimited})) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"keep_alive": "soon"},
        {"options": {"temperature": "hot"}},
        {"options": {"num_predict": "many"}},
    ],
)
def test_an_option_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationFailed) as refused:
        options_of(body_of(**wrong))
    assert refused.value.details["field"] == "options"


@pytest.mark.parametrize(
    ("sent", "streams"), [({}, True), ({"stream": None}, True), ({"stream": False}, False)]
)
def test_an_answer_is_streamed_unless_the_request_says_no(sent: Any, streams: bool) -> None:
    assert completion(**sent).stream is streams


def test_a_prompt_is_the_only_message_after_the_system_prompt() -> None:
    body = prompt_of(prompt="Hello!", system="Be kind.", images=["aGk="])
    request = read_request(completion_of(body, "qwen3:14b", thinks=True))
    assert [each.role for each in request.chat.turn.messages] == ["system", "user"]
    assert len(request.files) == 1
    assert not messages_of(prompt_of(prompt="", keep_alive=0))


@pytest.mark.parametrize("name", ["raw", "suffix", "template"])
def test_a_text_outside_of_any_chat_is_refused(name: str) -> None:
    body = prompt_of(prompt="Hello!", **{name: True})
    with pytest.raises(ValidationFailed) as refused:
        completion_of(body, "qwen3:14b", thinks=True)
    assert refused.value.details["field"] == name


def test_a_call_whose_client_was_interrupted_has_a_result_that_says_so() -> None:
    def contents(*messages: Any) -> list[tuple[str, str]]:
        return [(each.tool_name, each.content) for each in said(*messages)
                if isinstance(each, ToolMessage)]  # fmt: skip

    both = [("get_weather", "sunny"), ("get_time", INTERRUPTED_RESULT)]
    assert contents(HELLO, ASKS, result("sunny"), HELLO) == both
    assert contents(HELLO, ASKS, result("sunny"), ASKS, result("rain"), result("noon"))[:2] == both
    assert contents(HELLO, ASKS, result("sunny")) == both
