"""Names of tools: what servers may call them, and what becomes of names that can't be kept."""

import pytest

from tools_app.mcp import naming
from tools_app.mcp.config import ServerOptions
from tools_app.mcp.naming import server_of
from tools_app.mcp.remote import RemoteListing, RemoteTool


def remote(name, schema=None, **more):
    return RemoteTool(name=name, description="", input_schema=schema or {}, **more)


def name_tools(server, tools, *, trusted=False, instructions=None):
    listing = RemoteListing(tools=tools, instructions=instructions)
    return naming.name_tools(server, listing, ServerOptions(trusted=trusted))


def test_a_tool_is_named_after_its_server_and_belongs_to_its_group():
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where"},
            "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "more": {"type": ["number", "boolean"]},
            "odd": 7,
        },
        "required": ["city"],
    }

    named = name_tools("weather", [remote("forecast", schema)])

    tool = named.tools["weather__forecast"]
    assert tool.groups == ("weather",)
    assert tool.server == "weather"
    assert tool.spec.parameters == schema
    assert tool.parameters == {
        "city": {"type": "str", "description": "Where"},
        "days": {"type": "int | None", "description": ""},
        "more": {"type": "float | bool", "description": ""},
        "odd": {"type": "Any", "description": ""},
    }
    assert named.remote_names == {"weather__forecast": "forecast"}


def test_what_a_server_tells_models_is_bounded_and_has_nothing_that_nobody_sees():
    hidden = "\x1b[2J\u202e\u200b\U000e0041"
    said = f"Call\r\nfirst.{hidden}" + "ä" * 3000

    tool = name_tools("docs", [remote("find")], instructions=said).tools["docs__find"]

    assert tool.instructions.startswith("Call \nfirst. [2J")
    assert len(tool.instructions.encode()) <= 2048
    assert not set(hidden) - set("[2J") & set(tool.instructions)


def test_another_word_of_a_server_to_models_makes_its_tools_other_ones():
    def digest(instructions):
        named = name_tools("docs", [remote("find")], instructions=instructions)
        return named.tools["docs__find"].digest

    assert digest("Be kind.") == digest("Be kind.\n")
    assert digest("Be kind.") != digest("Be evil.")
    assert digest("") == digest(None) != digest("Be kind.")


def test_a_title_is_one_line():
    title = "Find\x1b[2J" + "x" * 1000

    tool = name_tools("docs", [remote("find", title=title)]).tools["docs__find"]

    assert tool.title.startswith("Find [2Jxx")
    assert len(tool.title) == 256


@pytest.mark.parametrize(
    ("trusted", "hints", "destructive", "read_only"),
    [
        (False, {}, True, False),
        (False, {"read_only": True}, True, False),
        (False, {"destructive": False}, True, False),
        (True, {}, True, False),
        (True, {"read_only": True}, False, True),
        (True, {"destructive": False}, False, False),
    ],
)
def test_what_a_server_says_of_effects_counts_if_it_is_trusted(
    trusted, hints, destructive, read_only
):
    tool = name_tools("s", [remote("run", **hints)], trusted=trusted).tools["s__run"]

    assert (tool.destructive, tool.read_only) == (destructive, read_only)
    assert tool.queue == (None if read_only else "server s")


def test_a_schema_without_a_type_is_one_of_an_object():
    named = name_tools("s", [remote("run", {"properties": {}})])

    assert named.tools["s__run"].spec.parameters["type"] == "object"


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("read.file", "s__read_file"),
        ("../x", "s_____x"),
        ("a/b c", "s__a_b_c"),
        ("größe", "s__gr__e"),
        ("m" * 61, "s__" + "m" * 61),
    ],
)
def test_names_are_made_fit_for_models(name, here):
    named = name_tools("s", [remote(name)])

    assert named.remote_names == {here: name}


def test_long_names_are_shortened_and_stay_apart():
    named = name_tools("s", [remote("x" * 100), remote("x" * 101)])

    assert len(named.tools) == 2
    assert {len(name) for name in named.tools} == {64}
    assert all(server_of(name) == "s" for name in named.tools)


@pytest.mark.parametrize("name", ["n" * 129, "n" * 10_000, "bell\a", "line\nbreak", "\ud800"])
def test_names_that_can_not_be_kept_are_listed_with_a_reason(name):
    named = name_tools("s", [remote(name), remote("fine")])

    assert list(named.tools) == ["s__fine"]
    assert named.invalid[0].file == "mcp.json: s"
    assert named.invalid[0].reason
    assert len(named.invalid[0].name) <= 64


def test_of_two_tools_with_one_name_the_first_is_kept():
    named = name_tools("s", [remote("run", destructive=False), remote("run")], trusted=True)

    assert named.tools["s__run"].destructive is False
    assert len(named.invalid) == 1


def test_a_name_that_had_to_be_changed_never_takes_the_place_of_a_real_one():
    named = name_tools("s", [remote("a.b"), remote("a_b")])

    assert named.remote_names == {"s__a_b": "a_b"}
    assert len(named.invalid) == 1


def test_a_server_with_a_long_name_can_not_name_its_tools_in_full():
    named = name_tools("s" * 60, [remote("run"), remote("r")])

    assert [tool.reason for tool in named.invalid] == ["Its name is too long behind the server's."]
    assert list(named.tools) == ["s" * 60 + "__r"]


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("a__b", "a"),
        ("a__b__c", "a"),
        ("a___b", "a"),
        ("plain", None),
        ("__x", None),
        ("a__", None),
    ],
)
def test_a_name_tells_whose_it_is(name, server):
    assert server_of(name) == server
