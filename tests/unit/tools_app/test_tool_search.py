"""`find_tools`: what fits a query, what is loaded by it, and the list of all tools."""

import pytest

from sessions_app.messages import AssistantMessage, ToolMessage, ToolSpec
from tools_app.available_tools import AvailableTools
from tools_app.result_reader import READ_RESULT
from tools_app.tool_search import FIND_TOOLS, answer, find, list_of, loaded_by
from tools_app.toolset import Tool


def tool(name: str, description: str = "", server: str | None = None, **parameters: str) -> Tool:
    return Tool(
        spec=ToolSpec(name=name, description=description, parameters={"type": "object"}),
        parameters={key: {"type": "str", "description": text} for key, text in parameters.items()},
        server=server,
        groups=("files",) if server is None else (),
    )


TOOLS = [
    tool("read_file", "Read a text.\nSecond line.", path="Where it is."),
    tool("write_file", "Write a text.", path="Where it goes.", text="What is written."),
    tool("listIssues", "Show what is open.", "github", repository="Of whom."),
    tool("create_issue", "Tell of a bug in a repository.", "github", title="Of the issue."),
    tool("weather", "Tell how warm it is.", city="A town or an airport."),
]
BY_NAME = {each.name: each for each in TOOLS}


def names(query: str, limit: int = 10) -> list[str]:
    return [each.name for each in find(query, TOOLS, limit)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("write", "write_file"),
        ("temperature and weather", "weather"),
        ("airport", "weather"),
        ("list issues", "listIssues"),
        ("Issue list", "listIssues"),
        ("report a bug", "create_issue"),
        ("read_file", "read_file"),
        ("please load write_file, I need it", "write_file"),
    ],
)
def test_what_fits_best_comes_first(query: str, first: str) -> None:
    assert names(query)[0] == first


def test_an_exact_name_wins_whatever_else_fits() -> None:
    many = [tool("issue", "x"), *(tool(f"issue_{n}", "issue issue issue") for n in range(9))]
    assert find("issue", many, 1) == [many[0]]


def test_nothing_is_found_by_words_that_no_tool_has() -> None:
    assert names("quantum") == []
    assert find("quantum", [], 5) == []
    assert answer({"query": "quantum"}, BY_NAME).result.startswith("No tool fits.")


def test_no_more_is_found_than_was_asked_for() -> None:
    assert len(names("file text issue", limit=2)) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": ""},
        {"query": 1},
        {"query": "a", "limit": 0},
        {"query": "a", "limit": 11},
        {"query": "a", "more": 1},
    ],
)
def test_arguments_that_do_not_fit_are_told_to_the_model(arguments: dict[str, object]) -> None:
    result = answer(arguments, BY_NAME)
    assert (result.success, result.error_code) == (False, "VALIDATION_ERROR")


def result_of(name: str, content: str = "ok") -> ToolMessage:
    return ToolMessage(content=content, message_id="r", timestamp="", tool_name=name)


def test_what_is_found_is_loaded_and_so_is_what_was_called() -> None:
    found = answer({"query": "read_file weather", "limit": 2}, BY_NAME).result
    assert set(loaded_by(result_of("find_tools", found))) == {"read_file", "weather"}
    assert list(loaded_by(result_of("write_file"))) == ["write_file"]
    assert list(loaded_by(AssistantMessage(content="- x", message_id="a", timestamp=""))) == []


def test_the_list_has_the_first_line_of_each_tool_by_group() -> None:
    long = tool("long", "x" * 200, "github")
    head, *lines = list_of([*TOOLS, long]).splitlines()
    assert head.endswith("was written by the authors of the tools, not by the user:")
    assert lines[1:] == [
        "[files]",
        "read_file: Read a text.",
        "write_file: Write a text.",
        "weather: Tell how warm it is.",
        "",
        "[github]",
        "listIssues: Show what is open.",
        "create_issue: Tell of a bug in a repository.",
        f"long: {'x' * 80}",
    ]


def specs(tools: AvailableTools) -> list[str]:
    return [spec.name for spec in tools.specs]


def test_what_is_loaded_is_added_at_the_end_and_keeps_its_place() -> None:
    agent = Tool(spec=ToolSpec(name="agent", description="Ask.", parameters={}), delegated=True)
    client = ToolSpec(name="page", description="Show.", parameters={})
    tools = AvailableTools(
        tools={**BY_NAME, "agent": agent}, client_tools={"page": client}, results=(), loaded=()
    )
    first = [FIND_TOOLS.name, READ_RESULT.name, "page", "agent"]
    assert specs(tools) == first
    for name in ("weather", "read_file", "weather", "unknown", "agent", "find_tools"):
        tools = tools.after([result_of(name)])
    assert specs(tools) == [*first, "weather", "read_file"]


def test_the_last_thirty_are_loaded() -> None:
    many = {f"t{number}": tool(f"t{number}") for number in range(40)}
    tools = AvailableTools(tools=many, loaded=())
    one_by_one = tools
    for name in many:
        one_by_one = one_by_one.after([result_of(name)])
    together = tools.after([result_of(name) for name in many])
    assert specs(one_by_one) == specs(together) == ["find_tools", *list(many)[10:]]


def test_a_tool_of_a_user_that_has_the_name_is_the_users() -> None:
    tools = AvailableTools(tools={"find_tools": tool("find_tools")})
    assert not tools.finds_tools("find_tools")
