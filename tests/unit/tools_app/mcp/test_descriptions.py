"""Descriptions of tools in the forms in which servers send them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import methods
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from tools_app.mcp.descriptions import (
    RESULT,
    fit_call,
    fit_initialization,
    fit_tools,
)
from tools_app.mcp.limits import MAX_LISTING_BYTES
from tools_app.mcp.remote import RemoteListing, RemoteTool

NONE = {"type": "object", "properties": {}}
TEXT = {"type": "string"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "required", "items", "anyOf", "a", "$schema"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


def read(schema):
    tool = {"name": "t", "inputSchema": schema}
    fitted = fit_tools({"tools": [tool]})
    [sent] = fitted["tools"]
    [kept] = listing_of(fitted).tools
    assert not listing_of(fitted).refused
    assert sent["inputSchema"] == kept.input_schema
    return kept.input_schema


def tools_of(*tools):
    return listing_of(fit_tools({"tools": [*tools]})).tools


def listing_of(fitted):
    return msgspec.convert(fitted["_meta"][RESULT], RemoteListing)


def refusal(tool):
    fitted = fit_tools({"tools": [tool]})
    assert not fitted["tools"]
    return listing_of(fitted).refused[0][1]


@pytest.mark.parametrize("schema", [None, {}, [], True, False, ""])
def test_no_schema_means_no_arguments(schema):
    assert read(schema) == NONE
    assert fit_tools({"tools": [{"name": "t"}]})["tools"][0]["inputSchema"] == NONE


@pytest.mark.parametrize(
    ("schema", "understood"),
    [
        ({"type": "object", "properties": []}, NONE),
        ({"type": None, "properties": None}, NONE),
        ({"type": ["object", "null"]}, {"type": "object"}),
        ({"properties": {"a": TEXT}}, {"type": "object", "properties": {"a": TEXT}}),
        ({"properties": {"a": TEXT, "b": []}}, {**NONE, "properties": {"a": TEXT, "b": {}}}),
        (
            {"properties": {"a": {**TEXT, "required": True}}, "required": False},
            {**NONE, "properties": {"a": {**TEXT}}},
        ),
        ({**NONE, "required": "a"}, NONE),
        ({**NONE, "required": None, "$schema": 7}, NONE),
        (
            {"properties": {"a": {"type": "object", "properties": []}}},
            {"type": "object", "properties": {"a": NONE}},
        ),
        ({"anyOf": [{"required": ["a"]}]}, {"type": "object", "anyOf": [{"required": ["a"]}]}),
    ],
)
def test_what_is_meant_is_understood(schema, understood):
    fitted = read(schema)

    assert {**fitted, "properties": fitted.get("properties")} == {
        **understood,
        "properties": understood.get("properties"),
    }


def test_a_well_formed_schema_is_not_changed():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "string"}}, "b": True},
        "required": ["a"],
        "additionalProperties": False,
    }

    assert read(schema) == schema


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (7, "no name"),
        ({"inputSchema": NONE}, "no name"),
        ({"name": 5, "inputSchema": NONE}, "no name"),
        ({"name": "", "inputSchema": NONE}, "no name"),
        ({"name": "t", "inputSchema": "text"}, "no object"),
        ({"name": "t", "inputSchema": {"type": "array"}}, "describes no object"),
        ({"name": "t", "inputSchema": {"properties": [1]}}, "'properties'"),
        ({"name": "t", "inputSchema": {"properties": {"a": "string"}}}, "'a'"),
        ({"name": "t", "inputSchema": {"properties": {"required": ["a"]}}}, "'required'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_itself(tool, reason):
    assert reason in refusal(tool)


def test_odd_texts_hints_and_schemas_of_results_are_left_out():
    tool = {
        "name": "t",
        "description": ["no"],
        "annotations": {"readOnlyHint": "yes", "destructiveHint": False},
        "outputSchema": "none",
        "icons": 5,
    }

    assert tools_of(tool) == [
        RemoteTool(name="t", description="", input_schema=NONE, destructive=False, icons=[])
    ]


@pytest.mark.parametrize(
    "source",
    [
        "http://icons.example/a.png",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,<script>",
        "//icons.example/a.png",
        "https://icons.example/\na.png",
        "https://icons.example/" + "a" * 40_000,
        None,
    ],
)
def test_icons_at_addresses_that_nobody_should_open_are_left_out(source):
    fine = {"src": "https://icons.example/a.png", "sizes": ["48x48"], "more": 1}

    [tool] = tools_of({"name": "t", "icons": [{"src": source}, 5, fine]})

    assert tool.icons == [
        {"src": "https://icons.example/a.png", "mimeType": None, "sizes": ["48x48"]}
    ]


def test_of_many_icons_the_first_are_kept():
    icons = [{"src": f"data:image/svg+xml;base64,{n}"} for n in range(9)]

    [tool] = tools_of({"name": "t", "icons": icons})

    assert [icon["src"] for icon in tool.icons] == [icon["src"] for icon in icons[:4]]


def test_a_tool_that_runs_only_as_a_task_is_refused():
    tool = {"name": "t", "execution": {"taskSupport": "required"}}
    optional = {"name": "u", "execution": {"taskSupport": "optional"}}

    fitted = fit_tools({"tools": [tool, optional]})

    assert [tool["name"] for tool in fitted["tools"]] == ["u"]
    assert listing_of(fitted).refused == [("t", "It runs only as a task, which is not offered.")]


def test_a_page_beyond_the_limit_is_cut():
    big = {"name": "t", "inputSchema": {**NONE, "description": "x" * (MAX_LISTING_BYTES // 2)}}

    fitted = fit_tools({"tools": [big] * 3})

    assert len(fitted["tools"]) == 2  # which is one too many


def accepted(method, result):
    for version in KNOWN_PROTOCOL_VERSIONS:
        if (method, version) in methods.SERVER_RESULTS:
            methods.validate_server_result(method, version, result)
    return True


@given(st.lists(JSON, max_size=3), JSON)
def test_the_sdk_accepts_what_fits(schemas, more):
    tools = [{"name": "t", "inputSchema": schema} for schema in schemas]
    result = {"tools": [*tools, more, {"name": "x", "annotations": more}], "nextCursor": more}

    assert accepted("tools/list", fit_tools(result))
    assert accepted("tools/call", fit_call({"content": more}))


@given(st.dictionaries(st.sampled_from(["protocolVersion", "capabilities", "serverInfo"]), JSON))
def test_any_answer_to_initialize_fits(result):
    assert accepted("initialize", fit_initialization(result))
