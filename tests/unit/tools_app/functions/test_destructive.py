"""Functions that change something, as their files declare them."""

import pytest

from tests.unit.tools_app.functions.folders import (
    ADD,
    SUBTRACT,
    WriteTools,
    function,
    load,
    reasons,
)

pytestmark = pytest.mark.usefixtures("nothing_stays_imported")


@pytest.mark.parametrize(
    ("init", "module", "destructive"),
    [
        ("", "", True),
        ("", "__destructive__ = []", False),
        ("", "__destructive__ = ['add']", True),
        ("__destructive__ = []", "", True),
        ("__destructive__ = ['add']", "", True),
        ("__destructive__ = []", "__destructive__ = []", False),
        ("__destructive__ = ['add']", "__destructive__ = []", True),
        ("__destructive__ = []", "__destructive__ = ['add']", True),
        ("", "__destructive__ = 'add'", True),
        ("", "__destructive__ = [1]", True),
    ],
)
def test_what_nobody_calls_harmless_is_destructive(
    write_tools: WriteTools, init: str, module: str, destructive: bool
) -> None:
    folder = write_tools(
        __init__=f"from .adding import add\n__all__ = ['add']\n{init}\n", adding=f"{module}\n{ADD}"
    )

    loaded = load(folder)

    assert loaded.tools["add"].destructive is destructive
    assert loaded.groups == {}


def test_a_file_that_is_added_later_is_destructive_beside_harmless_ones(
    write_tools: WriteTools,
) -> None:
    folder = write_tools(
        __init__=(
            "from .taking import subtract\nfrom .adding import add\n"
            "__all__ = ['subtract', 'add']\n__destructive__ = []"
        ),
        taking=SUBTRACT,
        adding=ADD,
    )

    tools = load(folder).tools

    assert (tools["subtract"].destructive, tools["add"].destructive) == (False, True)


def test_a_file_that_offers_what_another_calls_harmless_must_declare_it_too(
    write_tools: WriteTools,
) -> None:
    offer = "from .parts import add\n__all__ = ['add']\n"
    parts = f"__destructive__ = []\n{ADD.replace('__all__', 'names')}"

    silent = load(write_tools("silent", offer=offer, parts=parts))
    declared = load(write_tools("declared", offer=f"{offer}__destructive__ = []", parts=parts))

    assert silent.tools["add"].destructive
    assert not declared.tools["add"].destructive


def test_what_comes_from_outside_of_the_folder_is_declared_by_who_offers_it(
    write_tools: WriteTools,
) -> None:
    offer = "from textwrap import dedent\ndedent.__annotations__ = {'text': str, 'return': str}\n"
    init = f"{offer}__all__ = ['dedent']\n"

    silent = load(write_tools("silent", __init__=init))
    declared = load(write_tools("declared", __init__=f"{init}__destructive__ = []"))

    assert silent.tools["dedent"].destructive
    assert not declared.tools["dedent"].destructive


def test_a_function_that_is_exported_under_another_name_stays_destructive(
    write_tools: WriteTools,
) -> None:
    folder = write_tools(
        __init__="from .m import wipe as tidy\n__all__ = ['tidy']\n__destructive__ = []",
        m=f"__destructive__ = ['wipe']\n{function('wipe')}",
    )

    assert load(folder).tools["tidy"].destructive


def test_a_misspelt_destructive_name_is_told(write_tools: WriteTools) -> None:
    loaded = load(write_tools(m=f"__all__ = ['f']\n__destructive__ = ['ff']\n{function('f')}"))

    assert "__destructive__ lists it" in reasons(loaded)["ff"]
