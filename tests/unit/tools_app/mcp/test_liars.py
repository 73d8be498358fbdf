"""Servers that lie, flood, hang or die: each costs its own calls, and nothing else."""

import asyncio
import json

import pytest

from tools_app.limits import MAX_OUTPUT_BYTES
from tools_app.toolset import ToolInvocation, ToolSelection


async def test_a_plain_server_is_listed_and_called(lab):
    await lab.configure(srv=lab.raw("plain"))

    listing = await lab.listed("srv")
    result = await lab.call("srv__run")

    assert list(listing.tools) == ["srv__run", "srv__wait"]
    assert listing.groups == {"srv": ["srv__run", "srv__wait"]}
    assert listing.tools["srv__run"].destructive
    assert (result.success, result.result, result.server) == (True, "ran", "srv")


async def test_lies_about_names_are_told_apart_or_refused(lab):
    await lab.configure(srv=lab.raw("names"))

    listing = await lab.listed("srv")

    assert list(listing.tools)[:4] == [
        "srv_____x",
        "srv__plain",
        "srv__a_b",
        "srv__" + "m" * 50 + "_" + list(listing.tools)[3][-8:],
    ]
    assert len(listing.tools) == 4
    assert len(listing.invalid) == 5


async def test_a_list_of_tools_without_an_end_is_cut(lab):
    await lab.configure(srv=lab.raw("endless"))

    listing = await lab.listed("srv")

    assert any("first 500" in invalid.reason for invalid in listing.invalid)


async def test_a_list_of_tools_that_is_none_fails_its_server(lab):
    await lab.configure(srv=lab.raw("no-list"), ok=lab.raw("plain"))

    assert not (await lab.listed("srv")).tools
    assert (await lab.listed("ok")).tools
    assert "list of tools is not valid" in ((await lab.server("srv")).error or "")


async def test_noise_among_the_messages_is_passed_over(lab):
    await lab.configure(srv=lab.raw("banner"))

    assert (await lab.listed("srv")).tools
    assert (await lab.call("srv__run")).success


async def test_a_huge_text_is_cut(lab):
    await lab.configure(srv=lab.raw("big"))
    await lab.listed("srv")

    result = await lab.call("srv__run")

    assert result.success
    assert result.result is not None
    assert len(result.result) < MAX_OUTPUT_BYTES + 100
    assert "[cut:" in result.result


async def test_half_a_character_in_a_result_is_replaced(lab):
    await lab.configure(srv=lab.raw("halves"))
    await lab.listed("srv")

    async with asyncio.timeout(60):
        result = await lab.call("srv__run")

    assert (result.success, result.result) == (True, "whole 😀 😀 \ufffd")


async def test_a_message_beyond_all_bounds_costs_the_connection_and_the_server_comes_again(lab):
    await lab.configure(srv=lab.raw("too-big"))
    await lab.listed("srv")

    result = await lab.call("srv__run")

    assert result.error_code == "TOOL_EXECUTION_FAILED"
    assert "more than 8,388,608 bytes" in (result.error_message or "")
    await lab.eventually(lambda: lab.tools._servers["srv"].state in ("backing_off", "failed"))
    assert "more than 8,388,608 bytes" in ((await lab.server("srv")).error or "")
    assert list((await lab.listed("srv")).tools)
    await lab.eventually(lambda: lab.tools._servers["srv"].state == "ready")


async def test_a_server_whose_lost_connection_closes_slowly_is_not_ready(lab):
    lab.start(pause_wait=20.0, start_wait=20.0)
    await lab.configure(srv=lab.raw("lingers"))
    await lab.listed("srv")

    lost = await lab.call("srv__run")
    state = await lab.state("srv")
    again = await lab.call("srv__run")

    assert "closed its output" in (lost.error_message or "")
    assert state == "backing_off"
    assert again.error_code == "TOOL_EXECUTION_FAILED"  # of the next process


async def test_an_endless_line_is_not_read_for_ever(lab):
    await lab.configure(srv=lab.raw("endless-line"))

    assert not (await lab.listed("srv")).tools

    assert "bytes" in ((await lab.server("srv")).error or "")


async def test_answers_to_what_was_not_asked_are_passed_over(lab):
    lab.start(start=1.0)
    await lab.configure(srv=lab.raw("ids"))

    assert not (await lab.listed("srv")).tools
    assert (await lab.server("srv")).error == "It did not answer in time."


async def test_a_schema_with_an_endless_expression_is_not_evaluated(lab):
    await lab.configure(srv=lab.raw("regex"))
    await lab.listed("srv")

    async with asyncio.timeout(60):
        assert (await lab.call("srv__run")).success


async def test_an_error_of_the_tool_is_a_failed_result(lab):
    await lab.configure(srv=lab.raw("error"))
    await lab.listed("srv")

    result = await lab.call("srv__run")

    assert (result.success, result.error_code) == (False, "TOOL_EXECUTION_FAILED")
    assert result.error_message == "no such thing"


async def test_a_flood_leaves_the_event_loop_to_others(lab):
    await lab.configure(srv=lab.raw("flood"), ok=lab.raw("plain"))
    await lab.listed("srv")
    await lab.listed("ok")

    for _ in range(1000):
        await asyncio.sleep(0.001)

    assert (await lab.call("ok__run")).success


async def test_a_flood_on_stderr_is_drained(lab):
    await lab.configure(srv=lab.raw("prints"), ok=lab.raw("plain"))

    assert (await lab.listed("ok")).tools
    assert (await lab.call("ok__run")).success


async def test_a_server_that_hangs_is_waited_for_by_nobody_else(lab):
    lab.start(start_wait=0.5, listing_wait=0.2)
    await lab.configure(srv=lab.raw("silent"), ok=lab.raw("plain"))
    await lab.eventually(lambda: has_tools(lab, "ok"))

    assert (await lab.tools.listing(ToolSelection(names=["ok__run", "plain"]))).tools
    assert (await lab.call("ok__run")).success

    result = await lab.call("srv__run")
    assert result.error_code == "SERVICE_UNAVAILABLE"
    assert await lab.state("srv") == "starting"
    assert not (await lab.listed("srv")).tools


async def test_a_server_that_hangs_is_given_up(lab):
    lab.start(start=0.5)
    await lab.configure(srv=lab.raw("silent"))

    assert not (await lab.listed("srv")).tools

    assert (await lab.server("srv")).error == "It did not answer in time."


async def test_a_slow_start_is_waited_for_by_those_who_need_the_server(lab):
    lab.start(listing_wait=0.1)
    await lab.configure(srv=lab.raw("slow", "0.7"))

    assert not (await lab.tools.listing()).tools
    assert await lab.state("srv") == "starting"
    assert (await lab.listed("srv")).tools


async def test_a_server_that_is_not_installed_says_so(lab):
    await lab.configure(srv={"command": "no-such-program"})

    assert not (await lab.listed("srv")).tools
    result = await lab.call("srv__run")

    assert result.error_code == "SERVICE_UNAVAILABLE"
    assert "'no-such-program' is not installed" in (result.error_message or "")


@pytest.mark.parametrize("entry", [{"cwd": "nowhere"}, {"command": "/bin"}, {"command": "./x"}])
async def test_a_server_that_can_not_be_started_is_down(lab, entry):
    await lab.configure(srv=lab.raw("plain") | entry)

    assert not (await lab.listed("srv")).tools
    assert (await lab.server("srv")).error


async def test_a_server_that_ends_at_once_says_its_last_words_but_no_secret(lab, caplog):
    caplog.set_level("DEBUG")
    await lab.configure(srv=lab.raw("exits", env={"KEY": "hush-hush-hush"}))

    assert not (await lab.listed("srv")).tools

    error = (await lab.server("srv")).error or ""
    assert "exit code 3" in error
    assert "the key is ***" in error
    assert "the key is ***" in caplog.text
    assert "hush-hush-hush" not in caplog.text + error


async def test_a_crash_costs_the_calls_that_ran_and_the_server_comes_again(lab):
    await lab.configure(srv=lab.raw("crash"))
    await lab.listed("srv")

    waiting = asyncio.create_task(lab.call("srv__wait"))
    await asyncio.sleep(0)
    result = await lab.call("srv__run")

    assert result.error_code == "TOOL_EXECUTION_FAILED"
    assert (await waiting).error_code == "TOOL_EXECUTION_FAILED"
    await lab.eventually(lambda: lab.tools._servers["srv"].state in ("backing_off", "failed"))
    assert "exit code 9" in ((await lab.server("srv")).error or "")
    await lab.listed("srv")
    await lab.eventually(lambda: lab.tools._servers["srv"].state == "ready")


async def test_each_further_failure_makes_the_pause_longer(lab):
    lab.start(first_pause=0.2, pause_wait=0.0)
    await lab.configure(srv=lab.raw("exits", env={"KEY": "x"}))
    pauses = []
    for _ in range(3):
        await lab.listed("srv")
        owner = lab.tools._servers["srv"]
        await lab.eventually(lambda owner=owner: owner.state == "backing_off")
        pauses.append(owner._resumes_at - asyncio.get_running_loop().time())
        await lab.eventually(lambda owner=owner: owner.state == "failed")

    assert 0.05 < pauses[0] <= 0.2
    assert pauses[2] > 0.35


async def test_while_a_server_pauses_its_tools_stay_listed_and_calls_fail_at_once(lab):
    lab.start(first_pause=600.0)
    await lab.configure(srv=lab.raw("crash"))
    await lab.listed("srv")
    await lab.call("srv__run")
    await lab.eventually(lambda: lab.tools._servers["srv"].state == "backing_off")

    listing = await lab.listed("srv")
    result = await lab.call("srv__run")

    assert list(listing.tools) == ["srv__run", "srv__wait"]
    assert result.error_code == "SERVICE_UNAVAILABLE"
    assert "tried again" in (result.error_message or "")

    restarted = await lab.tools.restart("srv")
    assert restarted.state == "ready"
    assert restarted.error is None


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server(lab, tmp_path):
    record = tmp_path / "record"
    lab.start(timeout_seconds=0.3)
    await lab.configure(srv=lab.raw("records", str(record)))
    await lab.listed("srv")

    result = await lab.call("srv__wait")

    assert result.error_code == "SERVICE_UNAVAILABLE"
    assert (await lab.call("srv__run")).success
    sent = await messages(record)
    called = next(m for m in sent if m.get("params", {}).get("name") == "wait")
    cancelled = next(m for m in sent if m["method"] == "notifications/cancelled")
    assert cancelled["params"]["requestId"] == called["id"]


async def test_a_caller_who_is_cancelled_tells_the_server_and_the_connection_stays(lab, tmp_path):
    record = tmp_path / "record"
    await lab.configure(srv=lab.raw("records", str(record)))
    await lab.listed("srv")
    calling = asyncio.create_task(lab.call("srv__wait"))
    await lab.eventually(lambda: contains(record, '"wait"'))

    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert (await lab.call("srv__run")).success
    assert any(m["method"] == "notifications/cancelled" for m in await messages(record))


async def test_a_server_that_reads_nothing_costs_its_own_calls(lab):
    lab.start(timeout_seconds=0.3)
    await lab.configure(srv=lab.raw("deaf"), ok=lab.raw("plain"))
    await lab.listed("srv")
    await lab.listed("ok")

    results = await asyncio.gather(*(lab.call("srv__run", text="x" * 100_000) for _ in range(5)))

    assert {result.success for result in results} == {False}
    assert (await lab.call("ok__run")).success


async def test_a_server_gets_no_variables_but_harmless_ones_and_its_own(lab, monkeypatch):
    monkeypatch.setenv("MOCHI_API_TOKEN", "token")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("GIVEN", "given")
    entry = lab.raw("environment", "an argument", env={"OWN": "own ${GIVEN}"})
    await lab.configure(srv=entry)
    await lab.listed("srv")

    seen = json.loads((await lab.call("srv__run")).result or "")

    harmless = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}
    assert set(seen["env"]) - harmless == {"OWN"}
    assert seen["env"]["OWN"] == "own given"
    assert seen["cwd"] == str(lab.path.parent)
    assert seen["args"] == ["an argument"]


async def has_tools(lab, server):
    return (await lab.listed(server)).tools


async def messages(path):
    text = await asyncio.to_thread(path.read_text)
    return [json.loads(line) for line in text.splitlines()]


async def contains(path, text):
    return await asyncio.to_thread(lambda: path.exists() and text in path.read_text())


async def test_a_tool_that_its_server_changes_after_it_was_offered_does_not_run(lab, tmp_path):
    description = tmp_path / "description"
    await asyncio.to_thread(description.write_text, "Reads.")
    await lab.configure(srv=lab.raw("described", str(description)))
    offered = (await lab.listed("srv")).tools["srv__run"]
    call = ToolInvocation(name="srv__run", arguments={}, digest=offered.digest)
    before = await lab.tools.call_tool(call)

    await asyncio.to_thread(description.write_text, "Deletes.")
    await lab.tools.restart("srv")
    after = await lab.tools.call_tool(call)

    assert before.success
    assert (after.success, after.error_code) == (False, "TOOL_EXECUTION_FAILED")
    assert "changed this tool" in after.error_message
