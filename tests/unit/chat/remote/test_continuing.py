"""Where a turn died, and how it goes on: nothing that changes something runs again unasked."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.remote.continuing import MOST_DEATHS, ContinuingRules, may_continue, plan
from chat.remote.replay import ReplayedTurn, replay
from chat.storage.journal import Entry
from chat.turn.resumption import Resumption
from chat.turn.turn_ids import time_of
from models_app.language_model import ModelInfo
from sessions_app.calls import named_call
from sessions_app.messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolSpec
from sessions_app.messages import UserMessage as Said
from sessions_app.session import Session, ToolSettings, make_session, with_messages
from tools_app.available_tools import AvailableTools
from tools_app.toolset import Tool

SESSION, TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd"
NOW = time_of(TURN, earlier_seconds=-5)
GO_ON = ContinuingRules(on_crash="continue")
OLLAMA = ModelInfo(name="m", size_mb=0, continues_answers=True)
OTHER = ModelInfo(name="anthropic:m", size_mb=0, provider="anthropic")
CLAUDE_4_5 = msgspec.structs.replace(OTHER, continues_answers=True)
Line = tuple[int, str, Mapping[str, Any]]


def tool(name: str, **facts: Any) -> Tool:
    spec = ToolSpec(name=name, description="", parameters={})
    return Tool(spec=spec, **facts)


def tools(policy: str = "never_confirm") -> AvailableTools:
    offered = [
        tool("write", destructive=True),
        tool("read", destructive=False),
        tool("note", destructive=False, server="notes"),
        tool("look", destructive=True, read_only=True),
        tool("agent", delegated=True),
    ]
    settings = ToolSettings(tools=("write", "read"), execution_policy=policy)
    return AvailableTools(tools={each.name: each for each in offered}, settings=settings)


def job(*, detached: bool = True, keyed: bool = False, **request: Any) -> Line:
    return 0, "job", {"v": 1, "detached": detached, "keyed": keyed, "request": request}


STARTED: Line = (
    1,
    "turn_started",
    {"turn_id": TURN, "session_id": SESSION, "model": "m", "user_message_id": "u1"},
)
ROUND: Line = (0, "round", {"message_id": "m1", "model": "m"})
RESUMED: Line = (0, "resumed", {"attempt": 1, "owner": "o", "reason": "process_died"})
HANDED_OVER: Line = (0, "handed_over", {})


def text(number: int, content: str = "Half") -> Line:
    return number, "content_delta", {"content": content}


def began(number: int, name: str, call_id: str, index: int = 0) -> Line:
    call = {"tool_name": name, "arguments": {}, "call_index": index, "tool_call_id": call_id}
    return number, "tool_call", call


def replayed(*lines: Line) -> ReplayedTurn:
    return replay(
        Entry(n, event, msgspec.Raw(msgspec.json.encode(data))) for n, event, data in lines
    )


def session(*messages: Message, **metadata: Any) -> Session:
    made = make_session(SESSION, "m", now=NOW, **metadata)
    asked = Said(content="Hello!", message_id="u1", timestamp=NOW, turn_id=TURN)
    return with_messages(made, [asked, *messages], now=NOW)


def asks(*names: str, message_id: str = "m1", client: bool = False) -> AssistantMessage:
    calls = [ToolCall(id=f"c{i}", name=name, arguments={}) for i, name in enumerate(names)]
    if client:
        calls.append(ToolCall(id="of client", name="mine", arguments={}, client_side=True))
    return AssistantMessage(
        content="",
        message_id=message_id,
        timestamp=NOW,
        model="m",
        tool_calls=tuple(calls),
        turn_id=TURN,
    )


def result(call_id: str, name: str) -> ToolMessage:
    return ToolMessage(
        content="done",
        message_id=f"r {call_id}",
        timestamp=NOW,
        tool_name=name,
        tool_call_id=call_id,
        turn_id=TURN,
    )


def goes_on(found: Session, *lines: Line, rules: ContinuingRules = GO_ON) -> bool:
    return may_continue(found, replayed(*lines), TURN, rules, now=NOW)


def resumption(found: Session, *lines: Line, info: ModelInfo = OLLAMA, **how: Any) -> Resumption:
    assert goes_on(found, *lines)
    return plan(found, replayed(*lines), TURN, info=info, **{"tools": tools(), **how})


# Whether


def test_a_turn_goes_on_if_somebody_can_come_back_for_it() -> None:
    assert goes_on(session(), job(), STARTED)
    assert goes_on(session(), job(detached=False, keyed=True), STARTED)
    assert not goes_on(session(), job(detached=False), STARTED)
    assert goes_on(session(), job(detached=False), STARTED, job(detached=True))  # since
    assert not goes_on(session(), STARTED)
    assert not goes_on(session())


def test_the_request_counts_before_the_session_and_that_before_the_server() -> None:
    seals = ContinuingRules(on_crash="seal")
    assert not goes_on(session(), job(), rules=seals)
    assert goes_on(session(on_crash="continue"), job(), rules=seals)
    assert goes_on(session(), job(on_crash="continue"), rules=seals)
    assert not goes_on(session(on_crash="seal"), job())
    assert not goes_on(session(on_crash="continue"), job(on_crash="seal"))


@pytest.mark.parametrize(
    "last",
    [
        (0, "stopped", {"upstream": True, "tools": [], "agents": []}),
        (0, "suspended", {"message_id": None, "confirmations": [], "tool_calls": []}),
        (2, "error", {"code": "X", "message": "x", "details": {"retryable": False}}),
        (2, "done", {"session_id": SESSION}),
    ],
)
def test_a_turn_that_was_ending_is_sealed(last: Line) -> None:
    assert not goes_on(session(), job(), STARTED, last)


def test_a_turn_whose_answer_is_saved_is_sealed() -> None:
    answer = AssistantMessage(content="All", message_id="m1", timestamp=NOW, turn_id=TURN)
    assert not goes_on(session(answer), job(), STARTED, ROUND, text(2))
    partial = msgspec.structs.replace(answer, interrupted=True)
    assert not goes_on(session(partial), job(), STARTED, ROUND, text(2))
    assert not goes_on(session(asks(client=True)), job(), STARTED, ROUND)


def test_a_turn_past_its_time_is_sealed() -> None:
    assert goes_on(session(), job(), rules=msgspec.structs.replace(GO_ON, seconds=6))
    assert not goes_on(session(), job(), rules=msgspec.structs.replace(GO_ON, seconds=4))


def test_a_turn_that_brings_no_output_is_given_up() -> None:
    assert goes_on(session(), job(), RESUMED)
    assert not goes_on(session(), job(), RESUMED, RESUMED)
    assert goes_on(session(), job(), STARTED, ROUND, RESUMED, RESUMED, text(2), RESUMED)
    assert goes_on(session(), job(), *[RESUMED, text(2)] * (MOST_DEATHS - 1))
    assert not goes_on(session(), job(), *[RESUMED, text(2)] * MOST_DEATHS)


def test_a_turn_that_was_handed_over_is_never_given_up_for_that() -> None:
    handed = (HANDED_OVER, (0, "resumed", {**RESUMED[2], "reason": "server_stopped"}))
    assert goes_on(session(), job(), *handed * 20)
    assert goes_on(session(), job(), RESUMED, RESUMED, HANDED_OVER)
    assert resumption(session(), job(), HANDED_OVER).reason == "server_stopped"


def test_a_turn_whose_question_is_gone_is_sealed() -> None:
    other = session()
    other = with_messages(other, [Said(content="?", message_id="u2", timestamp=NOW)], now=NOW)
    assert not goes_on(other, job(), STARTED)


# How


def test_without_an_event_the_turn_just_starts() -> None:
    found = resumption(session(), job())
    assert (found.last_number, found.begun, found.discarded_id) == (0, None, None)


def test_a_text_goes_on_where_the_model_continues_it() -> None:
    found = resumption(session(), job(), STARTED, ROUND, text(2))
    assert found.begun is not None
    assert (found.begun.message_id, found.begun.content) == ("m1", "Half")
    assert (found.discarded_id, found.discarded) == (None, [])


@pytest.mark.parametrize(
    ("lines", "info"),
    [
        ([job(), STARTED, ROUND, text(2)], OTHER),
        ([job(think=True), STARTED, ROUND, text(2)], CLAUDE_4_5),
        ([job(answer_schema={"type": "object"}), STARTED, ROUND, text(2)], OLLAMA),
        (
            [
                *(job(), STARTED, ROUND, text(2)),
                (3, "tool_call_delta", {"call_index": 0, "tool_call_id": "c", "arguments": "{"}),
            ],
            OLLAMA,
        ),
    ],
)
def test_else_it_is_void_and_kept(lines: Sequence[Line], info: ModelInfo) -> None:
    found = resumption(session(), *lines, info=info)
    assert (found.begun, found.discarded_id) == (None, "m1")
    [kept] = found.discarded
    assert (kept.message_id, kept.content, kept.interrupted) == ("m1", "Half", True)


def test_reasoning_alone_is_void_and_not_kept() -> None:
    found = resumption(session(), job(), STARTED, ROUND, (2, "thinking_delta", {"content": "Hm"}))
    assert (found.begun, found.discarded_id, found.discarded) == (None, "m1", [])


def test_text_that_is_void_stays_so_until_it_is_saved() -> None:
    again: Line = (
        3,
        "turn_resumed",
        {
            "turn_id": TURN,
            "session_id": SESSION,
            "attempt": 1,
            "reason": "process_died",
            "keeps": "results",
            "message_id": "m2",
            "discarded": ["m1"],
        },
    )
    lines = [job(), STARTED, ROUND, text(2), RESUMED, again]
    found = resumption(session(), *lines, info=OTHER)
    assert [each.content for each in found.discarded] == ["Half"]
    assert found.discarded_id is None  # clients know it
    more: list[Line] = [*lines, (0, "round", {"message_id": "m2"}), text(4, "Other")]
    found = resumption(session(), *more, info=OTHER)
    assert [each.content for each in found.discarded] == ["Half", "Other"]
    assert found.discarded_id == "m2"
    saved = msgspec.structs.replace(asks("read", message_id="m2"), variants=[found.discarded[:1]])
    assert resumption(session(saved), *more).discarded == []


def test_calls_that_did_not_begin_are_decided_as_ever() -> None:
    found = resumption(session(asks("write", "read")), job(), STARTED, ROUND)
    assert [(item.call.id, item.index) for item in found.calls] == [("c0", 0), ("c1", 1)]
    assert (found.unclear, found.lost, found.next_index, found.rounds) == (set(), set(), 2, 1)


@pytest.mark.parametrize(
    ("name", "starts", "unclear", "lost"),
    [
        ("write", 1, True, False),
        ("write", 2, True, False),
        ("read", 1, False, False),
        ("read", 2, False, True),
        ("note", 1, True, False),
        ("look", 1, False, False),
        ("gone", 1, True, False),
        ("agent", 1, True, False),
    ],
)
def test_begun_calls_by_what_they_do(name: str, starts: int, unclear: bool, lost: bool) -> None:
    begun = [began(2 + number, name, "c0") for number in range(starts)]
    found = resumption(session(asks(name)), job(), STARTED, ROUND, *begun)
    assert ("c0" in found.unclear, "c0" in found.lost) == (unclear, lost)


def test_an_agent_that_waits_for_an_approval_goes_on_in_its_session() -> None:
    asked = {**began(3, "write", "c0")[2], "confirmation_id": "conf_a", "agent_name": "a"}
    lines = job(), STARTED, ROUND, began(2, "agent", "c0")
    question: Line = (3, "tool_call_confirmation_required", asked)
    assert resumption(session(asks("agent")), *lines, question).unclear == set()


def test_what_reads_is_asked_about_where_a_person_decides_on_it() -> None:
    found = session(asks("read")), job(), STARTED, ROUND, began(2, "read", "c0")
    assert resumption(*found, tools=tools("always_confirm")).unclear == {"c0"}


def test_the_claim_tells_of_calls_that_the_journal_lost() -> None:
    begun = [named_call("m1", "c0")]
    found = resumption(session(asks("write", "write")), job(), STARTED, ROUND, begun=begun)
    assert found.unclear == {"c0"}


def test_with_all_results_the_model_is_asked() -> None:
    found = session(asks("write"), result("c0", "write"))
    again = resumption(found, job(), STARTED, ROUND, began(2, "write", "c0"))
    assert (again.calls, again.next_index, again.rounds) == ([], 1, 1)


def test_a_message_that_steered_the_turn_is_told_if_it_was_not() -> None:
    steer = Said(content="Rather so.", message_id="u2", timestamp=NOW, turn_id=TURN)
    found = session(asks("write"), result("c0", "write"), steer)
    lines = [job(), STARTED, ROUND, began(2, "write", "c0")]
    assert [each.message_id for each in resumption(found, *lines).taken] == ["u2"]
    told: Line = (
        3,
        "message_taken",
        {"message_id": "u2", "content": "Rather so.", "user_message_index": 4},
    )
    assert not resumption(found, *lines, told).taken


# Always

STEPS = st.sampled_from(["text", "save", "round", "begin", "result", "die"])


def turns() -> st.SearchStrategy[list[str]]:
    return st.lists(STEPS, max_size=30)


class Life:
    """A turn that does as it is told, in the engine's order, and dies now and then."""

    def __init__(self) -> None:
        self.lines: list[Line] = [job(), STARTED]
        self.messages: list[Message] = []
        self.names: dict[str, str] = {}
        self.begun: set[str] = set()
        self.calls = self.answers = 0
        self.deaths = 0
        self.approved: set[str] = set()

    @property
    def session(self) -> Session:
        return session(*self.messages)

    def open(self) -> Iterator[ToolCall]:
        answered = {m.tool_call_id for m in self.messages if isinstance(m, ToolMessage)}
        for message in self.messages:
            for call in getattr(message, "tool_calls", ()):
                if call.id not in answered:
                    yield call

    def take(self, step: str) -> None:
        waiting = list(self.open())
        if step == "round" and not waiting:
            self.answers += 1
            self.lines.append((0, "round", {"message_id": f"a{self.answers}"}))
        elif step == "text" and self.answers and not waiting:
            self.lines.append(text(len(self.lines)))
        elif step == "save" and self.answers and not waiting:
            name = ("write", "read")[self.calls % 2]
            call = ToolCall(id=f"k{self.calls}", name=name, arguments={})
            self.calls += 1
            answer = asks(message_id=f"a{self.answers}")
            self.messages.append(msgspec.structs.replace(answer, tool_calls=(call,)))
        elif step == "begin" and waiting and waiting[0].id not in self.begun:
            self.begun.add(waiting[0].id)
            self.lines.append(began(len(self.lines), waiting[0].name, waiting[0].id))
        elif step == "result" and waiting and waiting[0].id in self.begun:
            self.messages.append(result(waiting[0].id, waiting[0].name))
            finished = {"execution_time_ms": 1.0, "result": "done", "summary": "", "success": True}
            data = {**began(0, waiting[0].name, waiting[0].id)[2], **finished}
            self.lines.append((len(self.lines), "tool_result", {**data, "error_message": None}))


@given(turns())
def test_nothing_that_changes_something_runs_again_unasked_and_there_is_an_end(
    steps: list[str],
) -> None:
    life = Life()
    for step in [*steps, *["die"] * (MOST_DEATHS + 1)]:
        if step != "die":
            life.take(step)
            continue
        turn = replayed(*life.lines)
        if not may_continue(life.session, turn, TURN, GO_ON, now=NOW):
            break
        found = plan(life.session, turn, TURN, info=OLLAMA, tools=tools())
        for call in life.open():
            changes = call.name == "write" and call.id in life.begun
            assert (call.id in found.unclear) == changes
            if call.id not in found.unclear | found.lost:
                life.begun.discard(call.id)  # it may begin again
        life.deaths += 1
        life.lines.append(RESUMED)
        if life.answers and not list(life.open()) and found.begun is None:
            life.take("round")
    else:
        pytest.fail("it goes on for ever")
    assert life.deaths <= MOST_DEATHS
