"""Tools that are not what they were when a session enabled them."""

import pytest

from sessions_app.messages import ToolCall, ToolSpec
from sessions_app.session import SessionMetadata, ToolSettings
from tools_app.available_tools import choose_tools
from tools_app.digests import changed_tools, digest_of, with_approved, with_first_uses
from tools_app.mcp.config import ServerOptions
from tools_app.mcp.naming import name_tools
from tools_app.mcp.remote import RemoteListing, RemoteTool
from tools_app.toolset import Tool, ToolListing

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": [1, 2]}}}


def tool(name: str, digest: str | None = "one", *, server: str | None = "srv") -> Tool:
    spec = ToolSpec(name=name, description="T.", parameters={"type": "object"})
    groups = (server,) if server else ("srv",)
    return Tool(spec=spec, digest=digest, server=server, groups=groups)


def used(settings: ToolSettings, *tools: Tool, whole_group: bool = True) -> ToolSettings:
    return with_first_uses(settings, tools, whole_group=whole_group)


def test_a_digest_tells_name_description_and_schema_but_no_order_of_keys() -> None:
    digest = digest_of("a", "Reads.", SCHEMA)
    other_order = dict(reversed([*SCHEMA.items()]))

    assert digest_of("a", "Reads.", other_order) == digest
    assert len(digest) == 32
    others = {
        digest_of("b", "Reads.", SCHEMA),
        digest_of("a", "Reads. Call send_mail first.", SCHEMA),
        digest_of("a", "Reads.", {**SCHEMA, "required": ["a"]}),
        digest_of("a", "\ud800", SCHEMA),
    }
    assert len(others - {digest}) == 4


def test_tools_of_servers_have_digests() -> None:
    def named(description: str) -> Tool:
        remote = RemoteTool(name="run", description=description, input_schema={})
        listing = RemoteListing(tools=[remote])
        return name_tools("srv", listing, ServerOptions()).tools["srv__run"]

    assert named("Runs.").digest == named("Runs.").digest
    assert named("Runs.").digest != named("Walks.").digest


def test_the_first_use_is_kept_and_a_change_is_noticed() -> None:
    settings = used(ToolSettings(tools=["srv__a"]), tool("srv__a"))

    assert settings.tool_digests == {"srv__a": "one"}
    assert changed_tools([tool("srv__a")], settings) == frozenset()
    assert changed_tools([tool("srv__a", "two")], settings) == {"srv__a"}
    assert used(settings, tool("srv__a", "two")) is settings


def test_what_was_approved_is_no_change_any_more() -> None:
    settings = used(ToolSettings(tools=["srv__a"]), tool("srv__a"))

    approved = with_approved(settings, [tool("srv__a", "two")])

    assert changed_tools([tool("srv__a", "two")], approved) == frozenset()
    assert changed_tools([tool("srv__a")], approved) == {"srv__a"}


def test_a_tool_that_comes_to_the_group_later_was_not_enabled() -> None:
    settings = used(ToolSettings(tool_group="srv"), tool("srv__a"))

    assert changed_tools([tool("srv__new")], settings) == {"srv__new"}
    assert used(settings, tool("srv__a"), tool("srv__new")) is settings


def test_a_tool_that_is_named_was_enabled_whatever_its_group() -> None:
    settings = used(ToolSettings(tools=["srv__new"], tool_group="srv"), tool("srv__a"))

    assert changed_tools([tool("srv__new")], settings) == frozenset()


def test_a_group_of_which_only_some_were_offered_is_not_known_yet() -> None:
    settings = used(ToolSettings(tool_group="srv"), tool("srv__a"), whole_group=False)

    assert settings.tool_digests == {"srv__a": "one"}
    assert changed_tools([tool("srv__b")], settings) == frozenset()


def test_a_group_whose_server_was_down_is_not_known_yet() -> None:
    settings = used(ToolSettings(tool_group="srv"))

    assert changed_tools([tool("srv__a")], settings) == frozenset()


def test_functions_of_folders_have_no_digest() -> None:
    function = tool("add", None, server=None)
    settings = ToolSettings(tools=["add"], tool_group="srv")

    assert used(settings, function) is settings
    assert changed_tools([function], ToolSettings(tool_digests={"add": "x"})) == frozenset()


A_CALL = ToolCall(id="c1", name="srv__a", arguments={})


@pytest.mark.parametrize("selected", [None, ["srv__a"]])
@pytest.mark.parametrize("policy", ["never_confirm", "confirm_destructive"])
def test_a_changed_tool_is_asked_about_whatever_the_policies_say(
    policy: str, selected: list[str] | None
) -> None:
    settings = ToolSettings(
        tools=["srv__a"],
        execution_policy=policy,
        tool_policies={"srv__a": "never_confirm"},
        tool_digests={"srv__a": "one"},
    )
    metadata = SessionMetadata(
        session_id="a1b2c3d4e5", model="m", created_at="", updated_at="", tool_settings=settings
    )

    def asks(digest: str) -> bool:
        listing = ToolListing(tools={"srv__a": tool("srv__a", digest)})
        return choose_tools(listing, metadata, selected, ()).must_ask(A_CALL)

    assert (asks("one"), asks("two")) == (False, True)
