"""The toolset over servers that behave: what is listed, called, followed and ended."""

import asyncio
import json

import psutil
import pytest

from tests.unit.sessions_app.attachments.images import PDF, png
from tests.unit.tools_app.mcp.conftest import line_of
from tools_app.errors import ToolNotFound, ToolServerNotFound, ToolServerUnavailable
from tools_app.toolset import ToolFile, ToolSelection


async def test_without_a_file_there_is_nothing(lab):
    assert not (await lab.tools.listing()).tools
    assert await lab.tools.servers() == []
    with pytest.raises(ToolNotFound):
        await lab.call("srv__run")
    with pytest.raises(ToolServerNotFound):
        await lab.tools.restart("srv")


async def test_nothing_is_started_before_somebody_asks_for_tools_of_the_server(lab):
    await lab.configure(srv=lab.raw("plain"), off=lab.raw("plain", disabled=True))
    before = await asyncio.to_thread(lambda: set(psutil.Process().children()))

    await lab.tools.listing(ToolSelection(names=["read_file"], agents=["coder"]))
    await lab.tools.listing(ToolSelection(names=["other__run"], group="utilities"))

    assert [(s.name, s.state) for s in await lab.tools.servers()] == [
        ("srv", "stopped"),
        ("off", "disabled"),
    ]
    assert await asyncio.to_thread(lambda: set(psutil.Process().children())) <= before


async def test_everybody_who_lists_all_tools_starts_all_servers(lab):
    await lab.configure(a=lab.raw("plain"), b=lab.raw("plain"), off=lab.raw("plain", disabled=True))

    await lab.eventually(lambda: all_listed(lab, {"a", "b"}))

    assert await lab.state("off") == "disabled"
    with pytest.raises(ToolNotFound):
        await lab.call("off__run")


async def test_a_selection_starts_only_what_it_needs(lab):
    await lab.configure(a=lab.raw("plain"), b=lab.raw("plain"))

    listing = await lab.tools.listing(ToolSelection(names=["a__run"]))

    assert "a__run" in listing.tools
    assert await lab.state("b") == "stopped"


async def test_broken_entries_and_broken_files_are_shown(lab):
    await lab.configure(bad={"command": 5}, ok=lab.raw("plain"))
    listing = await lab.listed("ok")
    assert listing.invalid == []
    assert [(i.name, i.file) for i in (await lab.listed("bad")).invalid] == [("bad", "mcp.json")]
    assert await lab.state("bad") == "failed"
    with pytest.raises(ToolServerUnavailable):
        await lab.tools.restart("bad")

    await asyncio.to_thread(lab.path.write_text, "{")

    listing = await lab.listed("ok")
    assert listing.tools
    assert [i.name for i in listing.invalid] == ["mcp.json"]
    first = (await lab.tools.servers())[0]
    assert (first.name, first.state) == ("mcp.json", "failed")
    assert first.error


async def test_a_changed_file_is_followed(lab):
    await lab.configure(stays=lab.raw("plain"), goes=lab.raw("plain"), turns=lab.raw("plain"))
    for server in ("stays", "goes", "turns"):
        await lab.listed(server)
    before = dict(lab.tools._servers)

    await lab.configure(stays=lab.raw("plain"), turns=lab.raw("error"), comes=lab.raw("plain"))

    assert [server.name for server in await lab.tools.servers()] == ["stays", "turns", "comes"]
    assert lab.tools._servers["stays"] is before["stays"]
    assert await lab.state("stays") == "ready"
    assert await lab.state("turns") == "stopped"
    await lab.eventually(lambda: before["goes"].state == before["turns"].state == "stopped")
    with pytest.raises(ToolNotFound):
        await lab.call("goes__run")
    assert not (await lab.call("turns__run")).success
    assert (await lab.call("comes__run")).success


async def test_a_tool_that_the_server_does_not_have_is_not_found(lab):
    await lab.configure(srv=lab.raw("plain"))

    with pytest.raises(ToolNotFound):
        await lab.call("srv__nope")
    with pytest.raises(ToolNotFound):
        await lab.call("run")


async def test_arguments_that_are_not_json_never_leave(lab):
    await lab.configure(srv=lab.raw("plain"))

    result = await lab.call("srv__run", text="\ud800")

    assert result.error_code == "VALIDATION_ERROR"
    assert (await lab.call("srv__run")).success


async def test_a_restart_breaks_a_hanging_start_off(lab):
    lab.start(start_wait=0.3)
    await lab.configure(srv=lab.raw("silent"))
    await lab.listed("srv")
    await lab.eventually(lambda: servers_running(lab))  # on a busy machine it takes a while
    (first,) = await servers_running(lab)

    await lab.tools.restart("srv")

    await lab.eventually(lambda: other_server(lab, first))


async def test_a_restart_makes_a_new_process(lab):
    await lab.configure(srv=lab.raw("plain"))
    await lab.listed("srv")
    before = await servers_running(lab)

    restarted = await lab.tools.restart("srv")

    assert restarted.state == "ready"
    assert (await lab.call("srv__run")).success
    assert not before & await servers_running(lab)


async def test_a_server_of_the_older_protocol_says_by_itself_that_its_tools_changed(lab):
    lab.start(between_listings=0.1)
    await lab.configure(srv=lab.raw("learns"))
    await lab.listed("srv")

    await lab.call("srv__run")

    await lab.eventually(lambda: has_tool(lab, "srv__learnt"))


async def test_many_callers_at_once_start_one_process(lab):
    await lab.configure(srv=lab.raw("plain"))

    results = await asyncio.gather(*(lab.call("srv__run") for _ in range(20)))

    assert all(result.success for result in results)
    assert len(await servers_running(lab)) == 1


async def test_after_the_end_nothing_runs_and_nothing_starts(lab):
    await lab.configure(srv=lab.raw("plain"))
    await lab.listed("srv")

    await lab.tools.aclose()

    assert not await servers_running(lab)
    assert not (await lab.tools.listing()).tools
    await lab.tools.aclose()


async def test_callers_who_are_cancelled_while_a_server_starts_leave_it_starting(lab):
    await lab.configure(srv=lab.raw("slow", "0.5"))
    calling = asyncio.create_task(lab.call("srv__run"))
    await lab.eventually(lambda: is_starting(lab))

    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)

    assert (await lab.call("srv__run")).success


class TestAServerMadeWithTheSdk:
    async def test_it_is_listed_called_and_understood(self, lab):
        await lab.configure(srv=lab.sdk(trusted=True))

        listing = await lab.listed("srv")
        added = await lab.call("srv__add", a=1, b=2)
        wrong = await lab.call("srv__add", a="one")

        add = listing.tools["srv__add"]
        assert add.parameters == {
            "a": {"type": "int", "description": ""},
            "b": {"type": "int", "description": ""},
        }
        assert add.spec.parameters["required"] == ["a"]
        assert {name: tool.destructive for name, tool in listing.tools.items()} == {
            "srv__add": False,
            "srv__count": False,
            "srv__wait": True,
            "srv__learn": True,
            "srv__append": True,
            "srv__draw": False,
            "srv__environment": True,
            "srv__link": False,
            "srv__read_resource": False,
        }
        assert added.result == "3"
        assert wrong.error_code == "TOOL_EXECUTION_FAILED"
        environment = json.loads((await lab.call("srv__environment")).result or "")
        assert not [name for name in environment if name.startswith("MOCHI_")]

    async def test_its_images_are_handed_over_by_failures_too(self, lab, tmp_path):
        await lab.configure(srv=lab.sdk(trusted=True))
        paths = [tmp_path / "a", tmp_path / "b.pdf"]
        for path, data in zip(paths, (png(), PDF), strict=True):
            await asyncio.to_thread(path.write_bytes, data)

        drawn = await lab.call("srv__draw", paths=[str(path) for path in paths])
        failed = await lab.call("srv__draw", paths=[str(paths[0])], fails=True)

        assert drawn.result == f"Drawn:\n[draw.png, {len(png())} bytes]\n[b.pdf, {len(PDF)} bytes]"
        files = [ToolFile(name="draw.png", data=png()), ToolFile(name="b.pdf", data=PDF)]
        assert drawn.files == files
        assert not failed.success
        assert failed.files == files[:1]

    async def test_progress_is_told_and_renews_the_time_a_call_may_take(self, lab):
        lab.start(timeout_seconds=2.0)
        await lab.configure(srv=lab.sdk())
        await lab.listed("srv")

        counted = await lab.call("srv__count", steps=5, pause=0.5)

        assert counted.result == "counted"
        assert [(p.progress, p.total, p.message) for p in lab.reports][:2] == [
            (1.0, 5.0, "step 1"),
            (2.0, 5.0, "step 2"),
        ]

    async def test_progress_does_not_renew_it_for_ever(self, lab):
        lab.start(timeout_seconds=1.0, call_factor=2)
        await lab.configure(srv=lab.sdk())
        await lab.listed("srv")

        counted = await lab.call("srv__count", steps=1000, pause=0.1)

        assert counted.error_code == "SERVICE_UNAVAILABLE"
        assert 0 < len(lab.reports) < 1000

    async def test_the_tool_sees_that_its_call_was_cancelled(self, lab, tmp_path):
        await lab.configure(srv=lab.sdk())
        await lab.listed("srv")
        mark = tmp_path / "mark"
        calling = asyncio.create_task(lab.call("srv__wait", path=str(mark)))
        await lab.eventually(lambda: says(mark, "started"))

        calling.cancel()

        with pytest.raises(asyncio.CancelledError):
            await calling
        await lab.eventually(lambda: says(mark, "cancelled"))
        assert (await lab.call("srv__add", a=1)).result == "1"

    async def test_a_tool_that_comes_later_is_listed(self, lab):
        lab.start(between_listings=0.1)
        await lab.configure(srv=lab.sdk())
        await lab.listed("srv")

        await lab.call("srv__learn", name="plus")

        await lab.eventually(lambda: has_tool(lab, "srv__plus"))
        assert (await lab.call("srv__plus", a=2, b=3)).result == "5"


async def all_listed(lab, groups):
    listing = await lab.tools.listing()
    return {name for name, tools in listing.groups.items() if tools} == groups


async def has_tool(lab, name):
    return name in (await lab.listed(name.partition("__")[0])).tools


async def is_starting(lab):
    return await lab.state("srv") == "starting"


async def says(path, text):
    return await asyncio.to_thread(lambda: path.exists() and path.read_text() == text)


async def servers_running(lab):
    def find():
        return {
            process.pid
            for process in psutil.Process().children(recursive=True)
            if "-S" in (line := line_of(process)) and "-I" not in line
        }

    return await asyncio.to_thread(find)


async def other_server(lab, pid):
    running = await servers_running(lab)
    return running and pid not in running
