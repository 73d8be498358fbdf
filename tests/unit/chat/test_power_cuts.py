"""A destructive call is on disk before it runs: after a power cut it is not run again."""

import asyncio
import os
import posix
import shutil

import pytest

from chat.approvals.confirmation import Decision
from chat.turn.state_machine import State
from models_app.language_model import CallDelta, Finished
from sessions_app.messages import ToolCall, ToolMessage, ToolSpec
from tests.unit.chat.conftest import House
from tests.unit.chat.turns import HELLO, run
from tools_app.toolset import Tool, ToolListing, ToolResult

AGAIN = type(HELLO)()


class Disk:
    """What a power cut would leave: files and directories as they were synced last."""

    def __init__(self, monkeypatch):
        self.files = {}
        self.directories = {}
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._syncing(getattr(os, name)))

    def _syncing(self, real):
        def sync(descriptor):
            real(descriptor)
            path = posix.readlink(f"/proc/self/fd/{descriptor}")
            if os.path.isdir(path):
                self.directories[path] = set(os.listdir(path))
            else:
                with open(path, "rb") as file:
                    self.files[path] = file.read()

        return sync

    def synced(self, path):
        """What of a file is on disk; None where its name, or its directory's, is not."""
        parent, name = os.path.split(path)
        for directory, entry in ((parent, name), os.path.split(parent)):
            if entry not in self.directories.get(directory, ()):
                return None
        return self.files.get(str(path), b"")


class Eraser:
    """A tool that runs while somebody cuts the power."""

    def __init__(self, *, destructive=True):
        self.destructive = destructive
        self.runs = 0
        self.meanwhile = lambda: None

    async def listing(self, selection=None):
        spec = ToolSpec(name="erase", description="Erases.", parameters={"type": "object"})
        return ToolListing(tools={"erase": Tool(spec=spec, destructive=self.destructive)})

    async def call_tool(self, invocation):
        self.runs += 1
        await asyncio.to_thread(self.meanwhile)
        return ToolResult(success=True, result="erased")


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def ask(house):
    house.model.say([CallDelta(ToolCall(id="c1", name="erase", arguments={}))], [Finished()])
    house.model.say_text("Erased.")


def journals(data_dir):
    return list((data_dir / ".mochi" / "turns").glob("*/*.jsonl"))


@pytest.mark.parametrize("policy", ["never_confirm", "confirm_destructive"])
async def test_after_a_power_cut_a_destructive_call_is_not_run_again(
    make_house, data_dir, disk, tmp_path, policy
):
    tools, copy = Eraser(), tmp_path / "copy"

    def cut_the_power():
        shutil.copytree(data_dir, copy, symlinks=True)
        shutil.rmtree(copy / "chat_sessions" / ".claims" / "workers")
        [journal] = journals(data_dir)
        (copy / journal.relative_to(data_dir)).write_bytes(disk.synced(journal))
        claims = str(data_dir / "chat_sessions" / ".claims")
        assert f"{session_id}.claim" in disk.directories[claims]

    tools.meanwhile = cut_the_power
    house = make_house(tools)
    ask(house)
    session_id = await house.new_session(tools=["erase"], policy=policy)
    turn = await house.turns.start(session_id, HELLO)
    while policy == "confirm_destructive":
        await turn.first_subscription.next()
        if asked := await asyncio.to_thread(house.confirmation_store.pending, session_id):
            decide = asked[0].confirmation_id
            await asyncio.to_thread(
                house.confirmation_store.decide,
                session_id,
                Decision(confirmation_id=decide, approved=True),
            )
            house.turns.notice_decision(turn.turn_id)
            break
    assert (await turn.finished()).state is State.COMPLETED

    after = House(copy, tools)
    after.model.say_text("It may be gone.")
    _, outcome = await run(after, session_id, AGAIN)
    assert outcome.state is State.COMPLETED
    assert tools.runs == 1
    [result] = [m for m in await after.messages(session_id) if isinstance(m, ToolMessage)]
    assert result.content == "interrupted, not run again"


async def test_a_call_that_only_reads_waits_for_no_disk(make_house, data_dir, disk):
    tools = Eraser(destructive=False)
    house = make_house(tools)
    ask(house)
    await run(house, await house.new_session(tools=["erase"]))
    assert tools.runs == 1
    [journal] = await asyncio.to_thread(journals, data_dir)
    assert disk.synced(journal) is None


async def test_a_call_whose_record_can_not_be_put_on_disk_does_not_run(make_house, monkeypatch):
    def fail(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    house = make_house(tools := Eraser())
    ask(house)
    session_id = await house.new_session(tools=["erase"])
    _, outcome = await run(house, session_id)
    assert outcome.state is State.FAILED
    assert tools.runs == 0
