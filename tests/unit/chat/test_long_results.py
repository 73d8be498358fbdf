"""Long results of tools: kept whole, and read on by the model in this turn and in later ones."""

import msgspec
import pytest

from chat.start.turn_request import TurnRequest
from models_app.language_model import Finished
from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.references import ids_in
from sessions_app.attachments.service import AttachmentService
from sessions_app.edits import Rewind
from sessions_app.messages import ToolMessage, ToolSpec
from tests.unit.chat.turns import HELLO, call, run
from tools_app.catalogue import ToolCatalogue
from tools_app.execution_log import ExecutionLog
from tools_app.output_limit import cut, result_id, whole_of
from tools_app.result_files import ResultFiles
from tools_app.result_reader import ResultReader
from tools_app.storage.files.call_log import FileCallLog
from tools_app.toolset import Tool, ToolListing, ToolResult

TEXT = "".join(f"line {number}\n" for number in range(1, 10_001))
DONE = Finished(done_reason="tool_calls")
OFFERED = ["list", "read_result"]


class Lister:
    """A tool with a long result, and one that has the name of the server's own."""

    async def listing(self, selection=None):
        specs = [
            ToolSpec(name=name, description="Lists.", parameters={"type": "object"})
            for name in ("list", "read_result")
        ]
        return ToolListing(tools={spec.name: Tool(spec=spec) for spec in specs})

    async def call_tool(self, invocation):
        if invocation.name == "read_result":
            return ToolResult(success=True, result="mine")
        return ToolResult(success=True, result=cut(TEXT), files=whole_of(TEXT))


@pytest.fixture
async def tools(data_dir, tmp_path):
    files = AttachmentService(FileAttachmentStore(data_dir / "attachments"), max_bytes=1 << 20)
    log = ExecutionLog(FileCallLog(tmp_path / "executions.jsonl"))
    yield ToolCatalogue([ResultReader(files), Lister()], log, ResultFiles(files, most=20))
    await log.aclose()


@pytest.fixture
async def house(make_house, tools):
    house = make_house(tools)
    yield house
    await house.turns.shutdown(grace_seconds=0)


@pytest.fixture
async def session_id(house):
    """Return a session whose model listed, and was told how to read on."""
    session_id = await house.new_session(tools=["list"])
    house.model.say([call("c1", "list")], [DONE])
    house.model.say_text("Long.")
    await run(house, session_id)
    return session_id


async def whole_in(house, session_id):
    [result] = [m for m in await house.messages(session_id) if isinstance(m, ToolMessage)]
    [whole] = result.attachments
    return whole


def offered(request):
    return [spec.name for spec in request.tools]


async def read_on(house, session_id, request=HELLO, **arguments):
    """Let the model read in another turn; return what it got."""
    house.model.say([call("c2", "read_result", **arguments)], [DONE])
    house.model.say_text("Read.")
    _, outcome = await run(house, session_id, request)
    assert outcome.error is None
    return house.model.requests[-1].messages[-1].content


async def test_the_model_gets_an_excerpt_and_is_offered_the_rest_in_the_same_turn(
    house, session_id
):
    first, second = house.model.requests
    whole = await whole_in(house, session_id)
    sent = second.messages[-1]
    assert (offered(first), offered(second)) == (["list"], OFFERED)
    assert sent.content.startswith("line 1\n")
    assert len(sent.content) < 11_000
    assert f'read_result {{"id": "{result_id(whole.id)}", "from_line": 1' in sent.content
    assert sent.attachments == ()
    assert whole.size == len(TEXT)


async def test_a_later_turn_reads_on_without_asking(house, session_id):
    whole = await whole_in(house, session_id)

    text = await read_on(house, session_id, id=result_id(whole.id), from_line=5000, lines=1)

    assert text == "line 5000\n[Lines 5,000 to 5,000 of 10,000.]"
    assert [offered(each) for each in house.model.requests[2:]] == [OFFERED] * 2


async def test_so_does_a_turn_after_a_restart(house, session_id, after_a_kill, tools):
    whole = await whole_in(house, session_id)
    reborn = await after_a_kill(house, tools)

    text = await read_on(reborn, session_id, id=result_id(whole.id), search="^line 77$")

    assert text == "77: line 77\n[Matches: 1.]"
    await reborn.turns.shutdown(grace_seconds=0)


async def test_another_session_has_no_such_result(house, session_id):
    whole = await whole_in(house, session_id)
    other = await house.new_session(tools=["list"])

    text = await read_on(house, other, id=result_id(whole.id))

    assert text.startswith(f"Error: This session has no result '{result_id(whole.id)}'")


async def test_an_edit_that_cuts_the_message_lets_the_result_go(house, session_id):
    [first, *_] = await house.messages(session_id)
    whole = await whole_in(house, session_id)
    assert whole.id in ids_in(await house.messages(session_id))
    house.model.say_text("Hi.")

    edit = TurnRequest(rewind=Rewind(message_id=first.message_id, content="Hi!"))
    await run(house, session_id, edit)

    assert whole.id not in ids_in(await house.messages(session_id))
    assert offered(house.model.requests[-1]) == ["list"]


@pytest.mark.parametrize(
    ("request_", "names"),
    [
        (TurnRequest(message="Hi!", tool_choice="none"), []),
        (TurnRequest(message="Hi!", tool_choice=["list"]), ["list"]),
        (TurnRequest(message="Hi!", selected_tools=[]), ["read_result"]),
        (TurnRequest(message="Hi!", selected_tools=["read_result"]), ["read_result"]),
    ],
    ids=["no tools", "chosen tools", "other tools", "its namesake"],
)
async def test_what_else_is_offered_decides_the_turn(house, session_id, request_, names):
    house.model.say_text("Hi.")
    await run(house, session_id, request_)
    assert offered(house.model.requests[-1]) == names


async def test_a_tool_of_that_name_goes_first_where_it_is_selected(house, session_id):
    request = TurnRequest(message="Hi!", selected_tools=["read_result"])
    assert await read_on(house, session_id, request, id="0") == "mine"


async def test_a_tool_of_that_name_that_is_not_selected_does_not_run(house, session_id):
    whole = await whole_in(house, session_id)
    text = await read_on(house, session_id, id=result_id(whole.id), lines=1)
    assert text.startswith("line 1\n")


async def test_a_model_that_calls_no_tools_is_not_offered_it(house, session_id):
    house.model.info = msgspec.structs.replace(house.model.info, capabilities=["completion"])
    house.model.say_text("Hi.")
    await run(house, session_id, TurnRequest(message="Hi!", selected_tools=[]))
    assert offered(house.model.requests[-1]) == []
