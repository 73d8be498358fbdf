"""The process that hosts come from: what they inherit, and what happens when it is gone."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import psutil
import pytest

from tools_app import processes
from tools_app.hosts.fork_server_client import ForkServerClient
from tools_app.hosts.pool import HostPool

Serve = Callable[..., HostPool]

ADDED = {"MOCHI_ADDED": "value"}
LOOK = """
    import os, resource, sys
    __all__ = ["look"]
    def look() -> dict:
        "Tell what there is."
        files = {}
        for name in os.listdir("/proc/self/fd"):
            try:
                files[name] = os.readlink(f"/proc/self/fd/{name}")
            except OSError:
                pass
        return {
            "files": files, "environment": dict(os.environ), "directory": os.getcwd(),
            "pid": os.getpid(), "path": sys.path, "threads": len(os.listdir("/proc/self/task")),
            "memory": resource.getrlimit(resource.RLIMIT_AS), "argv": sys.argv,
            "core": resource.getrlimit(resource.RLIMIT_CORE),
            "oom": open("/proc/self/oom_score_adj").read().strip(),
        }
"""


async def look(hosts: HostPool) -> dict[str, Any]:
    result = await hosts.call("look", {}, timeout_seconds=20)
    assert result.success, result
    seen: dict[str, Any] = json.loads(result.result or "")
    return seen


async def test_functions_see_neither_the_servers_secrets_nor_its_files(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "MOCHI_API_TOKEN",
        "mochi_api_token",
        "MOCHI_X_KEY",
        "_MOCHI_TRUST",
        "DJANGO_SECRET_KEY",
    ):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("A_KEY_FOR_A_TOOL", "wanted")
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.set_inheritable(True)
        os.set_inheritable(lock, True)
        fork_server = ForkServerClient(tmp_path)
        hosts = serve(LOOK, fork_server=fork_server)

        seen = await look(hosts)

        os.close(lock)  # whoever inherited it would hold the lock on
        again = os.open(tmp_path / "lock", os.O_RDWR)
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(again)
    assert "canary" not in json.dumps(seen)
    assert seen["environment"]["A_KEY_FOR_A_TOOL"] == "wanted"
    assert seen["directory"] == str(tmp_path)
    opened = seen["files"]
    assert opened.pop("0") == "/dev/null"
    assert opened["1"] == opened["2"]
    assert opened.pop("1").startswith("pipe:")
    assert opened.pop("2").startswith("pipe:")
    assert [path.partition(":")[0] for path in opened.values()] == ["socket"], opened
    assert seen["threads"] == 1
    await hosts.aclose()
    await fork_server.aclose()


async def test_functions_see_no_keys_but_those_that_are_let_through(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("A_KEY", "b_key", "LET_THROUGH", "NO_KEY"):
        monkeypatch.setenv(name, "value")
    fork_server = ForkServerClient(
        tmp_path, keys=lambda: {"A_KEY", "B_KEY", "LET_THROUGH"}, passed=["LET_THROUGH"]
    )
    hosts = serve(LOOK, fork_server=fork_server)

    seen = (await look(hosts))["environment"]

    assert {name for name, value in seen.items() if value == "value"} == {"LET_THROUGH", "NO_KEY"}
    await hosts.aclose()
    await fork_server.aclose()


async def test_functions_see_the_file_of_variables_as_they_see_the_environment(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET", "in the environment")
    names = ("WEATHER_KEY", "SET", "A_KEY", "DJANGO_X")
    fork_server = ForkServerClient(
        tmp_path, env_file=dict.fromkeys(names, "in the file"), keys=lambda: {"A_KEY"}
    )
    hosts = serve(LOOK, fork_server=fork_server)

    seen = (await look(hosts))["environment"]

    assert {name for name in seen if seen[name] == "in the file"} == {"WEATHER_KEY"}
    assert seen["SET"] == "in the environment"
    await hosts.aclose()
    await fork_server.aclose()


async def test_a_variable_that_becomes_a_key_is_not_seen_by_new_hosts(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATER_A_KEY", "value")
    keys: set[str] = set()
    fork_server = ForkServerClient(tmp_path, keys=lambda: keys)
    hosts = serve(LOOK, fork_server=fork_server)
    assert "LATER_A_KEY" in (await look(hosts))["environment"]

    keys.add("LATER_A_KEY")
    hosts.retire()

    assert "LATER_A_KEY" not in (await look(hosts))["environment"]
    await hosts.aclose()
    await fork_server.aclose()


async def test_reading_the_environment_does_not_hide_a_key_that_a_running_process_has(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATER_A_KEY", "value")
    keys: set[str] = set()
    fork_server = ForkServerClient(
        tmp_path, keys=lambda: keys, added=lambda: {"MOCHI_ADDED": "value"}
    )
    hosts = serve(LOOK, fork_server=fork_server)
    await look(hosts)
    first = fork_server.process_id

    keys.add("LATER_A_KEY")
    assert "LATER_A_KEY" not in await asyncio.to_thread(fork_server.environment)
    hosts.retire()
    seen = (await look(hosts))["environment"]

    assert fork_server.process_id != first
    assert "LATER_A_KEY" not in seen
    assert seen["MOCHI_ADDED"] == "value"
    await hosts.aclose()
    await fork_server.aclose()


async def test_functions_run_where_the_server_has_a_thousand_files_open(
    serve: Serve, tmp_path: Path
) -> None:
    with ExitStack() as opened:
        for _ in range(1100):
            opened.enter_context(Path(os.devnull).open("rb"))
        fork_server = ForkServerClient(tmp_path)
        hosts = serve(LOOK, fork_server=fork_server)

        await look(hosts)

    await hosts.aclose()
    await fork_server.aclose()


async def test_functions_are_limited(serve: Serve, tmp_path: Path) -> None:
    seen = await look(serve(LOOK, memory_bytes=1 << 30))

    assert seen["memory"] == [1 << 30, 1 << 30]
    assert seen["core"] == [0, 0]
    assert seen["oom"] == "500"
    assert (await look(serve(LOOK, memory_bytes=None)))["memory"] == [-1, -1]


async def test_files_beside_the_tools_do_not_hide_python_modules(
    own_fork_server: ForkServerClient, serve: Serve, tmp_path: Path
) -> None:
    for name in ("json", "pydantic", "tools_app"):
        await asyncio.to_thread((tmp_path / f"{name}.py").write_text, "raise SystemExit('hidden')")

    seen = await look(serve(LOOK, fork_server=own_fork_server))

    assert seen["directory"] == str(tmp_path)


async def test_a_killed_fork_server_is_replaced_and_its_hosts_go_on(
    own_fork_server: ForkServerClient, serve: Serve
) -> None:
    hosts = serve(LOOK, fork_server=own_fork_server, processes=2)
    process = (await look(hosts))["pid"]
    assert own_fork_server.process_id

    os.kill(own_fork_server.process_id, signal.SIGKILL)
    one, other = await asyncio.gather(look(hosts), look(hosts))

    assert process in {one["pid"], other["pid"]}
    assert one["pid"] != other["pid"]


async def test_a_fork_server_that_dies_while_it_is_asked_is_replaced(
    own_fork_server: ForkServerClient, serve: Serve, no_descriptor_is_lost: None
) -> None:
    hosts = serve(LOOK, fork_server=own_fork_server)
    asking = [asyncio.create_task(look(hosts)) for _ in range(4)]
    while own_fork_server.process_id is None:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)

    os.kill(own_fork_server.process_id, signal.SIGKILL)

    assert len({seen["pid"] for seen in await asyncio.gather(*asking)}) == 4
    await hosts.aclose()
    await own_fork_server.aclose()


async def test_a_fork_server_that_hangs_is_replaced(
    own_fork_server: ForkServerClient, serve: Serve
) -> None:
    hosts = serve(LOOK, fork_server=own_fork_server, start_seconds=3.0, kill_seconds=0.2)
    await look(hosts)
    hosts.retire()
    hung = own_fork_server.process_id
    assert hung
    os.kill(hung, signal.SIGSTOP)

    assert (await look(hosts))["pid"]

    assert own_fork_server.process_id != hung


async def test_a_fork_server_that_can_not_start_is_a_failed_call(
    serve: Serve, tmp_path: Path
) -> None:
    hosts = serve(LOOK, fork_server=ForkServerClient(tmp_path / "nowhere"))

    result = await hosts.call("look", {}, timeout_seconds=20)

    assert "No process can be started" in (result.error_message or "")


def test_a_fork_server_whose_start_was_cancelled_is_known_and_ends(tmp_path: Path) -> None:
    fork_server = ForkServerClient(tmp_path)

    async def begin() -> None:
        opening = asyncio.create_task(fork_server.open())
        while fork_server.process_id is None:
            await asyncio.sleep(0)
        assert not opening.done()

    asyncio.run(begin())  # cancels every task, and waits for threads
    process = psutil.Process(fork_server.process_id)
    asyncio.run(fork_server.aclose())

    assert not process.is_running()


async def test_the_fork_server_ends_with_the_server_and_nothing_starts_before_it_is_needed(
    tmp_path: Path, serve: Serve
) -> None:
    fork_server = ForkServerClient(tmp_path)
    hosts = serve(LOOK, fork_server=fork_server)
    assert fork_server.process_id is None
    await look(hosts)
    process = await asyncio.to_thread(psutil.Process, fork_server.process_id)
    assert await asyncio.to_thread(process.num_threads) == 1

    await hosts.aclose()
    await fork_server.aclose()

    assert not await asyncio.to_thread(process.is_running)


def test_descendants_are_found_in_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sh", "-c", "sh -c 'sleep 600; true'; true"]) as child:
        # Not of this process: others of its children serve all its tests.
        while len(found := processes.descendants(child.pid)) < 2:
            pass
        monkeypatch.setattr(processes, "ON_LINUX", False)
        by_ps = processes.descendants(child.pid)
        child.kill()
        processes.kill(found)

    shell, sleep = found
    assert (shell.parent, sleep.parent) == (child.pid, shell.pid)
    assert by_ps == found


async def test_calls_with_other_variables_have_processes_of_their_own(
    serve: Serve, tmp_path: Path
) -> None:
    owner = ContextVar("owner", default="anna")
    fork_server = ForkServerClient(tmp_path, added=lambda: {"MOCHI_OWNER": owner.get()})
    hosts = serve(LOOK, fork_server=fork_server, processes=2)
    of_anna = await look(hosts)
    seen = {}
    for name in ("bob", "carl", "anna"):
        owner.set(name)
        seen[name] = await look(hosts)
    owner.set("carl")
    again = await look(hosts)
    await hosts.aclose()
    await fork_server.aclose()

    assert [each["environment"]["MOCHI_OWNER"] for each in seen.values()] == [*seen]
    assert again["pid"] == seen["carl"]["pid"]
    pids = {of_anna["pid"], *(each["pid"] for each in seen.values())}
    assert len(pids) == 4  # two at a time: anna's made room for carl's
