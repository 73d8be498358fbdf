"""How many tool processes there are, and when they come and go."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import uvloop

from tools_app.errors import INVALID_ARGUMENTS, TIMED_OUT
from tools_app.hosts.fork_server_client import ForkServerClient
from tools_app.hosts.pool import HostPool
from tools_app.limits import ToolFolder

Serve = Callable[..., HostPool]
Until = Callable[..., Any]
PassTime = Callable[[float], None]

PATIENT = """
    import os, time
    __all__ = ["nap"]
    def nap(seconds: float = 0.0) -> str:
        "Sleep a little and tell who did."
        time.sleep(seconds)
        return str(os.getpid())
"""
WAITING = """
    import time
    from pathlib import Path
    __all__ = ["wait"]
    def wait(begun: str, gate: str) -> str:
        "Say that it has begun, and wait for the gate."
        Path(begun).touch()
        while not Path(gate).exists():
            time.sleep(0.01)
        return "done"
"""


async def nap(hosts: HostPool, seconds: float = 0.0) -> int:
    result = await hosts.call("nap", {"seconds": seconds}, timeout_seconds=20)
    assert result.success, result
    return int(result.result or "")


async def test_calls_run_at_the_same_time_each_in_a_process_of_its_own(serve: Serve) -> None:
    hosts = serve(PATIENT)

    processes = await asyncio.gather(*(nap(hosts, 1) for _ in range(8)))

    assert len(set(processes)) == 8
    assert await nap(hosts) in processes


async def test_more_calls_than_processes_wait_for_their_turn(serve: Serve) -> None:
    two, one = serve(PATIENT, processes=2), serve(PATIENT, processes=1)
    order: list[int] = []

    async def call(number: int) -> None:
        await nap(one, 0.01)
        order.append(number)

    processes = await asyncio.gather(*(nap(two, 0.05) for _ in range(6)))
    await asyncio.gather(*(call(number) for number in range(6)))

    assert len(set(processes)) == 2
    assert order == [0, 1, 2, 3, 4, 5]


async def test_waiting_for_a_process_is_not_held_against_a_call(
    serve: Serve, until: Until, pass_time: PassTime, tmp_path: Path
) -> None:
    hosts = serve(WAITING, processes=1)
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    paths = {"begun": str(begun), "gate": str(gate)}
    first = asyncio.create_task(hosts.call("wait", paths, timeout_seconds=3600))
    await until(begun.exists)
    second = asyncio.create_task(hosts.call("wait", paths, timeout_seconds=60))
    await asyncio.sleep(0.01)

    pass_time(120)
    await asyncio.to_thread(gate.touch)

    assert (await first).success
    assert (await second).success


async def test_idle_processes_end_except_one_and_that_one_later(
    serve: Serve, until: Until, pass_time: PassTime
) -> None:
    hosts = serve(PATIENT, idle_seconds=60, last_idle_seconds=3600)
    processes = await asyncio.gather(*(nap(hosts, 0.1) for _ in range(3)))

    pass_time(100)
    await until(lambda: sum(map(psutil.pid_exists, processes)) == 1)
    pass_time(3600)
    await until(lambda: sum(map(psutil.pid_exists, processes)) == 0)

    assert await nap(hosts) not in processes


async def test_a_process_that_dies_while_nobody_needs_it_is_replaced(
    serve: Serve, until: Until
) -> None:
    hosts = serve(PATIENT)
    process = await nap(hosts)

    os.kill(process, 9)
    await until(lambda: not psutil.pid_exists(process))

    assert await nap(hosts) != process


async def test_retiring_lets_running_calls_finish(serve: Serve) -> None:
    hosts = serve(PATIENT)
    idle, before = await asyncio.gather(nap(hosts), nap(hosts, 0.01))
    running = asyncio.create_task(nap(hosts, 0.5))
    await asyncio.sleep(0.1)

    hosts.retire()

    after = await nap(hosts)
    assert await running in {idle, before}
    assert after not in {idle, before}
    assert await nap(hosts) == after


async def test_a_closed_pool_refuses_calls(serve: Serve) -> None:
    hosts = serve(PATIENT)
    await hosts.aclose()

    result = await hosts.call("nap", {}, timeout_seconds=1)

    assert "stopping" in (result.error_message or "")


async def test_hundreds_of_hosts_lose_nothing(serve: Serve, no_descriptor_is_lost: None) -> None:
    hosts = serve(PATIENT)
    for _ in range(40):
        await nap(hosts)
        hosts.retire()
    await hosts.aclose()

    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_uvloop_runs_hosts_too(write: Callable[..., Path], tmp_path: Path) -> None:
    folder = ToolFolder(path=write(PATIENT), name="tools")

    async def use() -> list[str | None]:
        fork_server = ForkServerClient(tmp_path)
        hosts = HostPool(fork_server, folder)
        try:
            listing = await hosts.discover()
            assert list(listing.tools) == ["nap"]
            slow = await hosts.call("nap", {"seconds": 60}, timeout_seconds=0.3)
            large = await hosts.call("nap", {"seconds": "x" * 3_000_000}, timeout_seconds=20)
            quick = await asyncio.gather(*(nap(hosts, 0.1) for _ in range(3)))
            cancelled = asyncio.create_task(nap(hosts, 60))
            await asyncio.sleep(0.1)
            cancelled.cancel()
            await asyncio.wait([cancelled])
        finally:
            await hosts.aclose()
            await fork_server.aclose()
        assert not any(map(psutil.pid_exists, quick))
        return [slow.error_code, large.error_code]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(use()) == [TIMED_OUT, INVALID_ARGUMENTS]
