"""The messages of a request, as a model is sent them."""

import json
from typing import Any

import pytest

from dialects_app.shared.sealed import seal
from sessions_app.messages import INTERRUPTED_RESULT, AssistantMessage, ToolMessage, UserMessage
from tests.unit.dialects_app.messages.bodies import (
    HELLO,
    asked,
    assistant,
    call,
    messages_of,
    refused,
    result,
    system,
    text,
    user,
)


def test_system_blocks_make_one_prompt_without_the_line_that_differs_in_each_request():
    blocks = [text("x-anthropic-billing-header: cc_version=2.1.332.902;"), text("A"), text("B")]
    assert messages_of(system=blocks) == [("system", "A\n\nB"), ("user", "Hello!")]


def test_the_prompt_is_the_same_whatever_the_line_about_billing_says():
    def prompt(version: str) -> Any:
        blocks = [text(f"x-anthropic-billing-header: cc_version={version};"), text("You help.")]
        return messages_of(system=blocks)

    assert prompt("1.0") == prompt("2.0")


def test_system_messages_before_the_first_answer_join_the_prompt_and_later_ones_stay_in_place():
    assert messages_of(
        system("Early."),
        HELLO,
        assistant(text("Hi.")),
        HELLO,
        system([text("Late.")]),
        system="First.",
    ) == [
        ("system", "First.\n\nEarly."),
        ("user", "Hello!"),
        ("assistant", "Hi."),
        ("user", "Hello!"),
        ("user", "<system-reminder>\nLate.\n</system-reminder>"),
    ]


def test_results_come_right_after_their_calls_whatever_stands_before_them():
    said = messages_of(
        HELLO,
        assistant(text("I look."), call("a"), call("b")),
        user(text("Well?"), result("b", "2")),
        user(result("a", "1"), text("Go on.")),
    )
    assert said[2:] == [("tool", "2"), ("tool", "1"), ("user", "Well?"), ("user", "Go on.")]


def test_a_call_without_a_result_is_closed_as_interrupted():
    messages = asked(HELLO, assistant(call("a"), call("b")), user(result("a"))).chat.turn.messages
    left = messages[-1]
    assert isinstance(left, ToolMessage)
    assert (left.content, left.tool_call_id, left.failed) == (INTERRUPTED_RESULT, "b", True)
    assert messages_of(HELLO, assistant(call("a")), HELLO)[2:] == [
        ("tool", INTERRUPTED_RESULT),
        ("user", "Hello!"),
    ]


def test_two_answers_in_a_row_are_one():
    messages = asked(
        HELLO, assistant(text("One."), call("a")), assistant(text("Two.")), user(result("a"))
    ).chat.turn.messages
    answer = messages[1]
    assert isinstance(answer, AssistantMessage)
    assert (answer.content, [each.id for each in answer.tool_calls]) == ("One.\n\nTwo.", ["a"])


def test_a_result_keeps_that_it_is_an_error_and_its_images():
    image = {"type": "image", "source": {"type": "base64", "media_type": "x", "data": "AAAA"}}
    parsed = asked(
        HELLO, assistant(call()), user(result(content=[text("No."), image], is_error=True))
    )
    last = parsed.chat.turn.messages[-1]
    assert isinstance(last, ToolMessage)
    assert (last.content, last.failed, last.tool_name) == ("No.", True, "Read")
    path = "messages[2].content[0].content[1].source.data"
    assert [each.id for each in last.attachments] == [path]
    assert [(file.path, file.is_image) for file in parsed.files] == [(path, True)]


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([HELLO, user(result("a"))], "messages[1].content[0].tool_use_id"),
        (
            [HELLO, assistant(call("a")), user(result("a"), result("a"))],
            "messages[2].content[1].tool_use_id",
        ),
        ([HELLO, assistant(call("a"), call("a"))], "messages[1].content[1].id"),
        ([user({"type": "text"})], "messages[0].content[0].text"),
        ([user({"text": "Hi."})], "messages[0].content[0].type"),
        (
            [user({"type": "image", "source": {"type": "file", "file_id": "f"}})],
            "messages[0].content[0].source.type",
        ),
        (
            [user({"type": "image", "source": {"type": "url", "url": "ftp://x"}})],
            "messages[0].content[0].source.url",
        ),
        ([assistant({"type": "tool_use", "id": "a", "name": "b"})], "messages[0].content[0].input"),
        ([HELLO, assistant(call()), user(result(content=7))], "messages[2].content[0].content"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_path(messages, field):
    assert refused(*messages)[0] == field


def test_a_session_that_goes_on_knows_the_calls_that_are_answered():
    turn = asked(user(result("call_7")), where={"session_id": "a1b2c3d4e5"}).chat.turn
    assert [each.content for each in turn.messages] == ["42"]


def test_a_session_that_goes_on_gets_what_follows_the_last_answer():
    parsed = asked(
        HELLO, assistant(text("Hi.")), user(text("And?")), where={"session_id": "a1b2c3d4e5"},
        system="Be brief.",
    )  # fmt: skip
    assert [each.content for each in parsed.chat.turn.messages] == ["And?"]
    assert (parsed.chat.turn.instructions, parsed.paths) == ("Be brief.", ["messages[2]"])
    field, _ = refused(HELLO, assistant(text("Hi.")), where={"session_id": "a1b2c3d4e5"})
    assert field == "messages"


def thinking(words: str, signature: str | None = None) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "", "signature": signature or seal(words)}


def reasoning_of(*messages: Any) -> list[str | None]:
    said = asked(*messages).chat.turn.messages
    return [each.thinking for each in said if isinstance(each, AssistantMessage)]


def test_sealed_reasoning_comes_back_within_the_tool_loop_alone():
    before = [HELLO, assistant(thinking("Old."), call("a")), user(result("a"))]
    now = [HELLO, assistant(thinking("New."), call("b"))]
    reminded = user(result("b"), text("<system-reminder>Be kind.</system-reminder>"))

    assert reasoning_of(*before, assistant(text("Done.")), *now, reminded) == [None, None, "New."]


@pytest.mark.parametrize("signature", ["EqQBCkYIChgCKkD", "m1.AAAA", ""])
def test_reasoning_that_another_server_signed_is_left_out_without_a_word(signature):
    block = thinking("", signature)
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    parsed = asked(HELLO, assistant(block, redacted, call()), user(result()))
    answer = parsed.chat.turn.messages[1]
    assert isinstance(answer, AssistantMessage)
    assert (answer.thinking, answer.content, parsed.warnings) == (None, "", [])


def test_documents_and_search_results_are_texts_or_files():
    plain = {"type": "document", "title": "T", "source": {"type": "text", "data": "Words."}}
    blocks = {"type": "document", "source": {"type": "content", "content": [text("Inner.")]}}
    found = {"type": "search_result", "title": "S", "source": "u", "content": [text("Hit.")]}
    pdf = {"type": "document", "title": "p.pdf", "source": {"type": "base64", "data": "AAAA"}}
    parsed = asked(user(plain, blocks, found, pdf))
    [said] = parsed.chat.turn.messages
    assert isinstance(said, UserMessage)
    assert said.content == "T\nWords.\n\nInner.\n\nS - u\nHit."
    assert [(file.name, file.is_image) for file in parsed.files] == [("p.pdf", False)]


def test_what_servers_of_others_ran_is_told_as_text_and_unknown_blocks_are_left_out():
    parsed = asked(
        HELLO,
        assistant(
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
            {"type": "hologram", "data": 1},
        ),
        HELLO,
    )
    assert parsed.chat.turn.messages[1].content == (
        f'[called web_search with {json.dumps({"query": "x"})}]\n\n[result: [{{"url": "u"}}]]'
    )
    assert parsed.warnings == ["messages[1].content[2]: a block of the type 'hologram' is left out"]
