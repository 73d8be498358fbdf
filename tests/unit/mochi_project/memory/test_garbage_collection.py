"""Garbage is collected while nobody streams, and not before."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import pytest

from mochi_project.memory import garbage_collection
from mochi_project.memory.garbage_collection import (
    IS_INCREMENTAL,
    PROMOTIONS,
    collect_when_idle,
)

pytestmark = [
    pytest.mark.allow_blocking,  # a collection keeps the event loop
    pytest.mark.skipif(IS_INCREMENTAL, reason="Python collects in small steps by itself"),
]


class Node:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


class Server:
    """Says whether it is idle, and counts how often it was asked."""

    def __init__(self) -> None:
        self.is_idle = True
        self.checks = 0
        self.checked = asyncio.Event()

    def check(self) -> bool:
        """Return whether no turn runs."""
        self.checks += 1
        self.checked.set()
        return self.is_idle


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """A server whose garbage is looked after, in short intervals."""
    monkeypatch.setattr(garbage_collection, "CHECK_SECONDS", 0.001)
    server = Server()
    chore = asyncio.create_task(collect_when_idle(server.check))
    yield server
    chore.cancel()


def old_garbage() -> weakref.ref[Node]:
    """Return a reference to garbage among the old objects, after many young collections."""
    gc.collect()
    node = Node()
    reference = weakref.ref(node)
    for _ in range(PROMOTIONS):
        gc.collect(1)
    return reference


async def test_old_garbage_is_collected_once_no_turn_runs(server: Server) -> None:
    server.is_idle = False
    garbage = old_garbage()

    await server.checked.wait()
    assert garbage() is not None

    server.is_idle = True
    async with asyncio.timeout(10):
        while garbage() is not None:
            await asyncio.sleep(0.001)


async def test_without_new_old_objects_nothing_is_collected(server: Server) -> None:
    gc.collect()

    for _ in range(20):
        await asyncio.sleep(0.001)

    assert server.checks == 0
    assert gc.get_count()[2] < PROMOTIONS
