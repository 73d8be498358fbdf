"""Who follows a thread has the messages of its session, also after deaths of its process."""

from typing import Any

from chat.stream.agent_events import AgentComplete, AgentStarted
from chat.stream.events import Event, ToolCallDelta
from dialects_app.ag_ui.calls import ResumedCalls
from dialects_app.ag_ui.followed import FollowedRunProjector
from dialects_app.ag_ui.projector import RunProjector
from dialects_app.ag_ui.snapshot import before_turn, shown_messages
from sessions_app.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from tests.unit.dialects_app.ag_ui.runs import (
    MODEL,
    THREAD,
    asked,
    complete,
    going_on,
    kinds,
    of_agent,
    of_kind,
    shown,
    started,
    texts_of,
    verify,
)
from tests.unit.dialects_app.turns import (
    SESSION_ID,
    TURN_ID,
    called,
    numbered,
    resumed,
    returned,
    said,
    taken,
    thought,
)

ASKED = UserMessage(content="Hi", message_id="u1", timestamp="", turn_id=TURN_ID)
ROUND = [started(), *thought("Hm."), *said("I add."), called("c1", a=1), returned("c1")]


def followed(events: list[Event], *, resumes: ResumedCalls | None = None) -> list[dict[str, Any]]:
    before = [ASKED]
    projector = FollowedRunProjector(
        THREAD, before, shown_messages(before), resumed=resumes or ResumedCalls()
    )
    return shown(projector.feed(numbered(events)))


def answer(message_id: str, content: str, **fields: Any) -> AssistantMessage:
    return AssistantMessage(
        content=content,
        message_id=message_id,
        timestamp="",
        model=MODEL,
        turn_id=TURN_ID,
        **fields,
    )


SAVED_ROUND: list[Message] = [
    ASKED,
    answer(
        "m0",
        "I add.",
        thinking="Hm.",
        tool_calls=(ToolCall(id="c1", name="add", arguments={"a": 1}),),
    ),
    ToolMessage(
        content="3", message_id="r", timestamp="", tool_name="add", tool_call_id="c1",
        turn_id=TURN_ID,
    ),
]  # fmt: skip


def test_who_joins_gets_the_messages_first() -> None:
    events = followed([started(), *said("Hello"), *complete("Hello")])
    assert kinds(events)[:3] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START"]
    assert events[1]["messages"] == shown_messages([ASKED])


def test_a_text_that_goes_on_stays_open() -> None:
    goes_on = resumed("m0", keeps="text")
    run = followed([started(), *said("Hel"), goes_on, *said("lo"), *complete("Hello")])
    assert texts_of(run) == {"m0": "Hello"}
    assert kinds(run).count("TEXT_MESSAGE_START") == 1
    (custom,) = of_kind(run, "CUSTOM")
    assert custom["name"] == "mochi.turn_resumed"
    assert custom["value"] == {
        "turn_id": TURN_ID,
        "session_id": SESSION_ID,
        "attempt": 1,
        "reason": "process_died",
        "keeps": "text",
        "message_id": "m0",
    }
    verify(run)


def test_what_is_discarded_is_missing_in_the_next_messages() -> None:
    piece = ToolCallDelta(call_index=1, tool_call_id="c2", arguments="{", tool_name="add")
    again = [resumed("m2", "m1"), *said("Three."), *complete("Three.", message_id="m2")]
    run = followed([*ROUND, going_on(), *thought("So."), *said("Thr"), piece, *again])
    first, second = of_kind(run, "MESSAGES_SNAPSHOT")
    assert second["messages"] == shown_messages(SAVED_ROUND)
    assert first["messages"] == second["messages"][:1]
    at = run.index(second)
    open_before = {"TEXT_MESSAGE_END", "REASONING_END", "TOOL_CALL_END"}
    assert open_before <= set(kinds(run[:at]))
    assert run[at + 1]["name"] == "mochi.turn_resumed"
    assert run[at + 1]["value"]["discarded"] == ["m1"]
    assert texts_of(run[at:]) == {"m2": "Three."}
    verify(run)


def test_a_discarded_call_gives_its_id_free() -> None:
    piece = ToolCallDelta(call_index=0, tool_call_id="c1", arguments="{", tool_name="add")
    run = followed(
        [started(), piece, resumed("m1", "m0"), called("c1", a=2), returned("c1"), going_on("m2"),
         *said("Four."), *complete("Four.", message_id="m2")]
    )  # fmt: skip
    assert len(of_kind(run, "TOOL_CALL_START")) == 2
    verify(run)


def test_calls_and_questions_that_come_again_are_shown_once() -> None:
    run = followed(
        [started(), *said("I remove."), asked("c1"), resumed("m1"), asked("c1"),
         called("c1", "remove", path="x"), returned("c1"), going_on("m1"), *said("Gone."),
         *complete("Gone.", message_id="m1")]
    )  # fmt: skip
    assert len(of_kind(run, "TOOL_CALL_START")) == 1
    assert [each["name"] for each in of_kind(run, "CUSTOM")] == ["interrupt", "mochi.turn_resumed"]
    assert texts_of(run) == {"m0": "I remove.", "m1": "Gone."}
    verify(run)


def test_an_agent_that_is_called_again_is_another_run_of_it() -> None:
    begun = AgentStarted(**of_agent(), instruction="Go.")
    over = AgentComplete(**of_agent(), session_id=SESSION_ID, output="Done.")
    run = followed(
        [started(), begun, resumed("m1"), begun, over, going_on("m1"), *said("So."),
         *complete("So.", message_id="m1")]
    )  # fmt: skip
    runs = [each["subagentRunId"] for each in of_kind(run, "SUBAGENT_STARTED")]
    assert runs == ["c1", "c1-2"]
    verify(run)


def test_a_user_who_speaks_while_the_run_goes_on_is_shown() -> None:
    steered = [*ROUND, taken(), going_on(), *said("Two."), *complete("Two.", message_id="m1")]
    run = followed(steered)
    (said_by_user,) = [
        each for each in of_kind(run, "TEXT_MESSAGE_START") if each["role"] == "user"
    ]
    assert said_by_user["messageId"] == "steer00001"
    assert texts_of(run)["steer00001"] == "Rather 2."
    verify(run)
    said_then = UserMessage(
        content="Rather 2.", message_id="steer00001", timestamp="", turn_id=TURN_ID
    )
    assert before_turn([*SAVED_ROUND, said_then, answer("m1", "Two.")], TURN_ID) == [ASKED]
    again = followed([*steered[:-3], going_on(), *said("T"), resumed("m2", "m1"), *steered[-1:]])
    assert of_kind(again, "MESSAGES_SNAPSHOT")[1]["messages"] == shown_messages(
        [*SAVED_ROUND, said_then]
    )


def test_calls_of_an_earlier_turn_are_not_shown_as_those_of_this_one() -> None:
    call = ToolCall(id="c0", name="add", arguments={})
    resumes = ResumedCalls(asking_id="m9", calls={"c0": call}, known=frozenset({"c0"}))
    run = followed(
        [started(), called("c0"), returned("c0"), going_on(), *said("x"), resumed("m2", "m1")],
        resumes=resumes,
    )
    messages = of_kind(run, "MESSAGES_SNAPSHOT")[1]["messages"]
    assert not any("toolCalls" in each for each in messages)


def test_who_has_the_messages_is_only_told_what_is_void() -> None:
    events = [started(), *said("Thr"), resumed("m1", "m0"), *said("3"),
              *complete("3", message_id="m1")]  # fmt: skip
    run = shown(RunProjector(THREAD, "run").feed(numbered(events)))
    assert of_kind(run, "MESSAGES_SNAPSHOT") == []
    assert of_kind(run, "CUSTOM")[0]["value"]["discarded"] == ["m0"]
    verify(run)
