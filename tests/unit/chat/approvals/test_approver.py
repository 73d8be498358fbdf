"""A turn that asks before a tool runs: who is asked, what is waited for, what an answer does."""

import asyncio
import json
import threading
from unittest.mock import patch

import pytest

from chat.approvals.store import ConfirmationStore
from chat.errors import ConfirmationAlreadyDecided, ConfirmationNotFound, NoActiveTurn
from chat.remote.outcome import outcome_of
from chat.remote.replay import replay
from chat.start.turn_request import TurnRequest
from chat.turn.state_machine import State
from models_app.language_model import CallDelta, Finished, TextDelta
from sessions_app.messages import ToolCall, ToolMessage, ToolSpec
from sessions_app.session import ToolSettings, append_messages, with_metadata
from tests.unit.chat.approvals.questions import allowed, denied
from tools_app.toolset import Tool, ToolListing, ToolProgress, ToolResult

HELLO = TurnRequest(message="Hello!")
GO_ON = TurnRequest()


class Files:
    """A reading tool, and a deleting one that is destructive."""

    def __init__(self):
        self.ran = []

    async def listing(self, selection=None):
        return ToolListing(
            tools={
                name: Tool(
                    spec=ToolSpec(name=name, description="F.", parameters={"type": "object"}),
                    destructive=name == "delete",
                )
                for name in ("read", "delete", "hidden")
            },
            groups={"files": ["read", "delete"]},
        )

    async def call_tool(self, invocation):
        self.ran.append((invocation.name, dict(invocation.arguments)))
        invocation.report(ToolProgress(progress=1, total=2, message="half"))
        return ToolResult(success=True, result=f"{invocation.name} ran")


def call(call_id, name="delete", **arguments):
    return CallDelta(ToolCall(id=call_id, name=name, arguments=arguments))


@pytest.fixture
def tools():
    return Files()


@pytest.fixture
def house(make_house, tools):
    return make_house(tools)


@pytest.fixture
async def asking(house):
    """A session whose model asks for one deletion and then says so."""
    house.model.say([TextDelta("Let me."), call("c1", path="a")], [Finished()])
    house.model.say_text("Done.")
    return await house.new_session(tools=["read", "delete"], policy="always_confirm")


class Watched:
    """A turn's events, as they come."""

    def __init__(self, turn):
        self.turn = turn
        self.events = []

    async def until(self, name):
        while not any(event[0] == name for event in self.events):
            events = await self.turn.first_subscription.next()
            assert events, f"the stream ended without {name}: {self.names}"
            self.events += [(event.name, json.loads(event.data)) for event in events]
        return next(data for event, data in self.events if event == name)

    @property
    def names(self):
        return [name for name, _ in self.events]


async def begin(house, session_id, request=HELLO):
    return Watched(await house.turns.start(session_id, request))


async def question(house, session_id):
    [asked] = await house.confirmations.pending(session_id)
    return asked


async def test_an_approved_call_runs_and_has_no_tool_call_event(house, tools, asking):
    turn = await begin(house, asking)
    asked = await turn.until("tool_call_confirmation_required")
    assert (await house.turns.active(asking)).state == "awaiting_confirmation"
    assert tools.ran == []
    await house.confirmations.decide(asking, allowed(asked["confirmation_id"]))
    await turn.until("done")
    assert turn.names == [
        "turn_started",
        "content_delta",
        "tool_call_confirmation_required",
        "status",
        "status",
        "tool_result",
        "tool_continuation_start",
        "content_delta",
        "message_complete",
        "done",
    ]
    first, second = (data for name, data in turn.events if name == "status")
    assert first == {"state": "waiting_for_confirmation"}
    assert (second["state"], second["progress"], second["total"]) == ("waiting_for_tool", 1.0, 2.0)
    assert tools.ran == [("delete", {"path": "a"})]


async def test_a_denied_call_does_not_run_and_the_model_is_told(house, tools, asking):
    turn = await begin(house, asking)
    asked = await turn.until("tool_call_confirmation_required")
    await house.confirmations.decide(asking, denied(asked["confirmation_id"]))
    result = await turn.until("tool_result")
    await turn.until("done")
    assert (result["success"], result["error_code"]) == (False, "TOOL_EXECUTION_DENIED")
    assert tools.ran == []
    assert "denied" in house.model.requests[1].messages[-1].content


async def test_where_approvals_are_denied_nobody_is_asked_and_the_model_is_told(
    house, tools, asking
):
    turn = await begin(house, asking, TurnRequest(message="Hi", approvals="deny"))
    result = await turn.until("tool_result")
    await turn.until("done")
    assert (result["success"], result["error_code"]) == (False, "TOOL_EXECUTION_DENIED")
    assert "tool_call_confirmation_required" not in turn.names
    assert list(await house.confirmations.pending(asking)) == []
    assert tools.ran == []
    assert "needs an approval" in house.model.requests[1].messages[-1].content


async def test_what_was_approved_before_runs_where_approvals_are_denied(house, tools, asking):
    await (await begin(house, asking, TurnRequest(message="Hi", approvals="suspend"))).until("done")
    asked = await question(house, asking)
    await house.confirmations.decide(asking, allowed(asked.confirmation_id))
    await (await begin(house, asking, TurnRequest(approvals="deny"))).until("message_complete")
    assert tools.ran == [("delete", {"path": "a"})]


async def test_silence_is_a_no(make_house, tools):
    house = make_house(tools, confirmation_seconds=0.05)
    house.model.say([call("c1")], [Finished()])
    house.model.say_text("Pity.")
    session_id = await house.new_session(tools=["delete"], policy="always_confirm")
    turn = await begin(house, session_id)
    assert (await turn.until("tool_result"))["error_code"] == "TOOL_CONFIRMATION_TIMEOUT"
    assert (await turn.until("message_complete"))["content"] == "Pity."
    assert tools.ran == []


async def test_edited_arguments_run_and_the_model_learns_of_them(house, tools, asking):
    turn = await begin(house, asking)
    asked = await turn.until("tool_call_confirmation_required")
    await house.confirmations.decide(
        asking, allowed(asked["confirmation_id"], arguments={"path": "b"})
    )
    complete = await turn.until("message_complete")
    assert tools.ran == [("delete", {"path": "b"})]
    assert complete["tool_calls"][0]["arguments"] == {"path": "b"}
    assert '{"path":"b"}' in house.model.requests[1].messages[-1].content


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        (ToolSettings(tools=["read", "delete"], execution_policy="never_confirm"), []),
        (
            ToolSettings(tools=["read", "delete"], execution_policy="confirm_destructive"),
            ["delete"],
        ),
        (ToolSettings(tool_group="files", execution_policy="confirm_destructive"), ["delete"]),
        (ToolSettings(tools=["read", "delete"]), ["read", "delete"]),
        (ToolSettings(tools=["read", "delete"], execution_policy="ask_twice"), ["read", "delete"]),
        (
            ToolSettings(
                tools=["read", "delete"],
                execution_policy="never_confirm",
                tool_policies={"read": "always_confirm"},
            ),
            ["read"],
        ),
    ],
)
async def test_the_policy_says_who_is_asked(house, tools, settings, asked):
    house.model.say([call("c1", "read"), call("c2", "delete")], [Finished()])
    house.model.say_text("Done.")
    session = await asyncio.to_thread(house.sessions.create, model="m", tool_settings=settings)
    turn = await begin(house, session.session_id)
    if asked:
        await turn.until("tool_call_confirmation_required")
        pending = await house.confirmations.pending(session.session_id)
        assert [question.tool_name for question in pending] == asked
        for question in pending:
            await house.confirmations.decide(session.session_id, allowed(question.confirmation_id))
    await turn.until("done")
    started = [data["tool_name"] for name, data in turn.events if name == "tool_call"]
    assert sorted([*started, *asked]) == ["delete", "read"]
    results = [data["tool_name"] for name, data in turn.events if name == "tool_result"]
    assert results == ["read", "delete"]


async def test_a_policy_that_is_changed_while_the_model_answers_holds_for_what_it_asks(
    house, tools
):
    house.model.say([TextDelta("Let me.")], ..., [call("c1")], [Finished()])
    house.model.say_text("Done.")
    session_id = await house.new_session(tools=["read", "delete"], policy="never_confirm")
    turn = await begin(house, session_id)
    await house.model.asked.wait()
    stricter = ToolSettings(tools=["read", "delete"], execution_policy="always_confirm")
    await asyncio.to_thread(house.sessions.update, session_id, tool_settings=stricter)
    house.model.go_on.set()
    await turn.until("tool_call_confirmation_required")
    assert tools.ran == []
    await house.turns.cancel(session_id)


async def test_a_tool_that_is_not_offered_does_not_run_although_it_exists(house, tools):
    house.model.say([call("c1", "hidden")], [Finished()])
    house.model.say_text("Oh.")
    session_id = await house.new_session(tools=["read"], policy="never_confirm")
    turn = await begin(house, session_id)
    assert (await turn.until("tool_result"))["error_code"] == "TOOL_NOT_FOUND"
    await turn.until("done")
    assert tools.ran == []


async def test_without_a_listener_the_turn_ends_and_the_answer_is_used_later(house, tools, asking):
    turn = await begin(house, asking, TurnRequest(message="Hello!", approvals="suspend"))
    outcome = await turn.turn.finished()
    assert outcome.state is State.SUSPENDED
    [asked] = outcome.confirmations
    await turn.until("done")
    assert turn.names[-3:] == ["tool_call_confirmation_required", "status", "done"]
    assert await house.turns.active(asking) is None
    with pytest.raises(NoActiveTurn):
        await house.turns.cancel(asking)
    await house.confirmations.decide(asking, allowed(asked.confirmation_id))
    assert tools.ran == []
    resumed = await begin(house, asking, GO_ON)
    await resumed.until("done")
    assert resumed.names[:2] == ["turn_started", "status"]
    assert "tool_call_confirmation_required" not in resumed.names
    assert tools.ran == [("delete", {"path": "a"})]
    assert house.model.requests[-1].messages[-1].content == "delete ran"  # not what was planned


async def test_an_answer_is_used_once(house, tools, asking):
    await (await begin(house, asking, TurnRequest(message="Hi", approvals="suspend"))).until("done")
    asked = await question(house, asking)
    await house.confirmations.decide(asking, allowed(asked.confirmation_id))
    await (await begin(house, asking, GO_ON)).until("done")

    def reopen(session):
        keep = [m for m in session.messages if not isinstance(m, ToolMessage)][:2]
        return with_metadata(
            append_messages(type(session)(metadata=session.metadata), *keep, now="2026"), now="2026"
        )

    await asyncio.to_thread(house.sessions.repository.update, asking, reopen)
    house.model.say_text("Again.")
    again = await begin(house, asking, GO_ON)
    await again.until("tool_call_confirmation_required")
    assert len(tools.ran) == 1
    await house.turns.cancel(asking)


async def test_without_a_decision_a_resumed_turn_asks_again_with_the_same_question(house, asking):
    await (await begin(house, asking, TurnRequest(message="Hi", approvals="suspend"))).until("done")
    asked = await question(house, asking)
    resumed = await begin(house, asking, GO_ON)
    again = await resumed.until("tool_call_confirmation_required")
    assert again["confirmation_id"] == asked.confirmation_id
    await house.confirmations.decide(asking, denied(asked.confirmation_id))
    await resumed.until("done")


async def test_a_cancelled_turn_that_asked_nothing_looks_for_no_questions(house):
    house.model.say([TextDelta("Hi")], ...)
    session_id = await house.new_session()
    await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    with patch.object(house.confirmation_store, "pending", side_effect=AssertionError):
        report = await house.turns.cancel(session_id)
    assert report.partial_content == "Hi"


async def test_a_cancelled_turn_takes_its_questions_back(house, tools, asking):
    turn = await begin(house, asking)
    asked = await turn.until("tool_call_confirmation_required")
    report = await house.turns.cancel(asking)
    assert report.stopped == {"upstream": False, "tools": [], "agents": []}
    assert await house.confirmations.pending(asking) == []
    with pytest.raises(ConfirmationNotFound):
        await house.confirmations.decide(asking, allowed(asked["confirmation_id"]))
    *_, result, cancelled = await house.messages(asking)
    assert (result.content, cancelled.content) == ("The call was cancelled.", "[cancelled]")
    assert tools.ran == []


async def test_a_turn_that_is_stopped_while_it_begins_to_ask_leaves_no_question(house, asking):
    asked, go_on = threading.Event(), threading.Event()
    ask = ConfirmationStore.ask

    def ask_slowly(*args, **kwargs):
        question = ask(*args, **kwargs)
        asked.set()
        go_on.wait(10)
        return question

    with patch.object(ConfirmationStore, "ask", ask_slowly):
        await begin(house, asking)
        await asyncio.to_thread(asked.wait, 10)
        cancelling = asyncio.create_task(house.turns.cancel(asking))
        await asyncio.sleep(0)
        go_on.set()
        await cancelling
    assert await house.confirmations.pending(asking) == []


async def test_a_new_message_takes_back_what_an_earlier_turn_asked(house, tools, asking):
    await (await begin(house, asking, TurnRequest(message="Hi", approvals="suspend"))).until("done")
    asked = await question(house, asking)
    await (await begin(house, asking, TurnRequest(message="Never mind."))).until("done")
    with pytest.raises(ConfirmationNotFound):
        await house.confirmations.decide(asking, allowed(asked.confirmation_id))
    assert tools.ran == []


async def test_of_an_edited_message_nothing_can_be_approved(house, asking):
    await (await begin(house, asking, TurnRequest(message="Hi", approvals="suspend"))).until("done")
    asked = await question(house, asking)
    await asyncio.to_thread(house.sessions.edit_message, asking, 0, "Something else")
    assert await house.confirmations.pending(asking) == []
    with pytest.raises(ConfirmationNotFound):
        await house.confirmations.decide(asking, allowed(asked.confirmation_id))


async def test_an_answer_of_another_session_is_none(house, tools, asking):
    other = await house.new_session()
    turn = await begin(house, asking)
    asked = await turn.until("tool_call_confirmation_required")
    with pytest.raises(ConfirmationNotFound):
        await house.confirmations.decide(other, allowed(asked["confirmation_id"]))
    await house.confirmations.decide(asking, denied(asked["confirmation_id"]))
    with pytest.raises(ConfirmationAlreadyDecided):
        await house.confirmations.decide(asking, allowed(asked["confirmation_id"]))
    await turn.until("done")
    assert tools.ran == []


async def test_a_shutdown_keeps_the_question_for_the_next_start(house, tools, asking):
    turn = await begin(house, asking)
    asked = await turn.until("tool_call_confirmation_required")
    await house.turns.shutdown(grace_seconds=0)
    assert (await turn.until("error"))["code"] == "SHUTTING_DOWN"
    assert [m.role for m in await house.messages(asking)] == ["user", "assistant"]
    assert (await question(house, asking)).confirmation_id == asked["confirmation_id"]


async def test_another_process_reads_from_the_journal_what_a_suspended_turn_waits_for(
    house, asking
):
    turn = await begin(house, asking, TurnRequest(message="Hi", approvals="suspend"))
    outcome = await turn.turn.finished()
    entries = (await asyncio.to_thread(house.journal.read, asking, turn.turn.turn_id)).entries
    session = await asyncio.to_thread(house.sessions.get, asking)
    read = outcome_of(replay(entries), session)
    assert read.state is State.SUSPENDED
    assert read.confirmations == list(outcome.confirmations)
    assert read.message == session.messages[-1]


async def test_calls_are_numbered_through_the_whole_turn(house, tools):
    house.model.say([call("c1", "read"), call("c2", "read")], [Finished()])
    house.model.say([call("c3", "read")], [Finished()])
    house.model.say_text("Done.")
    session_id = await house.new_session(tools=["read"])
    turn = await begin(house, session_id)
    await turn.until("done")
    numbers = [data["call_index"] for name, data in turn.events if name == "tool_call"]
    assert numbers == [0, 1, 2]
