"""Listings of files and of objects are the same for the same sessions, after any history."""

import random
from pathlib import Path

import msgspec
import pytest

from cluster_app.objects.repository import ObjectSessionRepository
from cluster_app.objects.store import ObjectStore
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.session_index import RedisSessionIndex
from sessions_app.errors import MochiError
from sessions_app.messages import UserMessage
from sessions_app.session import Session, append_messages, make_session
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import Change, Listing, SessionRepository
from tests.claims import claim_session, hold_of
from tests.contract.memory_repository import MemoryOwners

STEPS = 60
SESSIONS = 8


def moment(chance: random.Random) -> str:
    """Return a time; several sessions may have the same one."""
    return f"2026-11-21T10:00:{chance.randrange(10):02}.000000+00:00"


def said(text: str, at: str) -> Change:
    def change(session: Session) -> Session:
        message = UserMessage(content=text, message_id=f"{len(text):010x}", timestamp=at)
        return append_messages(session, message, now=at)

    return change


def happen(repository: SessionRepository, chance: random.Random) -> str | None:
    """Do something to a session; return what refused it, if anything did."""
    session_id = f"{chance.randrange(SESSIONS):010x}"
    what, at, text = chance.randrange(6), moment(chance), "x" * chance.randrange(1, 200)
    try:
        if what == 0:
            repository.create(make_session(session_id, text, now=at))
        elif what == 1:
            repository.delete(session_id)
        elif what == 2:
            claim_session(repository, session_id, "a-turn", change=said(text, at))
        elif what == 3:
            repository.update(
                session_id, said(text, at), hold=hold_of(repository, "a-turn"), release=True
            )
        elif what == 4:
            repository.update_idle(session_id, said(text, at))
        else:
            repository.update(session_id, said(text, at))
    except MochiError as error:
        return error.code
    return None


def nodes(connection: RedisConnection, store: ObjectStore) -> list[ObjectSessionRepository]:
    """Return the sessions of two processes, which live."""
    owners = MemoryOwners()
    return [
        ObjectSessionRepository(
            store,
            deleted=None,
            owners=owners,
            index=RedisSessionIndex(connection, store),
        )
        for _ in range(2)
    ]


def content(repository: SessionRepository, *, anew: bool = False) -> Listing:
    """Return what is listed, without stamps, which depend on where it is."""
    return msgspec.structs.replace(repository.list(anew=anew), stamps={})


@pytest.mark.parametrize("seed", range(3))
def test_one_history_leaves_the_same_listing_in_files_and_in_objects(
    seed: int, tmp_path: Path, redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    files = FileSessionRepository(tmp_path)
    objects = nodes(redis_connection, object_store)
    objects[0].list(anew=True)
    which = random.Random(seed)
    outcomes = set()
    for step in range(STEPS):
        place = f"{seed} {step}"
        node = which.choice(objects)
        outcome = happen(files, random.Random(place))
        assert happen(node, random.Random(place)) == outcome
        outcomes.add(outcome)
        if which.random() < 0.5:
            expected = content(files)
            assert [content(each) for each in objects] == [expected, expected]
    assert {None, "SESSION_NOT_FOUND", "SESSION_BUSY"} <= outcomes
    assert content(objects[1], anew=True) == content(files)


def test_what_others_put_in_is_listed_as_of_files(
    tmp_path: Path, redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    files = FileSessionRepository(tmp_path)
    objects = nodes(redis_connection, object_store)
    for session_id in ("0000000001", "0000000002"):
        files.create(make_session(session_id, "m", now=moment(random.Random(session_id))))
    (tmp_path / "0000000003.json").write_bytes(b"{")
    (tmp_path / "notes.json").write_bytes(b"{}")
    for path in tmp_path.glob("*.json"):
        object_store.put(path.name, path.read_bytes())
    assert content(objects[0], anew=True) == content(objects[1]) == content(files)


def test_a_stamp_tells_of_each_change_of_its_session(
    tmp_path: Path, redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    at = moment(random.Random(1))
    one, other = nodes(redis_connection, object_store)
    for writer, reader in ((FileSessionRepository(tmp_path),) * 2, (one, other)):
        assert isinstance(writer, FileSessionRepository | ObjectSessionRepository)
        for number in range(2):
            writer.create(make_session(f"{number:010x}", "m", now=at))
        before = reader.list(anew=True).stamps
        assert reader.list().stamps == before
        writer.update("0000000001", said("x", at))
        after = reader.list().stamps
        assert after.keys() == before.keys()
        assert after["0000000000"] == before["0000000000"]
        assert after["0000000001"] != before["0000000001"]
