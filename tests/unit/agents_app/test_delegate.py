"""An agent's turn when the turn that called it is stopped."""

import asyncio
from types import SimpleNamespace

import pytest
import structlog.contextvars  # noqa: F401 - a turn imports it, which would block the loop

from agents_app.delegate import AgentRun
from agents_app.narration import Narration
from chat.approvals.approver import Approver
from chat.errors import ShuttingDown, TurnLost
from chat.start.claiming import TurnClaimer
from chat.start.preparation import ChatPreparation
from chat.turn.call_queues import CallQueues
from chat.turn.delegation import CallingTurn
from chat.turn.phases import PhasePrompts
from chat.turn.state_machine import State
from models_app.language_model import TextDelta
from tests.unit.chat.conftest import NoTools
from tests.unit.chat.nodes import Node
from tests.unit.chat.turns import HELLO, WAIT
from tools_app.available_tools import NO_AVAILABLE_TOOLS


@pytest.fixture
def node(data_dir):
    return Node(data_dir, "node")


async def agent_run(node, *, stopped_by):
    """Return a run of an agent, for a turn that is stopped by this error."""
    session_id = await node.new_session()
    calling = CallingTurn(
        session=await asyncio.to_thread(node.sessions.get, session_id),
        approver=Approver(
            node.confirmation_store,
            session_id=session_id,
            turn_id="0199f3a2b4c50000abcd",
            available_tools=NO_AVAILABLE_TOOLS,
            mode="deny",
        ),
        emit=lambda events: None,
        queues=CallQueues(),
        children=set(),
        why_stopped=lambda: stopped_by,
        require_hold=lambda: None,
    )
    return AgentRun(
        agent=SimpleNamespace(name="helper"),
        session_id=session_id,
        preparation=ChatPreparation(node.preparer, HELLO, None),
        narration=Narration(
            "helper",
            call_index=0,
            tool_call_id="c1",
            phases=PhasePrompts(planning="Plan.", execution="Work."),
        ),
        toolset=NoTools(),
        claimer=TurnClaimer(
            repository=node.repository,
            journal=node.journal,
            recovery=node.recovery,
            confirmation_store=node.confirmation_store,
        ),
        turn=calling,
        observer=node.seen,
    )


async def stop(node, run):
    """Run it until its model is silent, then cancel it as its caller would."""
    node.model.say([TextDelta("Half")], WAIT)
    running = asyncio.create_task(run.finish())
    await node.model.asked.wait()
    running.cancel()
    await asyncio.wait({running})
    return [message.content for message in await node.messages(run.session_id)]


async def test_it_saves_nothing_where_the_turn_that_called_it_was_lost(node):
    run = await agent_run(node, stopped_by=TurnLost())
    assert await stop(node, run) == ["Hello!"]
    assert [turn.state for turn in node.seen.ended] == [State.LOST]


async def test_it_saves_what_there_is_where_the_server_stops(node):
    run = await agent_run(node, stopped_by=ShuttingDown())
    assert await stop(node, run) == ["Hello!", "Half"]
    assert [turn.state for turn in node.seen.ended] == [State.INTERRUPTED]
