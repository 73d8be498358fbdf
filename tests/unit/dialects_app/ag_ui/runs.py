"""Turns of all kinds, and what a client of AG-UI makes of the streams that show them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ag_ui.core import Event as AgUiEvent
from hypothesis import strategies as st
from msgspec import UNSET
from pydantic import TypeAdapter

from chat.stream.agent_events import (
    AgentComplete,
    AgentExecution,
    AgentPlanning,
    AgentStarted,
    AgentToolCall,
    AgentToolResult,
)
from chat.stream.events import (
    Cancelled,
    ContentDelta,
    Done,
    Event,
    Failed,
    MessageComplete,
    StatusChanged,
    ThinkingContentDelta,
    ToolCallDelta,
    ToolConfirmationRequired,
    ToolContinuationStarted,
    TurnStarted,
    TurnUsage,
)
from dialects_app.ag_ui.projector import RunProjector
from tests.unit.dialects_app.turns import (
    SESSION_ID,
    TURN_ID,
    called,
    handed_over,
    numbered,
    returned,
)
from tools_app.toolset import AGENT_TOOL

MODEL = "small:1b"
THREAD, RUN = "thread-1", "run-1"
EXPIRES = "2026-01-02T03:04:05.000000+00:00"
USAGE = TurnUsage(
    input_tokens=12, output_tokens=30, cached_tokens=4, reasoning_tokens=7, cost_usd="0.0058"
)

_events = TypeAdapter(AgUiEvent)


def started(message_id: str = "m0") -> TurnStarted:
    return TurnStarted(turn_id=TURN_ID, session_id=SESSION_ID, model=MODEL, message_id=message_id)


def going_on(message_id: str = "m1") -> ToolContinuationStarted:
    return ToolContinuationStarted(message_id=message_id)


def asked(call_id: str, question: str = "conf_a", **fields: Any) -> ToolConfirmationRequired:
    return ToolConfirmationRequired(
        **{"tool_name": "remove", "arguments": {"path": "x"}, "call_index": 0, **fields},
        tool_call_id=call_id,
        confirmation_id=question,
        expires_at=EXPIRES,
    )


def of_agent(call_id: str = "c1") -> dict[str, Any]:
    return {"agent_name": "clerk", "call_index": 0, "tool_call_id": call_id}


def agent_called(call_id: str, inner: str, **arguments: Any) -> AgentToolCall:
    return AgentToolCall(
        **of_agent(call_id), tool_name="add", arguments=arguments, inner_tool_call_id=inner
    )


def agent_returned(call_id: str, inner: str, result: str = "3") -> AgentToolResult:
    return AgentToolResult(
        **of_agent(call_id),
        tool_name="add",
        success=True,
        result=result,
        error_message=None,
        inner_tool_call_id=inner,
        summary=result,
        execution_time_ms=1.0,
    )


def complete(
    content: str = "", *, message_id: str = "m0", done_reason: str = "stop"
) -> list[Event]:
    ending = MessageComplete(
        message_id=message_id,
        model=MODEL,
        eval_count=2,
        prompt_eval_count=10,
        context_window={},
        content=content,
        thinking=None,
        tool_calls=(),
        turn_id=TURN_ID,
        done_reason=done_reason,
        usage={},
        turn_usage=USAGE,
    )
    return [ending, done()]


def cancelled(content: str = "", *, message_id: str = "m0") -> list[Event]:
    return [Cancelled(content=content, thinking=None, model=MODEL, message_id=message_id), done()]


def failed(code: str = "NETWORK_ERROR") -> list[Event]:
    return [Failed(code=code, message="It broke off.", details={"retryable": True}), done()]


def done() -> Done:
    return Done(session_id=SESSION_ID)


# What a client sees


def shown(stream: bytes) -> list[dict[str, Any]]:
    """Return the events of a stream, each taken by the model that the protocol has for it."""
    events = []
    for block in stream.decode("ascii").split("\n\n")[:-1]:
        event = json.loads(block.removeprefix("data: "))
        _require_no_null(event)
        _events.validate_python(event)
        events.append(event)
    return events


def _require_no_null(event: dict[str, Any]) -> None:
    given = {key: value for key, value in event.items() if key != "value"}
    assert None not in given.values(), event


def projected(events: Sequence[Event], **options: Any) -> list[dict[str, Any]]:
    return shown(RunProjector(THREAD, RUN, **options).feed(numbered(events)))


def kinds(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def of_kind(events: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def texts_of(events: Sequence[dict[str, Any]], kind: str = "TEXT_MESSAGE_CONTENT") -> dict:
    """Return the texts that deltas make, by the messages that they are of."""
    texts: dict[str, str] = {}
    for event in of_kind(events, kind):
        texts[event["messageId"]] = texts.get(event["messageId"], "") + event["delta"]
    return texts


_PAIRS = {
    "TEXT_MESSAGE": ("START", "CONTENT", "END", "messageId"),
    "REASONING_MESSAGE": ("START", "CONTENT", "END", "messageId"),
    "TOOL_CALL": ("START", "ARGS", "END", "toolCallId"),
    "REASONING": ("START", "", "END", "messageId"),
    "STEP": ("STARTED", "", "FINISHED", "stepName"),
}


def verify(events: Sequence[dict[str, Any]]) -> None:
    """Fail where the client's own verifier does, by its rules (``verifyEvents``)."""
    assert events[0]["type"] == "RUN_STARTED"
    assert events[-1]["type"] in {"RUN_FINISHED", "RUN_ERROR"}
    opened: set[Any] = set()
    owners: dict[Any, Any] = {}
    agents, gone = set(), set()
    for event in events[1:-1]:
        kind, who = event["type"], event.get("subagentRunId")
        assert kind not in {"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"}
        if kind == "SUBAGENT_STARTED":
            assert who not in agents | gone
            agents.add(who)
        elif kind in {"SUBAGENT_FINISHED", "SUBAGENT_ERROR"}:
            agents.remove(who)
            gone.add(who)
        elif who is not None:
            assert who in agents
        _check_pair(event, opened, owners)
    assert (opened, agents) == (set(), set())


def _check_pair(event: dict[str, Any], opened: set[Any], owners: dict[Any, Any]) -> None:
    family, _, part = event["type"].rpartition("_")
    if family not in _PAIRS:
        return
    begin, middle, end, key = _PAIRS[family]
    who = event.get("subagentRunId")
    thing = (family, event.get(key), who if family == "STEP" else None)
    if part == begin:
        assert thing not in opened, event
        assert owners.setdefault(thing, who) == who, event
        opened.add(thing)
    elif part in {middle, end}:
        assert thing in opened, event
        assert owners[thing] == who, event
        if part == end:
            opened.remove(thing)


# Turns of all kinds

TEXTS = st.text(max_size=8) | st.sampled_from([" ", "\n\n", "a b", "ü\u2028", "\\", '"', "😀"])


@st.composite
def turns(draw: st.DrawFn) -> list[Event]:
    """A whole turn: rounds with texts, reasoning and calls, and one of the endings."""
    events: list[Event] = [started("m0")]
    rounds = draw(st.integers(0, 2))
    for number in range(rounds):
        events += draw(_texts())
        events += draw(_calls())
        events.append(going_on(f"m{number + 1}"))
    last = draw(_texts())
    content = "".join(each.content for each in last if isinstance(each, ContentDelta)).strip()
    name = f"m{rounds}"
    waiting = AgentStarted(**of_agent("c7"), instruction="Go")
    endings = (
        complete(content, message_id=name),
        [handed_over("f1", x=1), *complete(content, message_id=name, done_reason="tool_calls")],
        cancelled(content, message_id=name),
        failed(),
        [called("c9"), *failed()],
        [waiting, AgentPlanning(**of_agent("c7"), content="Plan"), *cancelled(message_id=name)],
        [waiting, agent_called("c7", "i1"), *failed()],
        [asked("c8"), StatusChanged(state="waiting_for_confirmation"), done()],
        [asked("c8"), asked("c9", "conf_b"), handed_over("f1"), done()],
        [
            waiting,
            asked("c7", "conf_c", agent_name="clerk", inner_tool_call_id="i2"),
            done(),
        ],
    )
    return [*events, *last, *draw(st.sampled_from(endings))]


@st.composite
def _texts(draw: st.DrawFn) -> list[Event]:
    one_of = st.sampled_from([ContentDelta, ThinkingContentDelta])
    return [draw(one_of)(content=text) for text in draw(st.lists(TEXTS.filter(bool), max_size=6))]


@st.composite
def _calls(draw: st.DrawFn) -> Sequence[Event]:
    ids = [f"call_{number}" for number in range(draw(st.integers(1, 3)))]
    what = {each: draw(st.sampled_from(["free", "asked", "agent", "refused"])) for each in ids}
    events: list[Event] = list(draw(_streamed(ids, what)))
    events += [asked(each, f"conf_{each}") for each in ids if what[each] == "asked"]
    events += [called(each, n="ü") for each in ids if what[each] == "free"]
    agents = [each for each in ids if what[each] == "agent"]
    events += [AgentStarted(**of_agent(each), instruction="Go") for each in agents]
    events.append(StatusChanged(state="waiting_for_tool"))
    running = [list(draw(_work(each))) for each in agents]
    while running:  # agents work side by side
        work = draw(st.sampled_from(running))
        events.append(work.pop(0))
        running = [each for each in running if each]
    events += [
        returned(each, draw(st.sampled_from(["3", "", None]))) for each in ids if each not in agents
    ]
    return events


@st.composite
def _streamed(draw: st.DrawFn, ids: Sequence[str], what: Mapping[str, str]) -> Iterator[Event]:
    """Pieces of arguments, of calls whose names are told with the first piece, or not."""
    pieces: list[Event] = []
    for number, each in enumerate(draw(st.lists(st.sampled_from(ids), unique=True))):
        name = draw(st.sampled_from([UNSET, AGENT_TOOL if what[each] == "agent" else "add"]))
        about: dict[str, Any] = {"call_index": number, "tool_call_id": each}
        pieces.append(ToolCallDelta(**about, arguments='{"n":', tool_name=name))
        pieces += draw(_texts())
        pieces.append(ToolCallDelta(**about, arguments='"ü"}'))
    return iter(pieces)


@st.composite
def _work(draw: st.DrawFn, call_id: str) -> Iterator[Event]:
    who = of_agent(call_id)
    pieces: dict[str, list[Event]] = {
        "plan": [AgentPlanning(**who, content="Plan")],
        "do": [AgentExecution(**who, content="Do\n")],
        "call": [agent_called(call_id, "i1", a=1), agent_returned(call_id, "i1")],
        "ask": [
            asked(call_id, "conf_i", agent_name="clerk", inner_tool_call_id="i2"),
            agent_returned(call_id, "i2"),
        ],
        "refused": [agent_returned(call_id, "i3")],
    }
    chosen = draw(st.lists(st.sampled_from(sorted(pieces)), max_size=5))
    output = draw(st.sampled_from(["Done.", "Error: it broke"]))
    ending = AgentComplete(**who, session_id=SESSION_ID, output=output)
    return iter([*(event for name in chosen for event in pieces[name]), ending])
