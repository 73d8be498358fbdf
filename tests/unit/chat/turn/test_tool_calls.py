"""The calls of one round: side by side or in a queue, their results in the order of the calls."""

import asyncio

import msgspec
import pytest

from chat.turn.state_machine import Input
from models_app.language_model import CallDelta, Finished
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from sessions_app.shielding import to_the_end
from tests.unit.chat.turns import HELLO, listen, run
from tools_app.toolset import Tool, ToolListing, ToolProgress, ToolResult


class Meeting:
    """A tool whose calls each wait until the later ones have ended, the last one first."""

    def __init__(self, expected):
        self.here = []
        self.everybody = asyncio.Barrier(expected)
        self.gone = [asyncio.Event() for _ in range(expected)]

    async def listing(self, selection=None):
        spec = ToolSpec(name="meet", description="Meets.", parameters={"type": "object"})
        return ToolListing(tools={"meet": Tool(spec=spec, destructive=False)})

    async def call_tool(self, invocation):
        number = invocation.arguments["number"]
        self.here.append(number)
        await self.everybody.wait()
        if number + 1 < len(self.gone):
            await self.gone[number + 1].wait()
        self.gone[number].set()
        return ToolResult(success=True, result=f"met {number}")


class Chatty:
    """A tool that tells how far it is all the time."""

    async def listing(self, selection=None):
        return await Meeting(1).listing()

    async def call_tool(self, invocation):
        for step in range(1000):
            invocation.report(ToolProgress(progress=step, total=1000))
        return ToolResult(success=True, result="told")


def meet(count):
    return [
        CallDelta(ToolCall(id=f"c{number}", name="meet", arguments={"number": number}))
        for number in range(count)
    ]


async def test_calls_of_a_round_run_together_and_their_results_keep_the_order(make_house):
    house = make_house(tools := Meeting(3))
    house.model.say(meet(3), [Finished()])
    house.model.say_text("They met.")
    session_id = await house.new_session(tools=["meet"])

    async with asyncio.timeout(20):  # each call waits for the others
        events, outcome = await run(house, session_id)

    assert sorted(tools.here) == [0, 1, 2]
    results = [data for name, data in events if name == "tool_result"]
    assert [(data["call_index"], data["result"]) for data in results] == [
        (0, "met 0"),
        (1, "met 1"),
        (2, "met 2"),
    ]
    kept = [m for m in await house.messages(session_id) if isinstance(m, ToolMessage)]
    assert [(m.tool_call_id, m.content) for m in kept] == [
        ("c0", "met 0"),
        ("c1", "met 1"),
        ("c2", "met 2"),
    ]
    assert [call.tool_call_id for call in outcome.tool_calls] == ["c0", "c1", "c2"]
    sent = [m.content for m in house.model.requests[1].messages if isinstance(m, ToolMessage)]
    assert sent == ["met 0", "met 1", "met 2"]


CAT = Attachment(
    id=f"sha256:{'0' * 64}", name="cat.png", media_type="image/png", size=9, width=2, height=1
)


class Camera(Meeting):
    """A tool that returns an image."""

    async def call_tool(self, invocation):
        failed = invocation.arguments["number"] == 1
        return ToolResult(
            success=not failed,
            result=None if failed else "[cat.png, 9 bytes]",
            error_message="It moved." if failed else None,
            attachments=(CAT,),
        )


async def test_what_a_tool_returned_is_referred_to_by_message_events_and_outcome(make_house):
    house = make_house(Camera(2), read_attachment={CAT.id: b"a picture"}.__getitem__)
    house.model.info = house.model.seeing_info
    house.model.say(meet(2), [Finished()])
    house.model.say_text("A cat.")
    session_id = await house.new_session(tools=["meet"])

    events, outcome = await run(house, session_id)

    shown = msgspec.structs.asdict(CAT)
    results = [data for name, data in events if name == "tool_result"]
    assert [data["attachments"] for data in results] == [[shown], [shown]]
    [complete] = [data for name, data in events if name == "message_complete"]
    assert [call["attachments"] for call in complete["tool_calls"]] == [[shown], [shown]]
    assert [len(call.attachments) for call in outcome.tool_calls] == [1, 1]
    kept = [m for m in await house.messages(session_id) if isinstance(m, ToolMessage)]
    assert [(m.attachments, m.failed) for m in kept] == [((CAT,), False), ((CAT,), True)]
    sent = [m for m in house.model.requests[1].messages if isinstance(m, ToolMessage)]
    assert [m.attachments for m in sent] == [(CAT,), (CAT,)]
    assert [request.files for request in house.model.requests] == [{}, {CAT.id: b"a picture"}]


async def test_a_call_is_on_disk_before_it_runs(make_house):
    saved = []

    class Looking(Meeting):
        async def call_tool(self, invocation):
            saved.append([type(m) for m in await house.messages(invocation.session_id)])
            return await super().call_tool(invocation)

    house = make_house(Looking(1))
    house.model.say(meet(1), [Finished()])
    house.model.say_text("Met.")
    session_id = await house.new_session(tools=["meet"])

    await run(house, session_id)

    assert saved == [[UserMessage, AssistantMessage]]


async def test_how_far_a_tool_is_is_told_ten_times_a_second_at_most(make_house):
    house = make_house(Chatty())
    house.model.say(meet(1), [Finished()])
    house.model.say_text("Told.")

    events, _ = await run(house, await house.new_session(tools=["meet"]))

    told = [data for name, data in events if name == "status" and "progress" in data]
    assert told[0]["progress"] == 0
    assert len(told) < 100


KINDS = {
    "notes__add": {"server": "notes"},
    "files__edit": {"server": "files"},
    "files__read": {"server": "files", "read_only": True, "destructive": False},
    "files__make": {"server": "files", "destructive": False},
    "erase": {},
    "overwrite": {},
    "look": {"destructive": False},
}


class Shelf:
    """Tools that read something, take their time, and write it back with one line more.

    ``most`` says how many calls of a tool were running at once, ``held`` which hold all up.
    """

    def __init__(self, *, held=None, fail=None):
        self.text = ""
        self.began = []
        self.most = 0
        self.at_work = asyncio.Event()
        self.let_go = asyncio.Event()
        self._held, self._fail = held, fail
        self._running = 0

    async def listing(self, selection=None):
        return ToolListing(
            tools={
                name: Tool(
                    spec=ToolSpec(name=name, description="T.", parameters={"type": "object"}),
                    **kind,
                )
                for name, kind in KINDS.items()
            }
        )

    async def call_tool(self, invocation):
        number = invocation.arguments["number"]
        self.began.append(number)
        self._running += 1
        self.most = max(self.most, self._running)
        before = self.text
        try:
            if number == self._held:
                self.at_work.set()
                await self.let_go.wait()
            for _ in range(10):
                await asyncio.sleep(0)
            if number == self._fail:
                return ToolResult(success=False, error_message="no", error_code="X")
            self.text = f"{before}{number}"
        finally:
            self._running -= 1
        return ToolResult(success=True, result=f"wrote {number}")


def round_of(*tool_names):
    return [
        CallDelta(ToolCall(id=f"c{number}", name=name, arguments={"number": number}))
        for number, name in enumerate(tool_names)
    ]


async def run_round(make_house, shelf, *tool_names):
    house = make_house(shelf)
    house.model.say(round_of(*tool_names), [Finished()])
    house.model.say_text("Done.")
    async with asyncio.timeout(20):
        events, _ = await run(house, await house.new_session(tools=list(KINDS)))
    return [data for name, data in events if name == "tool_result"]


@pytest.mark.parametrize(
    "tool_names",
    [
        ["notes__add"] * 6,
        ["files__edit", "files__make", "files__edit", "files__make"],  # adding changes things, too
        ["erase", "overwrite", "erase", "overwrite"],
    ],
)
async def test_calls_that_could_undo_each_other_run_in_the_models_order(make_house, tool_names):
    shelf = Shelf()

    results = await run_round(make_house, shelf, *tool_names)

    in_order = list(range(len(tool_names)))
    assert shelf.began == in_order
    assert shelf.text == "".join(map(str, in_order))
    assert shelf.most == 1
    assert [data["result"] for data in results] == [f"wrote {number}" for number in in_order]


@pytest.mark.parametrize(
    "tool_names",
    [
        ["notes__add", "files__edit", "erase"],  # different servers, and functions
        ["files__read", "files__read", "files__edit"],  # a trusted server says that it only reads
        ["look", "look", "erase"],
    ],
)
async def test_calls_that_share_no_queue_run_at_once(make_house, tool_names):
    shelf = Shelf()

    await run_round(make_house, shelf, *tool_names)

    assert shelf.most == 3


async def test_a_call_that_fails_lets_the_next_of_its_queue_run(make_house):
    shelf = Shelf(fail=0)

    results = await run_round(make_house, shelf, "erase", "erase", "notes__add")

    assert [data["success"] for data in results] == [False, True, True]
    assert sorted(shelf.began) == [0, 1, 2]


async def test_a_saved_result_says_whether_its_tool_failed(make_house):
    house = make_house(Shelf(fail=0))
    house.model.say(round_of("erase", "notes__add"), [Finished()])
    house.model.say_text("Done.")
    session_id = await house.new_session(tools=list(KINDS))
    await run(house, session_id)

    kept = [m for m in await house.messages(session_id) if isinstance(m, ToolMessage)]
    assert [(m.content, m.failed) for m in kept] == [("Error: no", True), ("wrote 1", False)]


async def test_a_saved_result_says_why_its_tool_did_not_run(make_house):
    house = make_house(Shelf())
    house.model.say(round_of("nothing", "notes__add"), [Finished()])
    house.model.say_text("Done.")
    session_id = await house.new_session(tools=list(KINDS))
    await run(house, session_id)

    kept = [m for m in await house.messages(session_id) if isinstance(m, ToolMessage)]
    assert [m.error_code for m in kept] == ["TOOL_NOT_FOUND", None]


async def test_a_queue_that_stands_still_holds_no_other_up(make_house):
    shelf = Shelf(held=0)
    house = make_house(shelf)
    house.model.say(round_of("erase", "erase", "notes__add", "look"), [Finished()])
    house.model.say_text("Done.")
    turn = await house.turns.start(await house.new_session(tools=list(KINDS)), HELLO)

    async with asyncio.timeout(20):
        while len(shelf.began) < 3:
            await asyncio.sleep(0)
        assert sorted(shelf.began) == [0, 2, 3]
        shelf.let_go.set()
        await listen(turn)

    assert sorted(shelf.began) == [0, 1, 2, 3]


async def test_a_queued_call_of_a_turn_that_is_cancelled_never_starts(make_house):
    shelf = Shelf(held=0)
    house = make_house(shelf)
    house.model.say(round_of("notes__add", "notes__add", "notes__add"), [Finished()])
    session_id = await house.new_session(tools=list(KINDS))
    turn = await house.turns.start(session_id, HELLO)

    async with asyncio.timeout(20):
        await shelf.at_work.wait()
        await house.turns.cancel(session_id)
        await turn.finished()

    assert shelf.began == [0]
    kept = [m for m in await house.messages(session_id) if isinstance(m, ToolMessage)]
    assert [(m.tool_call_id, m.failed) for m in kept] == [("c0", True), ("c1", True), ("c2", True)]


async def test_no_call_starts_while_a_cancelled_turn_still_saves_a_result(make_house):
    shelf = Shelf(held=1)
    house = make_house(shelf)
    house.model.say(round_of("erase", "erase", "erase"), [Finished()])
    session_id = await house.new_session(tools=list(KINDS))
    turn = await house.turns.start(session_id, HELLO)
    append, saving, saved = (
        turn.engine.actions.session_writer.append,
        asyncio.Event(),
        asyncio.Event(),
    )

    async def slowly(message):
        saving.set()
        await to_the_end(asyncio.create_task(saved.wait()))
        await append(message)

    turn.engine.actions.session_writer.append = lambda *messages, **how: (
        slowly(*messages) if isinstance(messages[0], ToolMessage) else append(*messages, **how)
    )

    async with asyncio.timeout(20):
        await saving.wait()
        await shelf.at_work.wait()
        turn.engine.stop(Input.CANCEL_REQUESTED)
        shelf.let_go.set()
        while shelf.text != "01":
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        turn.engine.actions.session_writer.append = append
        saved.set()
        await turn.finished()

    assert shelf.began == [0, 1]


async def test_a_queued_calls_time_counts_from_its_own_start(make_house):
    shelf = Shelf(held=0)
    house = make_house(shelf)
    house.model.say(round_of("erase", "erase"), [Finished()])
    house.model.say_text("Done.")
    turn = await house.turns.start(await house.new_session(tools=list(KINDS)), HELLO)

    async with asyncio.timeout(20):
        await shelf.at_work.wait()
        asyncio.get_running_loop().call_later(0.2, shelf.let_go.set)
        events = await listen(turn)

    first, second = (d["execution_time_ms"] for name, d in events if name == "tool_result")
    assert second < first
