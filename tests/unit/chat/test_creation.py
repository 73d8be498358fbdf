"""Sessions that are created under an ``Idempotency-Key``."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chat.creation import PLANNED, SessionCreation
from chat.errors import KeyReused
from chat.storage.idempotency_keys import HeldKey, IdempotencyKeys, KeyRecord, fingerprint_of
from sessions_app.errors import SessionExists, SessionNotFound, StorageFull
from sessions_app.service import SessionManager
from sessions_app.session import Session
from tests.unit.chat.keys import keys_in

ASKED = {"model": "m"}
ID = "a1b2c3d4e5"


@pytest.fixture
def sessions(tmp_path: Path) -> SessionManager:
    return SessionManager(tmp_path / "chat_sessions")


@pytest.fixture
def keys(tmp_path: Path) -> IdempotencyKeys:
    return keys_in(tmp_path / "keys")


class Client:
    """Sends requests for a new session to one of several processes."""

    def __init__(self, keys: IdempotencyKeys, sessions: SessionManager) -> None:
        self.sessions = sessions
        self.creation = SessionCreation(keys, sessions.repository)
        self.made: list[str] = []
        self.fails: list[Exception] = []
        self.waits: asyncio.Event | None = None

    async def create(self, asked: Any = ASKED, key: str = "k") -> str:
        return (await self.creation.create(key, asked, self._make)).session_id

    async def _make(self, session_id: str) -> Session:
        if self.waits is not None:
            await self.waits.wait()
        if self.fails:
            raise self.fails.pop()
        self.made.append(session_id)
        return await asyncio.to_thread(self.sessions.create, "m", session_id=session_id)

    async def listed(self) -> list[str]:
        page = await asyncio.to_thread(self.sessions.list)
        return [each.session_id for each in page.sessions]


@pytest.fixture
def client(keys: IdempotencyKeys, sessions: SessionManager) -> Client:
    return Client(keys, sessions)


@pytest.fixture
def elsewhere(keys: IdempotencyKeys, sessions: SessionManager) -> Client:
    return Client(keys, sessions)


def held(keys: IdempotencyKeys) -> HeldKey:
    taken = keys.take("k", fingerprint_of("create_session", ASKED))
    assert not isinstance(taken, KeyRecord)
    return taken


async def test_the_same_request_gets_the_same_session_in_every_process(
    client: Client, elsewhere: Client
) -> None:
    first = await client.create()
    assert {await client.create(), await elsewhere.create()} == {first}
    assert await client.listed() == [first]
    assert await client.create(key="another") != first


async def test_of_many_at_once_one_makes_it_and_the_others_wait(
    client: Client, elsewhere: Client
) -> None:
    client.waits = elsewhere.waits = asyncio.Event()
    requests = [
        asyncio.create_task(each.create()) for _ in range(10) for each in (client, elsewhere)
    ]
    await asyncio.sleep(0)
    client.waits.set()
    found = set(await asyncio.gather(*requests))
    assert await client.listed() == list(found)
    assert len(client.made + elsewhere.made) == 1


async def test_a_key_stands_for_one_request(client: Client) -> None:
    await client.create()
    with pytest.raises(KeyReused):
        await client.create({"model": "other"})


async def test_a_request_that_fails_frees_the_key(client: Client) -> None:
    client.fails.append(StorageFull("No space is left."))
    with pytest.raises(StorageFull):
        await client.create()
    assert [await client.create({"model": "other"})] == await client.listed()


@pytest.mark.parametrize("died", ["before it was planned", "before it was made", "after that"])
async def test_a_process_that_dies_in_between_leaves_no_second_session(
    keys: IdempotencyKeys, client: Client, died: str
) -> None:
    left = await asyncio.to_thread(held, keys)
    if died != "before it was planned":
        await asyncio.to_thread(left.keep, ID, PLANNED)
    if died == "after that":
        await asyncio.to_thread(client.sessions.create, "m", session_id=ID)
    await asyncio.to_thread(left.release)

    session_id = await client.create()

    assert await client.listed() == [session_id]
    assert (session_id == ID) is (died != "before it was planned")
    assert await client.create() == session_id


async def test_a_write_of_a_dead_process_that_arrives_late_is_the_session(
    keys: IdempotencyKeys, client: Client
) -> None:
    left = await asyncio.to_thread(held, keys)
    await asyncio.to_thread(left.keep, ID, PLANNED)
    await asyncio.to_thread(left.release)
    make = client.creation.create

    async def late(session_id: str) -> Session:
        await asyncio.to_thread(client.sessions.create, "late", session_id=session_id)
        raise SessionExists(session_id)

    assert (await make("k", ASKED, late)).metadata.model == "late"
    assert await client.listed() == [ID]


async def test_an_id_that_another_session_has_is_not_used(client: Client) -> None:
    client.fails.append(SessionExists(ID))
    assert [await client.create()] == await client.listed()


async def test_a_session_that_was_deleted_is_not_made_again(client: Client) -> None:
    session_id = await client.create()
    await asyncio.to_thread(client.sessions.delete, session_id)
    with pytest.raises(SessionNotFound):
        await client.create()
    assert await client.listed() == []


async def test_a_client_that_leaves_finds_its_session_when_it_comes_again(client: Client) -> None:
    client.waits = asyncio.Event()
    request = asyncio.create_task(client.create())
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    client.waits.set()
    assert [await client.create()] == client.made
    assert await client.listed() == client.made
