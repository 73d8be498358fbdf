"""Which tools a request for a response offers."""

import pytest

from dialects_app.responses.body import ToolIn
from dialects_app.responses.tool_forms import ToolForm
from dialects_app.responses.tools import additional_tools, read_tools
from dialects_app.shared.body import convert_body
from sessions_app.errors import ValidationFailed
from tests.unit.dialects_app.counted_name import CountedName


def test_a_thousand_tools_and_a_thousand_allowed_ones_are_compared_once_each(monkeypatch):
    names = [f"tool{number}" for number in range(1000)]
    tools = [ToolIn(type="function", name=CountedName(name)) for name in names]
    allowed = [{"type": "function", "name": name} for name in names]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": allowed}
    monkeypatch.setattr(CountedName, "looks", 0)
    assert len(read_tools(tools, choice).client) == 1000
    assert CountedName.looks < 20_000


def read(*tools, choice=None, more=()):
    return read_tools([convert_body(tool, ToolIn) for tool in tools], choice, more)


def refused_field(*tools, **options):
    with pytest.raises(ValidationFailed) as refused:
        read(*tools, **options)
    return refused.value.details["field"]


def function(name):
    return {"type": "function", "name": name, "parameters": {"type": "object"}}


PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edit files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin_patch"},
}
FILES = {"type": "namespace", "name": "mcp__files", "tools": [function("read"), function("list")]}


def test_a_custom_tool_is_offered_as_a_function_of_one_text():
    offered = read(PATCH)
    [spec] = offered.client
    assert (spec.name, [*spec.parameters["properties"]]) == ("apply_patch", ["input"])
    assert spec.description == (
        "Edit files.\n\nThe input is free text in this format:\nstart: begin_patch"
    )
    assert offered.forms == {"apply_patch": ToolForm(name="apply_patch", is_custom=True)}


def test_a_custom_tool_of_any_text_says_no_more_than_its_description():
    [spec] = read({**PATCH, "format": {"type": "text"}}).client
    assert spec.description == "Edit files."


def test_the_tools_of_a_namespace_have_its_name_before_theirs():
    offered = read(FILES, {**FILES, "name": "functions"})
    assert [spec.name for spec in offered.client] == [
        *("mcp__files__read", "mcp__files__list", "read", "list"),
    ]
    assert [*offered.forms] == ["mcp__files__read", "mcp__files__list"]
    assert offered.paths["list"] == "tools[1].tools[1]"


def test_what_a_provider_would_host_is_left_out_and_told():
    offered = read(function("read"), {"type": "web_search"}, {"type": "made_up_tomorrow"})
    assert [spec.name for spec in offered.client] == ["read"]
    assert offered.left_out == [
        "tools[1]: web_search is not available here",
        "tools[2]: made_up_tomorrow is not available here",
    ]


def test_additional_tools_are_offered_beside_the_others_and_the_later_one_holds():
    items = [
        {"type": "additional_tools", "tools": [function("read"), {"type": "image_generation"}]},
        {"role": "user", "content": "Hi"},
        {"type": "additional_tools", "tools": [{**PATCH, "name": "read"}]},
    ]
    offered = read(function("list"), more=additional_tools(items))
    assert [spec.name for spec in offered.client] == ["list", "read"]
    assert offered.forms["read"].is_custom
    assert offered.paths["read"] == "input[2].tools[0]"
    assert offered.left_out == ["input[0].tools[1]: image_generation is not available here"]
    assert additional_tools("Hi") == []


def test_a_choice_names_a_tool_as_its_client_does():
    assert read(PATCH, choice={"type": "custom", "name": "apply_patch"}).choice == ("apply_patch",)
    choice = {"type": "function", "name": "read", "namespace": "mcp__files"}
    assert read(FILES, choice=choice).choice == ("mcp__files__read",)


@pytest.mark.parametrize(
    ("tools", "options", "field"),
    [
        ([{"type": "web_search"}], {"choice": "required"}, "tool_choice"),
        ([PATCH, {"type": "web_search"}], {"choice": {"type": "web_search"}}, "tool_choice.type"),
        ([FILES], {"choice": {"type": "function", "name": "read"}}, "tool_choice.name"),
        ([{"type": "custom"}], {}, "tools[0].name"),
        ([{**PATCH, "format": {"type": "grammar"}}], {}, "tools[0].format.definition"),
        ([FILES, FILES], {}, "tools[1].tools[0].name"),
        ([{**FILES, "tools": [{"name": "x"}]}], {}, "tools[0].tools[0].type"),
        ([{**FILES, "tools": [{**function("x"), "parameters": 1}]}], {},
         "tools[0].tools[0].parameters"),
        ([{**FILES, "name": "a b"}], {}, "tools[0].name"),
        ([], {"more": [("input[0].tools[0]", {"type": 7})]}, "input[0].tools[0].type"),
    ],
)  # fmt: skip
def test_a_tool_that_makes_no_sense_is_refused_by_its_path(tools, options, field):
    assert refused_field(*tools, **options) == field


def test_a_namespace_has_no_namespaces_and_no_servers():
    offered = read({**FILES, "tools": [FILES, {"type": "mcp", "server_label": "mochi"}]})
    assert offered.client == ()
    assert len(offered.left_out) == 2


@pytest.mark.parametrize("tools", [None, "x", [7]])
def test_additional_tools_are_a_list(tools):
    with pytest.raises(ValidationFailed) as refused:
        additional_tools([{"type": "additional_tools", "tools": tools}])
    assert refused.value.details["field"] == "input[0].tools"


@pytest.mark.parametrize("kind", ["function", "web_search"])
def test_a_request_has_a_thousand_tools_at_most_wherever_they_are(kind):
    more = [(f"input[0].tools[{n}]", {**function(f"f{n}"), "type": kind}) for n in range(1000)]
    assert refused_field(FILES, more=more) == "input[0].tools[997]"
