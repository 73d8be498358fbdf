"""Servers whose messages are odd: what can be understood is used, the rest is told at once."""

import asyncio

import pytest

from tools_app.mcp.limits import MAX_TOOLS

ASKS = '"inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"url","message":"In.","url":"https://x.example/in"}}}'


async def test_a_malformed_tool_is_refused_by_itself(lab):
    odd = {"name": "odd", "inputSchema": {"properties": [1], "type": "object"}}
    tools = [odd, {"name": "run"}, {"name": "list", "inputSchema": {"type": "array"}}, 7]
    await lab.configure(srv=lab.scripted(tools_list={"tools": tools}))

    listing = await lab.listed("srv")
    refused = {tool.name: tool.reason for tool in (await lab.server("srv")).invalid}

    assert list(listing.tools) == ["srv__run"]
    assert (await lab.call("srv__run")).success
    assert refused == {tool.name: tool.reason for tool in listing.invalid}
    assert refused == {
        "srv__odd": "The part 'properties' of its input schema is no object.",
        "srv__list": "Its input schema describes no object.",
        "srv__": "It has no name.",
    }


async def test_choices_at_the_root_of_a_schema_are_merged_for_the_model(lab):
    schema = {
        "anyOf": [
            {"properties": {"a": {"const": 1}, "b": {"type": "string"}}, "required": ["a", "b"]},
            {"$ref": "#/$defs/Other"},
        ],
        "$defs": {"Other": {"properties": {"a": {"const": 2}}, "required": ["a"]}},
    }
    tools = [{"name": "run", "inputSchema": schema}]
    await lab.configure(srv=lab.scripted(tools_list={"tools": tools}))

    tool = (await lab.listed("srv")).tools["srv__run"]

    assert tool.spec.parameters == {
        "type": "object",
        "properties": {"a": {"anyOf": [{"const": 1}, {"const": 2}]}, "b": {"type": "string"}},
        "required": ["a"],
        "$defs": schema["$defs"],
    }


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ('{"jsonrpc":"2.0","id":$ID,"result":{"content":"a text","isError":null}}', "a text"),
        ('{"jsonrpc":"2.0","id":$ID,"result":"a text"}', "a text"),
        ('{"jsonrpc":"2.0","id":$ID,"result":null}', "The tool ran and returned nothing."),
        ('\ufeff{"id":$ID,"result":{"content":[{"text":"a"}]},"error":null}', "a"),
        ('[{"jsonrpc":"2.0","id":"$ID","result":{"content":["a"]}}]', "a"),
        ('{\n  "jsonrpc": "2.0",\n  "id": $ID,\n  "result": {\n    "content": "a"\n  }\n}', "a"),
        ('{"jsonrpc":"2.0","result":{"content":"a"}}', "a"),
        ('{"jsonrpc":"2.0","id":$ID,"result":{"content":"one\ntwo"}}', "one\ntwo"),
    ],
)
async def test_a_reply_of_an_odd_form_is_used_at_once(lab, reply, shown):
    await lab.configure(srv=lab.scripted(tools_call=reply))
    await lab.listed("srv")

    async with asyncio.timeout(10):
        result = await lab.call("srv__run")

    assert (result.success, result.result) == (True, shown)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ('{"jsonrpc":"2.0","id":$ID,"error":"broken"}', "broken"),
        ('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"odd"}}', "odd"),
        ('{"jsonrpc":"2.0","id":$ID,"result":oops}', "can't be read"),
        (
            '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"Sign in.","data":'
            '{"elicitations":[{"mode":"url","url":"https://x.example/in?a=%s"}]}}}' % ("b" * 900),
            "A person has to open this address first: https://x.example/in?a=" + "b" * 900,
        ),
        (
            '{"id":$ID,"result":{"resultType":"input_required",' + ASKS + "}}",
            "open this address first: https://x.example/in",
        ),
    ],
)
async def test_a_failure_of_an_odd_form_is_told_at_once(lab, reply, message):
    await lab.configure(srv=lab.scripted(tools_call=reply))
    await lab.listed("srv")

    async with asyncio.timeout(10):
        result = await lab.call("srv__run")

    assert result.error_code == "TOOL_EXECUTION_FAILED"
    assert message in (result.error_message or "")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"protocolVersion": "2024-10-07", "capabilities": [], "serverInfo": {"name": "x"}},
        {"protocolVersion": 1, "capabilities": {"tools": True}},
    ],
)
async def test_an_answer_to_initialize_may_be_incomplete(lab, answer):
    await lab.configure(srv=lab.scripted(initialize=answer))

    assert (await lab.listed("srv")).tools
    assert (await lab.call("srv__run")).success


async def test_a_page_of_tools_that_is_its_own_next_page_is_the_last(lab):
    page = {"tools": [{"name": "run"}], "nextCursor": ""}
    await lab.configure(srv=lab.scripted(tools_list=page))

    listing = await lab.listed("srv")

    assert (list(listing.tools), listing.invalid) == (["srv__run"], [])


async def test_a_list_that_is_cut_says_so_in_the_status(lab):
    tools = [{"name": f"t{number}"} for number in range(MAX_TOOLS + 1)]
    await lab.configure(srv=lab.scripted(tools_list={"tools": tools}))
    await lab.listed("srv")

    (cut,) = (await lab.server("srv")).invalid
    assert f"first {MAX_TOOLS} tools" in cut.reason
