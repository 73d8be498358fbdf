"""Prompts of servers: listed, filled in by them, refused."""

import pytest

from sessions_app.errors import ValidationFailed
from tools_app.errors import ServerPromptNotFound, ToolServerNotFound, ToolServerUnavailable
from tools_app.mcp.limits import MAX_ENTRIES
from tools_app.mcp.prompts import (
    get_prompt,
    list_prompts,
)
from tools_app.schemas import McpPromptArgumentOut, McpPromptOut, McpPromptTextOut


async def server_with(lab, **replies):
    await lab.configure(srv=lab.scripted(**replies))
    return await lab.tools.server("srv")


async def test_prompts_of_a_server_are_listed_and_filled_in(lab):
    await lab.configure(srv=lab.sdk())
    server = await lab.tools.server("srv")

    [prompt] = await list_prompts(server)
    messages = await get_prompt(server, "review", {"number": "17"})

    assert prompt == McpPromptOut(
        name="review",
        title="Review a pull request",
        description="Review changes.",
        arguments=[
            McpPromptArgumentOut(name="number", required=True),
            McpPromptArgumentOut(name="tone", required=False),
        ],
    )
    assert messages == [McpPromptTextOut(role="user", content="Review number 17, be kind.")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "'review' needs number."),
        ({"tone": "kind"}, "'review' needs number."),
        ({"number": "1", "size": "big"}, "'review' has no size."),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_before_the_server_is_asked(
    lab, arguments, words
):
    await lab.configure(srv=lab.sdk())
    server = await lab.tools.server("srv")

    with pytest.raises(ValidationFailed, match=words) as raised:
        await get_prompt(server, "review", arguments)

    assert raised.value.details["field"] == "arguments"


async def test_a_server_without_prompts_has_none(lab):
    unknown = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"Method not found"}}'
    server = await server_with(lab, prompts_list=unknown)

    assert await list_prompts(server) == []
    with pytest.raises(ServerPromptNotFound):
        await get_prompt(server, "review", {})


async def test_servers_that_can_not_be_used_are_named(lab):
    await lab.configure(
        off=lab.raw("plain", disabled=True), bad={"command": 5}, missing={"command": "no-such-one"}
    )

    with pytest.raises(ToolServerNotFound):
        await lab.tools.server("other")
    with pytest.raises(ToolServerUnavailable, match="It is disabled"):
        await lab.tools.server("off")
    with pytest.raises(ToolServerUnavailable, match="can't be understood"):
        await lab.tools.server("bad")
    with pytest.raises(ToolServerUnavailable, match="not installed"):
        await list_prompts(await lab.tools.server("missing"))


async def test_a_list_without_an_end_is_cut(lab):
    page = {"prompts": [{"name": "p"}] * 7, "nextCursor": "more"}

    assert len(await list_prompts(await server_with(lab, prompts_list=page))) == MAX_ENTRIES


async def test_a_list_that_gets_too_large_is_cut(lab):
    page = {"prompts": [{"name": "p", "description": "x" * 100_000}], "nextCursor": "more"}

    assert len(await list_prompts(await server_with(lab, prompts_list=page))) == 11


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ({"prompts": [{"name": 5}, None, {"name": "p", "icons": 7}], "nextCursor": 9}, ["p"]),
        ({"prompts": "none", "nextCursor": "more"}, []),
        ({}, []),
    ],
)
async def test_odd_lists_are_read_as_far_as_they_make_sense(lab, page, names):
    prompts = await list_prompts(await server_with(lab, prompts_list=page))

    assert [prompt.name for prompt in prompts] == names


async def test_messages_are_texts_and_odd_ones_are_shown_as_they_are(lab):
    messages = [
        {"role": "assistant", "content": {"type": "text", "text": "Well."}},
        {"role": "system", "content": {"type": "resource_link", "uri": "file:///a", "name": "a"}},
        {"role": "user", "content": {"type": "new"}},
    ]
    server = await server_with(
        lab, prompts_list={"prompts": [{"name": "p"}]}, prompts_get={"messages": messages}
    )

    texts = await get_prompt(server, "p", {})

    assert [(text.role, text.content) for text in texts] == [
        ("assistant", "Well."),
        ("user", "[resource, a, file:///a]"),
        ("user", '{"type":"new"}'),
    ]


async def test_a_refusal_of_the_server_is_told_and_costs_nothing_else(lab):
    refusal = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"Not today."}}'
    server = await server_with(lab, prompts_list={"prompts": [{"name": "p"}]}, prompts_get=refusal)

    with pytest.raises(ToolServerUnavailable, match="Not today"):
        await get_prompt(server, "p", {})

    assert (await lab.call("srv__run")).success


async def test_a_server_that_never_answers_is_given_up(lab):
    lab.start(timeout_seconds=0.2)
    await lab.configure(srv=lab.raw("plain"))  # which has no answer to this method
    silent = await lab.tools.server("srv")

    with pytest.raises(ToolServerUnavailable, match="did not answer in time"):
        await list_prompts(silent)
