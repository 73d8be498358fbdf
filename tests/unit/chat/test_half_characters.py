"""Halves of surrogate pairs, from models and tools: a turn that meets them is saved."""

from models_app.errors import OllamaError
from models_app.language_model import CallArgumentsDelta, Finished, TextDelta, ThinkingDelta
from sessions_app.messages import AssistantMessage, ToolMessage
from tests.unit.chat.turns import Calculator, call, names, run
from tools_app.toolset import ToolProgress, ToolResult


class Garbler(Calculator):
    """A tool that returns, tells or fails with half a character."""

    async def call_tool(self, invocation):
        invocation.report(ToolProgress(message="half\ud83d"))
        if invocation.arguments.get("fails"):
            return ToolResult(success=False, error_message="no\udc00")
        return ToolResult(success=True, result="\ud83d\ude00 \ud83d", server="s\ud800")


async def test_an_answer_in_halves_is_shown_and_saved_whole(house):
    house.model.say(
        [ThinkingDelta("hm \ud83d")], [TextDelta("Hi \ud83d"), TextDelta("\ude00")],
        [ThinkingDelta("\ude00")], [TextDelta(" end\ud83d")], [Finished(done_reason="stop\ud800")],
    )  # fmt: skip
    session_id = await house.new_session()
    events, _ = await run(house, session_id)
    assert names(events)[-2:] == ["message_complete", "done"]
    shown = "".join(data["content"] for name, data in events if name == "content_delta")
    _, answer = await house.messages(session_id)
    assert shown == answer.content == "Hi 😀 end\ufffd"
    assert answer.thinking == "hm 😀"


async def test_an_answer_that_breaks_off_within_a_character_is_saved(house):
    house.model.say([TextDelta("Hi \ud83d\ude00 \ud83d")], OllamaError("broke\ud83d"))
    session_id = await house.new_session()
    events, _ = await run(house, session_id)
    assert names(events)[-2:] == ["error", "done"]
    assert events[-2][1]["message"] == "broke\ufffd"
    _, answer = await house.messages(session_id)
    assert isinstance(answer, AssistantMessage)
    assert (answer.content, answer.interrupted) == ("Hi 😀", True)


async def test_halves_in_calls_and_their_results_are_saved_and_sent_again(make_house):
    house = make_house(Garbler())
    pieces = ['{"k\ud83d', '\ude00": 1}']
    house.model.say(
        *([CallArgumentsDelta(0, "c\ud800", "add", piece)] for piece in pieces),
        [call("c\ud800", "add", **{"k\ud83d\ude00": [{"\udc00": 1}]})],
        [call("c\ud801", "add", fails=True), call("c\ud802", "a\ud800")],
        [Finished()],
    )
    house.model.say_text("So.")
    session_id = await house.new_session(tools=["add"])
    events, _ = await run(house, session_id)
    assert names(events)[-2:] == ["message_complete", "done"]
    told = "".join(data["arguments"] for name, data in events if name == "tool_call_delta")
    assert told == '{"k😀": 1}'
    asked, *results, _ = (await house.messages(session_id))[1:]
    assert asked.tool_calls[0].arguments == {"k😀": [{"\ufffd": 1}]}
    assert asked.tool_calls[2].name == "a\ufffd"
    assert all(isinstance(result, ToolMessage) for result in results)
    assert [result.content for result in results][:2] == ["😀 \ufffd", "Error: no\ufffd"]
    assert [result.tool_call_id for result in results] == [c.id for c in asked.tool_calls]
    assert len({c.id for c in asked.tool_calls}) == 3
    shown = next(data for name, data in events if name == "status" and "message" in data)
    assert (shown["message"], "progress" in shown) == ("half\ufffd", False)
