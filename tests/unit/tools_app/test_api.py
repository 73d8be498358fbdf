"""The /tools and /mcp routes: shapes, order and errors."""

from types import SimpleNamespace

import pytest
from django.test import AsyncClient

from mochi_project import urls  # noqa: F401 - so that no request imports it on the loop
from mochi_project.principal import DEFAULT_OWNER, Principal, acting_for
from sessions_app.messages import ToolSpec
from tests.services import OneOwner, services_of
from tests.unit.tools_app.kept_files import keeper
from tools_app.catalogue import ToolCatalogue
from tools_app.errors import ToolServerNotFound, ToolServerUnavailable
from tools_app.execution_log import ExecutionLog
from tools_app.folder import FolderTools
from tools_app.mcp.toolset import McpTools
from tools_app.schemas import McpLoginOut, McpServerOut
from tools_app.storage.files.call_log import FileCallLog
from tools_app.toolset import InvalidTool, Tool, ToolInvocation, ToolListing, ToolResult

URL = "/api/v1/tools"
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "number", "description": "The first number to add."}},
    "required": ["a"],
}


def tool(name, **values):
    spec = ToolSpec(name=name, description=f"What {name} does.", parameters=SCHEMA)
    return Tool(
        spec=spec,
        parameters={"a": {"type": "float", "description": "The first number to add."}},
        **values,
    )


class Folder:
    """A toolset that knows what it has, and counts how often it was told to look again."""

    def __init__(self, *tools, invalid=()):
        self.tools = {tool.name: tool for tool in tools}
        self.invalid = invalid
        self.reloads = 0

    async def listing(self, selection=None):
        groups = {"math": [name for name, tool in self.tools.items() if "math" in tool.groups]}
        return ToolListing(tools=self.tools, groups=groups, invalid=self.invalid)

    async def call_tool(self, invocation):
        return ToolResult(success=invocation.arguments["a"] > 0, error_code="X", result="1")

    async def reload(self):
        self.reloads += 1


class Servers:
    """MCP servers of which one works."""

    known = ()

    async def servers(self):
        return self.known or [await self.restart("time")]

    async def restart(self, name):
        if name == "broken":
            raise ToolServerUnavailable(name, "it ended.")
        if name != "time":
            raise ToolServerNotFound(name)
        return SimpleNamespace(
            name="time",
            transport="stdio",
            state="ready",
            error=None,
            login=None,
            tools=("time__now",),
            invalid=(),
        )


@pytest.fixture
async def log(tmp_path):
    log = ExecutionLog(FileCallLog(tmp_path / "executions.jsonl"))
    yield log
    await log.aclose()


@pytest.fixture
def folder():
    broken = InvalidTool(name="mail", file="mail.py", reason="SyntaxError: ... (line 3)")
    math = tool("add_numbers", groups=("math",), destructive=False, file="math_tools.py")
    return Folder(math, tool("delete_file"), invalid=[broken])


@pytest.fixture
def servers():
    return Servers()


@pytest.fixture
def tools(folder, log, servers, monkeypatch):
    catalogue = ToolCatalogue([folder], log, keeper())
    services = services_of(
        {ToolCatalogue: catalogue, FolderTools: folder, ExecutionLog: log, McpTools: servers}
    )
    monkeypatch.setattr("mochi_project.app._pool", OneOwner(services))
    return catalogue


@pytest.fixture
def client(tools):
    return AsyncClient()


ADD_NUMBERS = {
    "name": "add_numbers",
    "description": "What add_numbers does.",
    "title": None,
    "parameters": {"a": {"type": "float", "description": "The first number to add."}},
    "json_schema": SCHEMA,
    "destructive": False,
    "groups": ["math"],
    "server": None,
    "icons": [],
}


async def test_tools_are_listed_with_exactly_the_documented_fields(client):
    answer = await client.get(URL)
    assert answer.status_code == 200
    body = answer.json()
    assert body["tools"]["add_numbers"] == ADD_NUMBERS
    assert list(body["tools"]) == ["add_numbers", "delete_file"]
    assert body["groups"] == {"math": ["add_numbers"]}
    assert body["invalid"] == [
        {"name": "mail", "file": "mail.py", "reason": "SyntaxError: ... (line 3)"}
    ]
    assert body.keys() == {"tools", "groups", "invalid"}


async def test_one_tool_is_shown(client):
    answer = await client.get(f"{URL}/add_numbers")
    assert answer.status_code == 200
    assert answer.json() == ADD_NUMBERS


@pytest.mark.parametrize("name", ["nope", "mail", "%00", "..%2fx"])
async def test_a_tool_that_is_not_there_is_not_found(client, name):
    answer = await client.get(f"{URL}/{name}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] in {"TOOL_NOT_FOUND", "NOT_FOUND"}


async def test_reloading_looks_again_and_lists_what_is_there_now(client, folder):
    folder.tools["new"] = tool("new")
    answer = await client.post(f"{URL}/reload")
    assert answer.status_code == 200
    assert "new" in answer.json()["tools"]
    assert folder.reloads == 1


async def test_executions_and_reload_are_no_tools_names(client, folder):
    folder.tools |= {name: tool(name) for name in ("executions", "reload")}
    assert "executions" in (await client.get(f"{URL}/executions")).json()
    assert (await client.get(f"{URL}/reload")).status_code == 405


async def test_before_the_first_call_there_are_no_executions(client):
    answer = await client.get(f"{URL}/executions")
    assert answer.json() == {"executions": [], "statistics": {}}


async def test_calls_are_told_newest_first_with_statistics(client, tools):
    for a in (1, -1):
        await tools.call_tool(
            ToolInvocation(
                name="add_numbers",
                arguments={"a": a, "secret": "canary"},
                session_id="a1b2c3d4e5",
                tool_call_id=f"call_{a}",
            )
        )
    answer = await client.get(f"{URL}/executions")
    assert answer.status_code == 200
    assert b"canary" not in answer.content
    body = answer.json()
    assert [call["tool_call_id"] for call in body["executions"]] == ["call_-1", "call_1"]
    assert [call["success"] for call in body["executions"]] == [False, True]
    assert body["statistics"]["add_numbers"]["calls"] == 2
    assert body["statistics"]["add_numbers"]["failures"] == 1


async def test_mcp_servers_are_listed(client):
    answer = await client.get("/api/v1/mcp/servers")
    assert answer.status_code == 200
    assert answer.json() == {
        "servers": [
            {
                "name": "time",
                "transport": "stdio",
                "state": "ready",
                "error": None,
                "login": None,
                "tools": ["time__now"],
                "invalid": [],
            }
        ]
    }


@pytest.mark.parametrize(("scope", "url"), [("admin", "https://login.example"), ("read", None)])
async def test_the_address_of_a_login_is_told_who_may_begin_one(client, servers, scope, url):
    url_of_login = "https://login.example"
    login = McpLoginOut(needed=True, url=url_of_login, expires_at=None, scopes=["read"])
    servers.known = [
        McpServerOut(
            name="docs",
            transport="http",
            state="needs_login",
            error=None,
            login=login,
            tools=[],
            invalid=[],
        )
    ]

    with acting_for(Principal(DEFAULT_OWNER, frozenset({"read", scope}))):
        answer = await client.get("/api/v1/mcp/servers")

    [server] = answer.json()["servers"]
    assert server["login"] == {
        "needed": True,
        "url": url,
        "expires_at": None,
        "scopes": ["read"],
    }


async def test_an_mcp_server_is_restarted(client):
    answer = await client.post("/api/v1/mcp/servers/time/restart")
    assert answer.status_code == 200
    assert answer.json()["state"] == "ready"


@pytest.mark.parametrize(
    ("name", "status", "code"), [("nope", 404, "NOT_FOUND"), ("broken", 502, "SERVICE_UNAVAILABLE")]
)
async def test_a_server_that_can_not_be_restarted_is_an_error(client, name, status, code):
    answer = await client.post(f"/api/v1/mcp/servers/{name}/restart")
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["details"]["server"] == name


async def test_a_login_that_fails_here_ends_with_a_page_and_its_code_is_not_logged(client, caplog):
    answer = await client.get("/api/v1/mcp/callback?code=planted-code")  # there are no logins

    assert answer.status_code == 503
    assert answer["Content-Type"].startswith("text/html")
    assert "a login could not be finished" in caplog.text
    assert "planted-code" not in "".join(repr(vars(record)) for record in caplog.records)
