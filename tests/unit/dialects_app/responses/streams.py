"""Events of turns, and what the official package makes of the streams that show them."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, get_args

from hypothesis import strategies as st
from openai import omit
from openai._models import construct_type
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent

from chat.stream.agent_events import (
    AgentComplete,
    AgentPlanning,
    AgentStarted,
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
)
from dialects_app.responses.projector import ResponseProjector
from dialects_app.responses.record import ResponseRecord
from tests.unit.dialects_app.turns import (
    SESSION_ID,
    TURN_ID,
    called,
    finished,
    handed_over,
    numbered,
    returned,
)

NOW = "2026-01-02T03:04:05.000000+00:00"
MODEL = "small:1b"


def started(message_id: str = "aaaaaaaaaa") -> TurnStarted:
    return TurnStarted(turn_id=TURN_ID, session_id=SESSION_ID, model=MODEL, message_id=message_id)


def going_on(message_id: str = "bbbbbbbbbb") -> ToolContinuationStarted:
    return ToolContinuationStarted(message_id=message_id)


def asked(call_id: str, question: str, **arguments: Any) -> ToolConfirmationRequired:
    return ToolConfirmationRequired(
        tool_name="remove",
        arguments=arguments,
        call_index=0,
        tool_call_id=call_id,
        confirmation_id=f"conf_{question * 32}",
    )


def approved(call_id: str, result: str, question: str) -> Event:
    """Return the result of a call that a person approved, which no other event announces."""
    call = finished(call_id, result, tool_name="remove", arguments={"path": "x"})
    return call.event(was_announced=False, confirmation_id=f"conf_{question * 32}")


def complete(
    content: str, *, message_id: str = "aaaaaaaaaa", done_reason: str = "stop"
) -> list[Event]:
    return [
        MessageComplete(
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
            usage={"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        ),
        done(),
    ]


def cancelled(content: str, *, message_id: str = "aaaaaaaaaa") -> list[Event]:
    ending = Cancelled(content=content, thinking=None, model=MODEL, message_id=message_id)
    return [ending, done()]


def failed(code: str = "NETWORK_ERROR") -> list[Event]:
    return [Failed(code=code, message="It broke off.", details={"retryable": True}), done()]


def done() -> Done:
    return Done(session_id=SESSION_ID, saved_at=NOW)


# What a client of OpenAI's protocol sees of a stream


def shown(stream: bytes) -> list[dict[str, Any]]:
    """Return the events of a stream, each checked against the type that the package has for it."""
    events = []
    for frame in stream.decode().split("\n\n"):
        if not frame or frame.startswith(":"):
            continue
        name, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
        check_event(event)
    return events


def check_event(event: dict[str, Any]) -> None:
    """Fail unless the package's own type takes the event, and it has every field of it."""
    kind = _event_types().get(event["type"])
    if kind is None:
        assert event["type"].startswith("mochi."), event["type"]
        return
    kind.model_validate(event)


@cache
def _event_types() -> dict[str, Any]:
    union = get_args(ResponseStreamEvent)[0]
    return {get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(union)}


def check_resource(resource: Any) -> None:
    """Fail unless the package's type takes the resource and all required fields are there."""
    Response.model_validate(resource)
    assert REQUIRED - set(resource) == set()
    assert isinstance(resource["created_at"], int)


REQUIRED = {
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "user",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
}
"""What Open Responses' schema requires of a response."""


def accumulate(events: Sequence[dict[str, Any]]) -> Any:
    """Feed the package's own accumulator, which raises for a stream that makes no sense.

    Returns:
        The response that its helper would return; None where it would raise.
    """
    state = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events:
        state.handle_event(construct_type(type_=ResponseStreamEvent, value=event))
    return state._completed_response


# Turns of all kinds

TEXTS = st.text(max_size=8) | st.sampled_from([" ", "\n\n", "a b", "ü\u2028", "\\", '"', "😀"])


@st.composite
def turns(draw: st.DrawFn) -> list[Event]:
    """A whole turn: rounds with texts, reasoning and calls, and one of the endings."""
    events: list[Event] = [started("m0")]
    rounds = draw(st.integers(0, 2))
    texts: list[Event] = []
    for number in range(rounds + 1):
        texts = draw(_texts())
        events += texts
        if number < rounds:
            events += draw(_calls(number))
            events.append(going_on(f"m{number + 1}"))
    content = "".join(e.content for e in texts if isinstance(e, ContentDelta)).lstrip()
    last = f"m{rounds}"
    endings = (
        complete(content, message_id=last),
        complete(content, message_id=last, done_reason="length"),
        [handed_over("f1", x=1), *complete(content, message_id=last, done_reason="tool_calls")],
        cancelled(content, message_id=last),
        failed(),
        [called("c9"), *failed()],
        [asked("c8", "a", x="y"), done()],
        [asked("c8", "a"), asked("c9", "b"), handed_over("f1"), done()],
    )
    return events + list(draw(st.sampled_from(endings)))


@st.composite
def _texts(draw: st.DrawFn) -> list[Event]:
    one_of = st.sampled_from([ContentDelta, ThinkingContentDelta])
    return [draw(one_of)(content=text) for text in draw(st.lists(TEXTS.filter(bool), max_size=6))]


@st.composite
def _calls(draw: st.DrawFn, of_round: int) -> Sequence[Event]:
    ids = [f"call_{number}" for number in range(draw(st.integers(1, 3)))]
    kinds = {each: draw(st.sampled_from(["free", "asked", "agent", "refused"])) for each in ids}
    events: list[Event] = [ToolCallDelta(call_index=0, tool_call_id=ids[0], arguments='{"a"')]
    for number, each in enumerate(ids, 3 * of_round):
        if kinds[each] == "asked":
            events.append(asked(each, str(number)))
    events += [called(each, n=1) for each in ids if kinds[each] == "free"]
    events += [_agent_started(each) for each in ids if kinds[each] == "agent"]
    events.append(StatusChanged(state="waiting_for_tool"))
    for each in ids:
        events += _result(each, kinds[each], draw(st.sampled_from(["3", "", None])))
    return events


def _agent_started(call_id: str) -> AgentStarted:
    return AgentStarted(agent_name="clerk", call_index=0, tool_call_id=call_id, instruction="Go")


def _result(call_id: str, kind: str, result: str | None) -> Iterator[Event]:
    if kind == "agent":
        who: dict[str, Any] = {
            "agent_name": "clerk",
            "call_index": 0,
            "tool_call_id": call_id,
        }
        yield AgentPlanning(**who, content="Plan")
        yield AgentComplete(**who, session_id=SESSION_ID, output=result or "Error: it broke")
    else:
        yield returned(call_id, None if kind == "refused" else result)


def projected(
    events: Sequence[Event], record: ResponseRecord | None = None, *, after: int = -1
) -> list[dict[str, Any]]:
    projector = ResponseProjector(SESSION_ID, TURN_ID, record or ResponseRecord(), after=after)
    return shown(projector.feed(numbered(events)))


def texts_of(events: Sequence[dict[str, Any]], kind: str) -> dict[str, str]:
    """Return the texts that deltas make, by the items that they are of."""
    texts: dict[str, str] = {}
    for event in events:
        if event["type"] == kind:
            texts[event["item_id"]] = texts.get(event["item_id"], "") + event["delta"]
    return texts
