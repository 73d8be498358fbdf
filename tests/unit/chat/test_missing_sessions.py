"""A session's file that is not there: not mounted yet, being replaced, or another server's.

Nothing of its turns is removed, unless the session was deleted through us.
"""

import asyncio
import shutil
import subprocess
import sys
from unittest.mock import patch

import pytest

from chat.remote.sealing_schedule import SealingSchedule
from chat.start.turn_request import TurnRequest
from models_app.language_model import TextDelta
from sessions_app.service import SessionManager
from sessions_app.store.file_repository import FileSessionRepository
from tests.claims import claim_session, delete_and_die, hold_of

WAIT = ...
HELLO = TurnRequest(message="Hello!", detached=True)
OLD = -1.0  # everything is older than that


@pytest.fixture
async def dead(house, after_a_kill):
    """Return the house that is found after a kill in mid-answer, and the session."""
    house.model.say([TextDelta("Half ")], [TextDelta("an ")], WAIT)
    session_id = await house.new_session()
    await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    return await after_a_kill(house), session_id


def keep_house(house):
    house.recovery.seal_all()
    house.sweep(OLD)


def texts(house, session_id):
    return [message.content for message in house.sessions.repository.load(session_id).messages]


def sealed_text(house, session_id):
    house.recovery.seal_all()
    return texts(house, session_id)[1:]


async def test_a_corrupt_file_is_logged_once_and_its_turn_is_sealed_when_it_is_mended(dead, caplog):
    house, session_id = dead
    path = house.sessions_dir / f"{session_id}.json"
    told = []

    def seal():
        caplog.clear()
        # As housekeeping does, but without its pauses.
        with patch.object(SealingSchedule, "due", lambda _, found: sorted(found)):
            house.recovery.seal_all()
        told.append([r.levelname for r in caplog.records if "not be sealed" in r.message])

    def spoil_and_mend():
        content = path.read_bytes()
        path.write_bytes(b"{")
        seal()
        seal()
        path.write_bytes(b'{"metadata": 3}')
        seal()
        path.write_bytes(content)
        seal()

    caplog.set_level("DEBUG")
    await asyncio.to_thread(spoil_and_mend)
    assert told == [["ERROR"], ["DEBUG"], ["ERROR"], []]
    assert (await asyncio.to_thread(texts, house, session_id))[1:] == ["Half an"]


async def test_a_file_that_is_gone_for_a_moment_costs_no_text(dead):
    house, session_id = dead
    path = house.sessions_dir / f"{session_id}.json"

    def look_away():
        path.rename(path.with_suffix(".new"))
        keep_house(house)
        house.recovery.seal(session_id)
        path.with_suffix(".new").rename(path)
        return sealed_text(house, session_id)

    assert await asyncio.to_thread(look_away) == ["Half an"]


async def test_a_volume_that_is_not_mounted_yet_costs_no_text(dead):
    house, session_id = dead

    def mount_late():
        volume = house.sessions_dir.rename(house.data_dir / "volume")
        house.sessions_dir.mkdir()
        keep_house(house)
        house.sessions_dir.rmdir()
        volume.rename(house.sessions_dir)
        return sealed_text(house, session_id)

    assert await asyncio.to_thread(mount_late) == ["Half an"]


async def test_a_turn_that_runs_keeps_its_claim_while_its_file_is_gone(house):
    house.model.say([TextDelta("a")], WAIT, [TextDelta("b")])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()

    def look_away():
        path = house.sessions_dir / f"{session_id}.json"
        path.rename(path.with_suffix(".new"))
        keep_house(house)
        path.with_suffix(".new").rename(path)

    await asyncio.to_thread(look_away)
    house.model.go_on.set()
    await turn.finished()
    assert (await house.messages(session_id))[-1].content == "ab"
    passage = await asyncio.to_thread(house.journal.read, session_id, turn.turn_id)
    assert passage.entries[-1].event == "done"


@pytest.mark.parametrize("copied", [False, True])
async def test_another_server_s_turns_are_left_alone(make_house, tmp_path, copied):
    """Two servers share what is kept of turns, but not their sessions."""
    house = make_house()
    house.model.say([TextDelta("a")], WAIT, [TextDelta("b")])
    session_id = await house.new_session()
    other = make_house(sessions_dir=tmp_path / "other")
    if copied:
        ignore = shutil.ignore_patterns(".claims")
        await asyncio.to_thread(
            shutil.copytree, house.sessions_dir, other.sessions_dir, ignore=ignore
        )
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    await asyncio.to_thread(keep_house, other)
    if copied:
        assert await other.turns.attach(session_id, None) is None
        other.model.say([TextDelta("of its own")])
        own = await other.turns.start(session_id, HELLO)
        await own.finished()
        await asyncio.to_thread(other.sessions.delete, session_id)
        await asyncio.to_thread(other.journal.discard_session, session_id)
    house.model.go_on.set()
    await turn.finished()
    passage = await asyncio.to_thread(house.journal.read, session_id, turn.turn_id)
    assert [entry.n for entry in passage.entries if entry.n] == [1, 2, 3, 4, 5]
    assert await asyncio.to_thread(house.journal.turns, session_id) == [turn.turn_id]


async def test_another_server_s_dead_turns_are_left_to_it(dead, tmp_path):
    house, session_id = dead
    other = type(house)(house.data_dir, None, sessions_dir=tmp_path / "other")
    ignore = shutil.ignore_patterns(".claims")

    def keep_other():
        shutil.copytree(house.sessions_dir, other.sessions_dir, ignore=ignore)
        keep_house(other)
        [turn_id] = house.journal.turns(session_id)
        assert not house.journal.has_ended(session_id, turn_id)
        return sealed_text(house, session_id), texts(other, session_id)

    assert await asyncio.to_thread(keep_other) == (["Half an"], ["Hello!"])


async def test_sessions_that_were_moved_are_sealed_all_the_same(dead, tmp_path):
    """A claim names its turn: that is proof enough of whose journal it is."""
    house, session_id = dead
    moved = type(house)(house.data_dir, None, sessions_dir=tmp_path / "moved")

    def move():
        house.sessions_dir.rename(moved.sessions_dir)
        sealed = sealed_text(moved, session_id)
        moved.sweep(OLD)
        return sealed, list(house.data_dir.glob(".mochi/turns/*/*"))

    assert await asyncio.to_thread(move) == (["Half an"], [])


async def test_a_data_directory_that_was_moved_knows_its_turns(dead, tmp_path):
    house, session_id = dead

    def move():
        moved = type(house)(house.data_dir.rename(tmp_path / "moved"), None)
        assert len(moved.journal.turns(session_id)) == 1
        return sealed_text(moved, session_id)

    assert await asyncio.to_thread(move) == ["Half an"]


@pytest.mark.parametrize("kind", ["link", "directory"])
async def test_whoever_dies_while_deleting_leaves_neither_a_journal_nor_a_claim(dead, kind):
    house, session_id = dead

    def delete():
        if kind == "directory":
            claim = house.sessions_dir / ".claims" / f"{session_id}.claim"
            claim.unlink()
            claim.mkdir()
        delete_and_die(house.sessions.repository, session_id)
        assert len(house.repository.claims()) == 1
        keep_house(house)
        return [*house.data_dir.glob(".mochi/turns/*"), *house.repository.claims()]

    assert await asyncio.to_thread(delete) == []


async def test_deleting_leaves_a_journal_that_is_being_written(house):
    """A turn lets go of its session a moment before it says its last words."""

    def delete():
        turn_id = "0199f3a2b4c50000abcd"
        session_id = house.sessions.create(model="m").session_id
        repository = house.sessions.repository
        claim_session(repository, session_id, turn_id)
        writer = house.journal.open(session_id, turn_id, owner="me")
        repository.release(session_id, hold_of(repository, turn_id))
        repository.delete(session_id)
        house.journal.discard_session(session_id)
        house.journal.discard(session_id, turn_id)
        house.recovery.seal_all()
        assert house.journal.turns(session_id) == [turn_id]
        writer.close()
        house.recovery.seal_all()
        assert house.journal.turns(session_id) == []

    await asyncio.to_thread(delete)


async def test_a_session_that_came_back_after_it_was_deleted_is_not_deleted_again(dead):
    house, session_id = dead
    path = house.sessions_dir / f"{session_id}.json"

    def restore():
        backup = path.read_bytes()
        repository = house.sessions.repository
        repository.delete(session_id)
        path.write_bytes(backup)
        claim_session(repository, session_id, "fffff3a2b4c50000abcd")
        house.journal.open(session_id, "fffff3a2b4c50000abcd", owner="me").close()
        path.rename(path.with_suffix(".new"))
        keep_house(house)
        return house.journal.turns(session_id)

    assert await asyncio.to_thread(restore) == ["fffff3a2b4c50000abcd"]


async def test_a_key_lives_as_long_as_the_journal_of_a_missing_session(dead):
    house, session_id = dead

    def sweep():
        [turn_id] = house.journal.turns(session_id)
        held = house.keys.take("k", "f")
        held.keep(session_id, turn_id)
        held.release()
        (house.sessions_dir / f"{session_id}.json").unlink()
        keep_house(house)
        return house.keys.find("k")

    assert await asyncio.to_thread(sweep) is not None


def test_a_worker_lives_where_its_sessions_are_mounted_now(tmp_path):
    """What it locked in the directory below a mount point tells nobody that it lives."""
    repository = FileSessionRepository(tmp_path / "sessions")
    session_id = _new_session(repository)
    claim_session(repository, session_id, "t1")
    (tmp_path / "sessions").rename(tmp_path / "below")
    shutil.copytree(tmp_path / "below", tmp_path / "sessions", symlinks=True)
    repository.release(session_id, hold_of(repository, "t1"))
    claim_session(repository, session_id, "t2")
    look = [sys.executable, "-c", ALIVE, str(tmp_path / "sessions"), session_id]
    assert subprocess.check_output(look, text=True) == "True\n"


ALIVE = """
import sys
from pathlib import Path
from sessions_app.store.file_repository import FileSessionRepository

print(FileSessionRepository(Path(sys.argv[1])).claim_of(sys.argv[2]).alive)
"""


def _new_session(repository):
    return SessionManager("", repository=repository).create(model="m").session_id
