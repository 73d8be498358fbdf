"""What servers have beside plain tools: words to models, schemas of results, wishes."""

import pytest

from tools_app.mcp.results import result_of

VERSION = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s"}}
SAYS = {**VERSION, "instructions": "Ask for the key first."}


async def test_what_a_server_tells_models_comes_with_its_tools(lab):
    await lab.configure(
        says=lab.scripted(initialize=SAYS),
        muted={**lab.scripted(initialize=SAYS), "instructions": False},
        odd=lab.scripted(initialize={**VERSION, "instructions": ["no text"]}),
    )

    said = (await lab.listed("says")).tools["says__run"]
    muted = (await lab.listed("muted")).tools["muted__run"]
    odd = (await lab.listed("odd")).tools["odd__run"]

    assert said.instructions == "Ask for the key first."
    assert muted.instructions is odd.instructions is None


@pytest.mark.parametrize(
    ("method", "word"), [("sampling/createMessage", "sampling"), ("roots/list", "roots")]
)
async def test_what_is_not_offered_is_named(lab, method, word):
    await lab.configure(srv=lab.raw("asks", method))
    await lab.listed("srv")

    result = await lab.call("srv__run")

    assert not result.success
    assert f"\nIt asked for {word}, which is not offered." in result.error_message


async def test_a_wish_in_the_newer_era_is_named(lab):
    wish = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
    asked = {"resultType": "input_required", "inputRequests": {"a": wish}}
    await lab.configure(srv=lab.scripted(tools_call=asked))
    await lab.listed("srv")

    result = await lab.call("srv__run")

    assert result.error_message.endswith("It asked for sampling, which is not offered.")


async def test_log_messages_are_passed_over(lab):
    log = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'
    ran = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"ran"}]}}'
    await lab.configure(srv=lab.scripted(tools_call=f"{log}\n{ran}"))
    await lab.listed("srv")

    assert (await lab.call("srv__run")).result == "ran"


def scripted_results(lab, schema, structured, **more):
    tool = {"name": "run", "inputSchema": {"type": "object"}, "outputSchema": schema}
    return lab.scripted(
        tools_list={"tools": [tool]},
        tools_call={"content": [], "structuredContent": structured, **more},
    )


AGE = {"type": "object", "properties": {"age": {"type": "integer"}}}
MISFIT = "[The structured content does not fit the tool's schema: "


async def test_structured_content_that_does_not_fit_is_told_of_and_kept(lab):
    await lab.configure(srv=scripted_results(lab, AGE, {"age": "seven"}))
    await lab.listed("srv")

    result = await lab.call("srv__run")

    kept, note = result.result.split("\n")
    assert result.success
    assert kept == '{"age":"seven"}'
    assert note.startswith(f"{MISFIT}at age: it is not of type ")


@pytest.mark.parametrize(
    ("schema", "structured"),
    [
        (AGE, {"age": 7}),
        ({"type": "no such type"}, {"age": "seven"}),
        ({"$ref": "https://schemas.example/x"}, {"age": "seven"}),
    ],
)
async def test_what_fits_or_can_not_be_checked_is_a_plain_result(lab, schema, structured):
    await lab.configure(srv=scripted_results(lab, schema, structured))
    await lab.listed("srv")

    result = await lab.call("srv__run")

    assert result.error_message is None


async def test_a_failure_has_no_schema_to_fit(lab):
    await lab.configure(srv=scripted_results(lab, AGE, {"age": "seven"}, isError=True))
    await lab.listed("srv")

    assert MISFIT not in (await lab.call("srv__run")).error_message


async def test_a_schema_that_takes_hours_costs_two_seconds(lab):
    levels = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)}
    bomb = {"$ref": "#/$defs/a0", "$defs": {**levels, "a60": {"required": ["missing"]}}}
    await lab.configure(srv=scripted_results(lab, bomb, {"age": "seven"}))
    await lab.listed("srv")

    result = await lab.call("srv__run")

    assert (result.success, result.result) == (True, '{"age":"seven"}')


def test_a_note_comes_after_the_text_and_after_no_text():
    assert result_of({"content": "ran"}, "run", ["[Note.]"]).result == "ran\n[Note.]"
    empty = result_of({"content": []}, "run", ["[Note.]"])
    assert empty.result == "The tool ran and returned nothing.\n[Note.]"
