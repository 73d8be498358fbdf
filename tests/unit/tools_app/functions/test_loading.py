import os
from pathlib import Path

import pytest

from tests.unit.tools_app.functions.folders import (
    ADD,
    SUBTRACT,
    WriteTools,
    function,
    load,
    reasons,
)
from tools_app.functions.loading import MAX_FILE_BYTES

pytestmark = pytest.mark.usefixtures("nothing_stays_imported")


def test_a_folder_that_does_not_exist_has_no_tools(tmp_path: Path) -> None:
    loaded = load(tmp_path / "missing")

    assert (loaded.functions, loaded.groups, loaded.invalid) == ({}, {}, ())


def test_without_init_every_file_with_all_is_a_group(write_tools: WriteTools) -> None:
    loaded = load(write_tools(adding=ADD, taking=SUBTRACT))

    assert loaded.functions["add"](1, 2) == "3"
    assert loaded.groups == {"adding": ["add"], "taking": ["subtract"]}
    assert loaded.tools["add"].groups == ("adding",)
    assert loaded.tools["add"].file == "adding.py"
    assert loaded.invalid == []


def test_files_without_all_are_not_run(write_tools: WriteTools) -> None:
    loaded = load(
        write_tools(
            script="raise SystemExit",
            nested="def f():\n    __all__ = 1\nraise SystemExit",
            read="print(__all__)",
            words="'''__all__ = []'''\nraise SystemExit",
            taking=SUBTRACT,
        )
    )

    assert list(loaded.functions) == ["subtract"]
    assert loaded.invalid == []


@pytest.mark.parametrize(
    "declaration", ["__all__ = ['f']", "__all__: list[str] = ['f']", "__all__ = ('f',)"]
)
def test_all_may_be_written_in_several_ways(write_tools: WriteTools, declaration: str) -> None:
    assert list(load(write_tools(m=f"{declaration}\n{function('f')}")).functions) == ["f"]


def test_with_init_only_its_all_counts(write_tools: WriteTools) -> None:
    folder = write_tools(
        __init__="from .adding import add\n__all__ = ['add']\n__math__ = ['add']\n",
        adding=ADD,
        taking=SUBTRACT,
    )

    loaded = load(folder)

    assert list(loaded.functions) == ["add"]
    assert loaded.groups == {"math": ["add"]}
    assert loaded.tools["add"].file == "adding.py"


def test_an_init_without_all_is_told(write_tools: WriteTools) -> None:
    assert "__all__" in reasons(load(write_tools(__init__="", adding=ADD)))["__init__"]


def test_python_s_own_dunders_are_no_groups(write_tools: WriteTools) -> None:
    source = f"""
__all__ = ["f"]
__destructive__ = ["f"]
__authors__ = ["Ada"]
__version__ = "1"
__extra__ = ("f",)
{function("f")}"""

    assert load(write_tools(__init__=source)).groups == {"extra": ["f"]}


def test_a_group_that_lists_what_is_not_exported_is_told(write_tools: WriteTools) -> None:
    source = f"__all__ = ['f']\n__math__ = ['f', 'g']\n{function('f')}"

    loaded = load(write_tools(__init__=source))

    assert loaded.groups == {"math": ["f"]}
    assert "'math' lists it" in reasons(loaded)["g"]


@pytest.mark.parametrize("statement", ["raise ValueError('no luck')", "import sys; sys.exit(3)"])
def test_a_module_that_fails_costs_what_comes_from_it(
    write_tools: WriteTools, statement: str
) -> None:
    folder = write_tools(
        __init__="from .adding import add\nfrom .bad import lost\n__all__ = ['add', 'lost']\n",
        adding=ADD,
        bad=f"{function('lost')}\n{statement}\n",
    )

    loaded = load(folder)

    assert list(loaded.functions) == ["add"]
    assert "bad.py, which can't be imported" in reasons(loaded)["lost"]
    assert [(entry.name, entry.file) for entry in loaded.invalid[:1]] == [("bad", "bad.py")]


def test_star_imports_of_a_module_that_fails_bring_nothing(write_tools: WriteTools) -> None:
    folder = write_tools(
        __init__="from .adding import *\nfrom .bad import *\n__all__ = ['add']\n",
        adding=ADD,
        bad="from nowhere import anything",
    )

    loaded = load(folder)

    assert list(loaded.functions) == ["add"]
    assert list(reasons(loaded)) == ["bad"]
    assert reasons(loaded)["bad"].startswith("No module named 'nowhere' (line 1); ")


def test_a_function_that_needs_a_failed_module_says_so_when_it_runs(
    write_tools: WriteTools,
) -> None:
    good = f"from .bad import helper\n__all__ = ['f']\n{function('f')}".replace("''", "helper()")

    loaded = load(write_tools(bad="raise ValueError('no luck')", good=good))

    with pytest.raises(ImportError, match=r"'helper' comes from bad.py.*no luck"):
        loaded.functions["f"](1)


def test_modules_that_import_each_other_in_a_circle_cost_one_of_them(
    write_tools: WriteTools,
) -> None:
    folder = write_tools(
        first=f"from .second import g\n__all__ = ['f']\n{function('f')}",
        second=f"from .first import f\n__all__ = ['g']\n{function('g')}",
    )

    loaded = load(folder)

    assert list(loaded.functions) == ["f"]
    assert "circular import" in reasons(loaded)["second"]


def test_an_init_that_fails_costs_the_folder(write_tools: WriteTools) -> None:
    loaded = load(write_tools(__init__="from .adding import add\n1 / 0\n", adding=ADD))

    assert loaded.functions == {}
    assert reasons(loaded) == {"__init__": "ZeroDivisionError: division by zero (line 2)"}


def test_a_syntax_error_names_its_line(write_tools: WriteTools) -> None:
    loaded = load(write_tools(bad="__all__ = ['f']\ndef f(:\n", taking=SUBTRACT))

    assert reasons(loaded) == {"bad": "SyntaxError: invalid syntax (line 2)"}
    assert list(loaded.functions) == ["subtract"]


def test_an_exception_whose_text_can_t_be_shown_is_named(write_tools: WriteTools) -> None:
    source = """
    __all__ = []
    class Odd(Exception):
        def __str__(self): raise ValueError
    raise Odd
    """

    assert reasons(load(write_tools(bad=source)))["bad"].startswith("Odd (whose text")


def test_files_that_are_no_python_are_listed(write_tools: WriteTools) -> None:
    folder = write_tools(taking=SUBTRACT)
    (folder / "binary.py").write_bytes(b"\x7fELF\0\0__all__")
    (folder / "wide.py").write_bytes("__all__ = []".encode("utf-16"))
    (folder / "huge.py").write_bytes(b"__all__ = []\n".ljust(MAX_FILE_BYTES + 1, b"#"))
    (folder / "a.b.py").write_bytes(b"__all__ = []\n")
    (folder / "deep.py").write_bytes(b"__all__ = []\nx = " + b"-" * 100_000 + b"1")

    loaded = load(folder)

    assert list(loaded.functions) == ["subtract"]
    assert reasons(loaded).keys() == {"binary", "wide", "huge", "a.b", "deep"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_listed(write_tools: WriteTools) -> None:
    folder = write_tools(secret=ADD, taking=SUBTRACT)
    (folder / "secret.py").chmod(0)

    assert reasons(load(folder)) == {"secret": "The file can't be read: Permission denied."}


def test_what_is_no_file_is_left_alone(write_tools: WriteTools) -> None:
    folder = write_tools(taking=SUBTRACT)
    os.mkfifo(folder / "pipe.py")
    (folder / "directory.py").mkdir()
    (folder / ".#taking.py").symlink_to("me@host.1234")

    loaded = load(folder)

    assert (list(loaded.functions), loaded.invalid) == (["subtract"], [])


def test_a_link_to_a_module_counts(write_tools: WriteTools) -> None:
    folder = write_tools()
    (folder / "linked.py").symlink_to(write_tools("elsewhere", adding=ADD) / "adding.py")
    (folder / "dangling.py").symlink_to("nowhere")

    loaded = load(folder)

    assert list(loaded.functions) == ["add"]
    assert reasons(loaded) == {"dangling": "The file can't be read: No such file or directory."}


def test_a_file_name_that_is_no_text_is_no_obstacle(write_tools: WriteTools) -> None:
    folder = write_tools(taking=SUBTRACT)
    Path(os.fsdecode(bytes(folder) + b"/b\xff.py")).write_text("__all__ = [")

    loaded = load(folder)

    assert list(loaded.functions) == ["subtract"]
    assert [entry.file.encode() for entry in loaded.invalid] == ["b\ufffd.py".encode()]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (function("f", doc="pass"), "no docstring"),
        (function("f", doc='"""   """'), "no docstring"),
        (function("f", hints="a, b: int"), "Without a type hint: 'a'"),
        ("def f(a: int):\n    '''Do it.'''\n", "type hint for what it returns"),
        (function("f", hints="*a: int"), "take a list"),
        (function("f", hints="**a: int"), "name each parameter"),
        (function("f", hints="a: int, /"), "remove the '/'"),
        ("class f:\n    '''Do it.'''\n", "It is a class"),
        ("f = 3", "a value of type int"),
        ("import functools\nf = functools.partial(print)", "an object of type partial"),
        ("", "not defined"),
        ("def __getattr__(name): raise SystemExit", "not defined"),
        ("def f() -> str:\n    '''Do it.'''\n    yield ''\n", "yields"),
        ("from unittest.mock import MagicMock\nf = MagicMock()", "MagicMock"),
    ],
)
def test_a_function_that_can_t_be_a_tool_is_listed_with_what_to_change(
    write_tools: WriteTools, source: str, reason: str
) -> None:
    loaded = load(write_tools(bad=f"__all__ = ['f']\n{source}", taking=SUBTRACT))

    assert list(loaded.functions) == ["subtract"]
    assert reason in reasons(loaded)["f"]


@pytest.mark.parametrize("name", ["größe", "f" * 65])
def test_a_name_that_no_model_can_call_is_listed(write_tools: WriteTools, name: str) -> None:
    loaded = load(write_tools(bad=f"__all__ = ['{name}']\n{function(name)}"))

    assert "can't call a tool of this name" in reasons(loaded)[name]


def test_the_name_of_the_tool_that_calls_agents_is_taken(write_tools: WriteTools) -> None:
    loaded = load(
        write_tools(bad=f"__all__ = ['agent', 'f']\n{function('agent')}\n{function('f')}")
    )

    assert list(loaded.functions) == ["f"]
    assert "the tool that calls agents" in reasons(loaded)["agent"]


@pytest.mark.parametrize("exported", ["'f'", "['f', 3]", "None"])
def test_an_all_that_is_no_list_of_names_is_told(write_tools: WriteTools, exported: str) -> None:
    loaded = load(write_tools(bad=f"__all__ = {exported}\n{function('f')}"))

    assert "must be a list" in reasons(loaded)["bad"]


def test_of_two_files_the_first_by_name_keeps_a_tool_s_name(write_tools: WriteTools) -> None:
    loaded = load(write_tools(b=ADD, a=ADD.replace("a + b", "a * b")))

    assert loaded.functions["add"](2, 3) == "6"
    assert loaded.groups == {"a": ["add"], "b": []}
    assert [(entry.name, entry.file) for entry in loaded.invalid] == [("add", "b.py")]


def test_async_and_decorated_functions_are_tools(write_tools: WriteTools) -> None:
    source = '''
    import functools
    __all__ = ["waits", "counted", "cached"]

    def counting(function):
        @functools.wraps(function)
        def counted(*args, **kwargs):
            return function(*args, **kwargs)
        return counted

    async def waits(a: int) -> str:
        """Wait."""

    @counting
    def counted(a: int) -> str:
        """Count."""

    @functools.cache
    def cached(a: int) -> str:
        """Remember."""
    '''
    assert list(load(write_tools(m=source)).functions) == ["waits", "counted", "cached"]


@pytest.mark.parametrize(
    ("declared", "limits"),
    [
        ("7", {"f": 7, "g": 7}),
        ("{'f': 0.5}", {"f": 0.5, "g": None}),
        ("None", {"f": None, "g": None}),
    ],
)
def test_a_module_declares_the_time_of_its_functions(
    declared: str, limits: dict[str, float | None], write_tools: WriteTools
) -> None:
    source = f"__timeout__ = {declared}\n__all__ = ['f', 'g']\n{function('f')}{function('g')}"

    report = load(write_tools(m=source)).report()

    assert {name: tool.timeout_seconds for name, tool in report.tools.items()} == limits
    assert not report.invalid


@pytest.mark.parametrize(
    "declared", ["0", "-1", "True", "'5'", "float('nan')", "10**400", "{'f': []}", "[5]"]
)
def test_a_limit_that_is_none_is_told_and_ignored(declared: str, write_tools: WriteTools) -> None:
    loaded = load(write_tools(m=f"__timeout__ = {declared}\n__all__ = ['f']\n{function('f')}"))

    assert loaded.tools["f"].timeout_seconds is None
    assert "until then it counts as if it were not there" in reasons(loaded)["__timeout__"]


def test_a_limit_of_a_function_that_is_not_there_is_told(write_tools: WriteTools) -> None:
    loaded = load(write_tools(m=f"__timeout__ = {{'h': 5}}\n__all__ = ['f']\n{function('f')}"))

    assert reasons(loaded) == {"h": "__timeout__ names it, and it is not defined."}


def test_typed_dicts_are_described_whatever_the_version_of_python(write_tools: WriteTools) -> None:
    source = """
    import typing
    from typing import TypedDict
    __all__ = ["f"]

    class Inner(typing.TypedDict):
        depth: int

    class Options(TypedDict, total=False):
        inner: list[Inner]

    def f(options: Options) -> str:
        '''Do it.'''
        return ""
    """

    report = load(write_tools(m=source)).report()

    assert report.tools["f"].spec.parameters["$defs"].keys() == {"Inner", "Options"}


def test_a_tool_that_can_t_be_described_is_invalid_in_the_report(write_tools: WriteTools) -> None:
    source = f"import socket\n__all__ = ['f', 'g']\n{function('f', hints='s: socket.socket')}"

    report = load(write_tools(m=source + function("g"))).report()

    assert list(report.tools) == ["g"]
    assert report.groups == {"m": ["g"]}
    assert "'s' has the type socket" in report.invalid[0].reason


@pytest.mark.parametrize("copy", ["good (1)", "good copy", "Copy of good", "good-copy", "good - x"])
def test_a_copy_of_a_file_never_wins_over_the_original(copy: str, write_tools: WriteTools) -> None:
    edited = ADD.replace("+", "-")
    loaded = load(write_tools(**{copy: edited, "good": ADD}))

    assert loaded.functions["add"](1, 2) == "3"
    assert reasons(loaded) == {
        "add": "good.py has a tool of this name already: rename one of the two."
    }
