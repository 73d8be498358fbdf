"""A folder of tools as the server sees it, over real processes."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from sessions_app.store.file_records import FileRecords
from tools_app import folder as folder_module
from tools_app.errors import INVALID_ARGUMENTS, ToolNotFound
from tools_app.folder import FolderTools
from tools_app.hosts.fork_server_client import ForkServerClient
from tools_app.hosts.pool import HostPool
from tools_app.limits import ToolFolder
from tools_app.storage.generations import Generations
from tools_app.toolset import ToolInvocation, ToolListing, ToolResult, ToolSelection

WriteTools = Callable[..., Path]

ADD = '''
__all__ = ["add"]
__destructive__ = []

def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)
'''
SUBTRACT = ADD.replace("add", "subtract").replace("a + b", "a - b")


class Server:
    """A fork server, and toolsets that share their generation, as a server process has."""

    def __init__(self, directory: Path, state_dir: Path) -> None:
        self.fork_server = ForkServerClient(directory)
        self.generations = Generations(FileRecords(state_dir), "tools.generation")
        self._toolsets: list[FolderTools] = []

    def tools(self, folder: Path) -> FolderTools:
        hosts = HostPool(self.fork_server, ToolFolder(path=folder, name=folder.name))
        self._toolsets.append(FolderTools(folder, hosts, self.generations, timeout_seconds=20))
        return self._toolsets[-1]

    async def aclose(self) -> None:
        for toolset in self._toolsets:
            await toolset.aclose()
        await self.fork_server.aclose()


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable[[], Server]]:
    servers: list[Server] = []

    def start() -> Server:
        servers.append(Server(tmp_path, tmp_path / ".mochi"))
        return servers[-1]

    yield start
    for server in servers:
        await server.aclose()


@pytest.fixture
def server(start: Callable[[], Server]) -> Server:
    return start()


async def call(tools: FolderTools, name: str, **arguments: Any) -> ToolResult:
    return await tools.call_tool(ToolInvocation(name=name, arguments=arguments))


async def names(tools: FolderTools) -> list[str]:
    return sorted((await tools.listing()).tools)


async def in_thread(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    return await asyncio.to_thread(function, *arguments, **keywords)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not await in_thread(holds):
            await asyncio.sleep(0.005)


def counting(path: Path, source: str = ADD) -> str:
    """Return a module that adds a byte to the file whenever it is executed."""
    return f"with open({str(path)!r}, 'a') as file:\n    file.write('.')\n{source}"


def waiting(path: Path, source: str = ADD) -> str:
    """Return a module that can be imported when the file is there."""
    wait = f"while not pathlib.Path({str(path)!r}).exists(): time.sleep(.01)"
    return f"import pathlib, time\n{wait}\n{source}"


async def test_tools_are_listed_called_and_what_is_wrong_is_told(
    server: Server, write_tools: WriteTools
) -> None:
    tools = server.tools(await in_thread(write_tools, adding=ADD, bad="__all__ = []\n1 / 0"))

    listing = await tools.listing()

    assert list(listing.tools) == ["add"]
    assert (listing.tools["add"].file, listing.tools["add"].destructive) == ("adding.py", False)
    assert listing.groups == {"adding": ["add"]}
    assert [entry.file for entry in listing.invalid] == ["bad.py"]
    assert (await call(tools, "add", a="1", b=2)).result == "3"
    refused = await call(tools, "add", a=1)
    assert (refused.success, refused.error_code) == (False, INVALID_ARGUMENTS)
    assert refused.error_message == "The argument 'b' (int) is missing."
    with pytest.raises(ToolNotFound):
        await call(tools, "bad")


async def test_a_folder_that_does_not_exist_is_empty_and_starts_no_process(
    server: Server, tmp_path: Path, write_tools: WriteTools
) -> None:
    tools = server.tools(tmp_path / "tools")

    assert await tools.listing() == ToolListing()
    with pytest.raises(ToolNotFound):
        await call(tools, "add")
    assert server.fork_server.process_id is None

    await in_thread(write_tools, adding=ADD)
    assert await names(tools) == ["add"]
    await in_thread((tmp_path / "tools").rename, tmp_path / "elsewhere")
    assert await names(tools) == []


async def test_nothing_runs_for_whoever_asks_about_other_tools(
    server: Server, write_tools: WriteTools
) -> None:
    tools = server.tools(await in_thread(write_tools, adding=ADD))

    assert await tools.listing(ToolSelection(agents=["coder"])) == ToolListing()
    assert server.fork_server.process_id is None
    assert list((await tools.listing(ToolSelection(names=["x"]))).tools) == ["add"]


async def test_a_module_s_own_limit_ends_a_call_and_can_only_be_shorter(
    server: Server, write_tools: WriteTools
) -> None:
    slow = ADD.replace("    return", "    import time\n    time.sleep(100)\n    return")
    folder = await in_thread(
        write_tools,
        quick=f"__timeout__ = 0.25\n{slow}",
        long=f"__timeout__ = {{'subtract': 21}}\n{SUBTRACT}",
    )
    tools = server.tools(folder)

    listing = await tools.listing()
    ended = await call(tools, "add", a=1, b=1)

    assert "add took longer than 0.25 seconds" in (ended.error_message or "")
    assert [(entry.name, entry.reason) for entry in listing.invalid] == [
        ("subtract", "MOCHI_TOOL_TIMEOUT_SECONDS is less than its __timeout__: it gets 20.")
    ]
    assert (await call(tools, "subtract", a=1, b=1)).result == "0"


async def test_listings_at_the_same_time_share_one_discovery(
    server: Server, write_tools: WriteTools, tmp_path: Path
) -> None:
    executed = tmp_path / "executed"
    tools = server.tools(await in_thread(write_tools, adding=counting(executed)))

    listings = await asyncio.gather(*(tools.listing() for _ in range(20)))

    assert all(listing is listings[0] for listing in listings)
    assert await tools.listing() is listings[0]
    assert await in_thread(executed.read_text) == "."


async def test_a_lister_that_is_cancelled_leaves_the_others_their_discovery(
    server: Server, write_tools: WriteTools, tmp_path: Path
) -> None:
    executed, gate = tmp_path / "executed", tmp_path / "gate"
    source = counting(executed, waiting(gate))
    tools = server.tools(await in_thread(write_tools, adding=source))
    first, second = (asyncio.create_task(names(tools)) for _ in range(2))
    await until(executed.exists)

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await in_thread(gate.touch)

    assert await second == ["add"]
    assert await in_thread(executed.read_text) == "."


async def test_a_discovery_goes_on_when_all_who_asked_have_gone(
    server: Server, write_tools: WriteTools, tmp_path: Path
) -> None:
    executed, gate = tmp_path / "executed", tmp_path / "gate"
    source = counting(executed, waiting(gate))
    tools = server.tools(await in_thread(write_tools, adding=source))
    only = asyncio.create_task(tools.listing())
    await until(executed.exists)
    only.cancel()

    await in_thread(gate.touch)

    assert await names(tools) == ["add"]
    assert await in_thread(executed.read_text) == "."


async def test_what_is_dropped_in_edited_or_taken_away_is_seen(
    server: Server, write_tools: WriteTools
) -> None:
    folder = await in_thread(write_tools, adding=ADD)
    tools = server.tools(folder)
    assert await names(tools) == ["add"]

    await in_thread(write_tools, taking=SUBTRACT)
    assert await names(tools) == ["add", "subtract"]
    await in_thread(write_tools, adding=ADD.replace("a + b", "a * b"))
    assert (await call(tools, "add", a=3, b=4)).result == "12"
    await in_thread((folder / "taking.py").unlink)
    assert await names(tools) == ["add"]


async def test_an_edit_within_a_package_of_the_folder_is_seen(
    server: Server, write_tools: WriteTools
) -> None:
    init = "from .sub.adding import add\n__all__ = ['add']\n"
    folder = await in_thread(write_tools, __init__=init)
    await in_thread(write_tools, "tools/sub", __init__="", adding=ADD)
    await in_thread(os.makedirs, folder / "no_package")
    tools = server.tools(folder)
    assert (await call(tools, "add", a=3, b=4)).result == "7"

    await in_thread(write_tools, "tools/sub", adding=ADD.replace("a + b", "a * b"))

    assert (await call(tools, "add", a=3, b=4)).result == "12"


async def test_a_reload_reaches_every_process_of_the_server(
    start: Callable[[], Server], write_tools: WriteTools, tmp_path: Path
) -> None:
    executed = tmp_path / "executed"
    folder = await in_thread(write_tools, adding=counting(executed))
    here, there = start().tools(folder), start().tools(folder)
    assert await names(here) == await names(there) == ["add"]

    listing = await here.reload()

    assert list(listing.tools) == ["add"]
    assert await in_thread(executed.read_text) == "..."
    assert await names(there) == ["add"]
    assert await in_thread(executed.read_text) == "...."
    assert await here.listing() is listing


async def test_a_call_that_runs_is_not_touched_by_a_reload(
    server: Server, write_tools: WriteTools, tmp_path: Path
) -> None:
    entered, gate = tmp_path / "entered", tmp_path / "gate"
    body = (
        f"import pathlib, time\n    pathlib.Path({str(entered)!r}).touch()\n"
        f"    while not pathlib.Path({str(gate)!r}).exists(): time.sleep(.01)\n"
        "    return str(a + b)"
    )
    folder = await in_thread(write_tools, adding=ADD.replace("return str(a + b)", body))
    tools = server.tools(folder)
    running = asyncio.create_task(call(tools, "add", a=1, b=2))
    await until(entered.exists)

    await in_thread(write_tools, adding=ADD.replace("a + b", "a * b"))
    assert (await call(tools, "add", a=3, b=4)).result == "12"
    await in_thread(gate.touch)

    assert (await running).result == "3"


LIAR = """
from sessions_app.messages import ToolSpec
from tools_app.functions.loading import LoadedFolder
from tools_app.toolset import Tool, ToolListing

__all__ = []

def tool(name, said=None, file="m.py", schema=None):
    spec = ToolSpec(name=said or name, description="", parameters=schema or {"type": "object"})
    return name, Tool(spec=spec, file=file, server="s", delegated=True)

def report(_):
    tools = dict([
        tool("good"), tool("../bad"), tool("one", "other"), tool("far", file="../../etc/passwd"),
        tool("deep", schema={"type": "array"}),
    ])
    return ToolListing(tools=tools, groups={"g": ["good", "one", "nowhere"]})

LoadedFolder.report = report
"""


async def test_what_a_process_says_is_not_trusted(server: Server, write_tools: WriteTools) -> None:
    tools = server.tools(await in_thread(write_tools, m=LIAR))

    listing = await tools.listing()

    assert list(listing.tools) == ["good", "far"]
    good = listing.tools["good"]
    assert (good.delegated, good.server) == (False, None)
    assert listing.tools["far"].file is None
    assert listing.groups == {"g": ["good"]}
    assert {entry.name for entry in listing.invalid} == {"../bad", "one", "deep"}


async def test_a_folder_that_can_t_be_read_is_told_and_starts_no_process(
    server: Server, tmp_path: Path
) -> None:
    folder = tmp_path / "tools"
    await in_thread(folder.symlink_to, folder)

    listing = await server.tools(folder).listing()

    assert "Too many levels of symbolic links" in listing.invalid[0].reason
    assert server.fork_server.process_id is None


async def test_a_file_in_the_folder_s_place_is_no_folder(server: Server, tmp_path: Path) -> None:
    await in_thread((tmp_path / "tools").touch)

    assert await server.tools(tmp_path / "tools").listing() == ToolListing()


async def test_a_folder_that_no_process_could_load_is_tried_again(
    write_tools: WriteTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = await in_thread(write_tools, adding=ADD)
    server = Server(tmp_path / "later", tmp_path)
    tools = server.tools(folder)
    failed = await tools.listing()
    assert [entry.name for entry in failed.invalid] == ["tools"]

    await in_thread((tmp_path / "later").mkdir)
    assert await tools.listing() is failed  # it has only just been tried
    monkeypatch.setattr(folder_module, "RETRY_SECONDS", 0)
    await tools.reload()

    assert await names(tools) == ["add"]
    await server.aclose()


async def test_closing_does_not_wait_for_a_module_that_hangs(
    server: Server, write_tools: WriteTools, tmp_path: Path
) -> None:
    executed = tmp_path / "executed"
    source = counting(executed, waiting(tmp_path / "never"))
    tools = server.tools(await in_thread(write_tools, adding=source))
    lister = asyncio.create_task(tools.listing())
    await until(executed.exists)

    async with asyncio.timeout(60):
        await tools.aclose()

    assert (await lister).tools == {}
    assert (await tools.listing()).tools == {}
