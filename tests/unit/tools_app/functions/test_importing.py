import importlib
import os
import random
import sys

import pytest

from tests.unit.tools_app.functions.folders import (
    ADD,
    SUBTRACT,
    WriteTools,
    function,
    load,
    reasons,
)
from tools_app.functions.loading import load_folder

pytestmark = pytest.mark.usefixtures("nothing_stays_imported")


def test_neighbours_can_be_imported_in_every_way(write_tools: WriteTools) -> None:
    folder = write_tools(
        "neighbourhood",
        absolute=f"import helping\n__all__ = ['a']\n{function('a')}".replace("''", "helping.x"),
        packaged=f"from neighbourhood.helping import x\n__all__ = ['b']\n{function('b')}",
        relative=f"from .helping import x\n__all__ = ['c']\n{function('c')}",
        helping="x = 'helped'",
    )

    loaded = load(folder)

    assert loaded.invalid == []
    assert list(loaded.functions) == ["a", "b", "c"]
    assert loaded.functions["a"](1) == "helped"


def test_a_file_named_like_a_standard_module_hides_nothing(write_tools: WriteTools) -> None:
    source = "import random\n" + SUBTRACT.replace("str(a - b)", "random.__file__")

    loaded = load(write_tools(random=source, json="__all__ = [", colorsys="raise ValueError"))

    assert loaded.functions["subtract"](1, 1) == random.__file__
    assert importlib.import_module("colorsys").rgb_to_hls


@pytest.mark.parametrize("name", ["json", "pytest", "class", "my-tools", "a.b"])
def test_a_folder_may_be_named_like_something_else(write_tools: WriteTools, name: str) -> None:
    folder = write_tools(
        name,
        __init__="import json, pytest\nfrom .adding import add\n__all__ = ['add']\n",
        adding=ADD,
    )

    loaded = load(folder)

    assert loaded.functions["add"](1, 2) == "3"
    assert sys.modules["json"].dumps


def test_two_folders_with_the_same_names_keep_apart(write_tools: WriteTools) -> None:
    modules = {"adding": f"import aid\n{ADD}".replace("a + b", "aid.x"), "aid": "x = 1"}
    one = load(write_tools("one/tools", **modules))
    two = load(write_tools("two/tools", **{**modules, "aid": "x = 2"}))

    assert (one.functions["add"](0, 0), two.functions["add"](0, 0)) == ("1", "2")


def test_loading_again_executes_the_modules_again(write_tools: WriteTools) -> None:
    init = "from .adding import add\n__all__ = ['add']\n"
    folder = write_tools(__init__=init, adding=ADD)
    first = load(folder)

    write_tools(adding=ADD.replace("a + b", "a * b"))  # as long, and in the same second
    second = load(folder)

    assert (first.functions["add"](2, 3), second.functions["add"](2, 3)) == ("5", "6")


def test_no_compiled_code_is_left_in_the_folder(write_tools: WriteTools) -> None:
    folder = write_tools(__init__="from .adding import add\n__all__ = ['add']\n", adding=ADD)

    load(folder)

    assert sorted(os.listdir(folder)) == ["__init__.py", "adding.py"]


def test_functions_import_when_they_run(write_tools: WriteTools) -> None:
    body = "__import__('helping').x + importlib.import_module('.broken', __package__).x"
    source = f"import importlib\n__all__ = ['f']\n{function('f')}".replace("''", body)
    loaded = load(write_tools(m=source, helping="x = ''", broken="raise ValueError('no luck')"))

    with pytest.raises(ValueError, match="no luck"):
        loaded.functions["f"](1)


def test_the_module_that_runs_is_always_the_last_one_named(write_tools: WriteTools) -> None:
    told: list[str] = []
    folder = write_tools(
        __init__="from . import first\nfrom .sub import inner\n__all__ = []\n",
        first="from . import second",
        second="",
    )
    write_tools("tools/sub", __init__="", inner="raise ValueError")

    load_folder(folder, on_loading=told.append)

    assert told == ["__init__", "first", "second", "first", "__init__", *told[5:]]
    assert told[5:] == ["sub", "__init__", "sub.inner", "__init__"]


def test_a_module_that_shall_be_skipped_is_not_run(write_tools: WriteTools) -> None:
    folder = write_tools(
        __init__="from .adding import add\nfrom .bad import f\n__all__ = ['add', 'f']\n",
        adding=ADD,
        bad="import os\nos._exit(1)",
    )

    loaded = load(folder, skip={"bad": "It hangs."})

    assert list(loaded.functions) == ["add"]
    assert reasons(loaded)["bad"] == "It hangs."
    assert "It hangs." in reasons(loaded)["f"]


def test_a_file_that_shall_be_skipped_is_not_even_parsed(write_tools: WriteTools) -> None:
    loaded = load(write_tools(bad="__all__ = ["), skip={"bad": "It hangs."})

    assert reasons(loaded) == {"bad": "It hangs."}


def test_an_init_that_shall_be_skipped_costs_the_folder(write_tools: WriteTools) -> None:
    loaded = load(write_tools(__init__="__all__ = []"), skip={"__init__": "It hangs."})

    assert reasons(loaded) == {"__init__": "It hangs."}
