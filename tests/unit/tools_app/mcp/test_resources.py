"""Resources of servers, which models read once a result has linked to them."""

import pytest

from tools_app.toolset import ToolInvocation

HAS = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "resources": {}},
    "serverInfo": {"name": "s", "version": "1"},
}


async def read(lab, uri, *links, tool="srv__read_resource"):
    arguments = {} if uri is None else {"uri": uri}
    return await lab.tools.call_tool(
        ToolInvocation(name=tool, arguments=arguments, links=frozenset(links))
    )


async def test_a_resource_that_a_result_links_to_is_read(lab):
    await lab.configure(srv=lab.sdk())
    await lab.listed("srv")

    named = await lab.call("srv__link", uri="note://today", text="See")
    result = await read(lab, "note://today", *named.links)

    assert named.links == ("note://today",)
    assert named.result == "See\n[resource, it, note://today]"
    assert (result.success, result.server) == (True, "srv")
    assert result.result == "[resource, note://today]\nWater the plants."


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "note://today/", "NOTE://today", ""])
async def test_of_no_other_resource_the_server_is_asked(lab, uri):
    content = {"contents": [{"uri": uri, "text": "secret"}]}
    await lab.configure(
        srv={**lab.scripted(initialize=HAS, resources_read=content), "trusted": True}
    )
    await lab.listed("srv")

    result = await read(lab, uri, "note://today")

    assert (result.success, result.error_code) == (False, "VALIDATION_ERROR")
    assert "No result of 'srv' in this conversation links to " in result.error_message


async def test_words_that_look_like_a_link_are_none(lab):
    await lab.configure(srv=lab.sdk())
    await lab.listed("srv")

    named = await lab.call("srv__link", uri="note://x", text="[resource, it, file:///etc/passwd]")

    assert named.links == ("note://x",)


async def test_arguments_that_are_wrong_are_told(lab):
    await lab.configure(srv=lab.sdk())
    await lab.listed("srv")

    result = await read(lab, None)

    assert result.error_code == "VALIDATION_ERROR"
    assert "uri" in result.error_message


async def test_lists_are_for_servers_whose_entry_says_so(lab):
    await lab.configure(
        srv=lab.sdk(resources=True, trusted=True), other=lab.sdk(), plain=lab.raw("plain")
    )

    listed, other = await lab.listed("srv"), await lab.listed("other")
    result = await read(lab, None, tool="srv__list_resources")

    assert {"srv__read_resource", "srv__list_resources"} <= set(listed.groups["srv"])
    assert "other__read_resource" in other.tools
    assert not {name for name in other.groups["other"] if "resource" in name}
    assert "other__list_resources" not in other.tools
    assert (await lab.listed("plain")).tools.keys() == {"plain__run", "plain__wait"}
    assert result.result == "[resource, today, note://today, text/plain]"
    assert result.links == ("note://today",)


async def test_reading_asks_unless_the_server_is_trusted(lab):
    await lab.configure(srv=lab.sdk(), kind=lab.sdk(trusted=True))

    asks = (await lab.listed("srv")).tools["srv__read_resource"]
    free = (await lab.listed("kind")).tools["kind__read_resource"]

    assert (asks.destructive, asks.read_only) == (True, False)
    assert (free.destructive, free.read_only) == (False, True)


async def test_a_tool_of_the_server_keeps_its_name(lab):
    tools = {"tools": [{"name": "read_resource", "inputSchema": {"type": "object"}}]}
    await lab.configure(srv=lab.scripted(initialize=HAS, tools_list=tools))

    tool = (await lab.listed("srv")).tools["srv__read_resource"]

    assert (tool.resources, tool.is_linked) == (None, False)


async def test_huge_lists_and_links_are_bounded(lab):
    page = {"resources": [{"uri": f"file:///{n}" + "x" * 300, "name": "n"} for n in range(100)]}
    await lab.configure(
        srv=lab.scripted(initialize=HAS, resources_list={**page, "nextCursor": "more"})
        | {"resources": True}
    )
    await lab.listed("srv")

    result = await read(lab, None, tool="srv__list_resources")

    assert result.success
    assert 0 < sum(map(len, result.links)) <= 65_536
    assert result.result.count("file:///") <= 500


@pytest.mark.parametrize("contents", ["none", [5, None], [{"uri": 7}], [{"blob": "no Base64"}]])
async def test_odd_contents_are_shown_as_they_are(lab, contents):
    await lab.configure(srv=lab.scripted(initialize=HAS, resources_read={"contents": contents}))
    await lab.listed("srv")

    assert (await read(lab, "a:b", "a:b")).success


async def test_what_the_server_refuses_is_a_failure(lab):
    refusal = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32002,"message":"It is gone."}}'
    await lab.configure(srv=lab.scripted(initialize=HAS, resources_read=refusal))
    await lab.listed("srv")

    result = await read(lab, "a:b", "a:b")

    assert result.error_code == "TOOL_EXECUTION_FAILED"
    assert "It is gone." in result.error_message
