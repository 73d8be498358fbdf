"""Calls that have begun, on sessions whose claims keep them: they never run a second time.

What else says so may be forgotten: questions, answers and journals are elsewhere.
"""

import asyncio
from functools import partial

import pytest

from chat.approvals.confirmation import Decision
from chat.start.turn_request import TurnRequest
from models_app.language_model import Finished, TextDelta
from sessions_app.calls import named_call
from sessions_app.messages import INTERRUPTED_RESULT, ToolMessage, ToolSpec
from tests.contract.memory_journal import MemoryJournal
from tests.contract.memory_repository import MemorySessionRepository
from tests.unit.chat.conftest import House
from tests.unit.chat.listening import names, read_all
from tests.unit.chat.turns import HELLO, call
from tools_app.toolset import Tool, ToolListing, ToolResult

CONFIRM, FREE = "always_confirm", "never_confirm"


class Marker:
    """A tool that counts its calls, and never returns when it is told to wait."""

    def __init__(self):
        self.calls = []
        self.waiting = asyncio.Event()
        self.claims = []
        self.look = lambda: None

    async def listing(self, selection=None):
        spec = ToolSpec(name="add", description="Adds.", parameters={"type": "object"})
        return ToolListing(tools={"add": Tool(spec=spec)})

    async def call_tool(self, invocation):
        self.claims.append(self.look())
        self.calls.append(invocation.tool_call_id)
        if invocation.arguments.get("wait"):
            self.waiting.set()
            await asyncio.Event().wait()
        return ToolResult(success=True, result="r")


class CountingRepository(MemorySessionRepository):
    """Counts what turns write, with the calls that they say have begun."""

    def __init__(self):
        super().__init__()
        self.writes = []

    def update(self, session_id, change, **how):
        self.writes.append(tuple(how.get("begun", ())))
        return super().update(session_id, change, **how)


class Process(House):
    """One process; what it keeps is the repository's, and the rest is its own."""

    def __init__(self, data_dir, tools, repository, journal=None):
        self.repository_type = lambda *_, **__: repository
        super().__init__(data_dir, tools, journal=journal or MemoryJournal())
        self.repository = repository


@pytest.fixture
def repository():
    return CountingRepository()


@pytest.fixture
async def start_process(tmp_path, repository):
    """Start a process that finds nothing but the sessions."""
    running = []

    def start(**how):
        process = Process(tmp_path / str(len(running)), Marker(), repository, **how)
        process.tools = process.preparer.toolset
        running.append(process)
        return process

    yield start
    for process in running:
        await process.turns.shutdown(grace_seconds=0)


async def asked(process, session_id, number=1):
    """Wait for so many questions, and return them."""
    questions = []
    async with asyncio.timeout(20):
        while len(questions) < number:
            await asyncio.sleep(0.001)
            questions = await asyncio.to_thread(process.confirmation_store.pending, session_id)
    return questions


async def approve(process, session_id, number=1):
    for question in await asked(process, session_id, number):
        await process.confirmations.decide(
            session_id, Decision(confirmation_id=question.confirmation_id, approved=True)
        )


async def results(process, session_id):
    messages = await process.messages(session_id)
    return [m.content for m in messages if isinstance(m, ToolMessage)]


async def begun(process, session_id):
    claim = process.repository.claim_of(session_id)
    [asking] = [m for m in await process.messages(session_id) if m.role == "assistant"]
    return [name.removeprefix(named_call(asking.message_id, "")) for name in claim.begun]


async def killed_in_a_call(process, *calls, policy):
    """Let a process die while it waits for a call; return the session."""
    process.model.say([TextDelta("Let me."), *calls], [Finished()])
    session_id = await process.new_session(tools=["add"], policy=policy)
    await process.turns.start(session_id, HELLO)
    if policy == CONFIRM:
        await approve(process, session_id, len(calls))
    async with asyncio.timeout(20):
        await process.tools.waiting.wait()
        while len(process.repository.load(session_id).messages) < 1 + len(calls):
            await asyncio.sleep(0.001)  # all have a result but the last
    process.repository.owners.condemn()
    return session_id


@pytest.mark.parametrize("policy", [CONFIRM, FREE])
async def test_a_call_that_may_have_run_never_runs_again_whatever_else_is_forgotten(
    start_process, policy
):
    first = start_process()
    session_id = await killed_in_a_call(first, call("c1", wait=True), policy=policy)
    second = start_process()
    second.model.say_text("I see.")
    turn = await second.turns.start(session_id, TurnRequest())
    assert names(await read_all(turn.first_subscription))[-1] == "done"
    assert await results(second, session_id) == [INTERRUPTED_RESULT]
    assert (first.tools.calls, second.tools.calls) == (["c1"], [])
    assert second.model.requests[0].messages[-1].content == INTERRUPTED_RESULT


async def test_a_call_that_has_a_result_keeps_it(start_process):
    first = start_process()
    calls = call("c1"), call("c2", wait=True)
    session_id = await killed_in_a_call(first, *calls, policy=CONFIRM)
    second = start_process()
    assert await second.turns.active(session_id) is None
    assert await results(second, session_id) == ["r", INTERRUPTED_RESULT]


async def test_an_approved_call_is_in_the_claim_before_it_runs_and_not_while_it_waits(
    start_process, repository
):
    process = start_process()
    process.model.say([call("c1"), call("c2", wait=True)], [Finished()])
    session_id = await process.new_session(tools=["add"], policy=CONFIRM)
    process.tools.look = partial(repository.claim_of, session_id)
    await process.turns.start(session_id, HELLO)
    await asked(process, session_id, 2)
    assert await begun(process, session_id) == []
    await approve(process, session_id, 2)
    async with asyncio.timeout(20):
        await process.tools.waiting.wait()
    assert await begun(process, session_id) == ["c1", "c2"]
    assert [len(claim.begun) for claim in process.tools.claims] == [2, 2]


async def test_calls_that_need_no_yes_cost_no_write(start_process, repository):
    process = start_process()
    process.model.say([call("c1"), call("c2")], [Finished()])
    process.model.say_text("Done.")
    session_id = await process.new_session(tools=["add"], policy=FREE)
    process.tools.look = partial(repository.claim_of, session_id)
    turn = await process.turns.start(session_id, HELLO)
    await read_all(turn.first_subscription)
    assert [len(names) for names in repository.writes] == [2, 0, 0, 0]
    assert [len(claim.begun) for claim in process.tools.claims] == [2, 2]


async def test_calls_of_a_later_round_are_told_from_those_of_an_earlier_one(start_process):
    """Some models count their calls from 0 in every round."""
    first = start_process()
    first.model.say([call("c0")], [Finished()])
    first.model.say([call("c0", wait=True)], [Finished()])
    session_id = await first.new_session(tools=["add"], policy=CONFIRM)
    await first.turns.start(session_id, HELLO)
    await approve(first, session_id)
    assert len(await asked(first, session_id)) == 1
    first.repository.owners.condemn()
    second = start_process()
    second.model.say_text("Done.")
    turn = await second.turns.start(session_id, TurnRequest())
    await approve(second, session_id)
    async with asyncio.timeout(20):
        await second.tools.waiting.wait()
    assert first.tools.calls == ["c0"]
    [again] = second.tools.calls
    assert again != "c0"  # no two calls of a session have the same id
    await second.turns.cancel(session_id)
    await read_all(turn.first_subscription)


async def test_an_owner_that_was_given_up_begins_nothing(start_process):
    first = start_process()
    first.model.say([call("c1")], [Finished()])
    session_id = await first.new_session(tools=["add"], policy=CONFIRM)
    turn = await first.turns.start(session_id, HELLO)
    await asked(first, session_id)
    first.repository.owners.condemn()
    second = start_process()
    assert await second.turns.active(session_id) is None  # the claim is gone
    await approve(first, session_id)
    await turn.finished()
    assert first.tools.calls == []


async def test_a_journal_that_can_not_be_read_leaves_what_the_claim_knows(start_process):
    session_id = await killed_in_a_call(start_process(), call("c1", wait=True), policy=CONFIRM)
    second = start_process(journal=UnreadableJournal())
    assert await second.turns.active(session_id) is None
    assert await results(second, session_id) == [INTERRUPTED_RESULT]


class UnreadableJournal(MemoryJournal):
    def read(self, session_id, turn_id, position=0):
        raise ValueError("no journal")
