"""Turns of nodes that share Redis and an object store, and nothing else.

A node that dies is one that its lease is taken from, and whose turn makes no further step.
"""

import asyncio

import pytest

from chat.start.turn_request import TurnRequest
from chat.turn.state_machine import State
from models_app.language_model import Finished, TextDelta
from tests.unit.chat.listening import names, read_all
from tests.unit.chat.nodes import ClusterNode
from tests.unit.chat.turns import HELLO, WAIT


@pytest.fixture
async def make_node(data_dir, redis_connection, object_store):
    nodes = []

    async def make():
        nodes.append(await asyncio.to_thread(ClusterNode, data_dir, redis_connection, object_store))
        return nodes[-1]

    yield make
    for node in nodes:
        await node.aclose()


def said(events):
    return [(event.number, event.name, event.data) for event in events]


async def begin(node, session_id, *texts):
    """Begin a turn that says this and falls silent; return it and what its listener saw."""
    node.model.say(*[[TextDelta(text)] for text in texts], WAIT, [TextDelta(" late")], [Finished()])
    turn = await node.turns.start(session_id, HELLO)
    seen = []
    while names(seen).count("content_delta") < len(texts):
        seen += await turn.first_subscription.next()
    return turn, seen


async def lose(node, finder):
    """Take a node's lease, as another one that finds it gone, and let that one seal its turns."""
    owner = await asyncio.to_thread(node.owners.mine)
    await asyncio.to_thread(finder.owners.condemn, owner)
    await asyncio.to_thread(finder.recovery.seal_all)


async def test_another_node_seals_a_dead_nodes_turn_and_serves_it_from_the_exact_event(make_node):
    dead, finder, third = await make_node(), await make_node(), await make_node()
    session_id = await dead.new_session()
    turn, seen = await begin(dead, session_id, "Half ", "an answer")
    follower = await third.turns.attach(session_id, None)
    await lose(dead, finder)

    rest = await read_all(await finder.turns.attach(session_id, (turn.turn_id, 2)))
    assert [event.number for event in rest] == [3, 4, 5]
    assert names(rest) == ["content_delta", "error", "done"]
    whole = await read_all(await third.turns.attach(session_id, None))
    assert said(whole) == said(await read_all(follower))
    assert said(whole)[: len(seen)] == said(seen)
    assert said(whole)[2:] == said(rest)
    asked, answer = await third.messages(session_id)
    assert (asked.content, answer.content, answer.interrupted) == ("Hello!", "Half an answer", True)
    assert await asyncio.to_thread(third.repository.claims) == []
    assert await asyncio.to_thread(third.journal.unended_sessions) == []


async def test_a_node_that_wakes_after_its_turn_was_sealed_adds_nothing(make_node):
    frozen, finder = await make_node(), await make_node()
    session_id = await frozen.new_session()
    turn, _ = await begin(frozen, session_id, "Half")
    await lose(frozen, finder)
    told = said(await read_all(await finder.turns.attach(session_id, None)))

    frozen.model.go_on.set()
    assert (await turn.finished()).state is State.LOST
    assert "done" not in names(await read_all(turn.first_subscription))
    assert said(await read_all(await finder.turns.attach(session_id, None))) == told
    assert [message.content for message in await finder.messages(session_id)] == ["Hello!", "Half"]

    frozen.model.say_text("Again")
    again = await frozen.turns.start(session_id, TurnRequest(message="And?"))
    assert (await again.finished()).state is State.COMPLETED
    assert len(await finder.messages(session_id)) == 4


async def test_a_turn_is_followed_and_cancelled_from_another_node(make_node):
    owner, other = await make_node(), await make_node()
    session_id = await owner.new_session()
    turn, _ = await begin(owner, session_id, "Half")
    assert (await other.turns.active(session_id)).turn_id == turn.turn_id
    follower = asyncio.create_task(read_all(await other.turns.attach(session_id, None)))
    async with asyncio.timeout(30):
        report = await other.turns.cancel(session_id)
        followed = await follower
    assert (report.turn_id, report.partial_content) == (turn.turn_id, "Half")
    assert names(followed)[-2:] == ["cancelled", "done"]
    assert await other.turns.active(session_id) is None


async def test_while_a_turn_runs_who_watches_over_the_dead_asks_for_no_object(
    make_node, object_server
):
    owner, watcher = await make_node(), await make_node()
    session_id = await owner.new_session()
    await begin(owner, session_id, "Half")
    await asyncio.to_thread(watcher.repository.list, anew=True)  # makes the index
    object_server.forget_requests()
    for _ in range(10):
        await asyncio.to_thread(watcher.recovery.seal_all)
    assert object_server.requests == []
