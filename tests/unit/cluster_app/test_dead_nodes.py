"""The services of two nodes, of which one dies: its turns end, and the other serves them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from chat.service import ChatRequest, ChatService, OpenTurn
from chat.start.turn_request import TurnRequest
from mochi_project.app import Services, build_services
from mochi_project.background.housekeeping import Housekeeper
from mochi_project.configuration.loading import load_settings
from mochi_project.reachability import Stores
from scripted_app.server import ScriptedModelServer
from tests.redis_server import running_redis
from tests.unit.chat.listening import names, read_all

NewNode = Callable[[], Awaitable[Services]]
SILENT = TurnRequest(message="Hello!", detached=True)


@pytest.fixture
async def new_node(tmp_path: Path, object_url: str) -> AsyncIterator[NewNode]:
    """Start a node with a data directory of its own; its chores are done as in a server."""
    scripted = ScriptedModelServer(words_per_second=2)
    await scripted.start()
    server = running_redis("--appendonly", "no")
    url = await asyncio.to_thread(server.__enter__)
    nodes: list[Services] = []
    chores: list[asyncio.Task[None]] = []

    async def start() -> Services:
        settings = load_settings(
            data_dir=tmp_path / f"node{len(nodes)}",
            ollama_host=scripted.url,
            journal_url=url,
            sessions_url=object_url,
            secret_key="x" * 50,
        )
        nodes.append(await asyncio.to_thread(build_services, settings))
        chores.append(
            asyncio.create_task((await asyncio.to_thread(nodes[-1].get, Housekeeper)).run())
        )
        return nodes[-1]

    yield start
    for chore in chores:
        chore.cancel()
    await asyncio.wait(chores)
    for node in nodes:
        await node.aclose()
    await scripted.stop()
    await asyncio.to_thread(server.__exit__, None, None, None)


async def read_some(turn: OpenTurn) -> list[tuple[int, str, str]]:
    """Read until some of the answer is there."""
    seen = []
    while "content_delta" not in names(seen):
        seen += await turn.listener.next() or ()
    return [(event.number, event.name, event.data) for event in seen]


@pytest.mark.allow_blocking  # the ollama library reads its version while it is imported
@pytest.mark.parametrize("ephemeral", [False, True], ids=["saved", "not saved"])
async def test_a_dead_nodes_turn_is_ended_and_another_node_serves_all_of_it(
    new_node: NewNode, *, ephemeral: bool
) -> None:
    dead, other = await new_node(), await new_node()
    asked = ChatRequest(turn=SILENT, model="qwen3:14b", ephemeral=ephemeral, keep=True)
    turn = await dead.get(ChatService).open(asked)
    seen = await read_some(turn)
    here = await other.get(ChatService).space_with(turn.session_id)
    active = await here.turns.active(turn.session_id)
    assert active is not None
    assert active.turn_id == turn.turn_id
    follower = await here.turns.attach(turn.session_id, (turn.turn_id, 1))
    assert follower is not None

    owners = dead.get(Stores).cluster.owners
    await asyncio.to_thread(other.get(Stores).cluster.owners.condemn, owners.mine())
    async with asyncio.timeout(60):
        followed = await read_all(follower)
    assert names(followed)[-2:] == ["error", "done"]
    again = await here.turns.attach(turn.session_id, None)
    assert again is not None
    told = [(event.number, event.name, event.data) for event in await read_all(again)]
    assert told[: len(seen)] == seen
    assert told[1:] == [(event.number, event.name, event.data) for event in followed]
    assert [number for number, _, _ in told] == list(range(1, len(told) + 1))
    session = await asyncio.to_thread(here.repository.load, turn.session_id)
    assert [message.role for message in session.messages] == ["user", "assistant"]
