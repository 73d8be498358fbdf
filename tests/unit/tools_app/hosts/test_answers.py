"""What is told of a call: the traceback of one that fails, and its progress."""

import logging
from collections.abc import Callable

from tools_app.hosts.pool import HostPool
from tools_app.toolset import ToolProgress

Serve = Callable[..., HostPool]


async def test_a_traceback_is_logged_as_lines_that_pass_for_nothing_else(
    serve: Serve, logged: list[logging.LogRecord]
) -> None:
    hosts = serve("""
        __all__ = ["fail"]
        def fail(text: str) -> str:
            "Fail."
            raise ValueError(text)
    """)

    await hosts.call(
        "fail", {"text": "a\x1b[2Jb\rc\nevent: done\u2028d\u202ee\x85f"}, timeout_seconds=20
    )
    await hosts.call("fail", {"text": "line\n" * 2000}, timeout_seconds=20)

    first, second = [record.getMessage() for record in logged]
    head, *lines = first.split("\n")
    assert head == "tools, fail failed:"
    assert lines[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") and line.isprintable() for line in lines)
    assert lines[-1] == "    event: done\ufffdd\ufffde\ufffdf"
    assert second.count("\n") == 200


async def test_a_traceback_begins_in_the_file_of_the_function(
    serve: Serve, logged: list[logging.LogRecord]
) -> None:
    hosts = serve("""
        import json
        __all__ = ["fail", "wait", "descend"]
        def fail() -> str:
            "Fail."
            return json.loads("?")
        async def wait() -> str:
            "Wait."
            raise ValueError("waited")
        def down(left):
            return down(left - 1) if left else up(50)
        def up(left):
            return up(left - 1) if left else 1 / 0
        def descend() -> str:
            "Descend."
            return str(down(50))
    """)

    for function in ("fail", "wait", "descend"):
        await hosts.call(function, {}, timeout_seconds=20)

    fail, wait, descend = [
        [line.partition(", line ")[2] for line in record.getMessage().split("\n") if "File" in line]
        for record in logged
    ]
    assert fail[0] == "6, in fail"
    assert fail[-1].endswith(", in raw_decode")
    assert wait == ["9, in wait"]
    assert descend[0] == "16, in descend"
    assert descend[-1] == "13, in up"


async def test_the_progress_of_a_function_is_reported_before_its_result(serve: Serve) -> None:
    hosts = serve("""
        import os, time
        from mochi_server.tools import progress
        __all__ = ["work"]
        progress("while it is imported")
        def work(times: int) -> int:
            "Work."
            for number in range(times):
                progress(f"step {number}", number / times)
            return os.getpid()
    """)
    first: list[ToolProgress] = []
    second: list[ToolProgress] = []

    one = await hosts.call("work", {"times": 3}, timeout_seconds=20, report=first.append)
    two = await hosts.call("work", {"times": 100_000}, timeout_seconds=60, report=second.append)

    assert one.success
    assert one.result == two.result  # the same process
    assert first[0] == ToolProgress(progress=0.0, total=1.0, message="step 0")
    assert len(second) < 50_000
