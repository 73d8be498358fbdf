"""One call of a function in a tool process: what comes back, whatever the function does."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools_app.errors import EXECUTION_FAILED, INVALID_ARGUMENTS
from tools_app.hosts.pool import HostPool
from tools_app.toolset import ToolResult

Serve = Callable[..., HostPool]


async def call(hosts: HostPool, function: str, seconds: float = 20, **arguments: Any) -> ToolResult:
    return await hosts.call(function, arguments, timeout_seconds=seconds)


def failed_as(result: ToolResult, part: str, code: str = EXECUTION_FAILED) -> bool:
    assert not result.success
    assert result.result is None
    assert result.error_code == code, result
    assert part in (result.error_message or ""), result
    return True


async def test_functions_and_coroutine_functions_return_text(serve: Serve) -> None:
    hosts = serve("""
        import asyncio
        __all__ = ["add", "wait"]
        def add(a: int, b: int) -> str:
            "Add."
            return f"{a} + {b} = {a + b}"
        async def wait(seconds: float) -> str:
            "Wait."
            await asyncio.sleep(seconds)
            return "waited"
    """)

    assert await call(hosts, "add", a=1, b="2") == ToolResult(success=True, result="1 + 2 = 3")
    assert await hosts.call("wait", {"seconds": 0.001}, timeout_seconds=20) == ToolResult(
        success=True, result="waited"
    )


async def test_arguments_that_do_not_fit_are_explained_to_the_model(serve: Serve) -> None:
    hosts = serve("""
        __all__ = ["add"]
        def add(a: int, b: int) -> str:
            "Add."
            return str(a + b)
    """)

    assert failed_as(await call(hosts, "add", a=1, b="many"), "'b'", INVALID_ARGUMENTS)
    assert failed_as(await call(hosts, "add", a="\ud800", b=1), "not JSON", INVALID_ARGUMENTS)
    assert failed_as(await call(hosts, "add", a="x" * 5_000_000), "larger than", INVALID_ARGUMENTS)
    assert failed_as(await call(hosts, "subtract", a=1, b=1), "no function 'subtract'")


async def test_whatever_a_function_returns_becomes_text(serve: Serve) -> None:
    hosts = serve("""
        import dataclasses, datetime, pathlib
        __all__ = ["give"]
        @dataclasses.dataclass
        class Point:
            x: int
        class Odd:
            def __str__(self):
                return "an odd thing \\udc80"
        cycle = []
        cycle.append(cycle)
        THINGS = {
            "none": None, "number": 1.5, "list": [1, "ä"], "point": Point(1),
            "date": datetime.date(2026, 1, 2), "path": pathlib.Path("/x"), "bytes": b"a\\xffb",
            "surrogate": "a\\ud800b", "nested surrogate": ["a\\ud800b"], "nested bytes": [b"\\xff"],
            "odd": Odd(), "cycle": cycle, "keys": {(1, 2): 3},
        }
        def give(name: str) -> str:
            "Give."
            return THINGS[name]
    """)
    expected = {
        "none": "null",
        "number": "1.5",
        "list": '[1,"ä"]',
        "point": '{"x":1}',
        "date": '"2026-01-02"',
        "path": '"/x"',
        "bytes": "a\N{REPLACEMENT CHARACTER}b",
        "surrogate": "a\N{REPLACEMENT CHARACTER}b",
    }

    given = {name: (await call(hosts, "give", name=name)).result for name in expected}

    assert given == expected
    for name in ("nested surrogate", "nested bytes", "odd", "cycle", "keys"):
        result = await call(hosts, "give", name=name)
        assert result.success, result
        assert result.result


async def test_a_long_result_is_cut_between_characters(serve: Serve) -> None:
    hosts = serve("""
        __all__ = ["talk"]
        def talk(megabytes: int) -> str:
            "Talk."
            return "x" + "ä" * (megabytes << 19)
    """)

    result = await call(hosts, "talk", megabytes=20)

    assert result.success
    text = result.result or ""
    assert 65_500 < len(text.encode()) < 65_700
    assert text.startswith("xäää")
    assert "cut" in text[-80:]


async def test_whatever_a_function_raises_is_a_failed_result(
    serve: Serve, logged: list[logging.LogRecord]
) -> None:
    hosts = serve("""
        import sys
        __all__ = ["fail", "recurse"]
        class Unspeakable(Exception):
            def __str__(self):
                raise ValueError
        def fail(how: str) -> str:
            "Fail."
            raise {
                "exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "base": BaseException("b"),
                "error": ValueError("a value\\ud800"), "long": ValueError("x" * 100_000),
                "unspeakable": Unspeakable(),
            }[how]
        def recurse() -> str:
            "Recurse."
            return recurse()
    """)

    assert failed_as(await call(hosts, "fail", how="exit"), "SystemExit: 3")
    assert failed_as(await call(hosts, "fail", how="interrupt"), "KeyboardInterrupt")
    assert failed_as(await call(hosts, "fail", how="base"), "BaseException: b")
    assert failed_as(await call(hosts, "fail", how="error"), "ValueError: a value\ufffd")
    assert failed_as(await call(hosts, "fail", how="unspeakable"), "Unspeakable")
    assert failed_as(await call(hosts, "recurse"), "RecursionError")
    long = await call(hosts, "fail", how="long")
    assert len(long.error_message or "") == 2000
    assert "Traceback" not in "".join(filter(None, [long.error_message]))
    assert any("Traceback" in record.getMessage() for record in logged)


async def test_a_process_outlives_failed_calls(serve: Serve) -> None:
    hosts = serve("""
        import os
        __all__ = ["fail", "number"]
        def fail() -> str:
            "Fail."
            raise SystemExit(str(os.getpid()))
        def number() -> str:
            "Number."
            return str(os.getpid())
    """)

    number = (await call(hosts, "number")).result

    assert failed_as(await call(hosts, "fail"), f"SystemExit: {number}")
    assert (await call(hosts, "number")).result == number


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("os._exit(3)", "the tool ended its process (exit code 3)"),
        ("ctypes.string_at(0)", "the tool crashed (SIGSEGV)"),
        ("os.kill(os.getpid(), 9)", "the tool was killed (SIGKILL)"),
        ("os.close(CALLS); time.sleep(60)", "the tool broke its connection"),
        ("os.closerange(0, 200)", "the tool"),
        ("os.write(CALLS, b'what is this?'); time.sleep(60)", "the tool broke its connection"),
        (
            "os.write(CALLS, bytes([0, 0, 0, 2]) + b'{]'); time.sleep(60)",
            "the tool broke its connect",
        ),
        (
            "os.write(CALLS, frame(Loading(module='x'))); time.sleep(60)",
            "the tool broke its connection",
        ),
        ("os.kill(os.getppid(), 9); time.sleep(60)", "the tool broke its connection"),
    ],
    ids=[
        "exit",
        "segfault",
        "kill",
        "close",
        "close-all",
        "noise",
        "no-json",
        "nonsense",
        "reaper",
    ],
)
async def test_a_function_that_breaks_its_process_costs_one_call(
    serve: Serve, code: str, said: str
) -> None:
    hosts = serve(f"""
        import ctypes, os, time
        from tools_app.hosts.messages import Loading, frame
        __all__ = ["end", "well"]
        CALLS = next(fd for fd in range(3, 99) if os.path.exists(f"/proc/self/fd/{{fd}}"))
        def end() -> str:
            "End."
            {code}
            return "still here"
        def well() -> str:
            "Be well."
            return "well"
    """)

    assert failed_as(await call(hosts, "end"), said)
    assert (await call(hosts, "well")).result == "well"


async def test_what_a_process_says_unasked_is_not_the_next_answer(serve: Serve) -> None:
    hosts = serve("""
        import os, threading, time
        from tools_app.hosts.messages import Returned, frame
        __all__ = ["forge", "well"]
        CALLS = next(fd for fd in range(3, 99) if os.path.exists(f"/proc/self/fd/{fd}"))
        def forge() -> str:
            "Forge an answer."
            answer = frame(Returned(text="forged"))
            os.write(CALLS, answer + answer)
            return "answer"
        def well() -> str:
            "Be well."
            return "well"
    """)

    assert (await call(hosts, "forge")).result == "forged"
    assert (await call(hosts, "well")).result == "well"


async def test_a_function_that_fills_the_memory_fails(serve: Serve) -> None:
    hosts = serve(
        """
        __all__ = ["fill", "well"]
        def fill() -> str:
            "Fill."
            kept = []
            while True:
                kept.append(bytearray(16 << 20))
        def well() -> str:
            "Be well."
            return "well"
        """,
        memory_bytes=512 << 20,
    )

    assert failed_as(await call(hosts, "fill"), "MemoryError")
    assert (await call(hosts, "well")).result == "well"


async def test_a_function_that_wants_input_gets_none(serve: Serve) -> None:
    hosts = serve("""
        __all__ = ["ask"]
        def ask() -> str:
            "Ask."
            return input("Name? ")
    """)

    assert failed_as(await call(hosts, "ask"), "EOFError")


async def test_a_function_that_forks_answers_once(serve: Serve) -> None:
    hosts = serve("""
        import os
        __all__ = ["double", "well"]
        def double() -> str:
            "Double."
            return "child" if os.fork() == 0 else "parent"
        def well() -> str:
            "Be well."
            return "well"
    """)

    assert (await call(hosts, "double")).result == "parent"
    assert (await call(hosts, "well")).result == "well"


async def test_relative_paths_mean_the_same_in_every_call(serve: Serve) -> None:
    hosts = serve("""
        import os
        __all__ = ["where", "move"]
        def where() -> str:
            "Where."
            return os.getcwd()
        def move() -> str:
            "Move."
            os.chdir("/")
            return os.getcwd()
    """)
    before = await call(hosts, "where")

    assert (await call(hosts, "move")).result == "/"
    assert await call(hosts, "where") == before


async def test_what_a_function_prints_is_logged_with_its_name(
    serve: Serve, logged: list[logging.LogRecord]
) -> None:
    hosts = serve("""
        import os, subprocess, sys
        __all__ = ["speak"]
        def speak() -> str:
            "Speak."
            print("one\\ud800\\x1b[31m")
            print("two", file=sys.stderr)
            subprocess.run(["echo", "three"])
            os.write(1, b"four")
            return "done"
    """)

    assert (await call(hosts, "speak")).success

    assert [record.getMessage() for record in logged] == [
        "tools, speak: one\\ud800\N{REPLACEMENT CHARACTER}[31m",
        "tools, speak: two",
        "tools, speak: three",
        "tools, speak: four",
    ]


async def test_a_function_that_prints_megabytes_is_neither_blocked_nor_logged(
    serve: Serve, logged: list[logging.LogRecord]
) -> None:
    hosts = serve("""
        __all__ = ["shout"]
        def shout(line: str, times: int) -> str:
            "Shout."
            for _ in range(times):
                print(line)
            return "done"
    """)

    assert (await call(hosts, "shout", line="x" * 999, times=20_000)).result == "done"

    long = [record.getMessage() for record in logged]
    assert 64 <= len(long) <= 67
    assert sum(map(len, long)) < 70_000
    assert long[-1] == "tools, shout: (prints more, which is dropped)"
    logged.clear()

    assert (await call(hosts, "shout", line="y", times=50_000)).result == "done"

    assert len(logged) == 1001


async def test_the_server_goes_on_while_a_function_computes(serve: Serve, tmp_path: Path) -> None:
    hosts = serve("""
        from pathlib import Path
        __all__ = ["compute"]
        def compute(until: str) -> str:
            "Compute."
            while not Path(until).exists():
                sum(range(100_000))
            return "done"
    """)
    gate = tmp_path / "gate"

    async def go_on() -> None:
        for _ in range(5):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(gate.touch)

    computed, _ = await asyncio.gather(call(hosts, "compute", until=str(gate)), go_on())

    assert computed.success
