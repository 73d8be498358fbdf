"""Decisions that come with a request, and what it expects of its session: all under the claim."""

import asyncio
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.approvals.approver import Approver, NobodyToApprove
from chat.approvals.confirmation import Decision
from chat.approvals.decided_calls import NumberedCall
from chat.approvals.store import ConfirmationStore
from chat.errors import (
    ConfirmationAlreadyDecided,
    ConfirmationExpired,
    ConfirmationNotFound,
    HistoryChanged,
)
from chat.start.turn_request import TurnRequest
from models_app.language_model import CallDelta, Finished
from sessions_app.messages import ToolCall, ToolMessage, ToolSpec
from sessions_app.session import ToolSettings
from tests.unit.chat.approvals.questions import TIMEOUT, Clock, records_in
from tools_app.available_tools import AvailableTools
from tools_app.toolset import Tool, ToolListing, ToolResult

HELLO = TurnRequest(message="Hello!", approvals="suspend")
SESSION = "a1b2c3d4e5"
CALL = ToolCall(id="c1", name="delete", arguments={"path": "a"})


class Shelf:
    """A tool that removes files, and what it removed."""

    def __init__(self):
        self.ran = []
        self.began = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def listing(self, selection=None):
        spec = ToolSpec(name="delete", description="D.", parameters={"type": "object"})
        return ToolListing(tools={"delete": Tool(spec=spec, destructive=True)})

    async def call_tool(self, invocation):
        self.ran.append(dict(invocation.arguments))
        self.began.set()
        await self.goes_on.wait()
        return ToolResult(success=True, result="deleted")


@pytest.fixture
def shelf():
    return Shelf()


@pytest.fixture
def house(make_house, shelf):
    return make_house(shelf)


async def load(house, session_id):
    return await asyncio.to_thread(house.repository.load, session_id)


async def run(house, session_id, request):
    turn = await house.turns.start(session_id, request)
    async with asyncio.timeout(20):
        return await turn.finished()


async def suspended(house, *calls):
    """Return a session whose turn has ended with questions, and these."""
    house.model.say(*[[CallDelta(call)] for call in calls or [CALL]], [Finished()])
    house.model.say_text("Done.")
    session_id = await house.new_session(tools=["delete"], policy="always_confirm")
    await run(house, session_id, HELLO)
    return session_id, await house.confirmations.pending(session_id)


def resuming(*decisions, **fields):
    return TurnRequest(decisions=decisions, approvals="suspend", **fields)


def yes(question, **fields):
    return Decision(confirmation_id=question.confirmation_id, approved=True, **fields)


def no(question):
    return Decision(confirmation_id=question.confirmation_id, approved=False)


async def test_decisions_of_a_request_are_what_its_turn_does(house, shelf):
    other = ToolCall(id="c2", name="delete", arguments={"path": "b"})
    session_id, (first, second) = await suspended(house, CALL, other)
    await run(house, session_id, resuming(no(first), yes(second, arguments={"path": "c"})))
    assert shelf.ran == [{"path": "c"}]
    results = [m for m in (await load(house, session_id)).messages if isinstance(m, ToolMessage)]
    assert [each.failed for each in results] == [True, False]


async def test_nothing_is_decided_if_one_decision_names_no_question(house, shelf):
    session_id, [question] = await suspended(house)
    unknown = Decision(confirmation_id=f"conf_{'0' * 32}", approved=False)
    before = await load(house, session_id)
    with pytest.raises(ConfirmationNotFound):
        await run(house, session_id, resuming(yes(question), unknown))
    assert await house.confirmations.pending(session_id) == [question]
    assert (await load(house, session_id)) == before
    assert shelf.ran == []


async def test_a_request_that_expects_another_last_message_is_refused(house, shelf):
    session_id, [question] = await suspended(house)
    seen = (await load(house, session_id)).messages[0].message_id
    with pytest.raises(HistoryChanged):
        await run(house, session_id, resuming(yes(question), expects=seen))
    assert await house.confirmations.pending(session_id) == [question]
    await run(house, session_id, resuming(yes(question), expects=question.message_id))
    assert shelf.ran == [{"path": "a"}]


async def test_what_is_expected_is_looked_at_when_the_session_is_claimed(house, monkeypatch):
    session_id = await house.new_session()
    seen = (await load(house, session_id)).last_message_id
    house.model.say_text("First.")
    await run(house, session_id, TurnRequest(message="One", expects=seen))
    with pytest.raises(HistoryChanged):
        await run(house, session_id, TurnRequest(message="Two", expects=seen))
    said = (await load(house, session_id)).messages
    assert [message.content for message in said] == ["One", "First."]


async def test_a_denied_call_has_its_result_if_its_round_is_stopped(house, shelf):
    other = ToolCall(id="c2", name="delete", arguments={"path": "b"})
    session_id, (first, second) = await suspended(house, CALL, other)
    shelf.goes_on.clear()
    turn = await house.turns.start(session_id, resuming(yes(first), no(second)))
    async with asyncio.timeout(20):
        await shelf.began.wait()
        await house.turns.cancel(session_id)
        await turn.finished()
    messages = (await load(house, session_id)).messages
    results = {m.tool_call_id: m.error_code for m in messages if isinstance(m, ToolMessage)}
    assert results == {"c1": None, "c2": "TOOL_EXECUTION_DENIED"}
    with pytest.raises(ConfirmationAlreadyDecided):
        await house.confirmations.decide(
            session_id, Decision(confirmation_id=second.confirmation_id, approved=True)
        )
    assert shelf.ran == [{"path": "a"}]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    return ConfirmationStore(records_in(tmp_path), timeout_seconds=TIMEOUT, now=clock)


def accept(store, decision, **how):
    return store.decide(SESSION, decision, repeatable=True, **how)


def asked(store):
    return store.ask(session_id=SESSION, message_id="m1", call=CALL, call_index=0, turn_id="0" * 20)


def test_a_denial_is_never_late(store, clock):
    question = asked(store)
    clock.move(TIMEOUT + 1)
    with pytest.raises(ConfirmationExpired):
        accept(store, yes(question))
    accept(store, no(question))
    assert store.find_decided(SESSION, "m1", CALL).reason == "denied"


def test_a_denial_of_what_ran_is_refused(store):
    question = asked(store)
    accept(store, yes(question))
    assert store.consume(SESSION, question.confirmation_id)
    with pytest.raises(ConfirmationAlreadyDecided):
        accept(store, no(question))


def test_a_protocol_that_can_not_change_arguments_agrees_to_those_that_were_approved(store):
    question = asked(store)
    store.decide(
        SESSION,
        Decision(confirmation_id=question.confirmation_id, approved=True, arguments={"path": "b"}),
    )
    accept(store, yes(question))
    for arguments in (None, {"path": "c"}):
        with pytest.raises(ConfirmationAlreadyDecided):
            accept(store, yes(question, arguments=arguments))
    assert store.find_decided(SESSION, "m1", CALL).arguments == {"path": "b"}


STEPS = st.sampled_from(
    [
        "always_confirm",
        "never_confirm",
        no,
        partial(yes, arguments=None),
        partial(yes, arguments={"path": "b"}),
        partial(yes, arguments={"path": "c"}),
    ]
)


async def approver_of(store, policy):
    return Approver(
        store,
        session_id=SESSION,
        turn_id="1" * 20,
        available_tools=AvailableTools(
            tools=(await Shelf().listing()).tools,
            settings=ToolSettings(tools=["delete"], execution_policy=policy),
        ),
        mode="suspend",
    )


async def resume(store, policy):
    """Return what a turn that resumes the call does with it; None if it asks."""
    approver = await approver_of(store, policy)
    calls = [NumberedCall(call=CALL, index=0)]
    try:
        [decided] = await approver.decide(calls, message_id="m1", emit=lambda _: None, resumed=True)
    except NobodyToApprove:
        return None
    return decided


async def test_a_call_is_asked_about_again_if_its_question_was_swept_beside_another(
    store, tmp_path
):
    approver = await approver_of(store, "always_confirm")
    other = ToolCall(id="c2", name="delete", arguments={"path": "b"})
    calls = [NumberedCall(call=call, index=index) for index, call in enumerate([CALL, other])]
    with pytest.raises(NobodyToApprove) as first:
        await approver.decide(calls, message_id="m1", emit=lambda _: None)
    swept = first.value.confirmations[0].confirmation_id
    [path] = await asyncio.to_thread(lambda: list(tmp_path.rglob(f"{swept}.*")))
    await asyncio.to_thread(path.unlink)
    relaxed = await approver_of(store, "never_confirm")
    with pytest.raises(NobodyToApprove) as again:
        await relaxed.decide(calls, message_id="m1", emit=lambda _: None, resumed=True)
    assert [each.tool_call_id for each in again.value.confirmations] == ["c1", "c2"]


@settings(deadline=None, max_examples=80)
@given(steps=st.lists(STEPS, max_size=7))
def test_whatever_is_decided_a_call_runs_only_as_the_last_decision_says(steps):
    with tempfile.TemporaryDirectory() as folder:
        store = ConfirmationStore(records_in(Path(folder)), timeout_seconds=TIMEOUT)
        question, policy, last = asked(store), "always_confirm", None
        for step in [*steps, "resume"]:
            if step in ("always_confirm", "never_confirm"):
                policy = step
            elif step == "resume":
                decided = asyncio.run(resume(store, policy))
                if decided is None:
                    assert last is None
                    continue
                assert last is not None
                assert (decided.refusal is None) is last.approved
                if last.approved:
                    assert decided.arguments == (last.arguments or CALL.arguments)
                return
            else:
                try:
                    accept(store, step(question), dry=True)
                    accept(store, step(question))
                except ConfirmationAlreadyDecided:
                    continue
                last = step(question)
