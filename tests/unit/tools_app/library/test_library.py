"""The library classes for tools, over real folders."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mochi_server.tools import (
    ToolDiscoveryService,
    ToolExecutionPolicy,
    ToolExecutionService,
    ToolSchemaService,
)
from tools_app.errors import ToolNotFound
from tools_app.functions.schema import SchemaError

pytestmark = pytest.mark.usefixtures("nothing_stays_imported")

WriteTools = Callable[..., Path]

MODULE = '''
import asyncio
import sys
from dataclasses import dataclass

__all__ = ["add", "wipe", "wait", "fail", "leave", "leave_later", "listed", "undocumented"]
__destructive__ = ["wipe"]
__math__ = ["add"]


@dataclass
class Point:
    x: int


def add(a: int, b: int = 1) -> str:
    """Add two numbers.

    Args:
        a: The first.
    """
    return str(a + b)

def wipe() -> str:
    """Wipe everything."""
    return "wiped"

async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"

def fail() -> str:
    """Fail."""
    raise ValueError("no luck")

def leave() -> str:
    """Leave."""
    sys.exit(3)

async def leave_later() -> str:
    """Leave."""
    sys.exit(3)

def listed(points: list[Point], point: Point | None = None, mode: int | str = 1) -> list[int]:
    """List them."""
    return [point.x for point in points]

def undocumented() -> str: ...
'''


@pytest.fixture
def folder(write_tools: WriteTools) -> Path:
    return write_tools(m=MODULE)


@pytest.fixture
def tools(folder: Path) -> ToolDiscoveryService:
    return ToolDiscoveryService(folder)


@pytest.fixture
def service(tools: ToolDiscoveryService) -> ToolExecutionService:
    return ToolExecutionService(tools)


def test_discovery_gives_functions_and_groups(tools: ToolDiscoveryService) -> None:
    assert tools.discover_tools()["add"](1, 2) == "3"
    assert tools.get_tool("add") is tools.discover_tools()["add"]
    assert tools.get_groups()["math"] == ["add"]
    assert [entry.name for entry in tools.invalid] == ["undocumented"]
    assert tools.is_destructive("wipe")
    assert not tools.is_destructive("add")
    with pytest.raises(ToolNotFound):
        tools.get_tool("undocumented")


def test_discovery_reads_the_folder_once_until_it_is_told_to_reload(
    tools: ToolDiscoveryService, folder: Path
) -> None:
    first = tools.get_tool("add")
    (folder / "m.py").write_text(MODULE.replace("a + b", "a * b"))

    assert tools.get_tool("add") is first
    assert tools.reload_tools()["add"](3, 4) == "12"
    assert tools.get_tool("add")(3, 4) == "12"


def test_a_folder_that_is_missing_is_found_when_it_is_there(tmp_path: Path) -> None:
    tools = ToolDiscoveryService(str(tmp_path / "later"))
    assert tools.discover_tools() == {}

    (tmp_path / "later").mkdir()
    (tmp_path / "later/m.py").write_text(MODULE)

    assert "add" in tools.reload_tools()


def test_threads_that_ask_at_once_share_one_discovery(tools: ToolDiscoveryService) -> None:
    found: list[Mapping[str, Any]] = []
    threads = [
        threading.Thread(target=lambda: found.append(tools.discover_tools())) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({functions["add"] for functions in found}) == 1


@pytest.mark.parametrize("policy", list(ToolExecutionPolicy))
def test_without_anybody_to_ask_only_what_needs_no_approval_runs(
    service: ToolExecutionService, policy: ToolExecutionPolicy
) -> None:
    may_run = {
        name: service.execute(name, arguments, policy=policy).success
        for name, arguments in (("add", {"a": 1}), ("wipe", {}))
    }

    assert may_run == {
        "add": policy is not ToolExecutionPolicy.ALWAYS_CONFIRM,
        "wipe": policy is ToolExecutionPolicy.NEVER_CONFIRM,
    }


def test_the_policy_of_a_single_tool_wins(service: ToolExecutionService) -> None:
    result = service.execute("wipe", {}, overrides={"wipe": "never_confirm"})

    assert result.result == "wiped"


@pytest.mark.parametrize("answer", [False, None, "false", 1])
def test_only_a_real_yes_is_a_yes(service: ToolExecutionService, answer: Any) -> None:
    result = service.execute("wipe", {}, confirm=lambda _name, _arguments: answer)

    assert (result.success, result.result) == (False, None)
    assert result.error_message == "The call of 'wipe' was denied."


def test_who_is_asked_sees_the_call(service: ToolExecutionService) -> None:
    asked = []

    async def confirm(name: str, arguments: Mapping[str, Any]) -> bool:
        asked.append((name, arguments))
        return True

    assert service.execute("add", {"a": "2"}, confirm=confirm).result == "3"
    assert asked == [("add", {"a": "2"})]


def test_nobody_is_asked_about_what_can_t_run(service: ToolExecutionService) -> None:
    def confirm(name: str, arguments: Mapping[str, Any]) -> bool:
        raise AssertionError

    assert "'a' (int) is missing" in str(service.execute("add", {}, confirm=confirm).error_message)
    assert "no tool named 'x'" in str(service.execute("x", {}, confirm=confirm).error_message)


@pytest.mark.parametrize(
    ("name", "arguments", "result", "error"),
    [
        ("wait", {"seconds": 0}, "waited", None),
        ("listed", {"points": [{"x": 1}]}, "[1]", None),
        ("fail", {}, None, "ValueError: no luck"),
        ("leave", {}, None, "The tool wanted to end the process (sys.exit)."),
        ("leave_later", {}, None, "The tool wanted to end the process (sys.exit)."),
    ],
)
async def test_whatever_a_tool_does_is_a_result(
    service: ToolExecutionService,
    name: str,
    arguments: dict[str, Any],
    result: str | None,
    error: str | None,
) -> None:
    found = await service.aexecute(name, arguments, policy="never_confirm")

    assert (found.result, found.error_message, found.success) == (result, error, error is None)
    assert found.tool_name == name


def test_without_a_loop_tools_of_every_kind_run(service: ToolExecutionService) -> None:
    def execute(name: str, **arguments: Any) -> str | None:
        found = service.execute(name, arguments, policy="never_confirm")
        return found.result or found.error_message

    assert execute("add", a=1) == "2"
    assert execute("wait", seconds=0) == "waited"
    assert execute("leave") == "The tool wanted to end the process (sys.exit)."
    assert execute("leave_later") == "The tool wanted to end the process (sys.exit)."


@pytest.mark.allow_blocking
async def test_within_a_loop_the_blocking_way_works_too(service: ToolExecutionService) -> None:
    result = service.execute("wait", {"seconds": 0}, policy="never_confirm")

    assert result.result == "waited"


def test_a_plain_function_may_start_a_loop() -> None:
    async def answer() -> str:
        return "yes"

    def ask() -> str:
        """Ask."""
        return asyncio.run(answer())

    assert ToolExecutionService({"ask": ask}).execute("ask", {}, policy="never_confirm").success


def test_a_plain_function_runs_in_the_thread_that_executes_it() -> None:
    def where() -> str:
        """Tell the thread."""
        return threading.current_thread().name

    service = ToolExecutionService({"where": where})

    result = service.execute("where", {}, policy="never_confirm")
    assert result.result == threading.current_thread().name
    assert not service.execute("where", {}, policy="confirm_destructive").success


async def test_a_blocking_function_does_not_block_the_loop() -> None:
    entered, release = threading.Event(), threading.Event()

    def block() -> str:
        """Block."""
        entered.set()
        return str(release.wait(10))

    service = ToolExecutionService({"block": block})
    task = asyncio.create_task(service.aexecute("block", {}, policy="never_confirm"))
    while not entered.is_set():
        await asyncio.sleep(0)
    release.set()

    assert (await task).result == "True"


def test_the_history_keeps_the_last_hundred(service: ToolExecutionService) -> None:
    for number in range(102):
        service.execute("add", {"a": number}, policy="never_confirm")
    service.execute("fail", {}, policy="never_confirm")

    history = service.get_history()
    statistics = service.get_statistics()

    assert [result.result for result in history[:2]] == ["4", "5"]
    assert (statistics.total, statistics.successful, statistics.failed) == (100, 99, 1)
    assert statistics.by_tool == {"add": 99, "fail": 1}
    assert statistics.average_time > 0


def test_without_executions_statistics_are_zero(service: ToolExecutionService) -> None:
    assert service.get_statistics().average_time == 0


def test_schemas_are_whole_and_ollama_s_tool_says_what_it_can(tools: ToolDiscoveryService) -> None:
    schemas = ToolSchemaService()
    listed = tools.get_tool("listed")

    assert "Point" in schemas.get_schema(listed)["$defs"]
    assert schemas.get_description(tools.get_tool("add")) == "Add two numbers."
    assert schemas.get_parameters(listed)["points"]["type"] == "list[Point]"
    tool = schemas.to_ollama_tool(listed)
    assert tool is schemas.to_ollama_tool(listed)
    assert tool.function is not None
    assert (tool.function.name, tool.function.description) == ("listed", "List them.")
    parameters = tool.model_dump(exclude_none=True)["function"]["parameters"]
    parameters["properties"]["points"]["items"].pop("additionalProperties", None)  # pydantic 2.14
    assert parameters == {
        "type": "object",
        "required": ["points"],
        "properties": {
            "points": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"x": {"type": "integer"}},
                    "required": ["x"],
                },
            },
            "point": {"type": ["object", "null"]},
            "mode": {"type": ["integer", "string"]},
        },
    }


def test_a_function_that_can_t_be_described_is_an_error() -> None:
    def odd(lock: threading.Event) -> str:
        """Do it."""

    with pytest.raises(SchemaError):
        ToolSchemaService().to_ollama_tool(odd)
