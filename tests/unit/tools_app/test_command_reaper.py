"""What the reaper of a command ends, and when."""

import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tools_app.command_reaper import NOT_STARTED, reaper_command

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parent / "mcp" / "programs" / "raw_server.py"
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")

# What a starter like npx does, at its worst: it hides its children in sessions of their own.
FAMILY = """
import os, signal, subprocess, sys, time
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "child" not in sys.argv:
    for _ in range(2):
        subprocess.Popen([sys.executable, "-S", "-c", sys.argv[-1], *sys.argv[1:-1], "child", ""],
                         start_new_session=True)
    print("started", flush=True)
    if "leaves" in sys.argv:
        sys.exit(5)
time.sleep(600)
"""


@pytest.fixture
def start():
    """Start commands under reapers; what is left of them ends with the test."""
    with ExitStack() as stack:

        def begin(*command, **options):
            reaper = stack.enter_context(
                subprocess.Popen(
                    reaper_command(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                    **options,
                )
            )
            stack.callback(reaper.terminate)
            return reaper

        yield begin


@pytest.fixture
def family(start):
    """Start a program with two children, and return the reaper and everybody under it."""

    def begin(*traits):
        reaper = start(sys.executable, "-S", "-c", FAMILY, *traits, FAMILY)
        assert reaper.stdout.readline() == b"started\n"
        return reaper, psutil.Process(reaper.pid).children(recursive=True)

    return begin


def gone(processes, within=10.0):
    _, alive = psutil.wait_procs(processes, timeout=within)
    return not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_streams_pass_untouched_and_the_exit_code_too(start):
    reaper = start("sh", "-c", "cat; echo err >&2; exit 7", stderr=subprocess.PIPE)

    out, err = reaper.communicate(b"\x00\xff in\n", timeout=60)

    assert (out, err, reaper.returncode) == (b"\x00\xff in\n", b"err\n", 7)


def test_a_program_that_is_not_there_is_said_to_be(start):
    reaper = start("no-such-program", stderr=subprocess.PIPE)

    _, err = reaper.communicate(timeout=60)

    assert reaper.returncode == NOT_STARTED
    assert b"no-such-program" in err


def test_the_end_of_stdout_is_seen_before_the_end_of_the_program(start):
    reaper = start("sh", "-c", "exec >&-; exec sleep 600")

    assert reaper.stdout.read() == b""
    assert reaper.poll() is None

    reaper.terminate()
    assert reaper.wait(60) == 128 + signal.SIGTERM or reaper.returncode == 128 + signal.SIGKILL


def test_a_program_that_ends_with_its_stdin_is_not_hurried(start):
    reaper = start("sh", "-c", "cat > /dev/null; sleep 0.3; echo saved")

    out, _ = reaper.communicate(timeout=60)

    assert (out, reaper.returncode) == (b"saved\n", 0)


@ON_LINUX
def test_when_stdin_is_closed_the_whole_family_ends(family):
    reaper, everybody = family("deaf")

    reaper.stdin.close()

    assert gone(everybody)
    reaper.wait(60)


@ON_LINUX
@pytest.mark.parametrize("traits", [(), ("deaf",)])
def test_when_the_reaper_is_told_to_end_so_does_the_whole_family(traits, family):
    reaper, everybody = family(*traits)

    reaper.terminate()

    assert gone(everybody)
    reaper.wait(60)


@ON_LINUX
def test_what_a_program_leaves_behind_ends_with_it(start):
    reaper = start(sys.executable, "-S", "-c", FAMILY, "leaves", FAMILY)

    assert reaper.wait(60) == 5
    assert b"started" in reaper.stdout.read()
    assert not [p for p in psutil.process_iter() if FAMILY in _line(p)]


@ON_LINUX
def test_when_the_reaper_is_killed_so_is_the_program(family):
    reaper, everybody = family()
    program = [process for process in everybody if process.ppid() == reaper.pid]

    reaper.kill()

    assert gone(program)
    for process in everybody:
        if process.is_running():
            process.kill()
    reaper.wait(60)


def test_kill_9_of_the_server_leaves_no_mcp_server(tmp_path):
    servers = {
        "a": {"command": sys.executable, "args": ["-S", str(PROGRAM), "plain"]},
        "b": {"command": "sh", "args": ["-c", f"{sys.executable} -S {PROGRAM} silent; true"]},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    code = f"""
import asyncio, uvloop
from pathlib import Path
from tools_app.mcp.toolset import McpTools
async def main():
    tools = McpTools(Path({str(tmp_path / "mcp.json")!r}), timeout_seconds=5)
    while "a" not in (await tools.listing()).groups: pass
    print("ready", flush=True)
    await asyncio.sleep(600)
uvloop.run(main())
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout.readline() == b"ready\n"
            everybody = []
            while len(everybody) < 5:  # two reapers, two programs, and one that the shell starts
                everybody = psutil.Process(server.pid).children(recursive=True)
        finally:
            server.kill()

        server.wait(60)
        assert gone(everybody)


def _line(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []
