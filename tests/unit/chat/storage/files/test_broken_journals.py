"""A journal that is not as expected costs what can't be read of it, never its session."""

import asyncio
import errno
from pathlib import Path
from unittest.mock import patch

import pytest

from chat.remote.replay import is_sound
from chat.start.turn_request import TurnRequest
from chat.storage.files import unreadable as aside
from chat.storage.files.journal_file import TakenOverJournal
from chat.storage.files.journals import FileTurnJournal
from models_app.language_model import CallDelta, Finished, TextDelta
from sessions_app.messages import INTERRUPTED_RESULT, ToolCall
from sessions_app.store import session_files
from tests.unit.chat.listening import names, read_all
from tests.unit.chat.remote.test_recovery import Sleeper, run

WAIT = ...
HELLO = TurnRequest(message="Hello!", detached=True)

UNEXPECTED = [
    '{"n":4,"event":"content_delta","data":{"text":"?"}}',
    '{"n":4,"event":"content_delta","data":{"content":5}}',
    '{"n":4,"event":"turn_started","data":{"turn_id":"t"}}',
    '{"n":4,"event":"tool_call","data":{"tool_call_id":"c","call_index":"one"}}',
    '{"n":4,"event":"tool_result","data":{"tool_call_id":"c","success":true}}',
    '{"n":4,"event":"agent_tool_call","data":{}}',
    '{"n":4,"event":"tool_call_confirmation_required","data":{}}',
    '{"n":0,"event":"round","data":{}}',
    '{"n":0,"event":"suspended","data":{}}',
    '{"n":4,"event":"error","data":{}}',
    '{"n":4,"event":"cancelled","data":{}}',
    '{"n":4,"event":"content_delta","data":{"content":"' + "[" * 2000 + "}}",
    '{"n":4,"event":"content_delta"}',
    '{"n":-4,"event":7,"data":{}}',
    "garbage",
    "\0" * 4096,
    "[1, 2]",
]


@pytest.fixture
async def dead(house, after_a_kill):
    """Return the house that is found after a kill in mid-answer, the session and its journal."""
    house.model.say([TextDelta("Half ")], [TextDelta("an ")], WAIT)
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    found = await after_a_kill(house)
    path = found.data_dir / ".mochi" / "turns" / session_id / f"{turn.turn_id}.jsonl"
    return found, session_id, path


def broken_beside(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(path.parent.glob("*.broken")))


def add_line(path: Path, text: str) -> None:
    path.write_bytes(path.read_bytes() + text.encode() + b"\n")


@pytest.mark.parametrize("unexpected", UNEXPECTED, ids=range(len(UNEXPECTED)))
async def test_an_unexpected_line_is_put_aside_and_the_rest_is_sealed(dead, unexpected):
    house, session_id, path = dead
    await asyncio.to_thread(add_line, path, unexpected)

    assert [message.content for message in await house.messages(session_id)][1:] == ["Half an"]
    frames = await read_all(await house.turns.attach(session_id, None))
    assert names(frames) == ["turn_started", *["content_delta"] * 2, "error", "done"]
    assert unexpected.encode() in await asyncio.to_thread(broken_beside, path)
    house.model.say_text("Whole")
    assert (await run(house, session_id, TurnRequest()))[-1] == "done"
    assert await asyncio.to_thread(house.journal.broken) == [str(path.with_suffix(".lines.broken"))]


async def test_an_unexpected_line_in_the_middle_moves_nothing(dead):
    """Whoever reads the journal knows where it was."""
    house, session_id, path = dead

    def spoil_and_seal():
        first, *rest = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([first, b"garbage\n", *rest]))
        before = house.journal.read(session_id, path.stem)
        house.recovery.seal_all()
        after = house.journal.read(session_id, path.stem)
        assert house.journal.read(session_id, path.stem, before.position).entries
        return before.entries == after.entries[: len(before.entries)]

    assert await asyncio.to_thread(spoil_and_seal)


async def test_what_is_put_aside_twice_or_half_way_is_there_once(dead):
    house, session_id, path = dead

    def spoil_and_die():
        path.write_bytes(path.read_bytes() + b"first\nsecond\n")
        with (
            patch("chat.storage.files.unreadable.os.pwrite", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            house.journal.set_aside(session_id, path.stem, is_sound)
        content = path.read_bytes()
        path.write_bytes(content.replace(b"first", b"     "))  # it had come this far
        assert not house.journal.set_aside(session_id, path.stem, is_sound)
        assert not house.journal.set_aside(session_id, path.stem, is_sound)
        return path.with_suffix(".lines.broken").read_bytes().splitlines()[1:]

    assert await asyncio.to_thread(spoil_and_die) == [b"first", b"second"]


async def test_a_journal_that_can_not_be_read_costs_its_text_and_not_its_session(dead):
    house, session_id, path = dead
    unreadable = OSError(errno.EIO, "Input/output error")
    with patch.object(house.journal, "set_aside", side_effect=unreadable):
        assert [message.content for message in await house.messages(session_id)] == ["Hello!"]
    assert b'"Half"' in await asyncio.to_thread(broken_beside, path)
    assert not await asyncio.to_thread(path.exists)
    house.model.say_text("Whole")
    assert (await run(house, session_id, TurnRequest()))[-1] == "done"


async def test_a_journal_that_can_not_be_ended_does_not_keep_the_next_turn(dead):
    house, session_id, path = dead
    house.model.say_text("Whole")
    unwritable = PermissionError(errno.EACCES, "Permission denied")
    with patch.object(TakenOverJournal, "append", side_effect=unwritable):
        assert (await run(house, session_id, TurnRequest()))[-1] == "done"
    assert b'"Half"' in await asyncio.to_thread(broken_beside, path)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.ENOSPC, errno.EROFS])
async def test_what_is_not_the_journal_s_fault_is_tried_again(dead, number):
    house, session_id, path = dead
    with patch.object(house.journal, "set_aside", side_effect=OSError(number, "not now")):
        assert [message.content for message in await house.messages(session_id)] == ["Hello!"]
        assert await house.turns.active(session_id) is None
    assert not await asyncio.to_thread(broken_beside, path)
    assert [message.content for message in await house.messages(session_id)][1:] == ["Half an"]


async def test_reading_never_fails_because_recovering_did(dead):
    house, session_id, _ = dead
    with patch.object(house.sessions.repository, "update_idle", side_effect=KeyError("content")):
        assert [message.content for message in await house.messages(session_id)] == ["Hello!"]
        assert await house.turns.active(session_id) is None


async def test_a_text_that_its_session_can_not_hold_is_kept_aside(house, after_a_kill, monkeypatch):
    house.model.say([TextDelta("x" * 9000)], [TextDelta("y")], WAIT)
    session_id = await house.new_session()
    await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    found = await after_a_kill(house)
    monkeypatch.setattr(session_files, "SIZE_LIMIT", 8000)

    assert [message.content for message in await found.messages(session_id)] == ["Hello!"]
    assert names(await read_all(await found.turns.attach(session_id, None)))[-2:] == [
        "error",
        "done",
    ]
    [aside_at] = await asyncio.to_thread(found.journal.broken)
    assert b"x" * 9000 in await asyncio.to_thread(Path(aside_at).read_bytes)
    found.model.say_text("short")
    assert (await run(found, session_id, TurnRequest()))[-1] == "done"


async def test_there_is_room_left_for_the_results_of_calls_that_were_interrupted(
    make_house, after_a_kill, monkeypatch
):
    tools = Sleeper()
    house = make_house(tools)
    call = ToolCall(id="c1", name="t", arguments={"wait": True})
    house.model.say([CallDelta(call)], [Finished()])
    session_id = await house.new_session(tools=["t"])
    await house.turns.start(session_id, HELLO)
    await tools.waiting.wait()
    again = Sleeper()
    found = await after_a_kill(house, again)
    status = await asyncio.to_thread((found.sessions_dir / f"{session_id}.json").stat)
    monkeypatch.setattr(session_files, "SIZE_LIMIT", status.st_size + 600)
    monkeypatch.setattr(session_files, "RESERVE", 2)

    assert (await found.messages(session_id))[-1].content == INTERRUPTED_RESULT
    await house.turns.shutdown(grace_seconds=0)


async def test_deleting_a_session_deletes_what_was_put_aside(dead):
    house, session_id, path = dead

    def spoil_seal_and_delete():
        path.write_bytes(path.read_bytes() + b"garbage\n")
        house.recovery.seal_all()
        house.journal.copy_aside(session_id, path.stem)
        assert len(list(path.parent.glob("*.broken"))) == 2
        house.sessions.delete(session_id)
        house.journal.discard_session(session_id)
        return path.parent.exists()

    assert not await asyncio.to_thread(spoil_seal_and_delete)


def test_what_is_put_aside_stays_when_its_journal_is_swept(tmp_path):
    journal = FileTurnJournal(tmp_path)
    session_id, turn_id = "a1b2c3d4e5", "0199f3a2b4c50000abcd"
    writer = journal.open(session_id, turn_id, owner="me")
    writer.append('garbage\n{"n":1,"event":"done","data":{}}\n')
    writer.close()
    assert journal.set_aside(session_id, turn_id, is_sound)
    assert journal.sweep(-1) == 1
    [kept] = journal.broken()
    assert kept.endswith(aside.SUFFIX)
    assert Path(kept).read_bytes().endswith(b"garbage\n")


def test_putting_aside_writes_and_reads_through_no_link(tmp_path):
    """A folder that somebody else filled may have links wherever we write."""
    session_id, turn_id = "a1b2c3d4e5", "0199f3a2b4c50000abcd"
    journal = FileTurnJournal(tmp_path / "turns")
    writer = journal.open(session_id, turn_id, owner="me")
    writer.append("garbage\n")
    writer.close()
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious\n")
    at = tmp_path / "turns" / session_id / f"{turn_id}.jsonl"
    for suffix in (".copied", ".lines.broken", ".journal.broken"):
        at.with_suffix(suffix).symlink_to(precious)

    assert journal.set_aside(session_id, turn_id, is_sound)
    journal.copy_aside(session_id, turn_id)

    assert precious.read_bytes() == b"precious\n"
    for suffix in (".lines.broken", ".journal.broken"):
        kept = at.with_suffix(suffix)
        assert not kept.is_symlink()
        assert b"precious" not in kept.read_bytes()
