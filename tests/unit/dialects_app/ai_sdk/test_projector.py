"""A turn's events as chunks of a UI message stream."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.stream.attached_file import AttachedFile
from chat.stream.events import (
    ContentReset,
    Event,
    ToolCallDelta,
    ToolCallStarted,
)
from dialects_app.ai_sdk.projector import UIMessageProjector
from tests.unit.dialects_app.ai_sdk.streams import (
    SESSION,
    WAITING,
    agent_run,
    kinds,
    projected,
    question,
    result,
    text_of,
)
from tests.unit.dialects_app.chat_completions.journals import (
    CONTINUED,
    DONE,
    MODEL,
    STARTED,
    TURN,
    cancelled,
    complete,
    failed,
    journals,
    ours,
    said,
    theirs,
    thought,
)
from tests.unit.dialects_app.turns import chunks_of, numbered


def show(*events: Event, **how: Any) -> list[Any]:
    return chunks_of(projected([STARTED, *events, DONE], **how))


def test_an_answer_is_a_message_with_one_step() -> None:
    chunks = show(thought("Hm."), said("Hel"), said("lo"), complete())
    assert chunks[:9] == [
        {
            "type": "start",
            "messageId": f"turn-{TURN}",
            "messageMetadata": {"session_id": SESSION, "model": MODEL},
        },
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "1"},
        {"type": "reasoning-delta", "id": "1", "delta": "Hm."},
        {"type": "reasoning-end", "id": "1"},
        {"type": "text-start", "id": "2"},
        {"type": "text-delta", "id": "2", "delta": "Hel"},
        {"type": "text-delta", "id": "2", "delta": "lo"},
        {"type": "text-end", "id": "2"},
    ]
    assert kinds(chunks[9:]) == ["finish-step", "finish"]
    assert chunks[-1]["finishReason"] == "stop"
    assert chunks[-1]["messageMetadata"]["usage"]["output_tokens"] == 30


@pytest.mark.parametrize(
    ("done_reason", "told"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        (None, "stop"),
        ("load", "other"),
    ],
)
def test_the_reason_to_finish_has_the_clients_name(done_reason: str | None, told: str) -> None:
    assert show(complete(done_reason))[-1]["finishReason"] == told


def test_a_tool_is_a_call_and_its_output_between_two_steps() -> None:
    chunks = show(*ours(), CONTINUED, said("Three."), complete())
    call = next(each for each in chunks if each["type"] == "tool-input-available")
    output = next(each for each in chunks if each["type"] == "tool-output-available")
    common = {"toolCallId": "own_0", "providerExecuted": True, "dynamic": True}
    assert call == {"type": "tool-input-available", "toolName": "add", "input": {"a": 1}, **common}
    assert output == {"type": "tool-output-available", "output": "3", **common}
    assert kinds(chunks).count("start-step") == kinds(chunks).count("finish-step") == 2


def test_a_failed_tool_is_an_error_and_its_files_are_parts() -> None:
    files = (AttachedFile(id="sha256:ab", name="a.png", media_type="image/png", size=3),)
    failing = result(success=False, result=None, error_message="No.", attachments=files)
    chunks = show(failing, complete())
    assert {"type": "tool-output-error", "toolCallId": "own_0", "errorText": "No."}.items() <= (
        next(each for each in chunks if each["type"] == "tool-output-error").items()
    )
    assert {
        "type": "file",
        "mediaType": "image/png",
        "url": "/api/v1/attachments/sha256:ab",
    } in chunks


def test_a_question_ends_the_stream() -> None:
    chunks = chunks_of(projected([STARTED, question(0), question(1), WAITING]))
    assert kinds(chunks)[2:] == [
        *["tool-input-available", "tool-approval-request"] * 2,
        "finish-step",
        "finish",
    ]
    asked = [each for each in chunks if each["type"] == "tool-approval-request"]
    assert [(each["approvalId"], each["toolCallId"]) for each in asked] == [
        ("conf_0", "own_0"),
        ("conf_1", "own_1"),
    ]
    assert chunks[-1]["finishReason"] == "tool-calls"


def test_nothing_follows_the_end() -> None:
    projector = UIMessageProjector(SESSION, TURN)
    projector.feed(numbered([STARTED, question(), WAITING]))
    assert projector.has_ended
    assert projector.feed(numbered([result(), CONTINUED, said("More."), complete(), DONE])) == b""


def test_who_answered_gets_what_follows_in_the_same_message() -> None:
    events = [said("I ask."), question(0), question(1), WAITING, result(0), result(1)]
    rest = [CONTINUED, said("Three."), complete()]
    chunks = show(*events, *rest, message_id="turn-x", answered={"conf_0", "conf_1"})
    assert chunks[0]["messageId"] == "turn-x"
    assert kinds(chunks)[1:3] == ["tool-output-available", "tool-output-available"]
    assert text_of(chunks) == "Three."


def test_a_question_of_a_server_is_a_part_of_its_own_and_the_stream_goes_on() -> None:
    schema = {"type": "object", "properties": {}}
    asked = question(kind="input", server="shop", message="Which size?", schema=schema)

    chunks = show(asked, WAITING, result(), complete())

    [part] = [each for each in chunks if each["type"] == "data-elicitation"]
    assert part["id"] == "conf_0"
    shown = ("kind", "server", "message", "schema")
    assert [part["data"][key] for key in shown] == ["input", "shop", "Which size?", schema]
    assert "tool-approval-request" not in [each["type"] for each in chunks]
    assert chunks[-1]["type"] == "finish"


def test_who_answered_is_asked_again_by_the_next_question() -> None:
    first, second = question(0), question(1)
    events = [STARTED, first, WAITING, result(0), CONTINUED, second, WAITING]
    chunks = chunks_of(projected(events, answered={"conf_0"}))
    assert [each["approvalId"] for each in chunks if "approvalId" in each] == ["conf_1"]


def test_a_late_page_passes_questions_that_were_answered() -> None:
    answered = [question(), WAITING, result(), CONTINUED]
    shown = show(*answered, said("Three."), complete(), decided={"conf_0"})
    assert text_of(shown) == "Three."
    assert [each["approvalId"] for each in shown if "approvalId" in each] == ["conf_0"]


def test_a_late_page_stops_at_questions_that_come_after_it() -> None:
    answered = [question(), WAITING, result(), CONTINUED]
    ended = chunks_of(projected([STARTED, *answered, question(1), WAITING], decided={"conf_0"}))
    assert ended[-1] == {"type": "finish", "finishReason": "tool-calls"}
    assert [each["approvalId"] for each in ended if "approvalId" in each] == ["conf_0", "conf_1"]


def test_who_answered_one_of_two_questions_is_waited_for() -> None:
    events = [STARTED, question(0), question(1), WAITING]
    ended = chunks_of(projected(events, answered={"conf_0"}))
    assert kinds(ended) == ["start", "finish"]
    later = [*events, result(0), result(1), CONTINUED, said("Three."), complete(), DONE]
    rest = chunks_of(projected(later, answered={"conf_1"}, decided={"conf_0", "conf_1"}))
    assert kinds(rest)[:3] == ["start", "tool-output-available", "tool-output-available"]


def test_a_denied_call_is_denied() -> None:
    denied = result(success=False, result=None, error_code="TOOL_EXECUTION_DENIED")
    assert {"type": "tool-output-denied", "toolCallId": "own_0"} in show(
        question(), WAITING, denied, complete(), decided={"conf_0"}
    )


PIECES = [
    ToolCallDelta(call_index=1, tool_call_id="own_1", arguments='{"a":', tool_name="add"),
    ToolCallDelta(call_index=1, tool_call_id="own_1", arguments="1}"),
]


def test_an_input_comes_as_the_model_writes_it() -> None:
    call = ToolCallStarted(tool_name="add", arguments={"a": 1}, call_index=1, tool_call_id="own_1")
    chunks = show(*PIECES, call, result(1), complete())
    about = [each for each in chunks if each.get("toolCallId") == "own_1"]
    assert kinds(about) == [
        "tool-input-start",
        "tool-input-delta",
        "tool-input-delta",
        "tool-input-available",
        "tool-output-available",
    ]
    assert (about[0]["toolName"], about[0]["dynamic"]) == ("add", True)
    assert "".join(each["inputTextDelta"] for each in about[1:3]) == '{"a":1}'


def test_an_input_that_broke_off_is_an_error() -> None:
    chunks = show(*PIECES, failed())
    assert kinds(chunks)[-3:] == ["tool-input-error", "finish-step", "error"]


def test_a_free_call_beside_a_question_does_not_keep_the_client_from_answering() -> None:
    """The client sends its answers only when no call of the step is open."""
    asked = [*PIECES, question(0), WAITING]
    waiting = chunks_of(projected([STARTED, *asked]))
    assert kinds(waiting)[-3:] == ["tool-input-error", "finish-step", "finish"]
    assert "waits" in waiting[-3]["errorText"]
    call = ToolCallStarted(tool_name="add", arguments={"a": 1}, call_index=1, tool_call_id="own_1")
    rest = show(*asked, call, result(1), result(0), complete(), answered={"conf_0"})
    assert kinds(rest)[1:3] == ["tool-input-available", "tool-output-available"]


def test_the_call_of_an_agent_is_shown_whole() -> None:
    piece = ToolCallDelta(call_index=0, tool_call_id="c", arguments="{", tool_name="agent")
    assert "tool-input-start" not in kinds(show(piece, failed()))


def test_a_call_that_a_person_changed_shows_what_it_ran_with() -> None:
    def inputs(ran_with: dict[str, int]) -> list[Any]:
        ended = result(arguments=ran_with, confirmation_id="conf_0")
        chunks = show(question(), WAITING, ended, complete(), decided={"conf_0"})
        return [each["input"] for each in chunks if each["type"] == "tool-input-available"]

    assert inputs({"a": 5}) == [{"a": 0}, {"a": 5}]
    assert inputs({"a": 0}) == [{"a": 0}]


def test_calls_that_the_page_has_are_not_shown_again() -> None:
    assert kinds(show(result(), complete(), known={"own_0"})).count("tool-input-available") == 0
    assert kinds(show(result(), complete())).count("tool-input-available") == 1


def test_an_agent_is_a_tool_whose_data_is_updated_in_place() -> None:
    chunks = show(*agent_run(), CONTINUED, said("Done."), complete())
    data = [each for each in chunks if each["type"] == "data-agent"]
    assert {each["id"] for each in data} == {"own_0"}
    assert data[-1]["data"] == {
        "agent": "clerk",
        "state": "done",
        "plan": "1. Look.",
        "text": "It is empty.",
        "calls": [
            {
                "id": "inner_0",
                "tool": "list_dir",
                "input": {},
                "state": "done",
                "summary": "nothing",
            }
        ],
    }
    output = next(each for each in chunks if each["type"] == "tool-output-available")
    assert (output["toolCallId"], output["output"]) == ("own_0", "It is empty.")


def test_a_question_of_an_agent_is_about_its_own_call() -> None:
    asked = question(agent_name="clerk", inner_tool_call_id="inner_0")
    chunks = chunks_of(projected([STARTED, agent_run()[0], asked, WAITING]))
    request = next(each for each in chunks if each["type"] == "tool-approval-request")
    assert request["toolCallId"] == "inner_0"


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (cancelled(), {"type": "abort", "reason": "cancelled"}),
        (failed(), {"type": "error", "errorText": "It broke off."}),
    ],
)
def test_what_breaks_off_says_so_last(end: Event, told: dict[str, str]) -> None:
    chunks = show(said("Hel"), end)
    assert chunks[-1] == told
    assert kinds(chunks)[-3:-1] == ["text-end", "finish-step"]


def test_a_turn_that_was_suspended_finishes_with_calls() -> None:
    assert show(question())[-1] == {"type": "finish", "finishReason": "tool-calls"}


def test_a_status_is_passing() -> None:
    assert {"type": "data-status", "data": {"state": "waiting_for_tool"}, "transient": True} in (
        show(*ours(), complete())
    )


def test_a_client_call_is_shown_as_a_call() -> None:
    assert "tool-input-available" in kinds(show(theirs(), complete("tool_calls")))


def test_all_kinds_of_chunks_are_what_another_implementation_reads() -> None:
    from pydantic_ai.ui.vercel_ai import response_types  # noqa: PLC0415 - it takes a second

    readers = {
        each.model_fields["type"].default: each
        for each in vars(response_types).values()
        if isinstance(each, type)
        and issubclass(each, response_types.BaseChunk)
        and "type" in each.model_fields
    }
    files = (AttachedFile(id="sha256:ab", name="a.png", media_type="image/png", size=3),)
    failing = result(1, success=False, result=None, error_message="No.", attachments=files)
    denied = result(2, success=False, result=None, error_code="TOOL_EXECUTION_DENIED")
    asked = [question(1), question(2), WAITING, failing, denied, CONTINUED]
    events = [thought("Hm."), *ours(), CONTINUED, *agent_run(), *asked, said("Hi")]
    streams = [
        show(*events, *PIECES, end, decided={"conf_1", "conf_2"})
        for end in (complete(), cancelled(), failed())
    ]
    seen: dict[str, Any] = {}
    for chunk in (chunk for stream in streams for chunk in stream):
        kind = "data" if chunk["type"].startswith("data-") else chunk["type"]
        reader = response_types.DataChunk if kind == "data" else readers[kind]
        read = reader.model_validate(chunk).model_dump(by_alias=True, exclude_none=True)
        assert read == chunk
        seen[kind] = read
    assert len(seen) == 22


@given(journals(), st.integers(1, 5))
def test_any_turn_keeps_the_clients_rules_however_it_is_cut(events: list[Event], size: int) -> None:
    whole = projected(events)
    projector = UIMessageProjector(SESSION, TURN)
    pieces = numbered(events)
    cut = b"".join(projector.feed(pieces[at : at + size]) for at in range(0, len(pieces), size))
    assert cut == whole
    open_parts: set[str] = set()
    open_inputs: set[str] = set()
    in_step = False
    for chunk in chunks_of(whole):
        kind, part = chunk["type"], chunk.get("id")
        if kind == "tool-input-start":
            open_inputs.add(chunk["toolCallId"])
        elif kind == "tool-input-delta":
            assert chunk["toolCallId"] in open_inputs
        elif kind in {"tool-input-available", "tool-input-error"}:
            open_inputs.discard(chunk["toolCallId"])
        elif kind == "finish-step":
            assert not open_inputs
        if kind in {"text-start", "reasoning-start"}:
            assert in_step
            open_parts.add(part)
        elif kind in {"text-delta", "reasoning-delta"}:
            assert part in open_parts
        elif kind in {"text-end", "reasoning-end"}:
            open_parts.remove(part)
        elif kind in {"start-step", "finish-step"}:
            assert in_step is (kind == "finish-step")
            in_step = not in_step
    assert (open_parts, in_step) == (set(), False)
    spoken = "".join(each.content for each in events if each.event == "content_delta")
    assert text_of(chunks_of(whole)) == spoken


def test_a_text_that_is_void_ends_and_the_next_one_stands_apart() -> None:
    chunks = show(said("seven"), ContentReset(message_id="m"), said("7"), complete())
    texts = [(each["type"], each["id"]) for each in chunks if each["type"].startswith("text-")]
    assert texts[:3] == [("text-start", "1"), ("text-delta", "1"), ("text-end", "1")]
    assert texts[3:5] == [("text-start", "2"), ("text-delta", "2")]
