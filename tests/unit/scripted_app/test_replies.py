"""The scripted model's answers, without any server."""

import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripted_app.replies import (
    BLOCK_END,
    BLOCK_START,
    LOREM,
    RUNNER_DIED,
    BrokenLine,
    Disconnect,
    ErrorLine,
    ReasoningChunk,
    ReplyPlan,
    RequestMessage,
    Silence,
    TextChunk,
    ToolCallChunk,
    chunk_words,
    lorem,
    plan_reply,
    stable_hash,
)


def block(instruction: object, *, before: str = "", after: str = "") -> RequestMessage:
    written = instruction if isinstance(instruction, str) else json.dumps(instruction)
    return RequestMessage("user", f"{before}{BLOCK_START}{written}{BLOCK_END}{after}")


def texts(plan: ReplyPlan, index: int | None = None) -> str:
    return "".join(
        step.text
        for step in plan.steps
        if isinstance(step, TextChunk) and index in (None, step.message_index)
    )


def reasoning(plan: ReplyPlan, index: int | None = None) -> str:
    return "".join(
        step.text
        for step in plan.steps
        if isinstance(step, ReasoningChunk) and index in (None, step.message_index)
    )


ONE_TEXT = {"messages": [{"text_message": {"text": "scripted"}}]}


@given(st.text())
def test_any_text_is_cut_into_chunks_that_concatenate_to_exactly_it(text: str) -> None:
    chunks = chunk_words(text)
    assert "".join(chunks) == text
    assert all(1 <= len(chunk.split()) <= 5 or not chunk.strip() for chunk in chunks)


@given(st.text(min_size=1), st.booleans())
def test_any_message_is_echoed_verbatim_after_the_lorem_words(message: str, think: bool) -> None:
    plan = plan_reply([RequestMessage("user", message)], think=think)
    words = lorem(5 + stable_hash(message) % 496)
    assert texts(plan) == f"{words}\n\n{message}"
    assert reasoning(plan) == (texts(plan) if think or "\nReason:" in message else "")


@given(st.text())
def test_the_length_comes_from_the_first_eight_bytes_of_sha256(message: str) -> None:
    number = int.from_bytes(hashlib.sha256(message.encode()).digest()[:8], "big")
    assert stable_hash(message) == number
    plan = plan_reply([RequestMessage("user", message)])
    lengths = [len(step.text.split()) for step in plan.steps if isinstance(step, TextChunk)]
    assert sum(lengths) == 5 + number % 496 + len(message.split())


def test_the_same_conversation_gets_the_same_plan() -> None:
    said = [RequestMessage("system", "Be brief."), RequestMessage("user", "Hello!\nReason: x")]
    assert plan_reply(said) == plan_reply(said)
    assert plan_reply(said) != plan_reply([RequestMessage("user", "Hello?")])


def test_reasoning_comes_first_when_the_message_has_a_reason_tail() -> None:
    plan = plan_reply([RequestMessage("user", "Hello!\nReason: because")])
    kinds = [type(step) for step in plan.steps]
    assert kinds == sorted(kinds, key=[ReasoningChunk, TextChunk].index)
    assert reasoning(plan).endswith("Hello!\nReason: because")


def test_the_latest_user_message_is_answered() -> None:
    said = [
        RequestMessage("user", "first"),
        RequestMessage("assistant", "one"),
        RequestMessage("user", "second"),
        RequestMessage("tool", "x"),
    ]
    assert texts(plan_reply(said)).endswith("\n\nsecond")


def test_a_conversation_without_a_user_message_is_answered_too() -> None:
    assert texts(plan_reply([])) == lorem(5 + stable_hash("") % 496)


def test_lorem_repeats_its_words() -> None:
    assert lorem(len(LOREM) + 2).split() == [*LOREM, "lorem", "ipsum"]
    assert lorem(0) == ""


def test_a_block_streams_texts_and_tool_calls_in_order() -> None:
    plan = plan_reply(
        [
            block(
                {
                    "id_message": "ID-7",
                    "reasoning": {"length": 3},
                    "messages": [
                        {"text_message": {"length": 12}},
                        {"tool_call": [{"name": "add", "args": {"a": 1}}, {"name": "now"}]},
                        {"text_message": {"length": 2}},
                    ],
                },
                before="Ignore this. ",
                after=" And this.",
            )
        ]
    )
    assert plan.mode == "instruction"
    assert reasoning(plan, 0) == f"ID-7 {lorem(3)} ID-7"
    assert texts(plan, 0) == f"ID-7 {lorem(12)} ID-7"
    calls = [step for step in plan.steps if isinstance(step, ToolCallChunk)]
    assert [(call.name, call.arguments, call.call_index) for call in calls] == [
        ("add", {"a": 1}, 0),
        ("now", {}, 1),
    ]
    assert {call.message_index for call in calls} == {1}
    assert texts(plan, 2) == f"ID-7 {lorem(2)} ID-7"
    order = [step.message_index for step in plan.steps]  # type: ignore[union-attr]
    assert order == sorted(order)


def test_tool_call_ids_are_stable_and_differ_between_calls_and_rounds() -> None:
    asked = block(
        {"messages": [{"tool_call": [{"name": "a"}, {"name": "a"}]}], "per_request": True}
    )

    def ids(said: list[RequestMessage]) -> list[str]:
        steps = plan_reply(said).steps
        return [step.id for step in steps if isinstance(step, ToolCallChunk)]

    first = ids([asked])
    again = ids([asked, RequestMessage("assistant", ""), RequestMessage("tool", "1"), asked])
    assert first == ids([asked])
    assert len({*first, *again}) == 4
    assert all(len(each) == len("call_xxxxxxxx") and each.startswith("call_") for each in first)


def test_literal_texts_come_out_exactly() -> None:
    said = [
        block({"messages": [{"text_message": {"text": " a  **b**\n", "reasoning": "so\n"}}]}),
    ]
    assert texts(plan_reply(said)) == " a  **b**\n"
    assert reasoning(plan_reply(said)) == "so\n"


def test_a_list_of_texts_sets_the_chunk_borders() -> None:
    said = [block({"messages": [{"text_message": {"text": ["<th", "ink>"]}}]})]
    assert plan_reply(said).steps == [TextChunk("<th"), TextChunk("ink>")]


def test_the_blocks_reasoning_may_be_literal_for_every_text() -> None:
    said = [block({"reasoning": {"text": "hm"}, **ONE_TEXT})]
    assert reasoning(plan_reply(said)) == "hm"


def test_strings_in_the_block_may_hold_the_end_marker() -> None:
    said = [block({"messages": [{"text_message": {"text": f"a {BLOCK_END} b"}}]})]
    assert texts(plan_reply(said)) == f"a {BLOCK_END} b"


def test_a_block_in_one_reply_is_used_up_by_it() -> None:
    said = [
        block(ONE_TEXT),
        RequestMessage("assistant", "scripted"),
        RequestMessage("user", "more"),
    ]
    plan = plan_reply(said)
    assert plan.mode == "fallback"
    assert texts(plan).endswith("more")


def test_each_request_gets_the_next_message_until_the_block_is_used_up() -> None:
    said = [
        block(
            {
                "per_request": True,
                "messages": [
                    {"tool_call": [{"name": "add", "args": {"a": 1}}]},
                    {"text_message": {"text": "the sum is 1"}},
                ],
            }
        )
    ]
    first = plan_reply(said)
    assert [type(step) for step in first.steps] == [ToolCallChunk]
    said += [RequestMessage("assistant", ""), RequestMessage("tool", "1")]
    assert texts(plan_reply(said)) == "the sum is 1"
    said += [RequestMessage("assistant", "the sum is 1"), RequestMessage("user", "thanks")]
    assert plan_reply(said).mode == "fallback"


def test_a_later_message_without_a_block_leaves_the_latest_block_in_charge() -> None:
    said = [block(ONE_TEXT), RequestMessage("user", "Carry out the plan.")]
    assert texts(plan_reply(said)) == "scripted"


def test_the_latest_block_counts() -> None:
    said = [
        block(ONE_TEXT),
        RequestMessage("assistant", ""),
        block({"messages": [{"text_message": {"text": "b"}}]}),
    ]
    assert texts(plan_reply(said)) == "b"


def test_a_block_in_an_assistant_message_is_an_echo_and_does_not_count() -> None:
    said = [RequestMessage("assistant", block(ONE_TEXT).text), RequestMessage("user", "hi")]
    assert plan_reply(said).mode == "fallback"


@pytest.mark.parametrize(
    "written",
    [
        "",
        "{",
        "[]",
        "null",
        '{"messages": [}',
        '{"messages": {}}',
        '{"messages": [{}]}',
        '{"messages": [{"text_message": {}}]}',
        '{"messages": [{"text_message": {"length": -1}}]}',
        '{"messages": [{"text_message": {"length": "9"}}]}',
        '{"messages": [{"tool_call": []}]}',
        '{"messages": [{"tool_call": [{"args": {}}]}]}',
        '{"messages": [{"text_message": {"length": 1}, "tool_call": [{"name": "a"}]}]}',
        '{"status": 200}',
        '{"stall_seconds": NaN}',
        '{"stall_seconds": -1}',
        '{"x": 1} trailing',
        "[" * 100_000,
        '{"a":' * 5_000,
    ],
)
def test_a_broken_block_falls_back(written: str) -> None:
    said = block(written)
    plan = plan_reply([block(ONE_TEXT), said])
    assert plan.mode == "fallback"
    assert texts(plan).endswith(said.text)


def test_a_block_that_never_ends_falls_back() -> None:
    assert (
        plan_reply([RequestMessage("user", f"{BLOCK_START}{json.dumps(ONE_TEXT)}")]).mode
        == "fallback"
    )


FOUR = {"messages": [{"text_message": {"text": ["a", "b", "c", "d"]}}]}


@pytest.mark.parametrize(
    ("faults", "shape"),
    [
        ({"drop_after": 0}, "!abcd"),
        ({"drop_after": 3}, "abc!d"),
        ({"drop_after": 99}, "abcd!"),
        ({"stall_seconds": 2}, "2abcd"),
        ({"stall_seconds": 2, "stall_after": 1}, "a2bcd"),
        ({"malformed": True}, "ab~cd"),
        ({"malformed": 1}, "a~bcd"),
        ({"error_line": True}, "abEcd"),
        ({"error_line": "ouch"}, "abEcd"),
        ({"error_line": 0}, "Eabcd"),
        ({"drop_after": 2, "malformed": True, "stall_seconds": 2, "stall_after": 2}, "ab2~!cd"),
    ],
)
def test_faults_happen_at_their_place(faults: dict[str, Any], shape: str) -> None:
    marks = {Disconnect: "!", Silence: "2", BrokenLine: "~", ErrorLine: "E"}
    plan = plan_reply([block({**FOUR, **faults})])
    assert "".join(getattr(step, "text", "") or marks[type(step)] for step in plan.steps) == shape


def test_an_error_line_has_ollamas_words_or_its_own() -> None:
    def message(value: bool | str) -> str:
        steps = plan_reply([block({**FOUR, "error_line": value})]).steps
        return next(step.message for step in steps if isinstance(step, ErrorLine))

    assert message(True) == RUNNER_DIED
    assert message("ouch") == "ouch"


def test_a_block_of_faults_alone_lets_the_fallback_answer() -> None:
    plan = plan_reply([block({"status": 503, "words_per_second": 0, "drop_after": 1})])
    assert (plan.mode, plan.status, plan.words_per_second) == ("instruction", 503, 0)
    assert isinstance(plan.steps[1], Disconnect)
    assert texts(plan).endswith(BLOCK_END)


def test_a_request_with_a_format_gets_an_object_whatever_the_block_says() -> None:
    said = [block({**ONE_TEXT, "status": 500})]
    plan = plan_reply(said, format={"type": "object", "properties": {"a": {"type": "integer"}}})
    assert plan == ReplyPlan(mode="format", steps=[TextChunk('{"a":1}')])
    assert isinstance(json.loads(texts(plan_reply(said, format="json"))), dict)


def test_a_plan_can_be_written_as_json_for_looking_at_it() -> None:
    assert msgspec.json.encode(plan_reply([block(FOUR)]).steps)
