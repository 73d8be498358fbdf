"""Whatever ends a call, nothing that it has started is left."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tools_app.errors import EXECUTION_FAILED, TIMED_OUT
from tools_app.hosts.fork_server_client import ForkServerClient
from tools_app.hosts.pool import HostPool

pytestmark = pytest.mark.slow

Serve = Callable[..., HostPool]
ROOT = Path(__file__).parents[4]

# Functions that note the ids of their processes in a file each, so that they can be looked for.
BUSY = """
    import os, re, signal, subprocess, sys, threading, time
    from pathlib import Path
    __all__ = ["loop", "match", "children", "daemon", "stubborn", "chain", "stop", "background"]
    __all__ += ["pid"]
    HERE = Path(__file__).parent.parent
    def note(pid):
        temporary = HERE / f"{pid}.new"
        temporary.touch()
        temporary.rename(HERE / f"{pid}.pid")
    def loop() -> str:
        "Loop."
        note(os.getpid())
        while True:
            pass
    def match() -> str:
        "Match, in C, without ever giving way to another thread."
        note(os.getpid())
        return str(re.match("(a+)+$", "a" * 64 + "b"))
    def children() -> str:
        "Have children."
        for _ in range(3):
            note(subprocess.Popen(["sleep", "600"]).pid)
        note(os.getpid())
        time.sleep(600)
        return "slept"
    def detach():
        "Fork a process that no parent, session or process group leads to."
        readable, writable = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                note(os.getpid())
                os.write(writable, b".")
                time.sleep(600)
            os._exit(0)
        os.wait()
        os.read(readable, 1)
    def daemon() -> str:
        "Leave a daemon, and wait."
        detach()
        note(os.getpid())
        time.sleep(600)
        return "slept"
    def stubborn() -> str:
        "Ignore what can be ignored, and stop what can be stopped."
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        detach()
        for path in HERE.glob("*.pid"):
            os.kill(int(path.stem), signal.SIGSTOP)
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        os.kill(child.pid, signal.SIGSTOP)
        note(child.pid)
        note(os.getpid())
        os.kill(os.getpid(), signal.SIGSTOP)
        return "went on"
    def chain() -> str:
        "Be another process every millisecond."
        note(os.getpid())
        if os.fork() == 0:
            os.setsid()
            while os.fork() == 0:
                pass
            os._exit(0)
        time.sleep(600)
        return "slept"
    def stop() -> str:
        "Stop one's reaper."
        note(os.getppid())
        os.kill(os.getppid(), signal.SIGSTOP)
        detach()
        note(os.getpid())
        time.sleep(600)
        return "slept"
    def background() -> str:
        "Leave a daemon behind."
        detach()
        return "left"
    def pid() -> str:
        "Tell who runs."
        return f"{os.getppid()} {os.getpid()}"
"""
NOTED = {
    "loop": 1,
    "match": 1,
    "children": 4,
    "daemon": 2,
    "stubborn": 3,
    "stop": 3,
    "background": 1,
}


def find_noted(directory: Path) -> list[int]:
    return [int(path.stem) for path in directory.glob("*.pid")]


async def noted(directory: Path) -> list[int]:
    return await asyncio.to_thread(find_noted, directory)


def living(pids: list[int]) -> list[int]:
    """Return which of the processes are there, even as zombies."""
    return [pid for pid in pids if psutil.pid_exists(pid)]


@pytest.fixture
def pids(tmp_path: Path, until: Callable[..., Any]) -> Callable[[str], Any]:
    """Return what waits for a function's processes and returns their ids."""

    async def pids(function: str) -> list[int]:
        def all_there() -> list[int] | None:
            return found if len(found := find_noted(tmp_path)) == NOTED[function] else None

        found: list[int] = await until(all_there)
        return found

    return pids


@pytest.mark.parametrize("function", ["loop", "match", "children", "daemon", "stubborn"])
async def test_a_call_that_takes_too_long_is_stopped_with_all_that_it_has_started(
    serve: Serve, tmp_path: Path, function: str
) -> None:
    hosts = serve(BUSY)
    assert (await hosts.call("pid", {}, timeout_seconds=20)).success

    result = await hosts.call(function, {}, timeout_seconds=1)

    assert living(found := await noted(tmp_path)) == []
    assert len(found) == NOTED[function]
    assert not result.success
    assert result.error_code == TIMED_OUT
    assert result.error_message == f"{function} took longer than 1 second and was stopped"
    assert (await hosts.call("pid", {}, timeout_seconds=20)).success


@pytest.mark.parametrize("function", ["loop", "match", "children", "daemon", "stubborn"])
async def test_a_cancelled_call_is_stopped_with_all_that_it_has_started(
    serve: Serve, pids: Callable[[str], Any], function: str
) -> None:
    hosts = serve(BUSY)
    calling = asyncio.create_task(hosts.call(function, {}, timeout_seconds=60))
    found = await pids(function)

    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert living(found) == []
    assert (await hosts.call("pid", {}, timeout_seconds=20)).success


async def test_even_a_process_that_is_always_another_one_ends(
    own_fork_server: ForkServerClient, serve: Serve
) -> None:
    hosts = serve(BUSY, fork_server=own_fork_server)

    await hosts.call("chain", {}, timeout_seconds=1)

    fork_server = await asyncio.to_thread(psutil.Process, own_fork_server.process_id)
    assert await asyncio.to_thread(fork_server.children, recursive=True) == []


async def test_cancelling_again_and_again_changes_nothing(
    serve: Serve, pids: Callable[[str], Any]
) -> None:
    hosts = serve(BUSY)
    calling = asyncio.create_task(hosts.call("daemon", {}, timeout_seconds=60))
    found = await pids("daemon")

    while not calling.done():
        calling.cancel()
        await asyncio.sleep(0)

    assert calling.cancelled()
    assert living(found) == []


async def test_a_stopped_reaper_is_no_way_out(
    serve: Serve, pids: Callable[[str], Any], until: Callable[..., Any]
) -> None:
    hosts = serve(BUSY, kill_seconds=0.2)
    calling = asyncio.create_task(hosts.call("stop", {}, timeout_seconds=60))
    found = await pids("stop")

    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert living(found) == []


async def test_what_a_killed_reaper_leaves_is_ended_by_the_fork_server(
    serve: Serve, pids: Callable[[str], Any], until: Callable[..., Any]
) -> None:
    hosts = serve(BUSY)
    calling = asyncio.create_task(hosts.call("daemon", {}, timeout_seconds=60))
    found = await pids("daemon")
    [reaper] = await asyncio.to_thread(lambda: {psutil.Process(pid).ppid() for pid in found})

    os.kill(reaper, signal.SIGKILL)
    result = await calling

    assert living(found) == []
    assert result.error_code == EXECUTION_FAILED


async def test_what_a_call_leaves_in_the_background_ends_with_its_process(
    serve: Serve, tmp_path: Path
) -> None:
    hosts = serve(BUSY)

    assert (await hosts.call("background", {}, timeout_seconds=20)).result == "left"

    [left] = await noted(tmp_path)
    assert living([left])
    await hosts.aclose()
    assert not living([left])


async def test_what_a_dying_process_leaves_ends(serve: Serve, tmp_path: Path) -> None:
    hosts = serve(
        BUSY + '    def die() -> str:\n        "D"\n        detach()\n        os._exit(1)\n'
        '    __all__ += ["die"]\n'
    )

    result = await hosts.call("die", {}, timeout_seconds=20)

    assert "exit code 1" in (result.error_message or "")
    [left] = await noted(tmp_path)
    assert not living([left])


async def test_closing_ends_running_calls(serve: Serve, pids: Callable[[str], Any]) -> None:
    hosts = serve(BUSY, processes=1)
    calling = asyncio.create_task(hosts.call("daemon", {}, timeout_seconds=60))
    waiting = asyncio.create_task(hosts.call("pid", {}, timeout_seconds=60))
    found = await pids("daemon")

    await hosts.aclose()

    assert living(found) == []
    result = await calling
    assert "was ended by the server" in (result.error_message or "")
    assert "is stopping" in ((await waiting).error_message or "")


SERVER = """
import asyncio, sys
from pathlib import Path
from tools_app.hosts.fork_server_client import ForkServerClient
from tools_app.limits import ToolFolder
from tools_app.hosts.pool import HostPool

async def main():
    here = Path(sys.argv[1])
    fork_server = ForkServerClient(here)
    hosts = HostPool(fork_server, ToolFolder(path=here / "tools", name="tools"))
    await hosts.call("background", {}, timeout_seconds=60)
    idle = (await hosts.call("pid", {}, timeout_seconds=60)).result
    calls = [asyncio.create_task(hosts.call(f, {}, timeout_seconds=60)) for f in sys.argv[2:]]
    print(fork_server.process_id, idle, flush=True)
    await asyncio.wait(calls)

asyncio.run(main())
"""


async def test_when_the_server_is_killed_nothing_is_left(
    write: Callable[..., Path], tmp_path: Path, until: Callable[..., Any]
) -> None:
    write(BUSY)

    def run_and_kill() -> list[int]:
        command = [sys.executable, "-c", SERVER, str(tmp_path), "loop", "match", "daemon"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as server:
            assert server.stdout
            found = [int(pid) for pid in server.stdout.readline().split()]
            while len(find_noted(tmp_path)) < 5:
                time.sleep(0.01)
            server.kill()
        return found + find_noted(tmp_path)

    found = await asyncio.to_thread(run_and_kill)

    assert len(found) == 8
    await until(lambda: not living(found))


async def test_cancelling_while_a_host_starts_leaves_nothing(
    own_fork_server: ForkServerClient, serve: Serve, no_descriptor_is_lost: None
) -> None:
    hosts = serve(BUSY, fork_server=own_fork_server)
    for number in range(30):
        calling = asyncio.create_task(hosts.call("pid", {}, timeout_seconds=20))
        await asyncio.sleep(number / 300)
        calling.cancel()
        await asyncio.wait([calling])
    tasks = asyncio.all_tasks() - {asyncio.current_task()}

    assert (await hosts.call("pid", {}, timeout_seconds=20)).success

    assert tasks == set()
    fork_server = await asyncio.to_thread(psutil.Process, own_fork_server.process_id)
    assert len(await asyncio.to_thread(fork_server.children)) <= 1
    await hosts.aclose()
    assert await asyncio.to_thread(fork_server.children) == []


async def test_a_call_that_is_cancelled_in_the_queue_does_not_run(
    serve: Serve, pids: Callable[[str], Any], tmp_path: Path
) -> None:
    hosts = serve(BUSY, processes=1)
    first = asyncio.create_task(hosts.call("loop", {}, timeout_seconds=60))
    await pids("loop")
    second = asyncio.create_task(hosts.call("background", {}, timeout_seconds=60))
    third = asyncio.create_task(hosts.call("pid", {}, timeout_seconds=60))
    await asyncio.sleep(0)

    second.cancel()
    await asyncio.wait([second])
    first.cancel()

    assert (await third).success
    assert second.cancelled()
    assert len(await noted(tmp_path)) == 1
