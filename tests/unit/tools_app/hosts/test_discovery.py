"""Finding out what is in a folder, whatever its modules do while they are imported."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from tools_app.hosts.pool import HostPool

Serve = Callable[..., HostPool]
Write = Callable[..., Path]

GOOD = """
    __all__ = ["greet"]
    def greet(name: str) -> str:
        "Greet somebody."
        return f"Hello {name}"
"""


def reasons(listing: object) -> dict[str, str]:
    return {entry.name: entry.reason for entry in listing.invalid}  # type: ignore[attr-defined]


async def test_tools_are_described(serve: Serve) -> None:
    listing = await serve(GOOD).discover()

    assert list(listing.tools) == ["greet"]
    assert listing.tools["greet"].spec.description == "Greet somebody."
    assert listing.tools["greet"].spec.parameters["required"] == ["name"]
    assert listing.groups == {"things": ["greet"]}
    assert listing.invalid == []


async def test_an_empty_or_missing_folder_has_no_tools(serve: Serve, tmp_path: Path) -> None:
    assert (await serve().discover()).tools == {}


async def test_modules_that_hang_or_end_the_process_spoil_only_themselves(
    serve: Serve, write: Write, logged: list[logging.LogRecord]
) -> None:
    hang = "__all__ = []\nwhile True:\n    pass"
    write(hang, name="a_hangs")
    write("import os\n__all__ = []\nos._exit(0)", name="b_exits")
    write("import ctypes\n__all__ = []\nctypes.string_at(0)", name="m_crashes")
    write("import sys\n__all__ = []\nsys.exit(1)", name="n_exits_politely")
    write("__all__ = []\nraise BaseException('no')", name="y_raises")
    write("__all__ = []\nimport os, threading\nos.kill(os.getppid(), 9)\n" + hang, name="z_reaper")
    hosts = serve(GOOD, import_seconds=1.0)

    listing = await hosts.discover()

    assert list(listing.tools) == ["greet"]
    why = reasons(listing)
    assert "longer than 1 second: move what it does" in why["a_hangs"]
    assert "exit code 0" in why["b_exits"]
    assert "SIGSEGV" in why["m_crashes"]
    assert "BaseException: no" in why["y_raises"]
    assert why.keys() >= {"n_exits_politely", "z_reaper"}
    hosts.let_go()
    assert (await hosts.call("greet", {"name": "you"}, timeout_seconds=20)).result == "Hello you"
    said = [record.getMessage() for record in logged]
    assert len([line for line in said if "a_hangs" in line]) == 1  # it was not tried again


async def test_a_module_that_hangs_does_not_hold_up_a_call_for_ever(
    serve: Serve, write: Write
) -> None:
    write("import time\n__all__ = ['hang']\ntime.sleep(600)", name="hangs")
    hosts = serve(GOOD, import_seconds=0.3)

    greeted, hung = await asyncio.gather(
        hosts.call("greet", {"name": "you"}, timeout_seconds=20),
        hosts.call("hang", {}, timeout_seconds=20),
    )

    assert greeted.result == "Hello you"
    assert not hung.success


async def test_a_hanging_package_says_so(serve: Serve, write: Write) -> None:
    write(
        "import time\n__all__ = ['greet']\ntime.sleep(600)\nfrom .things import greet",
        name="__init__",
    )

    listing = await serve(GOOD, import_seconds=0.3).discover()

    assert listing.tools == {}
    assert "longer than 0.3 seconds" in reasons(listing)["__init__"]


async def test_discovery_gives_up_in_the_end(serve: Serve, write: Write) -> None:
    for number in range(8):
        write("import os\n__all__ = []\nos._exit(0)", name=f"exits_{number}")
    hosts = serve(GOOD, loading_attempts=4)

    listing = await hosts.discover()

    assert listing.tools == {}
    assert "exit code 0" in reasons(listing)["tools"]
    failed = await hosts.call("greet", {"name": "you"}, timeout_seconds=20)
    assert "can't be loaded" in (failed.error_message or "")


async def test_a_slow_folder_is_given_up_after_a_while(serve: Serve, write: Write) -> None:
    for number in range(8):
        write("import time\n__all__ = []\ntime.sleep(600)", name=f"hangs_{number}")

    listing = await serve(GOOD, import_seconds=0.2, loading_seconds=0.7).discover()

    assert list(reasons(listing)) == ["tools"]


async def test_what_is_printed_on_import_is_logged(
    serve: Serve, logged: list[logging.LogRecord]
) -> None:
    await serve("print('hello')\n__all__ = []").discover()

    assert [record.getMessage() for record in logged] == ["tools, loading: hello"]


async def test_a_retired_pool_sees_what_has_changed(serve: Serve, write: Write) -> None:
    write("import os\n__all__ = ['other']\nos._exit(0)", name="broken")
    hosts = serve(GOOD)
    assert list((await hosts.discover()).tools) == ["greet"]
    write("__all__ = ['other']\ndef other() -> str:\n    'Other.'\n    return 'o'", name="broken")
    write(GOOD.replace("Hello", "Good evening,"))

    assert (await hosts.call("greet", {"name": "you"}, timeout_seconds=20)).result == "Hello you"
    hosts.retire()

    assert list((await hosts.discover()).tools) == ["other", "greet"]
    greeted = await hosts.call("greet", {"name": "you"}, timeout_seconds=20)
    assert greeted.result == "Good evening, you"


async def test_a_cancelled_discovery_leaves_nothing(
    serve: Serve, write: Write, no_descriptor_is_lost: None
) -> None:
    hosts = serve("import time\n__all__ = []\ntime.sleep(600)")
    discovering = asyncio.create_task(hosts.discover())
    await asyncio.sleep(0.2)

    discovering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await discovering

    assert asyncio.all_tasks() == {asyncio.current_task()}
