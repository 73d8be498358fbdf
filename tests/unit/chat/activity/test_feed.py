"""Telling listeners what changed: at once, after a while away, and for little."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from chat.activity.feed import MOST_REPLAYED, ActivityFeed
from chat.activity.listener import ActivityListener
from chat.activity.notes import ChangeNotes
from chat.activity.states import StateReader
from chat.approvals.confirmation import Decision
from chat.approvals.store import ConfirmationStore
from chat.errors import ShuttingDown, TooManyListeners
from chat.storage.files.change_log import FileChangeLog
from chat.storage.files.watcher import PathWatcher
from chat.stream.numbered_event import NumberedEvent
from sessions_app.errors import StorageUnavailable
from sessions_app.messages import ToolCall
from sessions_app.service import SessionManager
from sessions_app.store.file_repository import FileSessionRepository
from tests.claims import hold_of
from tests.contract.memory_storage import MemoryRecords

TURN = "0199f3a2b4c50000abcd"
in_thread = asyncio.to_thread


class Process:
    """What one web process has of a data directory."""

    def __init__(self, directory: Path) -> None:
        self.changes = FileChangeLog(directory / "changes", PathWatcher(0.001))
        notes = ChangeNotes(self.changes)
        self.repository = FileSessionRepository(directory / "sessions", observer=notes)
        self.sessions = SessionManager(directory / "sessions", repository=self.repository)
        self.questions = ConfirmationStore(RECORDS, timeout_seconds=300, notice=notes.asked)
        self.feed = ActivityFeed(
            self.changes, StateReader(self.repository, self.questions), most_listeners=2
        )


RECORDS = MemoryRecords()


@pytest.fixture
async def make_process(tmp_path: Path) -> AsyncIterator[Callable[[], Process]]:
    made: list[Process] = []
    await in_thread(Process, tmp_path)  # the first one reads the id of the boot

    def make() -> Process:
        made.append(Process(tmp_path))
        return made[-1]

    yield make
    for process in made:
        process.feed.close()


@pytest.fixture
def here(make_process: Callable[[], Process]) -> Process:
    return make_process()


class Told:
    """What a listener was told, one event after the other."""

    def __init__(self, listener: ActivityListener) -> None:
        self.listener = listener
        self._waiting: list[NumberedEvent] = []
        self.last_id = ""

    async def next(self) -> tuple[str, dict[str, Any]]:
        while not self._waiting:
            async with asyncio.timeout(10):
                events = await self.listener.next()
            assert events is not None
            self._waiting += events
        event = self._waiting.pop(0)
        self.last_id = event.frame.partition("\n")[0].removeprefix("id: ")
        return event.name, json.loads(event.data)

    async def until(self, name: str) -> dict[str, Any]:
        while True:
            event, payload = await self.next()
            if event == name:
                return payload


async def listen(process: Process, after: str = "") -> Told:
    told = Told(await process.feed.listen(after))
    if not after:
        assert await told.next() == ("reset", {})
    return told


def claim(process: Process, session_id: str) -> None:
    owner = process.repository.owners.mine()
    process.repository.claim(session_id, TURN, owner=owner, change=lambda found: (found, None))


async def test_who_listens_is_told_of_sessions_and_turns_of_all_processes(
    make_process: Callable[[], Process],
) -> None:
    here, elsewhere = make_process(), make_process()
    tabs = [await listen(here), await listen(elsewhere)]
    session = await in_thread(here.sessions.create, "m")
    session_id = session.session_id
    for told in tabs:
        payload = await told.until("session_created")
        assert payload["session"]["state"] == "idle"
    await in_thread(elsewhere.sessions.update, session_id, title="The sea")
    for told in tabs:
        payload = await told.until("session_changed")
        assert payload["session_id"] == session_id
        assert payload["session"]["title"] == "The sea"
    await in_thread(claim, elsewhere, session_id)
    for told in tabs:
        payload = await told.until("turn_started")
        assert (payload["turn_id"], payload["session"]["state"]) == (TURN, "running")
    hold = await in_thread(hold_of, elsewhere.repository, TURN)
    await in_thread(elsewhere.repository.release, session_id, hold)
    for told in tabs:
        assert (await told.until("turn_ended"))["session"]["state"] == "idle"
    await in_thread(here.sessions.delete, session_id)
    for told in tabs:
        assert await told.until("session_deleted") == {"session_id": session_id}


async def test_a_question_and_its_answer_are_told(here: Process) -> None:
    session = await in_thread(here.sessions.create, "m")
    await in_thread(claim, here, session.session_id)
    told = await listen(here)
    question = await in_thread(
        lambda: here.questions.ask(
            session_id=session.session_id,
            message_id="f1e2d3c4b5",
            call=ToolCall(id="call_1", name="delete", arguments={}),
            call_index=0,
            turn_id=TURN,
        )
    )
    payload = await told.until("turn_waiting")
    assert payload["turn_id"] == TURN
    assert payload["session"]["state"] == "awaiting_approval"
    await in_thread(
        lambda: here.questions.decide(
            session.session_id, Decision(confirmation_id=question.confirmation_id, approved=False)
        )
    )
    assert (await told.until("session_changed"))["session"]["state"] == "running"


async def test_who_comes_back_is_told_what_was_missed_by_any_process(
    make_process: Callable[[], Process],
) -> None:
    here, elsewhere = make_process(), make_process()
    told = await listen(here)
    told.listener.close()
    session = await in_thread(elsewhere.sessions.create, "m")
    await in_thread(elsewhere.sessions.update, session.session_id, title="Missed")
    again = await listen(make_process(), after=told.last_id)
    assert (await again.next())[0] == "session_created"
    name, payload = await again.next()
    assert (name, payload["session"]["title"]) == ("session_changed", "Missed")
    await in_thread(elsewhere.sessions.delete, session.session_id)
    assert (await again.next())[0] == "session_deleted"


async def test_who_was_away_for_too_long_begins_anew(here: Process) -> None:
    for unknown in ("0123456789abcdef-34", "1-1"):
        told = Told(await here.feed.listen(unknown))
        assert await told.next() == ("reset", {})
        told.listener.close()
    told = await listen(here)

    def change_much() -> None:
        for n in range(MOST_REPLAYED + 1):
            here.changes.note("changed", f"{n:010x}")

    await in_thread(change_much)
    again = Told(await here.feed.listen(told.last_id))
    assert await again.next() == ("reset", {})


async def test_of_a_session_that_cannot_be_read_the_list_is_told_to_be_loaded_again(
    here: Process, tmp_path: Path
) -> None:
    told = await listen(here)
    session = await in_thread(here.sessions.create, "m")
    await told.until("session_created")

    def break_it() -> None:
        (tmp_path / "sessions" / f"{session.session_id}.json").write_text("{")
        here.changes.note("changed", session.session_id)
        here.changes.note("renamed", session.session_id)  # type: ignore[arg-type]

    await in_thread(break_it)
    assert await told.next() == ("reset", {})


async def test_a_session_that_is_gone_is_told_to_be_gone(here: Process, tmp_path: Path) -> None:
    told = await listen(here)
    session = await in_thread(here.sessions.create, "m")
    await told.until("session_created")

    def remove_it() -> None:
        (tmp_path / "sessions" / f"{session.session_id}.json").unlink()
        here.changes.note("changed", session.session_id)

    await in_thread(remove_it)
    assert await told.next() == ("session_deleted", {"session_id": session.session_id})


async def test_nothing_is_kept_and_nothing_runs_while_nobody_listens(
    here: Process, tmp_path: Path
) -> None:
    tasks = asyncio.all_tasks()
    await in_thread(here.sessions.create, "m")
    assert not await in_thread((tmp_path / "changes").exists)
    tabs = [await listen(here), await listen(here)]
    assert len(asyncio.all_tasks() - tasks) == 1
    for told in tabs:
        told.listener.close()
        told.listener.close()
    assert here.feed.listener_count == 0
    while asyncio.all_tasks() - tasks:  # the cancelled one ends
        await asyncio.sleep(0)


async def test_no_more_may_listen_than_the_limit_says(here: Process) -> None:
    first = await listen(here)
    await listen(here)
    with pytest.raises(TooManyListeners):
        await here.feed.listen()
    first.listener.close()
    await listen(here)


async def test_a_stop_ends_all_streams_and_lets_nobody_in(here: Process) -> None:
    tasks = asyncio.all_tasks()
    told = await listen(here)
    here.feed.close()
    assert await told.listener.next() is None
    while asyncio.all_tasks() - tasks:  # the cancelled one ends
        await asyncio.sleep(0)
    with pytest.raises(ShuttingDown):
        await here.feed.listen()


async def test_a_change_is_looked_at_once_for_all_who_listen(
    here: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await in_thread(here.sessions.create, "m")
    looks: list[str] = []
    look = here.feed.states.look

    def counted(session_id: str) -> Any:
        looks.append(session_id)
        return look(session_id)

    monkeypatch.setattr(here.feed.states, "look", counted)
    tabs = [await listen(here), await listen(here)]
    await in_thread(here.sessions.update, session.session_id, title="Once")
    events = [await asyncio.wait_for(told.listener.next(), 10) for told in tabs]
    assert events[0] is not None
    assert events[1] is not None
    assert events[0][0] is events[1][0]  # encoded once, too
    assert looks == [session.session_id]


async def test_what_changes_again_and_again_is_told_once_for_all_of_it(
    here: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.activity.feed.GATHER_SECONDS", 0.0)
    monkeypatch.setattr("chat.activity.feed.PAUSE_SECONDS", 3600.0)
    session_id = (await in_thread(here.sessions.create, "m")).session_id
    told = await listen(here)
    await in_thread(here.sessions.update, session_id, title="First")
    assert (await told.until("session_changed"))["session"]["title"] == "First"
    for number in range(10):
        await in_thread(here.sessions.update, session_id, title=f"Title {number}")
    await listen(here)  # who comes is told at once, and so is everybody
    assert (await told.until("session_changed"))["session"]["title"] == "Title 9"


async def test_many_changes_wake_the_loop_once_until_they_are_read(
    here: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    tells: list[Callable[[], object]] = []
    wakes: list[object] = []
    loop = asyncio.get_running_loop()
    wake = loop.call_soon_threadsafe

    def follow(changed: Callable[[], object]) -> Callable[[], None]:
        tells.append(changed)
        return lambda: None

    def counted(*args: Any, **options: Any) -> asyncio.Handle:
        wakes.append(args)
        return wake(*args, **options)

    monkeypatch.setattr(here.changes, "follow", follow)
    told = await listen(here)
    for title in ("First", "Second"):
        session = await in_thread(here.sessions.create, "m", title=title)
        wakes.clear()
        with monkeypatch.context() as patched:
            patched.setattr(loop, "call_soon_threadsafe", counted)
            for _ in range(100):
                tells[0]()
        assert len(wakes) == 1
        assert (await told.until("session_created"))["session_id"] == session.session_id


async def test_a_log_that_was_away_is_read_on(
    here: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = await listen(here)
    read, failed = here.changes.read, asyncio.Event()
    loop = asyncio.get_running_loop()

    def fails_once(*_: Any) -> Any:
        monkeypatch.setattr(here.changes, "read", read)
        loop.call_soon_threadsafe(failed.set)
        raise StorageUnavailable("away")

    monkeypatch.setattr(here.changes, "read", fails_once)
    monkeypatch.setattr("chat.activity.feed.RETRY_SECONDS", 0.001)
    session = await in_thread(here.sessions.create, "m")
    await failed.wait()
    assert (await told.until("session_created"))["session_id"] == session.session_id
