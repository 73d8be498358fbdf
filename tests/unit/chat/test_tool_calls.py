"""The calls of one round: at the same time, their results in the order of the calls."""

import asyncio

from models_app.language_model import CallDelta, Finished
from sessions_app.messages import AssistantMessage, ToolCall, ToolMessage, ToolSpec, UserMessage
from tests.unit.chat.test_turns import run
from tools_app.toolset import Tool, ToolListing, ToolProgress, ToolResult


class Meeting:
    """A tool whose calls each wait until the later ones have ended, the last one first."""

    def __init__(self, expected):
        self.here = []
        self.everybody = asyncio.Barrier(expected)
        self.gone = [asyncio.Event() for _ in range(expected)]

    async def listing(self, selection=None):
        spec = ToolSpec(name="meet", description="Meets.", parameters={"type": "object"})
        return ToolListing(tools={"meet": Tool(spec=spec)})

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
    assert [record["tool_call_id"] for record in outcome.tool_calls] == ["c0", "c1", "c2"]
    sent = [m.content for m in house.model.requests[1].messages if isinstance(m, ToolMessage)]
    assert sent == ["met 0", "met 1", "met 2"]


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
